"""What an erasure is about: memories, events and reflections, noted by their ids, or previewed.

Names are looked for in Python, as in the proof (:class:`engine.erasure.Names`): PostgreSQL's words and
lower case depend on the database's collation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    ColumnElement,
    Connection,
    Subquery,
    Uuid,
    any_,
    bindparam,
    func,
    literal,
    select,
    text,
    union,
)
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import InstrumentedAttribute

from engine.erasure import Names, is_hash_of
from jiyi.protocol.erasure import EXAMPLES, Erasure, ErasurePreview, ExampleMemory
from models.erasure.parts import parts
from models.erasure.progress import ErasureTarget, name_key
from models.erasure.tables import ErasingId
from models.memory.tables import Agent, MemoryNode, StoredEventRow
from models.reflection.tables import ReflectionRow

#: Rows searched in one transaction.
PAGE = 5_000
#: Ids within texts.
UUIDS = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
#: What an agent has of its own.
_OF_AGENTS = (MemoryNode.node_id, StoredEventRow.event_id, ReflectionRow.reflection_id)
#: A table's column of ids.
Key = InstrumentedAttribute[UUID]


def is_agent(connection: Connection, group_id: str, agent_id: str) -> bool:
    everyone = _everyone()
    statement = select(everyone.c.agent_id).where(everyone.c.agent_id == bindparam("agent"))
    return (
        connection.execute(statement, {"group": group_id, "agent": agent_id}).scalar_one_or_none() is not None
    )


def known_nodes(connection: Connection, group_id: str, node_ids: Sequence[UUID]) -> list[UUID]:
    return list(connection.execute(_KNOWN_NODES, {"group": group_id, "ids": list(node_ids)}).scalars())


def agents_of(
    connection: Connection, group_id: str, what: ErasureTarget, request: Erasure | None
) -> list[str]:
    """Agents that go as a whole: the one that is named, or those whose name has the person's in it."""
    names = _everyone().c.agent_id
    ordered = select(names).order_by(names)
    everyone: list[str] = list(connection.execute(ordered, {"group": group_id}).scalars())
    if request is None:  # only the hash is known
        hashes, key = what.get("names", []), name_key()
        return [agent_id for agent_id in everyone if any(is_hash_of(one, agent_id, key) for one in hashes)]
    if request.agent_id is not None:
        return [request.agent_id]
    if request.kind != "person":
        return []
    person = Names(request.names)
    return [agent_id for agent_id in everyone if person.found_in(agent_id)]


def note_agent(connection: Connection, erasure_id: UUID, group_id: str, agent_id: str) -> int:
    """All memories, events and reflections of an agent. Safe to repeat because an id is noted once."""
    connection.execute(_LONG_STATEMENT_TIMEOUT)
    keys = (*_OF_AGENTS, *(key for part in parts() for key in part.of_agents))
    return note_agent_id(connection, erasure_id, group_id, agent_id, *keys)


def note_nodes(connection: Connection, erasure_id: UUID, group_id: str, node_ids: Sequence[UUID]) -> int:
    """Those of the memories that are the group's."""
    return note_ids(connection, erasure_id, group_id, MemoryNode.node_id, node_ids)


def note_events(
    connection: Connection, erasure_id: UUID, group_id: str, names: Names, after: int
) -> int | None:
    """Note those events of the next page that name the person; the last position, None at the end."""
    rows = page_of_events(connection, group_id, after)
    event_ids = [row.event_id for row in rows if names.found_in(row.content)]
    note_ids(connection, erasure_id, group_id, StoredEventRow.event_id, event_ids)
    return rows[-1].position if len(rows) == PAGE else None


def note_named(
    connection: Connection, erasure_id: UUID, group_id: str, names: Names, after: tuple[str, int]
) -> tuple[str, int] | None:
    """Note those memories of the next page that name the person; where it ends, None at the end."""
    rows = page_of_nodes(connection, group_id, after)
    note_nodes(connection, erasure_id, group_id, [row.node_id for row in rows if names.found_in(row.content)])
    return (rows[-1].agent_id, rows[-1].node_count) if len(rows) == PAGE else None


def note_resting(connection: Connection, erasure_id: UUID, group_id: str) -> int:
    """What rests on something noted, one level; call until 0: evidence, and what reflections led to."""
    connection.execute(_LONG_STATEMENT_TIMEOUT)
    noted = connection.execute(_NOTE_RESTING, {"erasure": erasure_id, "group": group_id}).rowcount
    return noted + sum(part.note_resting(connection, erasure_id, group_id) for part in parts())


