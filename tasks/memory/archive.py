"""Jobs that archive: what has expired, and what has faded."""

from __future__ import annotations

from functools import partial

from sqlalchemy import Connection

from jiyi.settings import get_settings
from models.memory import archive as archiving
from models.memory.agents import AgentName, agent_settings
from models.memory.archive import Rules
from tasks.framework.jobs import Run, job

#: Memories archived by one transaction: each is a rewrite of a row with its vector, about a millisecond.
BATCH = 500
#: Agents that a dry run reports one by one.
MAX_SHOWN = 1_000
#: Only memories of less importance fade, of at most 10; one without importance counts as 0.
BELOW_POIGNANCY = 5


def _is_left_alone(connection: Connection, agent: AgentName) -> bool:
    """The ``stanford`` mode ranks as the original does, which expires nothing and archives nothing."""
    own = agent_settings(connection, *agent)
    return ((own and own.mode) or get_settings().mode) == "stanford"


@job("expire_thoughts")
def expire_thoughts(run: Run) -> None:
    """Archive memories past their expiry, as thoughts are after thirty days.

    Safe to repeat because what is archived is not found again.
    """
    with run.transaction() as connection:
        names = archiving.with_expired(connection, run.group_id, run.now)
    for agent in names:
        with run.transaction() as connection:
            if _is_left_alone(connection, agent):
                continue
            at = archiving.clock(connection, agent, run.now) or run.now
            if run.dry:
                run.count(agents=1, expired=archiving.count_expired(connection, agent, at))
                continue
        run.count(agents=1, expired=run.repeat(partial(archiving.archive_expired, agent=agent, at=at, limit=BATCH, actor=run.actor), BATCH))
        if run.time_is_up():
            return


@job("archive")
def archive(run: Run) -> None:
    """Archive memories that have faded: long not accessed, of little importance, and nothing rests on them.

    Safe to repeat because what is archived is not found again.
    """
    settings = get_settings()
    for agent in run.agents():
        with run.transaction() as connection:
            clock = archiving.clock(connection, agent, run.now)
            if clock is None or _is_left_alone(connection, agent):
                continue
            rules = Rules.of(clock, run.now, settings.archive_after_days, BELOW_POIGNANCY)
            verdicts = archiving.judge(connection, agent, rules) if run.dry else {}
        if run.dry:
            run.count(agents=1, **verdicts)
            if len(shown := run.summary.setdefault("by_agent", [])) < MAX_SHOWN:
                shown.append(
                    {
                        "group_id": agent[0],
                        "agent_id": agent[1],
                        "clock": clock.isoformat(),
                        "accessed_before": rules.accessed_before.isoformat(),
                        **verdicts,
                    }
                )
            continue
        run.count(
            agents=1, archived=run.repeat(partial(archiving.archive_faded, agent=agent, rules=rules, limit=BATCH, actor=run.actor), BATCH)
        )
