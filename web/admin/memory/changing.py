"""Adding and correcting memories by hand, and taking them out as a file. Its routes are those of ``memories``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from uuid import UUID

from flask import Blueprint, Response, request, stream_with_context, url_for
from flask.typing import ResponseReturnValue

from jiyi.protocol.memory import ExportQuery
from models.memory import actions, questions
from web.accounts.identity import need
from web.admin import frame
from web.admin.acting import perform
from web.admin.frame import asked
from web.admin.pages import redirect_to

#: Events of one transaction of an export.
EXPORTED_AT_ONCE = 200


def add_routes(blueprint: Blueprint) -> None:
    blueprint.add_url_rule("/memories/add", "add", add, methods=["POST"])
    blueprint.add_url_rule("/memories/export.jsonl", "export", export)
    blueprint.add_url_rule("/nodes/<name:group>/<uuid:node_id>/correct", "correct", correct, methods=["POST"])


def add() -> ResponseReturnValue:
    """Safe to send once: each time it is sent a memory is added, unless the agent remembers each content once."""
    need("publish")
    done = perform(actions.add_memory, agent_id=request.form.get("agent", ""), **_said())
    return redirect_to(url_for("memories.node", group=frame.group(), node_id=done.node_id))


def correct(group: str, node_id: UUID) -> ResponseReturnValue:
    """Safe to repeat because only the version in force can be corrected."""
    need("publish")
    done = perform(actions.update_memory, node_id=node_id, **_said())
    return redirect_to(url_for("memories.node", group=group, node_id=done.node_id))


def export() -> Response:
    """The events of the group, or of an agent, one a line, as ``jiyi import jsonl`` takes them back."""
    agent = asked("agent")
    name = "".join(one if one.isalnum() else "-" for one in agent or frame.group())[:80]
    headers = {"Content-Disposition": f'attachment; filename="jiyi-{name.encode("ascii", "replace").decode().replace("?", "-")}.jsonl"'}
    first = _page(agent, None)  # what is wrong is said before the file begins
    return Response(stream_with_context(_lines(agent, first)), mimetype="application/x-ndjson", headers=headers)


def _lines(agent: str | None, page: Any) -> Iterator[str]:
    while True:
        for row in page.rows:
            yield json.dumps(row, ensure_ascii=False, default=str) + "\n"
        if page.next is None:
            return
        page = _page(agent, page.next)


def _page(agent: str | None, after: int | None) -> Any:
    return perform(questions.export, ExportQuery(agent_id=agent, after=after, limit=EXPORTED_AT_ONCE))


def _said() -> dict[str, Any]:
    """What a form says of a memory; an empty importance is none."""
    poignancy = request.form.get("poignancy", "").strip()
    return {"description": request.form.get("description", ""), **({"poignancy": poignancy} if poignancy else {})}
