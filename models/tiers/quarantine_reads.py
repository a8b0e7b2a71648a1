"""Lists and counts of a group's quarantine for people: no agent is ever shown it. Newest first, page by page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from sqlalchemy import Connection, text

from jiyi.protocol.events import MAX_OUTPUT_CHARS
from models.db.conditions import MAX_LISTED_CHARS, Conditions, columns, typed

#: Where a page ends: rows that come meanwhile do not move what follows.
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


@dataclass(frozen=True, kw_only=True)
class Entry:
    """An entry of quarantine in a list: its text is cut."""

    entry_id: UUID
    agent_id: str
    session_id: str | None
    node_id: str
    node_type: str | None
    node_name: str | None
    kind: str
    confidence: float | None
    flags: list[str]
    depth: int
    created_at: datetime
    #: None: the database was not asked.
    received_at: datetime | None
    screened_at: datetime | None
    rejected_reason: str | None
    rejected_details: dict[str, Any]
    working_until: datetime | None
    expired_at: datetime | None
    promoted_at: datetime | None
    state: State
    #: Characters of the whole text.
    chars: int
    content: str


@dataclass(frozen=True, kw_only=True)
class EntryWithOrigin(Entry):
    """An entry with all that came with it."""

    metadata: dict[str, Any]
    provenance: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class EntryDetail(EntryWithOrigin):
    """All that is kept of an entry but its vector."""

    embedding_model: str | None


@dataclass(frozen=True, kw_only=True)
class Counts:
    """What quarantine, by state, and long-term memory hold now."""

    entries: int
    waiting: int
    #: When the one that waits longest for the filters was received.
    waiting_since: datetime | None
    working: int
    rejected: int
    expired: int
    promoted: int
    latest: datetime | None
    knowledge: int
    demoted: int
    verdicts: int
    #: Known to single agents, not to the group.
    of_agents: int
    without_vector: int
    last_promoted: datetime | None


def entries(connection: Connection, group_id: str, wanted: WantedEntries, before: Place | None, limit: int) -> list[Entry]:
    """Entries of quarantine, those said last first."""
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
        SELECT {_columns(Entry)} FROM quarantine_logs q
        WHERE {asked.where()} ORDER BY q.created_at DESC, q.entry_id DESC LIMIT :limit
    """)
    return typed(connection, Entry, statement, **asked.given, limit=limit, chars=MAX_LISTED_CHARS)


def some_entries(connection: Connection, group_id: str, ids: Sequence[UUID], chars: int = MAX_OUTPUT_CHARS) -> list[EntryDetail]:
    """Those of the ids that this group has, in the order of the ids; of their texts at most so many characters."""
    rows = typed(connection, EntryDetail, _SOME, group=group_id, ids=list(ids), chars=chars) if ids else []
    found = {row.entry_id: row for row in rows}
    return [found[entry_id] for entry_id in dict.fromkeys(ids) if entry_id in found]


def sessions(connection: Connection, group_id: str, limit: int) -> list[str]:
    """Sessions that spoke last, for choosing one."""
    return list(connection.execute(_SESSIONS, {"group": group_id, "limit": limit}).scalars())


def nodes(connection: Connection, group_id: str, limit: int) -> list[str]:
    """Nodes of workflows that spoke last, for choosing one."""
    return list(connection.execute(_NODES, {"group": group_id, "limit": limit}).scalars())


def counts(connection: Connection, group_id: str) -> Counts:
    """How many entries and pieces of knowledge there are, by state."""
    return typed(connection, Counts, _COUNTS, group=group_id)[0]


def outcomes(connection: Connection, group_id: str, since: datetime | None = None) -> dict[str, int]:
    """What the filters decided of what arrived since: how many were ``accepted``, and how many refused for each reason."""
    return {row.outcome: row.entries for row in connection.execute(_OUTCOMES, {"group": group_id, "since": since})}


def rejections(connection: Connection, group_id: str) -> dict[str, int]:
    """How many entries each filter has kept out of working memory (CN-27), those of most first."""
    return {outcome: count for outcome, count in outcomes(connection, group_id).items() if outcome != "accepted"}


def working(connection: Connection, group_id: str, limit: int) -> list[EntryWithOrigin]:
    """What is in working memory as the database knows it, newest first."""
    return typed(connection, EntryWithOrigin, _WORKING, group=group_id, limit=limit, chars=MAX_OUTPUT_CHARS)


def _columns(row: type[Entry]) -> str:
    return columns(row, "q", state=_STATE, chars="length(q.content)", content="left(q.content, :chars)")


_STATE = """(CASE
    WHEN q.promoted_at IS NOT NULL THEN 'promoted' WHEN q.screened_at IS NULL THEN 'waiting'
    WHEN q.rejected_reason IS NOT NULL THEN 'rejected'
    WHEN q.expired_at IS NULL AND q.working_until > now() THEN 'accepted' ELSE 'expired' END)"""
_SOME = text(f"""
    SELECT {_columns(EntryDetail)} FROM quarantine_logs q
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
_OUTCOMES = text("""
    SELECT coalesce(rejected_reason, 'accepted') AS outcome, count(*) AS entries FROM quarantine_logs
    WHERE group_id = :group AND deleted_at IS NULL AND screened_at IS NOT NULL
      AND (CAST(:since AS timestamptz) IS NULL OR received_at >= :since)
    GROUP BY outcome ORDER BY entries DESC, outcome
""")
_WORKING = text(f"""
    SELECT {_columns(EntryWithOrigin)} FROM quarantine_logs q
    WHERE q.group_id = :group AND q.deleted_at IS NULL AND q.expired_at IS NULL AND q.working_until > now()
      AND q.rejected_reason IS NULL
    ORDER BY q.created_at DESC, q.entry_id DESC LIMIT :limit
""")