def page_of_nodes(connection: Connection, group_id: str, after: tuple[str, int]) -> list[Any]:
    """The group's next memories after an agent's node_count, with all their texts."""
    parameters = {"group": group_id, "agent": after[0], "count": after[1], "limit": PAGE}
    return list(connection.execute(_NODES, parameters).all())


def page_of_events(connection: Connection, group_id: str, after: int) -> list[Any]:
    """The group's next events after a position, with all their texts."""
    return list(connection.execute(_EVENTS, {"group": group_id, "after": after, "limit": PAGE}).all())


def _everyone() -> Subquery:
    """Agents of the group ``:group``, with or without memories."""
    own = select(Agent.agent_id).where(Agent.group_id == bindparam("group"))
    return union(own, *(names for part in parts() for names in part.agents)).subquery("everyone")


def note_ids(connection: Connection, erasure_id: UUID, group_id: str, key: Key, ids: Sequence[UUID]) -> int:
    """Note the group's rows of these ids; returns how many are new."""
    return _note(connection, erasure_id, group_id, key, key == any_(literal(list(ids), ARRAY(Uuid))))


def note_agent_id(connection: Connection, erasure_id: UUID, group_id: str, agent_id: str, *keys: Key) -> int:
    """Note all rows of an agent in these keys' tables; returns how many are new."""
    return sum(_note(connection, erasure_id, group_id, key, key.class_.agent_id == agent_id) for key in keys)


def _note(
    connection: Connection, erasure_id: UUID, group_id: str, key: Key, condition: ColumnElement[bool]
) -> int:
    table: Any = key.class_
    ids = select(literal(erasure_id, Uuid), key, table.group_id, func.coalesce(table.agent_id, "")).where(
        table.group_id == group_id, condition
    )
    statement = (
        insert(ErasingId)
        .from_select(["erasure_id", "subject_id", "group_id", "agent_id"], ids)
        .on_conflict_do_nothing()
    )
    return connection.execute(statement.execution_options(preserve_rowcount=True)).rowcount


def preview(connection: Connection, group_id: str, request: Erasure) -> ErasurePreview:
    """What an erasure's steps would note. Looks through everything; changes nothing."""
    agents = agents_of(connection, group_id, {}, request)
    parameters = {"group": group_id, "agents": agents}
    nodes = set(connection.execute(_NODES_OF, parameters).scalars())
    nodes.update(known_nodes(connection, group_id, request.node_ids))
    events = set(connection.execute(_EVENTS_OF, parameters).scalars())
    letters = 0
    if request.kind == "person":
        names = Names(request.names)
        events |= {row.event_id for row in _all_events(connection, group_id) if names.found_in(row.content)}
        nodes |= {row.node_id for row in _all_nodes(connection, group_id) if names.found_in(row.content)}
        rows = connection.execute(_LETTERS, {"group": group_id})
        letters = sum(names.found_in(row.content) for row in rows)
    nodes.update(known_nodes(connection, group_id, list(events)))
    directly, before = len(nodes), -1
    while before != len(nodes):
        before, these = len(nodes), {"group": group_id, "ids": list(nodes | events)}
        nodes.update(connection.execute(_RESTING_ON, these).scalars())
    others = {
        name: ids
        for part in parts()
        for name, ids in part.preview(connection, group_id, request, agents, events).items()
    }
    gone = [*nodes, *(row_id for ids in others.values() for row_id in ids)]
    events |= set(connection.execute(_EVENTS_OF_NODES, {"group": group_id, "ids": gone}).scalars())
    counts = {
        "memories": len(nodes),
        "resting_on_others": len(nodes) - directly,
        "events": len(events),
        "dead_letters": letters,
        **{name: len(ids) for name, ids in others.items()},
    }
    remembered = connection.execute(
        _EXAMPLES, {"group": group_id, "ids": sorted(nodes)[:EXAMPLES]}
    ).mappings()
    examples = [ExampleMemory.model_validate(row) for row in remembered]
    return ErasurePreview(counts=counts, agents=agents, examples=examples)


def _all_nodes(connection: Connection, group_id: str) -> Iterator[Any]:
    after = ("", 0)
    while rows := page_of_nodes(connection, group_id, after):
        yield from rows
        after = (rows[-1].agent_id, rows[-1].node_count)


