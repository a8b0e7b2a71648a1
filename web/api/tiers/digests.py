"""Digests of quarantine, for those who promote (CN-38)."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from jiyi.protocol.rest import Cursor
from jiyi.protocol.tiers.digests import DigestBody, DigestState
from jiyi.protocol.tiers.rest import DigestRows
from models.tiers import actions, digests
from web.api import cursors
from web.api.problems import Refused
from web.api.registry import expose, operation
from web.api.running import Asker
from web.sources import from_database

#: Seconds that a digest may take; it goes on when nobody waits any more.
DIGEST_SECONDS = 60.0

_ENTRY, _TIME = "01978c00-0000-7000-8000-000000000008", "2026-03-02T09:00:00Z"
_DIGEST = {
    "digest_id": _ENTRY,
    "group_id": "default",
    "since": "2026-02-23T09:00:00Z",
    "until": _TIME,
    "entries": 12,
    "older": 0,
    "left_out": 0,
    "created_at": _TIME,
    "created_by": "operator",
    "items": [
        {
            "number": 1,
            "topic": "glaze, clay",
            "summary": "The glaze cracks because of the clay.",
            "keywords": ["glaze", "clay"],
            "entry_ids": [_ENTRY],
            "evidence": [_ENTRY],
            "sessions": 2,
            "promoted": 0,
            "first_at": _TIME,
            "last_at": _TIME,
            "llm": "rules",
        }
    ],
}


expose(
    actions.make_digest,
    "POST",
    "/memory/digest",
    id="digest_quarantine",
    tag="tiers",
    body=DigestBody,
    body_required=False,
    timeout=DIGEST_SECONDS,
    errors=(504,),
    examples={"Of the last week": {}, "Of the last day": {"days": 1}},
    answer_example=_DIGEST,
)


@operation(
    "GET",
    "/memory/digests",
    id="list_digests",
    scope="admin",
    tag="tiers",
    query=Cursor,
    answer=DigestRows,
    examples={"The latest": {"limit": 1}},
    answer_example={"digests": [_DIGEST], "next": None},
)
def list_digests(asker: Asker, query: Cursor) -> dict[str, Any]:
    """List digests.

    Newest first, page by page, each with its clusters: what they are about, in a few sentences, and the entries that
    promote_memory takes.
    """
    place = cursors.decode(query.after, cursors.ID)
    before = None if place is None else place[0]
    rows = from_database(lambda connection: digests.listed(connection, asker.group_id, None, before, query.limit))
    return {"digests": rows, "next": cursors.encode(rows[-1].digest_id) if len(rows) == query.limit else None}


@operation(
    "GET", "/memory/digests/<uuid:digest_id>", id="get_digest", scope="admin", tag="tiers", answer=DigestState, answer_example=_DIGEST
)
def get_digest(asker: Asker, digest_id: UUID) -> DigestState:
    """Get one digest.

    Its clusters, what they are about, and the entries that each of them is made of.
    """
    found = from_database(lambda connection: digests.listed(connection, asker.group_id, digest_id))
    if not found:
        raise Refused(404, f"There is no digest {digest_id}.")
    return found[0]
