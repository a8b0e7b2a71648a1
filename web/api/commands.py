"""Actions whose address follows from a name: ``POST /<folder>/<alias>``, as ``jiyi/protocol/aliases.json`` lists them, and the stores'."""

from __future__ import annotations

from typing import Any

from jiyi.protocol.actions import FOLDERS
from jiyi.protocol.openapi.document import Tag
from models.actions import ACTIONS
from models.db.actions import Action
from web.api.registry import expose

#: Subjects in the folder of growth where no state stands against a change.
NEVER_IN_CONFLICT = ("appointments", "heartbeats")


def _expose(tag: Tag, verb: str, action: Action[Any, Any], errors: tuple[int, ...]) -> None:
    body = action.request if action.request.model_fields else None
    expose(action, "POST", f"/{tag}/{verb}", id=verb if "_" in verb else f"{tag}_{verb}", tag=tag, body=body, errors=errors)


def _errors(tag: str, action: Action[Any, Any]) -> tuple[int, ...]:
    conflicts = tag == "growth" and action.mutates and not action.name.startswith(NEVER_IN_CONFLICT)
    return (404, 409) if conflicts else (404,)


def expose_commands() -> None:
    """Make them operations."""
    tags: dict[str, Tag] = {"conversations": "conversations", "growth": "growth"}
    for folder, aliases in FOLDERS.items():
        for alias, name in aliases.items():
            if name in ACTIONS:
                _expose(tags[folder], alias, ACTIONS[name], _errors(folder, ACTIONS[name]))
    for name, action in ACTIONS.items():
        if name.startswith("stores."):
            _expose("stores", name.removeprefix("stores."), action, (404,))


expose_commands()
