"""What an erasure is about: memories, events and reflections, noted by their ids, or previewed.

Names are looked for in Python, as in the proof (:class:`engine.erasure.Names`): PostgreSQL's words and
lower case depend on the database's collation.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    ColumnElement,
    Connection,
    Subquery,
    Uuid,
    and_,
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
from uuid6 import uuid7

from engine.erasure import Names, is_hash_of
from jiyi.protocol.erasure import EXAMPLES, Erasure, ErasurePreview, ExampleMemory
from models.db.rows import columns, fetch
from models.erasure.parts import parts
from models.erasure.progress import ErasureTarget, name_key
from models.erasure.tables import ErasingId, ErasureRow
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
    """What an erasure's steps note: they are done, counted and undone."""
    agents, erasure_id = agents_of(connection, group_id, {}, request), uuid7()
    whose = (erasure_id, group_id)
    row = {"erasure_id": erasure_id, "group_id": group_id, "kind": request.kind, "what": {}}
    with connection.begin_nested() as trial:
        connection.execute(insert(ErasureRow).values(**row, requested_by=""))
        for agent_id in agents:
            note_agent(connection, *whose, agent_id)
        note_nodes(connection, *whose, request.node_ids)
        letters = 0
        if request.kind == "person":
            names = Names(request.names)
            position: int | None = 0
            while position is not None:
                position = note_events(connection, *whose, names, position)
            place: tuple[str, int] | None = ("", 0)
            while place is not None:
                place = note_named(connection, *whose, names, place)
            for part in parts():
                part.note_named(connection, *whose, names)
            rows = connection.execute(_LETTERS, {"group": group_id})
            letters = sum(names.found_in(row.content) for row in rows)
        directly = _noted(connection, erasure_id, MemoryNode.node_id)
        while note_resting(connection, *whose):
            pass
        memories = _noted(connection, erasure_id, MemoryNode.node_id)
        counts = {
            "memories": memories,
            "resting_on_others": memories - directly,
            "events": connection.execute(_EVENTS_NOTED, {"erasure": erasure_id}).scalar_one(),
            "dead_letters": letters,
            **{
                name: _noted(connection, erasure_id, key)
                for part in parts()
                for name, key in part.previewed.items()
            },
        }
        noted = select(*columns(ExampleMemory, MemoryNode)).join(ErasingId, _is_noted(MemoryNode.node_id))
        first = noted.where(ErasingId.erasure_id == erasure_id).order_by(MemoryNode.node_id).limit(EXAMPLES)
        examples = fetch(connection, ExampleMemory, first)
        trial.rollback()
    return ErasurePreview(counts=counts, agents=agents, examples=examples)


def _is_noted(key: Key) -> ColumnElement[bool]:
    return and_(ErasingId.subject_id == key, ErasingId.group_id == key.class_.group_id)


def _noted(connection: Connection, erasure_id: UUID, key: Key) -> int:
    """How many rows of a table an erasure has noted."""
    noted = select(func.count()).select_from(ErasingId).join(key.class_, _is_noted(key))
    return int(connection.execute(noted.where(ErasingId.erasure_id == erasure_id)).scalar_one())


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
_EVENTS_NOTED = text("""
    SELECT count(DISTINCT e.event_id) FROM erasing_ids n
    JOIN events e ON e.group_id = n.group_id AND (e.event_id = n.subject_id OR e.node_id = n.subject_id)
    WHERE n.erasure_id = :erasure
""")
_LETTERS = text("""
    SELECT concat_ws(chr(1), reason, body, traceback) AS content FROM dead_letters WHERE group_id = :group
    OR group_id IS NULL
""")
