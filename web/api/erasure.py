"""Erasing for good: one memory, an agent, a person. A job does it; its report proves it."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from sqlalchemy import Connection

from jiyi.erasure.names import Erasure, ErasureState
from jiyi.errors import NotFound
from jiyi.protocol.rest import Cursor, ErasureAsked, ErasurePage
from models.erasure import erasures
from models.queue.wakeups import wake
from web import cursors
from web.api.problems import Refused
from web.api.registry import PREFIX, operation
from web.api.running import Asker, Reply
from web.sources import from_database, to_database

_ID, _NODE = "01978c00-0000-7000-8000-000000000007", "01978c00-0000-7000-8000-000000000001"
_STATE = {
    "erasure_id": _ID,
    "group_id": "default",
    "kind": "agent",
    "state": "done",
    "step": "done",
    "what": {"names": ["9f2c…"]},
    "requested_by": "key:a1b2c3d4e5f6 (crawler)",
    "created_at": "2026-03-02T09:00:00Z",
    "finished_at": "2026-03-02T09:00:09Z",
    "report": {"left": 0},
}


@operation(
    "DELETE",
    "/nodes/<uuid:node_id>",
    id="erase_memory",
    scope="admin",
    tag="memories",
    answer=ErasureAsked,
    status=202,
    answer_example={"erasure_id": _ID, "status_url": f"{PREFIX}/erasures/{_ID}"},
)
def erase_memory(asker: Asker, node_id: UUID) -> Reply:
    """Erase one memory.

    The memory and everything derived from it goes, everywhere, for good. A job does it: see get_erasure for how far it is.
    """
    return _ask(asker, Erasure(node_ids=[node_id]), f"There is no memory {node_id}.")


@operation(
    "POST",
    "/erasures",
    id="erase",
    scope="admin",
    tag="erasure",
    body=Erasure,
    answer=ErasureAsked,
    status=202,
    errors=(404,),
    examples={
        "An agent": {"agent_id": "klaus"},
        "一个人": {"person": "玛丽亚·洛佩斯", "aliases": ["玛丽亚", "Maria Lopez"]},
        "Some memories": {"node_ids": [_NODE]},
    },
    answer_example={"erasure_id": _ID, "status_url": f"{PREFIX}/erasures/{_ID}"},
)
def erase(asker: Asker, body: Erasure) -> Reply:
    """Erase an agent, a person or some memories.

    Everything that is stored of an agent; or every memory that names a person, by all names given, with what was
    concluded from it; or single memories. It goes from every table, index, cache and buffer, for good: there is no way
    back. A job does it: see get_erasure for how far it is and, in the end, for a report that proves it.
    """
    return _ask(asker, body, "There is no such thing to erase.")


@operation(
    "GET",
    "/erasures",
    id="list_erasures",
    scope="admin",
    tag="erasure",
    query=Cursor,
    answer=ErasurePage,
    examples={"The last ten": {"limit": 10}},
    answer_example={"erasures": [_STATE], "next": None},
)
def list_erasures(asker: Asker, query: Cursor) -> dict[str, Any]:
    """List erasures.

    Newest first, page by page. Names are not kept, only their hashes.
    """
    place = cursors.decode(query.after, cursors.ID)
    before = None if place is None else place[0]
    rows = from_database(lambda connection: erasures.listed(connection, asker.group_id, before, query.limit))
    following = cursors.encode(rows[-1]["erasure_id"]) if len(rows) == query.limit else None
    return {"erasures": [_only(row) for row in rows], "next": following}


@operation("GET", "/erasures/<uuid:erasure_id>", id="get_erasure", scope="admin", tag="erasure", answer=ErasureState, answer_example=_STATE)
def get_erasure(asker: Asker, erasure_id: UUID) -> dict[str, Any]:
    """Get one erasure.

    How far it is (owed, running, incomplete, done), and the report when it is done.
    """
    row = from_database(lambda connection: erasures.state(connection, asker.group_id, erasure_id))
    if row is None:
        raise Refused(404, f"There is no erasure {erasure_id}.")
    return _only(row)


def _ask(asker: Asker, what: Erasure, missing: str) -> Reply:
    def change(connection: Connection) -> UUID:
        try:
            return erasures.request(connection, asker.group_id, what, asker.actor)
        except NotFound:
            raise Refused(404, missing) from None

    erasure_id = to_database(change)
    wake(erasures.ERASE)
    url = f"{PREFIX}/erasures/{erasure_id}"
    return Reply(ErasureAsked(erasure_id=erasure_id, status_url=url), {"Location": url})


def _only(row: dict[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in ErasureState.model_fields if name in row}
