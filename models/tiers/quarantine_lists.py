"""What people see of a group's quarantine: lists with filters, counts, what the filters decided.

For the pages alone: no agent is ever shown quarantine. Newest first, page by page behind a place that rows which arrive do
not move.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

from sqlalchemy import Connection, text

from jiyi.protocol.events import MAX_OUTPUT_CHARS
from models.db.conditions import MAX_LISTED_CHARS, Conditions, Row, rows

Place = tuple[datetime, UUID]
#: Where an entry of quarantine stands: not screened yet, in working memory now, kept out of it, no longer in it, promoted.
State = Literal["waiting", "accepted", "rejected", "expired", "promoted"]

#: Latest entries among which names to choose from are looked for.
LOOKED_AT = 5_000


@dataclass(frozen=True, kw_only=True, slots=True)
class WantedEntries:
    """Which entries of quarantine; what is None or empty counts for nothing."""

    words: str = ""
    state: State | None = None
    reason: str | None = None
    session_id: str | None = None
    node_id: str | None = None
    agent_id: str | None = None
    at_least: float | None = None
    below: float | None = None
    unscored: bool = False


def entries(connection: Connection, group_id: str, wanted: WantedEntries, before: Place | None, limit: int) -> list[Row]:
    """Of quarantine, by when they were said."""
    asked = Conditions("q", group_id)
    asked.only("q.deleted_at IS NULL")
    asked.equal(session_id=wanted.session_id, node_id=wanted.node_id, agent_id=wanted.agent_id, rejected_reason=wanted.reason)
    asked.words(wanted.words)
    if wanted.state is not None:
        asked.only(f"{_STATE} = :state", state=wanted.state)
    if wanted.at_least is not None:
        asked.only("q.confidence >= :at_least", at_least=wanted.at_least)
    if wanted.below is not None:
        asked.only("q.confidence < :below", below=wanted.below)
    if wanted.unscored:
        asked.only("q.confidence IS NULL")
    if before is not None:
        asked.only("(q.created_at, q.entry_id) < (:at, CAST(:id AS uuid))", at=before[0], id=before[1])
    statement = text(f"""
        SELECT {_ENTRY}, left(q.content, :chars) AS content FROM quarantine_logs q
        WHERE {asked.where()} ORDER BY q.created_at DESC, q.entry_id DESC LIMIT :limit
    """)
    return rows(connection, statement, **asked.given, limit=limit, chars=MAX_LISTED_CHARS)


def some_entries(connection: Connection, group_id: str, ids: Sequence[UUID], chars: int = MAX_OUTPUT_CHARS) -> list[Row]:
    """Those of the ids that this group has, in the order of the ids; of their texts at most so many characters."""
    found = {row["entry_id"]: row for row in rows(connection, _SOME, group=group_id, ids=list(ids), chars=chars)} if ids else {}
    return [found[entry_id] for entry_id in dict.fromkeys(ids) if entry_id in found]


def sessions(connection: Connection, group_id: str, limit: int) -> list[str]:
    """Sessions that spoke last, for choosing one."""
    return [row["session_id"] for row in rows(connection, _SESSIONS, group=group_id, limit=limit)]


def nodes(connection: Connection, group_id: str, limit: int) -> list[str]:
    """Nodes of workflows that spoke last, for choosing one."""
    return [row["node_id"] for row in rows(connection, _NODES, group=group_id, limit=limit)]


def counts(connection: Connection, group_id: str) -> Row:
    """What quarantine and long-term memory hold now."""
    return rows(connection, _COUNTS, group=group_id)[0]


def screened(connection: Connection, group_id: str, since: datetime | None) -> dict[str, int]:
    """What the filters decided of what arrived since: ``accepted``, and each reason for which something was kept out."""
    return {row["outcome"]: row["count"] for row in rows(connection, _SCREENED, group=group_id, since=since)}


def working(connection: Connection, group_id: str, limit: int) -> list[Row]:
    """What is in working memory as the database knows it, newest first."""
    return rows(connection, _WORKING, group=group_id, limit=limit)


_STATE = """(CASE
    WHEN q.promoted_at IS NOT NULL THEN 'promoted' WHEN q.screened_at IS NULL THEN 'waiting'
    WHEN q.rejected_reason IS NOT NULL THEN 'rejected'
    WHEN q.expired_at IS NULL AND q.working_until > now() THEN 'accepted' ELSE 'expired' END)"""
_ENTRY = f"""
    q.entry_id, q.agent_id, q.session_id, q.node_id, q.node_type, q.node_name, q.kind, q.confidence, q.flags, q.depth,
    q.created_at, q.received_at, q.screened_at, q.rejected_reason, q.rejected_details, q.working_until, q.expired_at,
    q.promoted_at, {_STATE} AS state, length(q.content) AS chars
