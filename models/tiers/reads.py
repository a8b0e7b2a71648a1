"""Lists of what is in all tiers of a group: quarantine, working and long-term memory.

Read from the database alone, which knows what is in working memory, too. An entry is in one layer: working memory while it
is there, else quarantine, until it is promoted or deleted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import UTC, datetime
from uuid import UUID

from sqlalchemy import ColumnElement, Connection, Double, RowMapping, Text, Uuid, case, column, func, literal, select, text, tuple_
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from jiyi.protocol.knowledge import VERIFIED, Knowledge, KnowledgeFilter, KnowledgePage, Layer
from models.db.base import Timestamp
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
    listed = select(_ENTRIES).where(*_conditions(wanted), _E.layer.in_(list(layers)))
    if wanted.layer != "all":
        listed = listed.where(_E.layer == wanted.layer)
    if before is not None:
        listed = listed.where(tuple_(_MOMENT, _E.entry_id) < tuple_(*map(literal, before)))
    page = listed.order_by(_MOMENT.desc(), _E.entry_id.desc()).limit(wanted.limit + 1).offset(wanted.offset)
    rows = connection.execute(page, _sources(group_id, now)).mappings().all()
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
    counted = select(_E.layer, func.count().label("entries")).where(*_conditions(wanted or KnowledgeFilter())).group_by(_E.layer)
    found = {row.layer: row.entries for row in connection.execute(counted, _sources(group_id, now))}
    return {layer: found.get(layer, 0) for layer in LAYERS}


def _sources(group_id: str, now: datetime | None) -> dict[str, str | datetime]:
    return {"group": group_id, "now": now or datetime.now(UTC)}


def _conditions(wanted: KnowledgeFilter) -> Iterator[ColumnElement[bool]]:
    for word in wanted.q.split():
        yield _E.content.ilike(ilike_pattern(word))
    if wanted.session_id is not None:
        yield _E.session_id == wanted.session_id
    if wanted.reason is not None:
        yield _E.rejected == wanted.reason


def _entry(row: RowMapping) -> Knowledge:
    verified = row["layer"] == "longterm" or VERIFIED in row["flags"]
    return Knowledge(**{**row, "entry_id": str(row["entry_id"]), "verified": verified})


_ENTRIES = (
    text("""
    SELECT q.entry_id, CASE WHEN q.working_until > :now AND q.expired_at IS NULL THEN 'working' ELSE 'quarantine' END AS layer,
        q.content, q.group_id, q.session_id, q.agent_id, q.node_id, q.node_type, q.kind, q.confidence, q.flags, q.created_at,
        CASE WHEN q.working_until > :now AND q.expired_at IS NULL THEN q.working_until END AS expires_at, q.promoted_at,
        q.rejected_reason AS rejected, q.metadata
    FROM quarantine_logs q
    WHERE q.group_id = :group AND q.deleted_at IS NULL
        AND (q.promoted_at IS NULL OR q.working_until > :now AND q.expired_at IS NULL)
    UNION ALL
    SELECT k.knowledge_id, 'longterm', k.content, k.group_id, k.session_id, k.agent_id, k.metadata ->> 'node_id',
        k.metadata ->> 'node_type', k.kind, NULL, '{}'::text[], k.created_at, NULL, k.promoted_at, NULL, k.metadata
    FROM knowledge k WHERE k.group_id = :group AND k.demoted_at IS NULL
    """)
    .columns(
        *(column("entry_id", Uuid), column("layer", Text), column("content", Text), column("group_id", Text), column("session_id", Text)),
        *(column("agent_id", Text), column("node_id", Text), column("node_type", Text), column("kind", Text), column("confidence", Double)),
        *(column("flags", ARRAY(Text)), column("created_at", Timestamp), column("expires_at", Timestamp)),
        *(column("promoted_at", Timestamp), column("rejected", Text), column("metadata", JSONB)),
    )
    .subquery("entries")
)
_E = _ENTRIES.c
_MOMENT = func.coalesce(case((_E.layer == "longterm", _E.promoted_at)), _E.created_at)
