"""Lists of what is in all tiers of a group: quarantine, working and long-term memory (CN-55).

Read from the database alone, which knows what is in working memory, too. An entry is in one layer: working memory while it
is there, else quarantine, until it is promoted or deleted.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime
from uuid import UUID

from sqlalchemy import Connection, RowMapping, text

from jiyi.protocol.tiers.knowledge import Knowledge, KnowledgeFilter, KnowledgePage, Layer
from jiyi.tiers.screening import VERIFIED
from models.db.conditions import ilike_pattern

Place = tuple[datetime, UUID]

LAYERS: tuple[Layer, ...] = ("quarantine", "working", "longterm")


def entries(
    connection: Connection,
    group_id: str,
    wanted: KnowledgeFilter,
    now: datetime | None = None,
    *,
    layers: Collection[Layer] = LAYERS,
    before: Place | None = None,
) -> KnowledgePage:
    """A page, newest first, with how many entries there are in each layer.

    ``layers``: no others, whatever the filter says. ``before``: where the page before ended (:func:`place`).
    """
    parameters = _parameters(group_id, wanted, now)
    at, last = before or (None, None)
    only = {"layers": list(layers), "limit": wanted.limit + 1, "offset": wanted.offset, "at": at, "last": last}
    rows = connection.execute(_LISTED, parameters | only).mappings().all()
    more = len(rows) > wanted.limit
    return KnowledgePage(
        rows=[_entry(row) for row in rows[: wanted.limit]],
        counts=counts(connection, group_id, wanted, now),
        next=wanted.offset + wanted.limit if more else None,
    )


def place(row: Knowledge) -> Place:
    """Where a page ends that ends with this row: rows that come meanwhile do not move what follows."""
    at = row.promoted_at if row.layer == "longterm" else row.created_at
    return at or row.created_at, UUID(row.entry_id)


def counts(connection: Connection, group_id: str, wanted: KnowledgeFilter | None = None, now: datetime | None = None) -> dict[Layer, int]:
    """Entries in each layer that the filter lets through."""
    parameters = _parameters(group_id, wanted or KnowledgeFilter(), now)
    found = {row.layer: row.entries for row in connection.execute(_COUNTS, parameters)}
    return {layer: found.get(layer, 0) for layer in LAYERS}


def _parameters(group_id: str, wanted: KnowledgeFilter, now: datetime | None) -> dict[str, object]:
    return {
        "group": group_id,
        "layer": None if wanted.layer == "all" else wanted.layer,
        "session": wanted.session_id,
        "words": [ilike_pattern(word) for word in wanted.q.split()],
        "reason": wanted.reason,
        "now": now or datetime.now(UTC),
    }


def _entry(row: RowMapping) -> Knowledge:
    verified = row["layer"] == "longterm" or VERIFIED in row["flags"]
    return Knowledge(**{**row, "entry_id": str(row["entry_id"]), "verified": verified})


_IS_WORKING = "q.working_until > :now AND q.expired_at IS NULL"
_LAYER = f"CASE WHEN {_IS_WORKING} THEN 'working' ELSE 'quarantine' END"
_ALL = f"""
    SELECT q.entry_id, {_LAYER} AS layer, q.content, q.group_id, q.session_id, q.agent_id, q.node_id, q.node_type, q.kind,
        q.confidence, q.flags, q.created_at, CASE WHEN {_IS_WORKING} THEN q.working_until END AS expires_at, q.promoted_at,
        q.rejected_reason AS rejected, q.metadata
    FROM quarantine_logs q
    WHERE q.group_id = :group AND q.deleted_at IS NULL AND (q.promoted_at IS NULL OR {_IS_WORKING})
    UNION ALL
    SELECT k.knowledge_id, 'longterm', k.content, k.group_id, k.session_id, k.agent_id, k.metadata ->> 'node_id',
        k.metadata ->> 'node_type', k.kind, NULL, '{{}}'::text[], k.created_at, NULL, k.promoted_at, NULL, k.metadata
    FROM knowledge k WHERE k.group_id = :group AND k.demoted_at IS NULL
"""  # noqa: S608 – our own names; values are parameters
_WANTED = """
    (CAST(:session AS text) IS NULL OR session_id = :session) AND (CAST(:reason AS text) IS NULL OR rejected = :reason)
    AND content ILIKE ALL (CAST(:words AS text[]))
"""
_MOMENT = "coalesce(CASE WHEN layer = 'longterm' THEN promoted_at END, created_at)"
_LISTED = text(f"""
    SELECT * FROM ({_ALL}) entries
    WHERE (CAST(:layer AS text) IS NULL OR layer = :layer) AND layer = ANY (CAST(:layers AS text[])) AND {_WANTED}
        AND (CAST(:at AS timestamptz) IS NULL OR ({_MOMENT}, entry_id) < (:at, CAST(:last AS uuid)))
    ORDER BY {_MOMENT} DESC, entry_id DESC
    LIMIT :limit OFFSET :offset
""")  # noqa: S608 – our own names; values are parameters
_COUNTS = text(f"SELECT layer, count(*) AS entries FROM ({_ALL}) entries WHERE {_WANTED} GROUP BY layer")  # noqa: S608 – our own names; values are parameters
