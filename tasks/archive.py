"""Scheduled jobs that archive what has expired or faded."""

from __future__ import annotations

from functools import partial

from sqlalchemy import Connection

from jiyi.settings import get_settings
from models.db.connection import unit_of_work
from models.memory import archive as archiving
from models.memory.agents import AgentName, agent_settings
from models.memory.archive import ArchiveRules
from tasks.framework.jobs import Run, job

#: Memories archived by one transaction: each is a rewrite of a row with its vector, about a millisecond.
BATCH = 500
#: Only memories of less importance fade, of at most 10; one without importance counts as 0.
BELOW_POIGNANCY = 5


def _is_left_alone(connection: Connection, agent: AgentName) -> bool:
    """The ``stanford`` mode ranks as the original does, which expires nothing and archives nothing."""
    own = agent_settings(connection, *agent)
    return ((own and own.mode) or get_settings().agent_defaults.mode) == "stanford"


@job("expire_thoughts")
def expire_thoughts(run: Run) -> None:
    """Archive memories past their expiry, as thoughts are after thirty days.

    Safe to repeat because what is archived is not found again.
    """
    with unit_of_work() as connection:
        names = archiving.with_expired(connection, run.group_id, run.now)
    for agent in names:
        with unit_of_work() as connection:
            if _is_left_alone(connection, agent):
                continue
            at = archiving.clock(connection, agent, run.now) or run.now
        step = partial(archiving.archive_expired, agent=agent, at=at, limit=BATCH, actor=run.actor)
        run.count(agents=1, expired=run.repeat(step, BATCH))
        if run.time_is_up():
            return


@job("archive")
def archive(run: Run) -> None:
    """Archive memories that have faded: long not accessed, of little importance, and nothing rests on them.

    Safe to repeat because what is archived is not found again.
    """
    settings = get_settings()
    for agent in run.agents():
        with unit_of_work() as connection:
            clock = archiving.clock(connection, agent, run.now)
            if clock is None or _is_left_alone(connection, agent):
                continue
            rules = ArchiveRules.of(clock, run.now, settings.archive_after_days, BELOW_POIGNANCY)
        step = partial(archiving.archive_faded, agent=agent, rules=rules, limit=BATCH, actor=run.actor)
        run.count(agents=1, archived=run.repeat(step, BATCH))
