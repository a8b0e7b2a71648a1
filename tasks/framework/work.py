"""The one mechanism behind every task that an event sets off.

Pending work is rows of ``pending_work``; a message only says "look". A handler gets a :class:`Batch` of
subjects that nobody else works on, computes, and writes inside :meth:`Batch.finish`, which also deletes the
rows: effect and receipt in one transaction. So a message that is lost, repeated or late changes nothing.

Claims look across groups, which take turns. A handler works for one group at a time, and sees no others'
rows.
"""

from __future__ import annotations

import logging
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial, wraps
from threading import Lock
from typing import Any, TypeVar
from uuid import UUID

from celery import shared_task
from sqlalchemy import Connection

from engine.conversations.trials import Careful
from engine.providers.embedder_specs import embedding_threads
from engine.providers.embedders import giving_way
from engine.providers.llms import LLM, RULES, SLOWEST_QUESTION, slower_seconds
from engine.providers.questions import A, Question
from engine.rules.provider import Rules, StandIn
from jiyi import tracing
from jiyi.errors import (
    BadReply,
    JiyiError,
    LeftToRules,
    ProviderUnavailable,
    ServiceError,
    SettingsError,
    kind_and_words,
)
from jiyi.settings import get_settings
from models.db import valkey_keys
from models.db.connection import unit_of_work
from models.db.errors import is_conflict, outage
from models.db.scope import Scope, current, for_groups, whole_service, within
from models.db.valkey import valkey
from models.operations import meters
from models.queue import pending_work, stream, wakeups
from models.queue.wakeups import task_name, wake
from tasks.framework.renewal import lease_renewer

