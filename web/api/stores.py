"""Declared stores: each operation is the action of its name (DA-01…DA-55)."""

from __future__ import annotations

from typing import Any

from models.db.actions import Action
from models.stores import actions
from web.api.registry import expose


def _told(action: Action[Any, Any]) -> dict[str, Any]:
    """Address, id and body follow from the action."""
    verb = action.name.partition(".")[2]
    body = action.request if action.request.model_fields else None
    return {"path": f"/stores/{verb}", "id": f"stores_{verb}", "tag": "stores", "body": body, "errors": (404,)}


expose(actions.apply, "POST", **_told(actions.apply))
expose(actions.schema, "POST", **_told(actions.schema))
expose(actions.listing, "POST", **_told(actions.listing))
expose(actions.show, "POST", **_told(actions.show))
expose(actions.items, "POST", **_told(actions.items))
expose(actions.files, "POST", **_told(actions.files))
expose(actions.attachment, "POST", **_told(actions.attachment))
expose(actions.load, "POST", **_told(actions.load))
expose(actions.retrieve, "POST", **_told(actions.retrieve))
expose(actions.update, "POST", **_told(actions.update))
expose(actions.save, "POST", **_told(actions.save))
expose(actions.reindex, "POST", **_told(actions.reindex))
expose(actions.delete, "POST", **_told(actions.delete))
expose(actions.node_map, "POST", **_told(actions.node_map))
expose(actions.log, "POST", **_told(actions.log))
expose(actions.operation_log, "POST", **_told(actions.operation_log))
