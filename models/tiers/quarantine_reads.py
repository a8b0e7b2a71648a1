"""Lists and counts of a group's quarantine for people, newest first: no agent is ever shown it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, get_args
from uuid import UUID

from pydantic import BaseModel
from sqlalchemy import ColumnElement, Connection, and_, case, desc, func, select

from jiyi.protocol.events import MAX_OUTPUT_CHARS
from jiyi.protocol.tier_questions import Kind
from models.db.rows import MAX_LISTED_CHARS, behind, columns, equal_if_given, fetch, has_words
from models.tiers.tables import KnowledgeRow, QuarantineLog

#: Where a page ends: rows that come meanwhile do not move what follows.
Place = tuple[datetime, UUID]
#: Where an entry of quarantine stands: not screened yet, in working memory now, kept out of it, no longer in
#: it, promoted.
State = Literal["waiting", "accepted", "rejected", "expired", "promoted"]

Who = Literal["session_id", "node_id"]
#: Latest entries among which names to choose from are looked for.
LOOKED_AT = 5_000


@dataclass(frozen=True, kw_only=True, slots=True)
class EntryFilters:
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


class EntryPreview(BaseModel):
    """An entry of quarantine in a list: its text is cut."""

    entry_id: UUID
    agent_id: str
    session_id: str | None
    node_id: str
    node_type: str | None
    node_name: str | None
    kind: Kind
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

    @property
    def like(self) -> str | None:
        """The id of the entry that this one repeats, if that is why it was kept out."""
        try:
            return str(UUID(str(self.rejected_details.get("entry"))))
        except ValueError:
            return None


class EntryDetail(EntryPreview):
    """All that is kept of an entry but its vector."""

    metadata: dict[str, Any]
    provenance: dict[str, Any]
    embedding_model: str | None


class TierCounts(BaseModel):
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


def entries(
    connection: Connection, group_id: str, filters: EntryFilters, before: Place | None, limit: int
) -> list[EntryPreview]:
    """Entries of quarantine, those said last first."""
    statement = select(*_columns(EntryPreview, MAX_LISTED_CHARS)).where(
        *_in_sight(group_id), *_conditions(filters)
    )
    newest = behind(statement, before, _Q.created_at, _Q.entry_id).limit(limit)
    return fetch(connection, EntryPreview, newest)


def some_entries(
    connection: Connection, group_id: str, ids: Sequence[UUID], chars: int = MAX_OUTPUT_CHARS
) -> list[EntryDetail]:
    """Those that this group has, in the order of the ids; of their texts at most so many characters."""
    statement = select(*_columns(EntryDetail, chars)).where(*_in_sight(group_id), _Q.entry_id.in_(ids))
    rows = {row.entry_id: row for row in fetch(connection, EntryDetail, statement)} if ids else {}
    return [rows[entry_id] for entry_id in dict.fromkeys(ids) if entry_id in rows]


def working(connection: Connection, group_id: str, limit: int) -> list[EntryDetail]:
    """What is in working memory as the database knows it, newest first."""
    statement = select(*_columns(EntryDetail, MAX_OUTPUT_CHARS)).where(
        *_in_sight(group_id), _IS_WORKING, _Q.rejected_reason.is_(None)
    )
    return fetch(connection, EntryDetail, statement.order_by(*_NEWEST_FIRST).limit(limit))


def spoke_last(connection: Connection, group_id: str, who: Who, limit: int) -> list[str]:
    """Sessions, those that spoke last first, or nodes of workflows by name: to choose one."""
    column = _Q.session_id if who == "session_id" else _Q.node_id
    lately = select(column.label("name"), _Q.created_at).where(*_in_sight(group_id)).order_by(*_NEWEST_FIRST)
    latest = lately.limit(LOOKED_AT).subquery().c
    names = select(latest.name).where(latest.name.is_not(None)).group_by(latest.name)
    order = (func.max(latest.created_at).desc(), latest.name) if who == "session_id" else (latest.name,)
    return list(connection.execute(names.order_by(*order).limit(limit)).scalars())


def counts(connection: Connection, group_id: str) -> TierCounts:
    """How many entries and pieces of knowledge there are, by state."""
    entry = (
        select(_Q.received_at, _Q.created_at, _STATE.label("state")).where(*_in_sight(group_id)).subquery()
    )
    is_waiting = entry.c.state == "waiting"
    in_quarantine = select(
        func.count().label("entries"),
        func.min(entry.c.received_at).filter(is_waiting).label("waiting_since"),
        func.max(entry.c.created_at).label("latest"),
        *(
            func.count().filter(entry.c.state == state).label("working" if state == "accepted" else state)
            for state in get_args(State)
        ),
    )
    is_current = _K.demoted_at.is_(None)
    of_knowledge = select(
        func.count().filter(is_current).label("knowledge"),
        func.count().filter(_K.demoted_at.is_not(None)).label("demoted"),
        func.count().filter(is_current, _K.kind == "verdict").label("verdicts"),
        func.count().filter(is_current, _K.agent_id.is_not(None)).label("of_agents"),
        func.count().filter(is_current, _K.embedding_model.is_(None)).label("without_vector"),
        func.max(_K.promoted_at).filter(is_current).label("last_promoted"),
    ).where(_K.group_id == group_id)
    return TierCounts(
        **connection.execute(in_quarantine).mappings().one(),
        **connection.execute(of_knowledge).mappings().one(),
    )


def outcomes(connection: Connection, group_id: str, since: datetime | None = None) -> dict[str, int]:
    """How many of what arrived since were ``accepted``, and how many refused for each reason."""
    outcome = func.coalesce(_Q.rejected_reason, "accepted").label("outcome")
    statement = select(outcome, func.count().label("entries")).where(
        *_in_sight(group_id), _Q.screened_at.is_not(None)
    )
    if since is not None:
        statement = statement.where(_Q.received_at >= since)
    rows = connection.execute(statement.group_by("outcome").order_by(desc("entries"), "outcome"))
    return {row.outcome: row.entries for row in rows}


def _columns(row: type[EntryPreview], chars: int) -> list[ColumnElement[Any]]:
    return columns(row, _Q, state=_STATE, chars=func.length(_Q.content), content=func.left(_Q.content, chars))


def _in_sight(group_id: str) -> tuple[ColumnElement[bool], ...]:
    return _Q.group_id == group_id, _Q.deleted_at.is_(None)


def _conditions(filters: EntryFilters) -> Iterator[ColumnElement[bool]]:
    yield from has_words(_Q.content, filters.words)
    yield from equal_if_given(
        *(
            (_Q.session_id, filters.session_id),
            (_Q.node_id, filters.node_id),
            (_Q.agent_id, filters.agent_id),
        ),
        *((_Q.rejected_reason, filters.reason), (_STATE, filters.state)),
    )
    if filters.at_least is not None:
        yield _Q.confidence >= filters.at_least
    if filters.below is not None:
        yield _Q.confidence < filters.below
    if filters.unscored:
        yield _Q.confidence.is_(None)


_Q, _K = QuarantineLog, KnowledgeRow
_NEWEST_FIRST = (_Q.created_at.desc(), _Q.entry_id.desc())
_IS_WORKING = and_(_Q.expired_at.is_(None), _Q.working_until > func.now())
_STATE: ColumnElement[str] = case(
    (_Q.promoted_at.is_not(None), "promoted"),
    (_Q.screened_at.is_(None), "waiting"),
    (_Q.rejected_reason.is_not(None), "rejected"),
    (_IS_WORKING, "accepted"),
    else_="expired",
)
