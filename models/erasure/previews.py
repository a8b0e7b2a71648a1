"""What an erasure would take along, before anybody asks for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, text

from engine.erasure import Names
from jiyi.protocol.erasure import EXAMPLES, Erasure, ErasurePreview, ExampleMemory
from models.erasure import matching
from models.erasure.parts import parts


def preview(connection: Connection, group_id: str, request: Erasure) -> ErasurePreview:
    """What an erasure's steps would note. Looks through everything; changes nothing."""
    agents = matching.agents_of(connection, group_id, {}, request)
    parameters = {"group": group_id, "agents": agents}
    nodes = set(connection.execute(_NODES_OF, parameters).scalars()) | set(matching.known_nodes(connection, group_id, request.node_ids))
    events = set(connection.execute(_EVENTS_OF, parameters).scalars())
    letters = 0
    if request.kind == "person":
        names = Names(request.names)
        events |= {row.event_id for row in _all_events(connection, group_id) if names.found_in(row.content)}
        nodes |= {row.node_id for row in _all_nodes(connection, group_id) if names.found_in(row.content)}
        letters = sum(names.found_in(row.content) for row in connection.execute(_LETTERS, {"group": group_id}))
    nodes |= set(matching.known_nodes(connection, group_id, list(events)))
    directly = len(nodes)
    while more := set(connection.execute(_RESTING_ON, {"group": group_id, "ids": list(nodes | events)}).scalars()) - nodes:
        nodes |= more
    others = {name: ids for part in parts() for name, ids in part.preview(connection, group_id, request, agents, events).items()}
    gone = [*nodes, *(row_id for ids in others.values() for row_id in ids)]
    events |= set(connection.execute(_EVENTS_OF_NODES, {"group": group_id, "ids": gone}).scalars())
    counts = {
        "memories": len(nodes),
        "resting_on_others": len(nodes) - directly,
        "events": len(events),
        "dead_letters": letters,
        **{name: len(ids) for name, ids in others.items()},
    }
    return ErasurePreview(counts=counts, agents=agents, examples=_examples(connection, group_id, nodes))


def _examples(connection: Connection, group_id: str, node_ids: set[UUID]) -> list[ExampleMemory]:
    rows = connection.execute(_EXAMPLES, {"group": group_id, "ids": sorted(node_ids)[:EXAMPLES]}).mappings()
    return [ExampleMemory.model_validate(row) for row in rows]


def _all_nodes(connection: Connection, group_id: str) -> Iterator[Any]:
    after = ("", 0)
    while rows := matching.page_of_nodes(connection, group_id, after):
        yield from rows
        after = (rows[-1].agent_id, rows[-1].node_count)


def _all_events(connection: Connection, group_id: str) -> Iterator[Any]:
    after = 0
    while rows := matching.page_of_events(connection, group_id, after):
        yield from rows
        after = rows[-1].position


_NODES_OF = text("SELECT node_id FROM memory_nodes WHERE group_id = :group AND agent_id = ANY(:agents)")
_EVENTS_OF = text("SELECT event_id FROM events WHERE group_id = :group AND agent_id = ANY(:agents)")
_EVENTS_OF_NODES = text("""
    SELECT event_id FROM events WHERE group_id = :group AND (event_id = ANY(:ids) OR node_id = ANY(:ids))
""")
_LETTERS = text("""
    SELECT concat_ws(chr(1), reason, body, traceback) AS content FROM dead_letters WHERE group_id = :group OR group_id IS NULL
""")
_RESTING_ON = text("""
    SELECT n.node_id FROM memory_nodes n CROSS JOIN LATERAL jsonb_array_elements_text(n.filling) AS f(id)
        JOIN unnest(CAST(:ids AS uuid[])) AS noted(id) ON noted.id::text = f.id WHERE n.group_id = :group
    UNION SELECT n.node_id FROM memory_nodes n CROSS JOIN LATERAL jsonb_path_query(n.provenance, '$.rested_on[*]') AS f(id)
        JOIN unnest(CAST(:ids AS uuid[])) AS noted(id) ON noted.id::text = f.id #>> '{}' WHERE n.group_id = :group
    UNION SELECT n.node_id FROM memory_nodes n JOIN unnest(CAST(:ids AS uuid[])) AS noted(id)
        ON noted.id::text = n.provenance ->> 'reflection' WHERE n.group_id = :group
""")
_EXAMPLES = text("""
    SELECT node_id, agent_id, type, description FROM memory_nodes WHERE group_id = :group AND node_id = ANY(:ids)
    ORDER BY node_id
""")
