"""The commands on conversations: each is the action of its name (ZC-97…ZC-127, ZC-143)."""

from __future__ import annotations

from typing import Any

from models.conversations import actions, commands, resources
from models.db.actions import Action
from web.api.registry import expose


def _told(action: Action[Any, Any]) -> dict[str, Any]:
    """Address, id and body follow from the action."""
    body = action.request if action.request.model_fields else None
    return {"path": f"/conversations/{action.name}", "id": action.name, "tag": "conversations", "body": body, "errors": (404,)}


expose(commands.store_memory, "POST", **_told(commands.store_memory))
expose(commands.get, "POST", **_told(commands.get))
expose(commands.search, "POST", **_told(commands.search))
expose(commands.delete, "POST", **_told(commands.delete))
expose(commands.delete_all, "POST", **_told(commands.delete_all))
expose(commands.stats, "POST", **_told(commands.stats))
expose(commands.export, "POST", **_told(commands.export))
expose(commands.import_memories, "POST", **_told(commands.import_memories))
expose(actions.build_context, "POST", **_told(actions.build_context))
expose(commands.database_path, "POST", **_told(commands.database_path))
expose(commands.init, "POST", **_told(commands.init))
expose(resources.add_resource, "POST", **_told(resources.add_resource))
expose(resources.add_with_metadata, "POST", **_told(resources.add_with_metadata))
expose(resources.find, "POST", **_told(resources.find))
expose(resources.grep, "POST", **_told(resources.grep))
expose(resources.ls, "POST", **_told(resources.ls))
expose(resources.tree, "POST", **_told(resources.tree))
expose(resources.read, "POST", **_told(resources.read))
expose(resources.remove, "POST", **_told(resources.remove))
expose(actions.inject_prompt, "POST", **_told(actions.inject_prompt))
expose(resources.configure_embedding, "POST", **_told(resources.configure_embedding))
expose(resources.configure_summaries, "POST", **_told(resources.configure_summaries))
expose(resources.store_with_summaries, "POST", **_told(resources.store_with_summaries))
expose(resources.status, "POST", **_told(resources.status))
expose(resources.load_industry_keywords, "POST", **_told(resources.load_industry_keywords))
expose(actions.extract_session_memories, "POST", **_told(actions.extract_session_memories))
expose(actions.extract_and_store, "POST", **_told(actions.extract_and_store))
expose(actions.estimate_content_tokens, "POST", **_told(actions.estimate_content_tokens))
expose(actions.create_embedding, "POST", **_told(actions.create_embedding))
expose(actions.embedding_providers, "POST", **_told(actions.embedding_providers))
expose(actions.agent_get, "POST", **_told(actions.agent_get))
expose(actions.compactor_text_tokens, "POST", **_told(actions.compactor_text_tokens))
expose(actions.compactor_messages_tokens, "POST", **_told(actions.compactor_messages_tokens))
expose(actions.compactor_check, "POST", **_told(actions.compactor_check))
expose(actions.compact, "POST", **_told(actions.compact))