T = TypeVar("T")
log = logging.getLogger(__name__)
#: Attempts after which work moves to the dead letters.
MAX_ATTEMPTS = 8
#: Longest wait between two attempts; the first is ``Settings.work_backoff_seconds``, and it doubles.
MAX_BACKOFF_SECONDS = 600.0
#: Between the soft limit, which a task can tidy up after, and the hard one. Seconds.
SOFT_LIMIT_MARGIN = 5
#: What subjects are not to blame for: a provider that is away, or one that nobody knows.
TRANSIENT_ERRORS = (ProviderUnavailable, SettingsError)
#: Every kind of work there is a task for. Pending work of any other kind waits (design §3).
KINDS: dict[str, Kind] = {}
#: Seconds that the rules have for a question: they answer at once.
RULES_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of work."""

    #: In ``pending_work``; ``models.queue.wakeups.QUEUES`` has its Celery queue.
    name: str
    queue: str
    #: Most subjects of one run.
    batch: int
    #: Seconds that one run may take; then its claim is no longer renewed. Celery enforces it in prefork pools
    #: only, so the handler's own calls need time-outs.
    time_limit: int | float = 60
    #: One run at a time in the whole deployment; who comes meanwhile leaves the rest to that one.
    alone: bool = False
    #: It embeds other texts than memories: at most half of the worker's threads are at those.
    gives_way: bool = False
    #: What is cheaper to do for the batches of several groups at once, each in its own scope; it leaves what
    #: it made in ``prepared`` of each. What it raises counts for all of them.
    prepare: Callable[[list[Batch]], None] | None = None
    #: Most seconds after which it may be due when it is enqueued.
    due_ahead: float = 0.0


@dataclass(slots=True)
class Batch:
    """Subjects of one group, claimed for this run of a handler."""

    kind: str
    subject_ids: list[UUID]
    #: Subjects whose work is pending again when this is finished: it was enqueued meanwhile.
    again: list[UUID] = field(default_factory=list)
    #: Subjects whose work is pending again, due at that time.
    later: dict[UUID, datetime] = field(default_factory=dict)
    #: Whose the subjects are; a handler's threads have no scope of their own.
    scope: Scope = field(default_factory=current)
    #: The traces in which they were enqueued.
    traces: dict[UUID, str] = field(default_factory=dict)
    #: What ``prepare`` made for it (:func:`work_task`).
    prepared: Any = None
    #: By ``time.monotonic``: from then on the claim is no longer renewed.
    until: float = 0.0
    #: The ends that the claim has had: those of its rows that are due at another time are no longer claimed.
    dues: list[datetime] = field(default_factory=list)

    def extend(self, seconds: float) -> None:
        """It may take so long from now on: for handlers that wait for others. The claim itself is renewed."""
        self.until = max(self.until, time.monotonic() + seconds)

    def only(self, subject_id: UUID) -> Batch:
        """The same for one of the subjects, to be finished in a transaction of its own."""
        return Batch(self.kind, [subject_id], scope=self.scope)

    @property
    def group_id(self) -> str:
        (group_id,) = self.scope.groups
        return group_id

    def renew(self) -> None:
        """Claim the subjects for another lease, but for what is settled or given back already."""
        with within(self.scope), unit_of_work() as connection:
            due = pending_work.extend(
                connection, self.kind, self.subject_ids, self.dues, get_settings().work_lease_seconds
            )
        if due is not None:
            self.dues.append(due)

    def put_off(self, subject_ids: Iterable[UUID], reason: str | Exception) -> None:
        """Leave some for later without counting the attempt: what they need is away.

        A provider that says for how long it wants to be left alone is.
        """
        waiting = set(subject_ids)
        seconds = max(get_settings().work_backoff_seconds, getattr(reason, "retry_after", 0.0))
        with within(self.scope), unit_of_work() as connection:
            pending_work.postpone(connection, self.kind, list(waiting), seconds, str(reason))
        self._without(waiting)

    def leave(self, subject_ids: Iterable[UUID]) -> None:
        """Leave some to other runs, at once; to be woken when that is committed."""
        waiting = set(subject_ids)
        with within(self.scope), unit_of_work() as connection:
            pending_work.postpone(connection, self.kind, list(waiting), 0.0, "")
        self._without(waiting)

    def _without(self, waiting: set[UUID]) -> None:
        self.subject_ids = [subject_id for subject_id in self.subject_ids if subject_id not in waiting]

    @contextmanager
    def finish(self) -> Iterator[tuple[Connection, list[UUID]]]:
        """A transaction in which to write the effect for the subjects still pending, which it yields.

        At its end they are no longer pending. One that another worker settled meanwhile is not among them.
        """
        with within(self.scope), unit_of_work() as connection:
            pending = pending_work.lock_pending(connection, self.kind, self.subject_ids)
            yield connection, pending
            again = [subject_id for subject_id in pending if subject_id in self.again]
            pending_work.renew(connection, self.kind, again)
            later = {subject_id: due for subject_id, due in self.later.items() if subject_id in pending}
            pending_work.renew_later(connection, self.kind, later)
            remaining = {*again, *later}
            settled = pending_work.complete(
                connection, self.kind, [subject_id for subject_id in pending if subject_id not in remaining]
            )
        stream.worked(self.kind, settled)


def work_task(
    name: str, *, batch: int, time_limit: int, **options: Any
) -> Callable[[Callable[[Batch], None]], Callable[[Batch], None]]:
    """Make a handler the task ``work.<name>``; the options are further fields of :class:`Kind`."""
    kind = KINDS[name] = Kind(name, wakeups.QUEUES[name], batch, time_limit, **options)

    def register(handler: Callable[[Batch], None]) -> Callable[[Batch], None]:
        @wraps(handler)
        def handle(batch: Batch) -> None:
            if kind.prepare is not None and batch.prepared is None:
                kind.prepare([batch])
            handler(batch)

        @shared_task(
            name=task_name(name),
            time_limit=time_limit,
            soft_time_limit=time_limit - SOFT_LIMIT_MARGIN,
            ignore_result=True,
        )
        def run() -> None:
            run_due(kind, handle)

        return handle

    return register


def with_llm(time_limit: int) -> int:
    """Seconds that a task may take that asks the LLM, by those with one that keeps to the default
    time-out.
    """
    return time_limit + slower_seconds(get_settings())


class BesideMemories:
    """Runs of kinds that give way, in this process; those turned away are woken when one ends."""

    def __init__(self) -> None:
        self._lock, self._running = Lock(), 0
        #: Names of kinds, in the order in which they came.
        self._turned_away: dict[str, None] = {}

    @contextmanager
    def enter(self, kind: str) -> Iterator[bool]:
        with self._lock:
            entered = self._running < max(1, embedding_threads(get_settings()) // 2)
            if entered:
                self._running += 1
            else:
                self._turned_away[kind] = None
        try:
            yield entered
        finally:
            if entered:
                self._leave()

    def _leave(self) -> None:
        with self._lock:
            self._running -= 1
            waiting, self._turned_away = list(self._turned_away), {}
        wake(*waiting)


_beside_memories = BesideMemories()


def run_due(kind: Kind, handler: Callable[[Batch], None]) -> int:
    """Claim due work of a kind once and do it. Returns how many subjects were settled.

    Safe to repeat because the claim gives each subject to one worker at a time.
    """
    valkey().delete(valkey_keys.wake(kind.name))  # from here on a new wake-up is needed: ours is used up
    if kind.gives_way:
        with _beside_memories.enter(kind.name) as entered, giving_way():
            return _run_due(kind, handler) if entered else 0
    if not kind.alone:
        return _run_due(kind, handler)
    with pending_work.alone(kind.name) as alone:
        settled = _run_due(kind, handler) if alone else 0
    if settled:
        wake(kind.name)  # runs that came meanwhile have gone
    return settled


def _run_due(kind: Kind, handler: Callable[[Batch], None]) -> int:
    with whole_service(), unit_of_work() as connection:
        claims = pending_work.claim(connection, kind.name, kind.batch, get_settings().work_lease_seconds)
    if pending_work.leaves_more(claims, kind.batch):
        wake(kind.name)  # another worker may be free
    until = time.monotonic() + kind.time_limit
    batches = []
    for claim in claims:
        scope, dues = Scope((claim.group_id,)), [claim.due_at]
        batch = Batch(kind.name, claim.subject_ids, scope=scope, traces=claim.traces, until=until, dues=dues)
        batches.append(batch)
    work = list(zip(claims, batches, strict=True))
    first = [one for one in work if one[0].attempts == 1]
    traces = {
        (claim.group_id, subject_id): trace for claim in claims for subject_id, trace in claim.traces.items()
    }
    # Those that wait are renewed, too.
    with (
        tracing.batch(f"work {kind.name}", traces) if claims else nullcontext(),
        lease_renewer.holding(*batches),
    ):
        groups = (first, *([one] for one in work if one[0].attempts > 1))
        return sum(_run_claims(kind, handler, together) for together in groups)


def _run_claims(
    kind: Kind, handler: Callable[[Batch], None], claimed: list[tuple[pending_work.Claim, Batch]]
) -> int:
    """Do what was claimed, each group's for itself but for what is prepared for all."""
    work: list[tuple[pending_work.Claim, Batch]] = []
    for claim, batch in claimed:
        if claim.attempts > MAX_ATTEMPTS:
            with for_groups(claim.group_id):
                _dead_letter(kind.name, claim.subject_ids, None)
        else:
            work.append((claim, batch))
    failure = _prepare(kind, [batch for _, batch in work])
    settled = 0
    for claim, batch in work:
        with within(batch.scope):
            settled += _attempt(kind, handler if failure is None else partial(_fail, failure), claim, batch)
    return settled