"""
_SOME = text(f"""
    SELECT {_ENTRY}, left(q.content, :chars) AS content, q.metadata, q.provenance, q.embedding_model FROM quarantine_logs q
    WHERE q.group_id = :group AND q.deleted_at IS NULL AND q.entry_id = ANY(CAST(:ids AS uuid[]))
""")
_SESSIONS = text(f"""
    SELECT session_id FROM (
        SELECT session_id, created_at FROM quarantine_logs WHERE group_id = :group AND deleted_at IS NULL
        ORDER BY created_at DESC, entry_id DESC LIMIT {LOOKED_AT}
    ) AS latest
    WHERE session_id IS NOT NULL GROUP BY session_id ORDER BY max(created_at) DESC, session_id LIMIT :limit
""")
_NODES = text(f"""
    SELECT node_id FROM (
        SELECT node_id, created_at FROM quarantine_logs WHERE group_id = :group AND deleted_at IS NULL
        ORDER BY created_at DESC, entry_id DESC LIMIT {LOOKED_AT}
    ) AS latest
    GROUP BY node_id ORDER BY node_id LIMIT :limit
""")
_COUNTS = text(f"""
    SELECT q.*, k.* FROM (
        SELECT count(*) AS entries, count(*) FILTER (WHERE state = 'waiting') AS waiting,
            min(received_at) FILTER (WHERE state = 'waiting') AS waiting_since,
            count(*) FILTER (WHERE state = 'accepted') AS working, count(*) FILTER (WHERE state = 'rejected') AS rejected,
            count(*) FILTER (WHERE state = 'expired') AS expired, count(*) FILTER (WHERE state = 'promoted') AS promoted,
            max(created_at) AS latest
        FROM (SELECT q.received_at, q.created_at, {_STATE} AS state FROM quarantine_logs q
              WHERE q.group_id = :group AND q.deleted_at IS NULL) AS each
    ) AS q, (
        SELECT count(*) FILTER (WHERE demoted_at IS NULL) AS knowledge,
            count(*) FILTER (WHERE demoted_at IS NOT NULL) AS demoted,
            count(*) FILTER (WHERE demoted_at IS NULL AND kind = 'verdict') AS verdicts,
            count(*) FILTER (WHERE demoted_at IS NULL AND agent_id IS NOT NULL) AS of_agents,
            count(*) FILTER (WHERE demoted_at IS NULL AND embedding_model IS NULL) AS without_vector,
            max(promoted_at) FILTER (WHERE demoted_at IS NULL) AS last_promoted
        FROM knowledge WHERE group_id = :group
    ) AS k
""")
_SCREENED = text("""
    SELECT coalesce(rejected_reason, 'accepted') AS outcome, count(*) AS count FROM quarantine_logs
    WHERE group_id = :group AND deleted_at IS NULL AND screened_at IS NOT NULL
      AND (CAST(:since AS timestamptz) IS NULL OR received_at >= :since)
    GROUP BY 1
""")
_WORKING = text(f"""
    SELECT {_ENTRY}, q.content, q.metadata, q.provenance FROM quarantine_logs q
    WHERE q.group_id = :group AND q.deleted_at IS NULL AND q.expired_at IS NULL AND q.working_until > now()
      AND q.rejected_reason IS NULL
    ORDER BY q.created_at DESC, q.entry_id DESC LIMIT :limit
""")
