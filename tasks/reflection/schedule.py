"""The job that lets quiet agents reflect."""

from __future__ import annotations

from sqlalchemy import Connection

from models.queue import pending_work
from models.queue.wakeups import wake
from models.reflection import reflections
from models.reflection.reflections import REFLECT
from tasks.framework.jobs import Run, job

#: An agent is quiet when nothing new has been stored for so many minutes.
QUIET_MINUTES = 60

#: Agents that one transaction of the job sees to.
AGENTS_BATCH = 100


@job("reflect")
def reflect_when_quiet(run: Run) -> None:
    """Let agents reflect that have new events and have been left in peace for a while.

    Safe to repeat because an agent that owes a reflection is not found again.
    """
    quiet = QUIET_MINUTES * 60

    def owe_some(connection: Connection) -> int:
        agents = reflections.quiet_agents(connection, run.group_id, quiet, AGENTS_BATCH)
        for agent_key, group_id, agent_id in agents if not run.dry else ():
            reflections.ask(connection, group_id, agent_id, "schedule")
            pending_work.enqueue(connection, REFLECT, [(agent_key, group_id)])
        run.count(agents=len(agents))
        return 0 if run.dry else len(agents)

    run.repeat(owe_some, AGENTS_BATCH)
    if not run.dry:
        wake(REFLECT)
