"""The commands on conversations: each is the action of its name (ZC-97…ZC-127, ZC-143)."""

from __future__ import annotations

from models.conversations import actions, commands, resources
from web.api.registry import expose

#: In the order of the document.
COMMANDS = (
    *(commands.store_memory, commands.get, commands.search, commands.delete, commands.delete_all, commands.stats, commands.export),
    *(commands.import_memories, actions.build_context, commands.database_path, commands.init),
    *(resources.add_resource, resources.add_with_metadata, resources.find, resources.grep, resources.ls, resources.tree),
    *(resources.read, resources.remove, actions.inject_prompt, resources.configure_embedding, resources.configure_summaries),
    *(resources.store_with_summaries, resources.status, resources.load_industry_keywords),
    *(actions.extract_session_memories, actions.extract_and_store, actions.estimate_content_tokens),
    *(actions.create_embedding, actions.embedding_providers, actions.agent_get),
    *(actions.compactor_text_tokens, actions.compactor_messages_tokens, actions.compactor_check, actions.compact),
)

for command in COMMANDS:
    expose(
        command,
        "POST",
        f"/conversations/{command.name}",
        id=command.name,
        tag="conversations",
        body=command.request if command.request.model_fields else None,
        errors=(404,),
    )
