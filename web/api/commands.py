"""Commands: actions whose address, id and body follow from their name, each in the order of its subject's modules."""

from __future__ import annotations

from collections.abc import Iterable
from types import ModuleType
from typing import Any

from jiyi.protocol.openapi.operations import Tag
from models.appointments import heartbeat_actions, schedule_actions
from models.conversations import actions as conversations
from models.conversations import commands, resources
from models.db.actions import Action
from models.growth import artifacts, identity_actions, pain_actions, self_review, tracking, trajectories
from models.growth.artifacts import SKILL_ACTIONS, WORKFLOW_ACTIONS
from models.stores import actions as stores
from web.api.registry import expose

Command = Action[Any, Any]


def expose_commands(tag: Tag, *given: ModuleType | Command, conflicts: bool = False) -> None:
    """Make actions, or all actions of a module, ``POST /<tag>/<verb>``; with ``conflicts``, 409 where the state does not allow it."""
    for action in _each(given):
        body = action.request if action.request.model_fields else None
        errors = (404, 409) if conflicts and action.mutates else (404,)
        path = f"/{tag}/{action.name.removeprefix(f'{tag}.')}"
        expose(action, "POST", path, id=action.name.replace(".", "_"), tag=tag, body=body, errors=errors)


def _each(given: Iterable[ModuleType | Command]) -> Iterable[Command]:
    for one in given:
        yield from (value for value in vars(one).values() if isinstance(value, Action)) if isinstance(one, ModuleType) else (one,)


expose_commands(
    "conversations",
    *(commands.store_memory, commands.get, commands.search, commands.delete, commands.delete_all, commands.stats),
    *(commands.export, commands.import_memories, conversations.build_context, commands.database_path, commands.init),
    *(resources.add_resource, resources.add_with_metadata, resources.find, resources.grep, resources.ls, resources.tree),
    *(resources.read, resources.remove, conversations.inject_prompt, resources.configure_embedding, resources.configure_summaries),
    *(resources.store_with_summaries, resources.status, resources.load_industry_keywords, conversations.extract_session_memories),
    *(conversations.extract_and_store, conversations.estimate_content_tokens, conversations.create_embedding),
    *(conversations.embedding_providers, conversations.agent_get, conversations.compactor_text_tokens),
    *(conversations.compactor_messages_tokens, conversations.compactor_check, conversations.compact),
)
expose_commands("stores", stores)
expose_commands("growth", *SKILL_ACTIONS.values(), *WORKFLOW_ACTIONS.values(), artifacts, trajectories, conflicts=True)
expose_commands("growth", identity_actions, pain_actions, self_review, tracking, conflicts=True)
expose_commands("growth", schedule_actions, heartbeat_actions)
