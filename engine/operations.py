"""Every scheduled job: what it does, when it runs, its queue; and the arithmetic of its slots.

``tasks`` attach a function to each (``tasks.framework.jobs.runs``); a test checks that none is missing.

Until when somebody waits for what a thread computes: long computations look now and then, and end when nobody
does any more.

Log lines that hold no memories: what went wrong and where, not with which text.

Error messages quote values: a refused field, a row that the database rejected, what a vendor did not like.
The dead letters keep them, where an erasure finds them; nobody searches a log file. :func:`install` applies
to every line that this process logs, those of libraries included.
"""

from __future__ import annotations

import logging
import re
import time
import traceback
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from types import TracebackType
from typing import Any

from engine import subjects
from jiyi.errors import BrokerUnavailable, JiyiError, NoAnswer, NotFound, ProviderUnavailable, SettingsError
from jiyi.settings import PREFIX, Settings
from jiyi.text.translatable import Translatable, age

MINUTE, HOUR, DAY = 60, 3_600, 86_400
#: Hours from one digest of a group's quarantine to the next.
DIGEST_HOURS = 24 * 7
#: What the end of a setting's name says of its number.
UNITS = {"seconds": 1, "minutes": MINUTE, "hours": HOUR}
#: Properties of the settings that say how often a job runs → the setting that they follow from.
FOLLOWS_FROM = {"reconcile_seconds": "work_lease_seconds", "backup_hours": "backup_dir"}
#: Seconds after which a run stops on its own; the next run goes on.
TIME_LIMIT = 90
#: Seconds that a backup may take: minutes for millions of memories, and never for ever.
BACKUP_SECONDS = 3_600


