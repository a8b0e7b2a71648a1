"""What calls for a reflection beside importance: a request, the schedule. And what one can ask about reflections."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from sqlalchemy import Connection

from jiyi.errors import NotFound
from jiyi.protocol import reflection as ask
from jiyi.settings import get_settings
from models.db.connection import unit_of_work
from models.memory import agents
from models.queue import pending_work
from models.reflection import reasons, reflections
from models.reflection.reflections import REFLECT
from tasks.framework.inspection import inspects
from tasks.framework.jobs import Run, job
from tasks.framework.work import wake

#: Agents that one transaction of the job sees to.
AGENTS_BATCH = 100


@inspects("reflect", ask.ReflectQuery)
def reflect_now(query: ask.ReflectQuery) -> dict[str, UUID]:
    """Safe to repeat because an agent has one open reflection at most."""
    with unit_of_work() as connection:
        agent_key = agents.key_of(connection, query.group_id, query.agent_id)
        if agent_key is None:
            raise NotFound(f"agent_id: no agent {query.agent_id!r} in the group {query.group_id!r}; see `jiyi agents`")
        reflection_id = _owe(connection, agent_key, query.group_id, query.agent_id, "request")
    wake(REFLECT)
    return {"reflection_id": reflection_id}


@inspects("reflection", ask.ReflectionQuery)
def reflection(query: ask.ReflectionQuery) -> dict[str, Any]:
    """Safe to repeat because it only reads."""
    with unit_of_work() as connection:
        found = reflections.found(connection, query.group_id, query.reflection_id)
    if found is None:
        raise NotFound(f"reflection_id: no reflection {query.reflection_id} in the group {query.group_id!r}")
    return found


@inspects("why", ask.WhyQuery)
def why(query: ask.WhyQuery) -> dict[str, Any]:
    """Safe to repeat because it only reads."""
    with unit_of_work() as connection:
        found = reasons.why(connection, query.group_id, query.node_id, query.depth, query.limit)
    if query.node_id not in found["nodes"]:
        raise NotFound(f"node_id: no memory {query.node_id} in the group {query.group_id!r}")
    return {**found, "nodes": {str(node_id): node for node_id, node in found["nodes"].items()}}


@job("reflect")
def reflect_when_quiet(run: Run) -> None:
    """Let agents reflect that have new events and have been left in peace for a while.

    Safe to repeat because an agent that owes a reflection is not found again.
    """
    quiet = get_settings().reflect_quiet_minutes * 60

    def owe_some(connection: Connection) -> int:
        found = reflections.quiet_agents(connection, run.group_id, quiet, AGENTS_BATCH)
        for agent_key, group_id, agent_id in found if not run.dry else ():
            _owe(connection, agent_key, group_id, agent_id, "schedule")
        run.count(agents=len(found))
        return 0 if run.dry else len(found)

    run.repeat(owe_some, AGENTS_BATCH)
    if not run.dry:
        wake(REFLECT)


def _owe(connection: Connection, agent_key: UUID, group_id: str, agent_id: str, trigger: str) -> UUID:
    reflection_id = reflections.ask(connection, group_id, agent_id, trigger)
    pending_work.owe(connection, REFLECT, [(agent_key, group_id)])
    return reflection_id
