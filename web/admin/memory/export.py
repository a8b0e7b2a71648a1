"""Memories as a file to take along. Its route is one of ``memories``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from flask import Response, stream_with_context

from jiyi.protocol.memory import ExportQuery
from models.memory import questions
from web.admin import frame
from web.admin.acting import perform
from web.admin.frame import asked
from web.admin.memory.memories import blueprint

#: Events of one transaction of an export.
EXPORTED_AT_ONCE = 200


@blueprint.get("/memories/export.jsonl")
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