@dataclass(frozen=True, slots=True)
class JobSchedule:
    """Every so many seconds, ``offset`` after midnight UTC. ``every`` 0: never."""

    every: float
    offset: float = 0.0

    def slot(self, now: datetime) -> datetime:
        since = now.timestamp() - self.offset
        return datetime.fromtimestamp(since // self.every * self.every + self.offset, UTC)

    @property
    def words(self) -> Translatable:
        """For people: ``every 5 min``, or at which hour."""
        if not self.every:
            return Translatable("off")
        if self.every == DAY:
            return Translatable("daily at %(hour)s UTC", hour=f"{self.offset / HOUR:02.0f}:00")
        return Translatable("every %(age)s", age=age(self.every))


@dataclass(frozen=True, slots=True)
class Job:
    name: str
    #: What it does, in a sentence.
    purpose: Translatable
    #: When it runs, unless ``setting`` names the property of the settings that says how often (``…_seconds``,
    #: ``…_minutes``, ``…_hours``; 0: off).
    when: JobSchedule = JobSchedule(0)
    setting: str = ""
    #: The Celery queue it runs in.
    queue: str = "upkeep"
    #: Seconds after which a run stops on its own, at the next batch.
    time_limit: float = TIME_LIMIT
    #: Two runs at a time do no harm, so none waits until it is known that another one died.
    overlaps: bool = False

    @property
    def task(self) -> str:
        return f"job.{self.name}"

    @property
    def variable(self) -> str:
        """The environment variable that says how often it runs, or whether."""
        return f"{PREFIX}{FOLLOWS_FROM.get(self.setting, 'jobs_off').upper()}"

    def schedule(self, settings: Settings) -> JobSchedule:
        """When it runs in this deployment. :class:`SettingsError` if ``JIYI_JOBS_OFF`` names a job that there
        is not.
        """
        if self.name in switched_off(settings):
            return JobSchedule(0)
        if not self.setting:
            return self.when
        return JobSchedule(float(getattr(settings, self.setting)) * UNITS[self.setting.rpartition("_")[2]])


def switched_off(settings: Settings) -> frozenset[str]:
    """Names of the jobs that do not run. :class:`SettingsError` for what is no job, or must always run."""
    names = frozenset(settings.jobs_off.replace(",", " ").split())
    switchable = {job.name for job in _ALL} - {"reconcile"}
    if wrong := names - switchable:
        allowed = ", ".join(sorted(switchable))
        raise SettingsError(
            f"JIYI_JOBS_OFF: {', '.join(sorted(wrong))} cannot be switched off; there are {allowed}"
        )
    return names


_ALL = (
    # After a crash of the database it must not take minutes until what was claimed then is woken up.
    Job(
        "reconcile",
        Translatable(
            "Wake overdue work, make dead letters of work that used up its attempts, write leftover access"
            " buffers."
        ),
        setting="reconcile_seconds",
        time_limit=60,
        overlaps=True,
    ),
    Job(
        "recompute_kw_strength",
        Translatable("Count keyword strengths again from the memories, and repair what differs."),
        JobSchedule(DAY, 4 * HOUR),
    ),
    Job(
        "prune",
        Translatable(
            "Delete old rows: events (if configured), closed dead letters, runs of jobs and graphs, steps of"
            " conversations."
        ),
        JobSchedule(DAY, 5 * HOUR),
    ),
    Job(
        "snapshot",
        Translatable("Count queues, pending work, dead letters and delays, for plots and for looking back."),
        JobSchedule(5 * MINUTE),
    ),
    Job(
        "expire_thoughts",
        Translatable("Archive memories past their expiry, as thoughts are after thirty days."),
        JobSchedule(HOUR),
    ),
    Job(
        "archive",
        Translatable(
            "Archive memories that have faded: long not accessed, of little importance, and nothing rests on"
            " them."
        ),
        JobSchedule(DAY, 3 * HOUR),
    ),
    Job(
        "backup",
        Translatable("Back the database up to a new file, and delete the oldest of too many."),
        setting="backup_hours",
        time_limit=BACKUP_SECONDS,
    ),
    Job(
        "verify_backup",
        Translatable("Check that there is a backup that is young enough and can be read."),
        JobSchedule(DAY, 6 * HOUR),
    ),
    Job(
        "reflect",
        Translatable("At night, by each agent's clock, let agents reflect that have new events."),
        JobSchedule(HOUR),
    ),
    Job(
        "warm",
        Translatable("Update the indexes of the agents that were queried last in a retrieval worker."),
        JobSchedule(5 * MINUTE),
        time_limit=30,
    ),
    Job(
        "digest",
        Translatable("Cluster and summarize each group's new quarantined entries."),
        JobSchedule(DIGEST_HOURS * HOUR),
        queue="reflection",
    ),
    Job(
        "scan_stores",
        Translatable("Look through the files of stores for what is new, changed or gone."),
        JobSchedule(5 * MINUTE),
    ),
    # Beside a scan under way: what one has taken the other passes over.
    Job(
        "due_scan",
        Translatable(
            "Enqueue the schedules and heartbeats that are due, and deliver alerts whose quiet hours are"
            " over."
        ),
        JobSchedule(MINUTE),
        queue="growth",
        time_limit=50,
        overlaps=True,
    ),
    Job(
        "expire_items",
        Translatable("Delete items past their time; they are not found any more before that."),
        JobSchedule(10 * MINUTE),
    ),
    Job(
        "expire_working_memory",
        Translatable("Remove expired entries from working memory."),
        JobSchedule(10 * MINUTE),
    ),
)
#: Every job there is, by name, but for those of subjects that are off.
JOBS: dict[str, Job] = {job.name: job for job in _ALL if subjects.of_job(job.name) is None}


def find(name: str) -> Job:
    """The job of that name. Raises :class:`NotFound`, or :class:`jiyi.errors.SwitchedOff`."""
    job = JOBS.get(name)
    if (subject := subjects.of_job(name)) is not None:
        raise subject.refusal
    if job is None:
        raise NotFound(f"job: no job {name!r}; there are {', '.join(sorted(JOBS))}")
    return job


#: On ``time.monotonic``'s clock; None: nobody has said.
_UNTIL: ContextVar[float | None] = ContextVar("_UNTIL", default=None)


@contextmanager
def deadline(until: float) -> Iterator[None]:
    """What is computed within is waited for until then, on ``time.monotonic``'s clock."""
    token = _UNTIL.set(until)
    try:
        yield
    finally:
        _UNTIL.reset(token)


def seconds_left() -> float | None:
    """Seconds until the caller stops waiting; below 0 it has stopped. None without a deadline."""
    until = _UNTIL.get()
    return None if until is None else until - time.monotonic()


def check_deadline() -> None:
    """Called between the steps of a long computation. Raises :class:`NoAnswer` if the caller has stopped
    waiting.
    """
    until = _UNTIL.get()
    if until is not None and time.monotonic() > until:
        raise NoAnswer(
            "the answer was not ready in time; send fewer or shorter texts, or allow a longer timeout"
        )


#: Packages whose errors are about connections: what they say is the operator's, and needed.
ABOUT_CONNECTIONS = {"amqp", "kombu", "redis", "socket", "ssl"}
#: Errors that say what is to be done, in words of our own.
OURS = (BrokerUnavailable, NoAnswer, SettingsError)
#: Ids of things: no words of anybody.
_ID = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
_FIELD = re.compile(r"[a-z][a-z0-9_]*(?:\.(?:[a-z][a-z0-9_]*|\d+))*")

#: The logger by which Celery reports a failed task, with the error's message as text.
CELERY_TRACE = "celery.app.trace"
_INSTALLED = "jiyi_is_discreet"


def install() -> None:
    """From now on no line of this process's log quotes the words of an error. May be called again."""
    factory = logging.getLogRecordFactory()
    if getattr(factory, _INSTALLED, False):
        return

    def make(*args: Any, **kwargs: Any) -> logging.LogRecord:
        return _redacted(factory(*args, **kwargs))

    setattr(make, _INSTALLED, True)
    logging.setLogRecordFactory(make)


def _redacted(record: logging.LogRecord) -> logging.LogRecord:
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(record.args, Mapping):
        record.args = {name: _shown(value) for name, value in record.args.items()}
        if error is not None and record.name.startswith(CELERY_TRACE):
            record.args |= {"exc": caller_of(error), "traceback": trace_of(error)}
    elif record.args:
        record.args = tuple(_shown(value) for value in record.args)
    message: object = record.msg  # whatever was logged
    if isinstance(message, BaseException):
        record.msg, record.args = "%s", (caller_of(message),)
    if error is not None:
        record.exc_text = trace_of(error)  # what formatters take before they make their own
    return record


def _shown(value: Any) -> Any:
    return caller_of(value) if isinstance(value, BaseException) else value


def caller_of(error: BaseException) -> str:
    """What may be logged of an error: its message if that quotes nobody's data, else its class with ids and a
    code.
    """
    kind = type(error)
    if isinstance(error, ProviderUnavailable):
        return f"{error.code} ({error.status})" if error.status is not None else str(error)
    if isinstance(error, OURS) or kind.__module__.partition(".")[0] in ABOUT_CONNECTIONS:
        return str(error)
    if isinstance(error, OSError):
        return f"{kind.__name__}: {error.strerror}" if error.strerror else kind.__name__
    original = getattr(error, "orig", None) or error
    if type(original).__name__ == "OperationalError" and getattr(original, "sqlstate", "") is None:
        # From psycopg, of a connection that broke or was not made.
        return str(original).strip().partition("\n")[0]
    name = error.code if isinstance(error, JiyiError) else kind.__name__
    state = getattr(original, "sqlstate", None)
    ids = list(dict.fromkeys(_ID.findall(str(error))))[:5]
    notes = [*([f"SQLSTATE {state}"] if state else []), *ids]
    return f"{name} ({', '.join(notes)})" if notes else name


def trace_of(error: BaseException) -> str:
    """The traceback of an error and of its causes; of each message only what :func:`caller_of` returns."""
    lines: list[str] = []
    visited: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in visited:
        visited.add(id(current))
        lines = [*_frames(current.__traceback__), f"{type(current).__name__}: {caller_of(current)}", *lines]
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)
        if current is not None:
            lines.insert(0, "which led to:")
    return "\n".join(lines)


def _frames(trace: TracebackType | None) -> Iterable[str]:
    return [
        f'  File "{frame.filename}", line {frame.lineno}, in {frame.name}'
        for frame in traceback.extract_tb(trace)
    ]


def fields_in(reason: str, allowed: Iterable[str]) -> str:
    """The names of wrong fields in the sentences of a refusal, as far as they are names that we gave."""
    names = set(allowed)
    secrets = []
    for sentence in reason.split("; "):
        field = sentence.partition(":")[0]
        if _FIELD.fullmatch(field) and all(part in names or part.isdigit() for part in field.split(".")):
            secrets.append(field)
    return ", ".join(dict.fromkeys(secrets)) or "the message as a whole"
