"""What the tables already hold of a batch's agents, looked up once for the whole batch: depths, twins, latest triples."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

from sqlalchemy import Connection, text

from jiyi.protocol.events import EventKey, MemoryObserved
from jiyi.settings import get_settings
from models.memory.agents import AgentName, AgentRow
from models.memory.event_rows import PreparedMemory

#: Subject, predicate, object.
Triple = tuple[str | None, str | None, str | None]


def dedupes(agent: AgentRow) -> bool:
    """Whether the agent wants each content once."""
    return (agent.settings.dedupe or get_settings().dedupe) == "exact"


def depths(connection: Connection, observed: Iterable[MemoryObserved]) -> dict[AgentName, dict[UUID, int]]:
    """Depths of the stored nodes that the batch's thoughts rest on, by agent: another's evidence counts for nothing."""
    wanted = {node_id for event in observed if event.payload.node_type == "thought" for node_id in event.payload.evidence}
    if not wanted:
        return {}
    depths_of: dict[AgentName, dict[UUID, int]] = {}
    for row in connection.execute(_DEPTHS, {"ids": list(wanted)}):
        depths_of.setdefault((row.group_id, row.agent_id), {})[row.node_id] = row.depth
    return depths_of


def twins(
    connection: Connection, wanted: Sequence[MemoryObserved], ready: Mapping[EventKey, PreparedMemory]
) -> dict[tuple[str, str, str, bytes], UUID]:
    """Stored nodes with the content of one of these, whose agents want each content once."""
    if not wanted:
        return {}
    parameters = {
        "groups": [event.group_id for event in wanted],
        "agents": [event.agent_id for event in wanted],
        "hashes": [ready[event.key].content_hash for event in wanted],
    }
    return {(row.group_id, row.agent_id, row.type, bytes(row.content_hash)): row.node_id for row in connection.execute(_TWINS, parameters)}


def latest(connection: Connection, observed: Iterable[MemoryObserved]) -> dict[AgentName, deque[tuple[Triple, UUID]]]:
    """The triples of the latest events, newest first, of the agents of which an event asks for it (``retention``)."""
    most: dict[AgentName, int] = {}
    for event in observed:
        if event.payload.retention:
            name = (event.group_id, event.agent_id)
            most[name] = max(most.get(name, 0), event.payload.retention)
    if not most:
        return {}
    triples: dict[AgentName, deque[tuple[Triple, UUID]]] = {name: deque() for name in most}
    parameters = {"groups": [name[0] for name in most], "agents": [name[1] for name in most], "counts": list(most.values())}
    for row in connection.execute(_LATEST, parameters):
        triples[row.group_id, row.agent_id].append(((row.subject, row.predicate, row.object), row.node_id))
    return triples


def addressed(
    connection: Connection, observed: Iterable[MemoryObserved], ready: Mapping[EventKey, PreparedMemory]
) -> dict[tuple[str, str, str, bytes], UUID]:
    """What is in force at the addresses of the batch's memories, by address and content."""
    wanted = [event for event in observed if event.payload.uri is not None and event.payload.kind != "session"]
    if not wanted:
        return {}
    parameters = {
        "groups": [event.group_id for event in wanted],
        "agents": [event.agent_id for event in wanted],
        "uris": [event.payload.uri for event in wanted],
        "hashes": [ready[event.key].content_hash for event in wanted],
    }
    rows = connection.execute(_ADDRESSED, parameters)
    return {(row.group_id, row.agent_id, row.uri, bytes(row.content_hash)): row.node_id for row in rows}


_ADDRESSED = text("""
    SELECT n.group_id, n.agent_id, n.uri, n.content_hash, n.node_id
    FROM memory_nodes n JOIN unnest(
        CAST(:groups AS text[]), CAST(:agents AS text[]), CAST(:uris AS text[]), CAST(:hashes AS bytea[])
    ) AS w(group_id, agent_id, uri, content_hash) USING (group_id, agent_id, uri, content_hash)
    WHERE n.kind <> 'session' AND n.superseded_at IS NULL
""")
_DEPTHS = text("SELECT group_id, agent_id, node_id, depth FROM memory_nodes WHERE node_id = ANY(:ids)")
_TWINS = text("""
    SELECT DISTINCT ON (n.group_id, n.agent_id, n.type, n.content_hash)
        n.group_id, n.agent_id, n.type, n.content_hash, n.node_id
    FROM memory_nodes n JOIN unnest(CAST(:groups AS text[]), CAST(:agents AS text[]), CAST(:hashes AS bytea[]))
        AS w(group_id, agent_id, content_hash) USING (group_id, agent_id, content_hash)
    WHERE n.archived_at IS NULL AND n.superseded_at IS NULL
    ORDER BY n.group_id, n.agent_id, n.type, n.content_hash, n.node_count
""")
_LATEST = text("""
    SELECT w.group_id, w.agent_id, n.node_id, n.subject, n.predicate, n.object
    FROM unnest(CAST(:groups AS text[]), CAST(:agents AS text[]), CAST(:counts AS int[])) AS w(group_id, agent_id, wanted)
    CROSS JOIN LATERAL (
        SELECT * FROM memory_nodes m WHERE m.group_id = w.group_id AND m.agent_id = w.agent_id AND m.type = 'event'
        ORDER BY m.type_count DESC LIMIT w.wanted
    ) AS n
    ORDER BY n.type_count DESC
""")
