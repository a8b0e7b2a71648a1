"""Reads of memories: one, lists, search by words, what stands around one. Each is bound to a group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Connection, Select, and_, bindparam, func, select, text, tuple_
from sqlalchemy.orm import InstrumentedAttribute, aliased

from jiyi.protocol.base import BY_NUMBER, BY_TIME, Paged, Rows
from jiyi.protocol.memory import Memory, MemoryBrief, Related, evidence_of
from jiyi.protocol.recall import Archived, ListMemories
from jiyi.text.words import last_segment, tokens
from models.db.rows import Record, behind, columns, equal_if_given, fetch, ilike_pattern, records
from models.db.rows import page as rows_page
from models.db.scope import current
from models.memory.filters import FilterValues, clause
from models.memory.tables import MemoryNode, NodeAccess

#: Looked up of one memory by its id, not in lists.
OF_ONE = ("dimensions", "supersedes", "recent")
#: Texts that lists cut.
CUT = ("description", "embedding_key")
#: Memories of the agent, the newest, among which the nearest are looked for: half a second on a busy machine.
LOOKED_AT = 10_000
#: Numbers before and after a memory among which its session's others are looked for.
SESSION_REACH = 5_000
#: Superseded memories that one memory names, the latest first.
MAX_SUPERSEDED = 50
#: Characters of a description that the list of the archive carries.
MAX_ARCHIVED_CHARS = 1_000
#: Characters of what is searched for; more is a text, and for a text there is retrieval.
MAX_WORDS_CHARS = 500
#: Characters of a description that a list carries; the memory's own page has all of it.
MAX_LISTED_CHARS = 4_000
#: Where a page ends, so that rows which arrive do not move the next one: the number of its last memory in an
#: agent, when it happened and its id in a group.
Place = tuple[Any, ...] | int


def node(connection: Connection, group_id: str, node_id: UUID) -> Memory | None:
    """One memory, with what lists do not look up: :data:`OF_ONE`."""
    older = aliased(MemoryNode)
    superseded = (
        select(older.node_id)
        .where(
            older.group_id == group_id, older.superseded_by == node_id, older.kind.is_distinct_from("session")
        )
        .order_by(older.superseded_at.desc(), older.node_count.desc())
        .limit(MAX_SUPERSEDED)
    )
    of_one = {
        "dimensions": func.vector_dims(MemoryNode.embedding),
        "supersedes": func.array(superseded.scalar_subquery()),
        "recent": _access(NodeAccess.recent),
    }
    selection = memories(group_id, None, of_one).where(MemoryNode.node_id == node_id)
    return next(iter(fetch_memories(connection, group_id, selection)), None)


def nodes_of(connection: Connection, group_id: str, node_ids: Sequence[UUID]) -> list[Memory]:
    """Those of the ids that are memories of this group, in the order given."""
    if not node_ids:
        return []
    rows = fetch_memories(connection, group_id, memories(group_id).where(MemoryNode.node_id.in_(node_ids)))
    by_id = {row.node_id: row for row in rows}
    return [by_id[node_id] for node_id in node_ids if node_id in by_id]


def related(
    connection: Connection, group_id: str, agent_id: str, parts: Sequence[str], limit: int
) -> Related:
    """Memories with any of the parts (last path segment, lower case) among their keywords: the ``limit``
    newest of each type.
    """
    keywords = sorted({last_segment(part).lower() for part in parts if part.strip()})
    matching = func.jiyi_with_keywords(
        group_id, agent_id, bindparam("keywords", keywords, type_=MemoryNode.__table__.c.keywords.type)
    )
    of_agent = memories(group_id).where(
        MemoryNode.agent_id == agent_id, MemoryNode.node_id.in_(select(matching))
    )
    newest = of_agent.order_by(MemoryNode.node_count.desc()).limit(limit)
    events, thoughts = (
        fetch_memories(connection, group_id, newest.where(MemoryNode.type == kind))
        for kind in ("event", "thought")
    )
    return Related.model_construct(events=events, thoughts=thoughts)


def memories(
    group_id: str, most_chars: int | None = None, computed: Mapping[str, ColumnElement[Any]] | None = None
) -> Select[Any]:
    """The columns of a group's memories, with when and how often each was accessed.

    ``most_chars``: to which their texts are cut. ``computed``: columns of a single one (:data:`OF_ONE`).
    """
    texts = () if most_chars is None else CUT
    cut = {name: func.left(getattr(MemoryNode, name), most_chars) for name in texts}
    accesses = {name: _access(getattr(NodeAccess, name)) for name in ("last_accessed", "access_count")}
    expressions: dict[str, Any] = {**dict.fromkeys(OF_ONE), **cut, **accesses, **(computed or {})}
    return select(*columns(Memory, MemoryNode, **expressions)).where(MemoryNode.group_id == group_id)


def _access(column: InstrumentedAttribute[Any]) -> ColumnElement[Any]:
    """Read after the memories of a page are known, which a join is not."""
    of_memory = NodeAccess.group_id == MemoryNode.group_id, NodeAccess.node_id == MemoryNode.node_id
    return select(column).where(*of_memory).scalar_subquery()


def fetch_memories(connection: Connection, group_id: str, statement: Select[Any]) -> list[Memory]:
    """The memories that a statement of :func:`memories` selects.

    Where work is done for a user, ``filling`` has no ids of what others said in private.
    """
    rows = fetch(connection, Memory, statement)
    hidden = hidden_of(connection, group_id, (entry for row in rows for entry in row.filling))
    if not hidden:
        return rows
    return [
        row.model_copy(update={"filling": [entry for entry in row.filling if entry not in hidden]})
        for row in rows
    ]


def hidden_of(connection: Connection, group_id: str, filling: Iterable[Any]) -> list[str]:
    """The ids that are not visible to the current user."""
    evidence_ids = set(evidence_of(filling)) if current().user is not None else None
    if not evidence_ids:
        return []
    there = connection.execute(_SHOWN, {"group": group_id, "ids": list(evidence_ids)}).scalars()
    return list(map(str, evidence_ids.difference(there)))


def resting_on(
    connection: Connection, group_id: str, agent_id: str, node_id: UUID, limit: int
) -> list[MemoryBrief]:
    """Memories of the agent that name this one as evidence, newest first."""
    selection = select(*columns(MemoryBrief, MemoryNode)).where(
        MemoryNode.group_id == group_id,
        MemoryNode.agent_id == agent_id,
        MemoryNode.type != "chat",
        MemoryNode.filling.contains([str(node_id)]),
    )
    return fetch(connection, MemoryBrief, selection.order_by(MemoryNode.node_count.desc()).limit(limit))


def nearest(connection: Connection, group_id: str, node_id: UUID, limit: int) -> list[tuple[Memory, float]]:
    """The memories among the agent's ``LOOKED_AT`` newest whose vectors, by the same model, are nearest, with
    their cosines. Empty if it has no vector yet.
    """
    parameters = {"group": group_id, "id": node_id, "limit": limit, "looked_at": LOOKED_AT}
    similarities = {row.node_id: row.similarity for row in connection.execute(_NEAREST, parameters)}
    nodes = nodes_of(connection, group_id, list(similarities))
    return [(memory, similarities[memory.node_id]) for memory in nodes]


def in_session(
    connection: Connection, group_id: str, node_id: UUID, limit: int
) -> dict[str, list[MemoryBrief]]:
    """Up to ``limit`` memories right ``before`` and right ``after`` it in its session, in their order."""
    me, other = aliased(MemoryNode), MemoryNode
    same = and_(
        other.group_id == me.group_id, other.agent_id == me.agent_id, other.session_id == me.session_id
    )
    selection = (
        select(*columns(MemoryBrief, other))
        .join(me, same)
        .where(me.group_id == group_id, me.node_id == node_id)
        .limit(limit)
    )
    number, mine = other.node_count, me.node_count
    before = selection.where(number < mine, number >= mine - SESSION_REACH).order_by(number.desc())
    after = selection.where(number > mine, number <= mine + SESSION_REACH).order_by(number)
    return {
        "before": fetch(connection, MemoryBrief, before)[::-1],
        "after": fetch(connection, MemoryBrief, after),
    }


def archived(
    connection: Connection,
    group_id: str,
    *,
    agent_id: str | None,
    reason: str | None,
    before: tuple[datetime, UUID] | None,
    limit: int,
) -> list[Memory]:
    """Archived memories, the last to be archived first."""
    node = MemoryNode
    conditions = equal_if_given((node.agent_id, agent_id), (node.archived_reason, reason))
    selection = memories(group_id, MAX_ARCHIVED_CHARS).where(node.archived_at.is_not(None), *conditions)
    latest = behind(selection, before, node.archived_at, node.node_id).limit(limit)
    return fetch_memories(connection, group_id, latest)


def archived_counts(connection: Connection, group_id: str, limit: int) -> list[Record]:
    """Agents with archived memories: how many, and why. Most first."""
    return records(connection, _ARCHIVED_COUNTS, group=group_id, limit=limit)


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryFilter:
    """What a list has, by the names of the table of filters; what is None or empty counts for nothing."""

    words: str = ""
    agent_id: str | None = None
    types: Sequence[str] = ()
    kinds: Sequence[str] = ()
    session_id: str | None = None
    #: Only what comes from this user.
    from_user: str | None = None
    origins: Sequence[str] = ()
    min_trust: float | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None
    importance: float | None = None
    keywords: Sequence[str] = ()
    archived: Archived = "without"
    #: Only at this address or below it, and only with a match of this regular expression of PostgreSQL's.
    below: str | None = None
    pattern: str | None = None
    #: Also what newer memories superseded.
    superseded: bool = True
    #: What was known then.
    as_of: datetime | None = None
    without_vector: bool = False

    @property
    def filter_values(self) -> FilterValues:
        words = self.words.strip()[:MAX_WORDS_CHARS]
        values = {
            name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()
        }
        values |= {
            "keywords": [keyword.lower() for keyword in self.keywords],
            "include_archived": self.archived == "without",
            "archived": self.archived == "only",
            "superseded": not self.superseded,
            "words": ilike_pattern(words) if words else None,
            "terms": list(dict.fromkeys(tokens(words))),
        }
        return {
            name: value
            for name, value in values.items()
            if value not in (None, [], False) or name == "terms" or isinstance(value, float)
        }


def search(
    connection: Connection,
    group_id: str,
    memory_filter: MemoryFilter,
    place: Place | None,
    limit: int,
    *,
    most_chars: int | None = MAX_LISTED_CHARS,
    oldest_first: bool = False,
) -> list[Memory]:
    """Memories behind a place, newest first: an agent's by their numbers, a group's by when they happened.

    Words find a memory that has all their tokens, or their text as it was typed in its description. Without
    an agent every memory of the group is looked at: nothing is indexed across agents.
    """
    node = MemoryNode
    order = (node.node_count,) if memory_filter.agent_id is not None else (node.created_at, node.node_id)
    statement = memories(group_id, most_chars).where(clause(memory_filter.filter_values)).limit(limit)
    if place is not None:
        here, there = tuple_(*order), place if isinstance(place, tuple) else (place,)
        statement = statement.where(here > there if oldest_first else here < there)
    ordered = statement.order_by(*(column.asc() if oldest_first else column.desc() for column in order))
    return fetch_memories(connection, group_id, ordered)


def kind_counts(connection: Connection, group_id: str, memory_filter: MemoryFilter) -> dict[str, int]:
    """How many memories of each kind pass the filter, whose kinds do not count; the commonest first."""
    kind, count = func.coalesce(MemoryNode.kind, "memory"), func.count()
    which = clause(replace(memory_filter, kinds=()).filter_values)
    rows = connection.execute(
        select(kind, count)
        .where(MemoryNode.group_id == group_id, which)
        .group_by(kind)
        .order_by(count.desc(), kind)
    )
    return dict(rows.all())


def of_request(request: ListMemories) -> MemoryFilter:
    same = {
        field.name: getattr(request, field.name)
        for field in fields(MemoryFilter)
        if field.name in type(request).model_fields
    }
    return MemoryFilter(**{**same, "keywords": [request.keyword] if request.keyword else ()})


def page(
    connection: Connection, group_id: str, memory_filter: MemoryFilter, request: Paged, **options: Any
) -> Rows[Memory]:
    """The memories of a page. For ``options`` see :func:`search`.

    Raises:
        InvalidRequest: its cursor is not of this list.
    """
    numbered = memory_filter.agent_id is not None
    place: Place | None = request.place(BY_NUMBER) if numbered else request.place(BY_TIME)
    rows = search(connection, group_id, memory_filter, place, request.limit + 1, **options)
    return rows_page(
        rows, request.limit, lambda last: last.node_count if numbered else (last.created_at, last.node_id)
    )


_SHOWN = text("SELECT node_id FROM memory_nodes WHERE group_id = :group AND node_id = ANY(:ids)")
_NEAREST = text("""
    WITH me AS (
        SELECT agent_id, embedding, embedding_model FROM memory_nodes
        WHERE group_id = :group AND node_id = :id AND embedding IS NOT NULL
    ), newest AS MATERIALIZED (
        SELECT n.node_id, n.embedding FROM memory_nodes n JOIN me ON n.agent_id = me.agent_id
        WHERE n.group_id = :group AND n.embedding_model = me.embedding_model AND n.archived_at IS NULL
        AND n.node_id <> :id
        ORDER BY n.node_count DESC LIMIT :looked_at
    )
    SELECT newest.node_id, 1 - (newest.embedding <=> me.embedding) AS similarity FROM newest CROSS JOIN me
    WHERE vector_dims(newest.embedding) = vector_dims(me.embedding)
    ORDER BY newest.embedding <=> me.embedding LIMIT :limit
""")
_ARCHIVED_COUNTS = text("""
    SELECT agent_id, count(*) AS archived, count(*) FILTER (WHERE archived_reason = 'expired') AS expired,
        count(*) FILTER (WHERE archived_reason = 'faded') AS faded
    FROM memory_nodes WHERE group_id = :group AND archived_at IS NOT NULL
    GROUP BY agent_id ORDER BY archived DESC, agent_id LIMIT :limit
""")
