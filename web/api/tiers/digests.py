"""Digests of quarantine, for those who promote."""

from __future__ import annotations

from jiyi.protocol.rest import Cursor
from jiyi.protocol.tiers.digests import DigestBody, DigestState
from jiyi.protocol.tiers.rest import DigestRows
from models.tiers import actions, questions
from web.api.registry import expose

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
expose(questions.list_digests, "GET", "/memory/digests", id="list_digests", tag="tiers", query=Cursor, answer=DigestRows)
expose(
    questions.list_digests,
    "GET",
    "/memory/digests/<uuid:digest_id>",
    id="get_digest",
    tag="tiers",
    answer=DigestState,
    present=lambda _asker, found: found.rows[0],
    missing="There is no digest {digest_id}.",
    doc="""Get one digest.

    Its clusters, what they are about, and the entries that each of them is made of.
    """,
)
