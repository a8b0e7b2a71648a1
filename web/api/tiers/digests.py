"""Digests of quarantine, for those who promote (CN-38)."""

from __future__ import annotations

from uuid import UUID

from jiyi.protocol.rest import Cursor
from jiyi.protocol.tiers.digests import DigestBody, DigestState
from jiyi.protocol.tiers.rest import DigestRows
from models.tiers import actions, digests
from web import cursors
from web.api.problems import Refused
from web.api.registry import expose, operation
from web.api.running import Asker
from web.sources import from_database

#: Seconds that a digest may take; it goes on when nobody waits any more.
DIGEST_SECONDS = 60.0


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
)


@operation("GET", "/memory/digests", id="list_digests", scope="admin", tag="tiers", query=Cursor, answer=DigestRows)
def list_digests(asker: Asker, query: Cursor) -> DigestRows:
    """List digests.

    Newest first, page by page, each with its clusters: what they are about, in a few sentences, and the entries that
    promote_memory takes.
    """
    before = cursors.only(query.after, cursors.ID)
    rows = from_database(lambda connection: digests.listed(connection, asker.group_id, None, before, query.limit))
    return DigestRows(digests=rows, next=cursors.following(rows, query.limit, lambda last: (last.digest_id,)))


@operation("GET", "/memory/digests/<uuid:digest_id>", id="get_digest", scope="admin", tag="tiers", answer=DigestState)
def get_digest(asker: Asker, digest_id: UUID) -> DigestState:
    """Get one digest.

    Its clusters, what they are about, and the entries that each of them is made of.
    """
    found = from_database(lambda connection: digests.listed(connection, asker.group_id, digest_id))
    if not found:
        raise Refused(404, f"There is no digest {digest_id}.")
    return found[0]