def _prepare(kind: Kind, batches: list[Batch]) -> Exception | None:
    if kind.prepare is None or not batches:
        return None
    try:
        kind.prepare(batches)
    except Exception as error:  # noqa: BLE001 – it is each batch's failure, and dealt with there
        return error
    return None


def _fail(failure: Exception, _batch: Batch) -> None:
    raise failure


def _attempt(kind: Kind, handler: Callable[[Batch], None], claim: pending_work.Claim, batch: Batch) -> int:
    try:
        batch.extend(kind.time_limit)
        try:
            handler(batch)
        finally:
            batch.until = 0.0  # from here on it is not renewed
        return len(claim.subject_ids)
    except Exception as error:  # written down, tried again, and in the end a dead letter
        # What is away is no fault of the subjects; if it is the database, their lease runs out.
        away = error if isinstance(error, TRANSIENT_ERRORS) else outage(error)
        if away is None and is_conflict(error):
            away = ServiceError("another transaction went first")
        if away is not None:
            log.warning("work %s waits: %s", kind.name, away)
            batch.put_off(batch.subject_ids, away)
            return 0
        ours = isinstance(error, JiyiError)  # its message says what is wrong
        log.log(
            logging.WARNING if ours else logging.ERROR,
            "work %s failed for %d subjects, attempt %d: %s",
            kind.name,
            len(batch.subject_ids),
            claim.attempts,
            error,
            exc_info=not ours,
        )
        _give_back(batch, claim.attempts, error)
        return 0