def _all_events(connection: Connection, group_id: str) -> Iterator[Any]:
    after = 0
    while rows := page_of_events(connection, group_id, after):
        yield from rows
        after = rows[-1].position


#: A million rows take seconds, on a busy server minutes.
_LONG_STATEMENT_TIMEOUT = text("SET LOCAL statement_timeout = '30min'")
_KNOWN_NODES = text("SELECT node_id FROM memory_nodes WHERE group_id = :group AND node_id = ANY(:ids)")
# No name is found across the character chr(1).
_NODES = text("""
    SELECT node_id, agent_id, node_count, concat_ws(chr(1), agent_id, session_id, subject, predicate, object,
    description,
        embedding_key, array_to_string(keywords, chr(1)), filling::text, provenance::text, uri, abstract,
        overview, user_id) AS content
    FROM memory_nodes WHERE group_id = :group AND (agent_id, node_count) > (:agent, :count)
    ORDER BY agent_id, node_count LIMIT :limit
""")
_EVENTS = text("""
    SELECT event_id, position, concat_ws(chr(1), agent_id, session_id, correlation_id, payload::text) AS
    content
    FROM events WHERE group_id = :group AND position > :after AND outcome <> 'erased' ORDER BY position
    LIMIT :limit
""")
# An event's node has its id. That of a repetition goes by what it says itself.
_NOTE_RESTING = text("""
    WITH noted AS (SELECT subject_id FROM erasing_ids WHERE erasure_id = :erasure), found AS (
        SELECT n.node_id FROM memory_nodes n JOIN noted ON n.node_id = noted.subject_id
        WHERE n.group_id = :group
        UNION SELECT n.node_id FROM memory_nodes n CROSS JOIN LATERAL jsonb_array_elements_text(n.filling) AS
        f(id)
            JOIN noted ON noted.subject_id::text = f.id WHERE n.group_id = :group
        UNION SELECT n.node_id FROM memory_nodes n CROSS JOIN LATERAL jsonb_path_query(n.provenance,
        '$.rested_on[*]') AS f(id)
            JOIN noted ON noted.subject_id::text = f.id #>> '{}' WHERE n.group_id = :group
        UNION SELECT n.node_id FROM memory_nodes n JOIN noted ON noted.subject_id::text = n.provenance ->>
        'reflection'
            JOIN reflections r ON r.reflection_id = noted.subject_id AND r.group_id = n.group_id
            WHERE n.group_id = :group
    )
    INSERT INTO erasing_ids (erasure_id, subject_id, group_id, agent_id)
    SELECT :erasure, n.node_id, :group, n.agent_id FROM memory_nodes n JOIN found USING (node_id)
    WHERE n.group_id = :group ON CONFLICT DO NOTHING
""")
_NODES_OF = text("SELECT node_id FROM memory_nodes WHERE group_id = :group AND agent_id = ANY(:agents)")
_EVENTS_OF = text("SELECT event_id FROM events WHERE group_id = :group AND agent_id = ANY(:agents)")
_EVENTS_OF_NODES = text("""
    SELECT event_id FROM events WHERE group_id = :group AND (event_id = ANY(:ids) OR node_id = ANY(:ids))
""")
_LETTERS = text("""
    SELECT concat_ws(chr(1), reason, body, traceback) AS content FROM dead_letters WHERE group_id = :group
    OR group_id IS NULL
""")
_RESTING_ON = text("""
    SELECT n.node_id FROM memory_nodes n CROSS JOIN LATERAL jsonb_array_elements_text(n.filling) AS f(id)
        JOIN unnest(CAST(:ids AS uuid[])) AS noted(id) ON noted.id::text = f.id WHERE n.group_id = :group
    UNION SELECT n.node_id FROM memory_nodes n CROSS JOIN LATERAL jsonb_path_query(n.provenance,
    '$.rested_on[*]') AS f(id)
        JOIN unnest(CAST(:ids AS uuid[])) AS noted(id) ON noted.id::text = f.id #>> '{}'
        WHERE n.group_id = :group
    UNION SELECT n.node_id FROM memory_nodes n JOIN unnest(CAST(:ids AS uuid[])) AS noted(id)
        ON noted.id::text = n.provenance ->> 'reflection' WHERE n.group_id = :group
""")
_EXAMPLES = text("""
    SELECT node_id, agent_id, type, description FROM memory_nodes WHERE group_id = :group
    AND node_id = ANY(:ids)
    ORDER BY node_id
""")
