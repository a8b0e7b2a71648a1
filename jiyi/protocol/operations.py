"""Operating the service from outside: pending work, dead letters, scheduled jobs, counts, models."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, Self
from uuid import UUID

from pydantic import AwareDatetime, BaseModel, Field, model_validator

from jiyi.protocol.base import Paged, Request

#: Most dead letters that one request names, or closes.
MAX_RESOLVED = 1_000
#: Characters that a list shows of a refused event.
MAX_BODY_CHARS = 2_000

JobName = Annotated[str, Field(pattern=r"^[a-z][a-z_]{0,63}$")]
Kind = Annotated[str, Field(max_length=100)]
LetterState = Literal["open", "replayed", "discarded"]
Ids = Annotated[list[UUID], Field(max_length=1_000)]


# Pending work


class WorkOwed(BaseModel):
    """Pending work of one kind, in rows; ``oldest``: since when the oldest is pending."""

    kind: str
    owed: int
    overdue: int
    retried: int
    oldest: datetime
    next_retry: datetime | None = None


class PendingRow(BaseModel):
    """One subject that work is pending for."""

    kind: str
    subject_id: UUID
    group_id: str
    due_at: datetime
    attempts: int
    last_error: str | None
    created_at: datetime
    overdue: bool


class RetryWork(Request):
    """Make pending work due now, with all its attempts again: of the subjects named, or all of the kind."""

    kind: Kind
    subject_ids: Ids = Field([])
    #: For operators: the work of all groups, not only of the one that is spoken for.
    all_groups: bool = False


# Dead letters


class LettersRequest(Paged):
    """Dead letters, newest first. An operator sees those of no known group, too."""

    state: LetterState = Field("open", description="Only those in this state.")
    kind: Kind | None = Field(None, description="`intake` for refused events, else the kind of work.")
    words: Annotated[str, Field(max_length=200)] | None = Field(
        None, description="Only those whose reason has this text."
    )


class DeadLetter(BaseModel):
    """What could not be done, with the reason. In lists ``body`` is cut to its first characters."""

    letter_id: UUID
    kind: str
    subject_id: UUID | None
    group_id: str | None
    reason: str
    traceback: str | None
    body: str | None
    attempts: int
    state: LetterState
    created_at: datetime
    resolved_at: datetime | None = None


class ResolveBody(Request):
    """Which dead letters: those named, or up to 1,000 open ones of a kind."""

    action: Literal["replay", "discard"]
    letter_ids: Ids = Field([])
    kind: Kind | None = None
    body: str | None = Field(None, description="Of one letter that is replayed: the message as it should be.")

    @model_validator(mode="after")
    def _names_some(self) -> Self:
        if bool(self.letter_ids) == (self.kind is not None):
            raise ValueError("letter_ids: give either these or kind")
        if self.body is not None and (self.action != "replay" or len(self.letter_ids) != 1):
            raise ValueError("body: replays one letter; name it in letter_ids")
        return self


class Resolved(BaseModel):
    resolved: int = Field(description="Letters that were closed.")
    refused_again: int = Field(0, description="Replayed events that are still wrong; each has a new letter.")


# Scheduled jobs


class RunJob(Request):
    """Run a job now, beside its schedule; for all groups, or only the one that is spoken for."""

    job: JobName
    whole_service: bool = Field(True, description="For all groups, not only the one that is spoken for.")


class TickRequest(Request):
    """How far is the run that was begun by :class:`RunJob`?"""

    job: JobName
    slot: AwareDatetime


class Tick(BaseModel):
    """A run of a job. ``waiting``: no worker has begun it yet."""

    job: str
    slot: datetime
    state: str = "waiting"
    started_at: datetime | None = None
    finished_at: datetime | None = None
    seconds: float | None = None
    attempts: int = 0
    summary: dict[str, Any] = {}
    error: str | None = None

    @property
    def ended(self) -> bool:
        return self.state not in ("waiting", "running")


class JobState(BaseModel):
    """A scheduled job with its last run and its next one."""

    job: str
    purpose: str
    schedule: str
    every_seconds: float | None
    setting: str
    last: Tick | None
    next: datetime | None
    lag_seconds: float | None


# Workers

#: ``draining``: finishes what is in hand, then ends. ``stopped``: it ended, or was restarted and takes
#: nothing.
WorkerMode = Literal["running", "paused", "draining", "stopped"]


class SetWorkerMode(Request):
    """How a worker, by its name, is to go on."""

    worker: Annotated[str, Field(max_length=300, examples=["upkeep@host"])]
    mode: WorkerMode


class TaskInHand(BaseModel):
    task: str
    since: datetime


class WorkerState(BaseModel):
    """A worker's process. ``rss_bytes`` None: not known. ``silent``: not heard of for too long. ``wished``:
    what operators want of it, ``wished_by`` and ``wished_at`` as in the audit log.
    """

    worker_id: str
    worker: str
    host: str
    version: str
    queues: list[str]
    mode: WorkerMode
    wished: WorkerMode
    wished_by: str | None
    wished_at: datetime | None
    seen_seconds_ago: float
    silent: bool
    in_hand: list[TaskInHand]
    tasks_a_minute: int
    rss_bytes: int | None


class TaskFigures(BaseModel):
    """Runs of a task in the last hour, and how long runs take, estimated since the counters began."""

    task: str
    runs: int
    failed: int
    retried: int
    p50_seconds: float | None
    p95_seconds: float | None


class WorkersReport(BaseModel):
    """``retries``: pending work that failed before, with the time of its next attempt."""

    workers: list[WorkerState] = []
    tasks: list[TaskFigures] = []
    retries: list[WorkOwed] = []


# Counts, models, checks


class GroupStats(BaseModel, extra="allow"):
    """Counts of the key's group; a newer service may count more."""

    agents: int
    events: int
    nodes: int
    event_nodes: int
    thought_nodes: int
    chat_nodes: int
    not_embedded: int
    idle: int
    archived: int
    dead_letters: int = Field(description="Open ones.")


class ServiceStats(BaseModel):
    """Counts of the group, and pending work by kind; of the whole service also counters and agent indexes."""

    group_id: str = ""
    counts: GroupStats
    work_owed: list[WorkOwed]
    counters: dict[str, int] = {}
    access_buffered: int = 0
    indexes: dict[str, dict[str, int]] = {}


class LLMsRequest(Request):
    """The LLM in use, the vendors there are, and what the group has used in the last ``days``."""

    days: int = Field(30, ge=1, le=3_650)