def _give_back(batch: Batch, attempts: int, error: Exception) -> None:
    settings = get_settings()
    wait = min(settings.work_backoff_seconds * 2 ** (attempts - 1), MAX_BACKOFF_SECONDS)
    with unit_of_work() as connection:
        groups = pending_work.retry_later(
            connection, batch.kind, batch.subject_ids, wait, kind_and_words(error)
        )
    meters.failing()
    tracing.failed(type(error).__name__)
    stream.failed(batch.kind, groups, error, attempts)
    if attempts >= MAX_ATTEMPTS:
        _dead_letter(batch.kind, batch.subject_ids, "".join(traceback.format_exception(error)))


def _dead_letter(kind: str, subject_ids: list[UUID], trace: str | None) -> None:
    with unit_of_work() as connection:
        dead = pending_work.dead_letter_exhausted(connection, kind, MAX_ATTEMPTS, trace, subject_ids)
    stream.opened(kind, dead)


def run_until_idle(kind: str, handler: Callable[[Batch], None], limit: int = 1_000) -> int:
    """Do all due work of a kind in this process: for tests and tools. At most ``limit`` batches."""
    total = 0
    for _ in range(limit):
        count = run_due(KINDS[kind], handler)
        if not count:
            break
        total += count
    return total


def summary(counts: dict[str, int]) -> dict[str, dict[str, int]]:
    """How much work is overdue, apart that for which there is no task."""
    return {
        "due": {kind: count for kind, count in counts.items() if kind in KINDS},
        "waiting_for_a_task": {kind: count for kind, count in counts.items() if kind not in KINDS},
    }


class _Renewing:
    """An LLM with which the claims on batches are renewed for as long as each question may take. Thread-safe.

    A slow LLM's answers would otherwise all come after another worker has started over, and be thrown away.
    """

    def __init__(self, llm: LLM, batches: Sequence[Batch]) -> None:
        self.model, self._llm, self._batches = llm.model, llm, batches
        self.endpoint = getattr(llm, "endpoint", None)
        settings = get_settings()
        self._seconds = RULES_SECONDS if settings.llm == RULES else SLOWEST_QUESTION * settings.llm_timeout

    def ask(self, question: Question[A]) -> A:
        for batch in self._batches:
            batch.extend(self._seconds)
        return self._llm.ask(question)


class LeaseRenewingLLM(Careful):
    """What work asks: an LLM with what can be used of its answers, while the claims are renewed."""

    def __init__(self, llm: LLM, *batches: Batch) -> None:
        super().__init__(_Renewing(llm, batches))


def or_by_rules(llm: LLM, work: Callable[[LLM], T], *, fallback: bool | None = None) -> tuple[T, str]:
    """What is made with an LLM's answers, and whose they are.

    The rules stand in for an LLM that cannot do it; and for one that is away, or answers nothing usable,
    where that is wanted: by ``fallback``, else by ``JIYI_EXTRACT_FALLBACK``. Raises ``LLMUnavailable`` or
    ``BadReply`` where it is not.
    """
    try:
        return work(llm), llm.model
    except LeftToRules as error:
        log.debug("%s", error)
    except (ProviderUnavailable, BadReply) as error:
        if not (get_settings().extract_fallback == "rules" if fallback is None else fallback):
            raise
        log.warning("answered by rules: %s", error)
    return work(StandIn(llm.model)), Rules.model


def answer_or_rules(llm: LLM, question: Question[A]) -> tuple[A, str]:
    """The answer to a question, and whose it is. Raises as :func:`or_by_rules` does."""
    return or_by_rules(llm, lambda provider: provider.ask(question))
