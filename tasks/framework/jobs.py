"""How scheduled jobs run. The catalogue of them is ``engine.operations``.

A job is a function of a :class:`Run`. Its runs are rows of ``job_ticks``: beat asks often, and the row of a
slot says whether there is anything to do. So two beats, a beat that was down, and a clock that goes backwards
are harmless; a run that fails, dies or does not get through says so in its row and is taken up again.

A run works for the whole service, or for the one group that it was asked to see to.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NotRequired, TypedDict

from celery import shared_task
from sqlalchemy import Connection

from engine.operations import JOBS, Job
from jiyi.errors import JiyiError, NotAllowed
from jiyi.settings import Settings, get_settings
from models.db.connection import database_time, unit_of_work
from models.db.scope import for_groups, whole_service
from models.memory import agents
from models.memory.agents import AgentName
from models.operations import meters
from models.queue import ticks
from models.queue.ticks import MORE, JobAttempt
from tasks.framework import answering
from tasks.framework.renewal import lease_renewer

log = logging.getLogger(__name__)

#: Seconds. Beat forgets at a restart what it sent: so it asks for rare jobs as often as this.
LOOK_SECONDS = 60
#: Seconds after its time limit at which a run that hangs counts as dead: no statement takes longer.
GRACE = 75
#: … and at which Celery interrupts it.
SOFT_GRACE = 30
#: Agents read at once.
AGENTS_PAGE = 500


class BeatEntry(TypedDict):
    """What Celery's beat sends, and how often in seconds."""

    task: str
    schedule: float
    args: NotRequired[tuple[str, ...]]
    options: dict[str, str | float | bool]


@dataclass(slots=True)
class Run:
    job: str
    now: datetime
    #: Only this group; None: the whole service.
    group_id: str | None = None
    summary: dict[str, Any] = field(default_factory=dict)
    #: Where this slot's last run stopped because its time was up.
    place: Any = None
    #: By ``time.monotonic``.
    deadline: float = float("inf")

    @property
    def actor(self) -> str:
        return f"job:{self.job}"

    def scope(self) -> AbstractContextManager[None]:
        return whole_service() if self.group_id is None else for_groups(self.group_id)

    def count(self, **numbers: float) -> None:
        for name, number in numbers.items():
            self.summary[name] = self.summary.get(name, 0) + number

    def repeat(self, step: Callable[[Connection], int], size: int) -> int:
        """Call ``step``, in a transaction of its own each, until it did less than ``size`` or time is up."""
        total = 0
        while True:
            with unit_of_work() as connection:
                count = step(connection)
            total += count
            if count < size or self.time_is_up():
                return total

    def agents(self) -> Iterator[AgentName]:
        """All agents, one after the other, from the one on at which this slot's last run stopped."""
        after: AgentName = (self.place[0], self.place[1]) if isinstance(self.place, list) else ("", "")
        while True:
            with unit_of_work() as connection:
                page = agents.next_agents(connection, self.group_id, after, AGENTS_PAGE)
            for agent in page:
                yield agent
                if self.summary.pop(MORE, None) is None:  # else it stopped in the middle of this one
                    after = agent
                if self.time_is_up():
                    self.summary[MORE] = list(after)
                    return
            if len(page) < AGENTS_PAGE:
                return

    def time_is_up(self) -> bool:
        """Whether to stop here; notes that there is more, so that the next look goes on."""
        if time.monotonic() <= self.deadline:
            return False
        self.summary.setdefault(MORE, True)
        return True


JobFunction = Callable[[Run], None]
#: What the jobs of the catalogue do, by name.
FUNCTIONS: dict[str, JobFunction] = {}


def job(name: str) -> Callable[[JobFunction], JobFunction]:
    """Make a function what the job ``name`` of the catalogue does, with the Celery task that runs it.

    Its docstring says why it is safe to repeat. It has to write in small pieces, and record what it changes
    of memories (``models.accounts.audit``).
    """
    definition = JOBS[name]

    def register(function: JobFunction) -> JobFunction:
        FUNCTIONS[name] = function
        limit = definition.time_limit

        @shared_task(
            name=definition.task,
            bind=True,
            time_limit=limit + GRACE,
            soft_time_limit=limit + SOFT_GRACE,
            ignore_result=True,
        )
        def tick(self: Any, slot: str | None = None, group_id: str | None = None) -> None:
            """One tick. Safe to repeat because a slot's row lets it run once.

            A run beside the schedule, or for one group, is the service's own to send (action ``jobs.run``):
            else anybody could use up the job's slots.
            """
            if slot is not None or group_id is not None:
                try:
                    answering.caller(
                        self.request, definition.task, get_settings().group, "operator", changes=False
                    )
                except NotAllowed as error:
                    log.warning("job %s was not run: %s", definition.name, error)
                    return
            if perform(definition, None if slot is None else datetime.fromisoformat(slot), group_id) is None:
                meters.idling()

        return function

    return register


def perform(definition: Job, slot: datetime | None = None, group_id: str | None = None) -> JobAttempt | None:
    """Run a job, unless this slot had its run. ``slot``: of a run requested beside the schedule."""
    schedule = definition.schedule(get_settings())
    if slot is None and not schedule.every:
        return None
    with unit_of_work() as connection:
        now = database_time(connection)
        alone = slot is None and not definition.overlaps
        tick = ticks.begin(
            connection,
            definition.name,
            slot or schedule.slot(now),
            get_settings().work_lease_seconds,
            alone=alone,
        )
    if tick is None:
        return None
    counted = {name: value for name, value in tick.summary.items() if name != MORE}
    run = Run(
        definition.name,
        now,
        group_id=group_id,
        summary=counted,
        place=tick.summary.get(MORE),
        deadline=time.monotonic() + definition.time_limit,
    )
    with lease_renewer.holding(_TickClaim(tick, time.monotonic() + definition.time_limit + GRACE)):
        error = _attempt(definition, run)
    with unit_of_work() as connection:
        ticks.end(connection, tick, run.summary, error)
    return tick


@dataclass(slots=True)
class _TickClaim:
    """A run under way: its row says that it is not dead."""

    tick: JobAttempt
    until: float

    def renew(self) -> None:
        with unit_of_work() as connection:
            ticks.renew(connection, self.tick, get_settings().work_lease_seconds)


def _attempt(definition: Job, run: Run) -> str | None:
    """None, or a sentence about what went wrong."""
    try:
        with run.scope():
            FUNCTIONS[definition.name](run)
    except JiyiError as error:  # its message says what is wrong
        meters.failing()
        log.warning("job %s failed: %s", definition.name, error)
        return str(error)
    except Exception as error:  # whatever it was is written down, seen, and tried again
        meters.failing()
        log.exception("job %s failed", definition.name)
        cause = getattr(error, "orig", None) or error
        return f"{type(cause).__name__}: {str(cause).strip().partition(chr(10))[0]}"
    return None


def beat_schedule(settings: Settings) -> dict[str, BeatEntry]:
    """What beat sends: a look for each job that is switched on. Most find that their slot had its run."""
    schedules = {definition: definition.schedule(settings) for definition in JOBS.values()}
    return {
        definition.name: {
            "task": definition.task,
            "schedule": min(schedule.every, LOOK_SECONDS),
            "options": {"queue": definition.queue, "expires": min(schedule.every, LOOK_SECONDS)},
        }
        for definition, schedule in schedules.items()
        if schedule.every
    }
