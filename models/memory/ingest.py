"""Ingestion: batches of events into the database, both from the broker and from HTTP.

A batch is one transaction: one of a single event takes nearly as long as one of fifty. If the database
refuses it, its parts are stored one by one. Requests over HTTP share transactions (:class:`GroupCommit`) and
polls of their rows' status (:class:`StatusPoller`). What follows a commit is announced by a thread of its
own (:class:`Announcer`): a Valkey that hangs holds up no answer.
"""

from __future__ import annotations

import json
import logging
import queue
import threading
import time
import traceback
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Generic, TypeVar
from uuid import UUID

import psycopg
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from engine.operations import fields_in
from jiyi import tracing
from jiyi.once import once
from jiyi.polling import FIRST_POLL, LAST_POLL
from jiyi.protocol import event_bodies
from jiyi.protocol import events as wire
from jiyi.protocol.events import Event
from jiyi.protocol.wire.bounds import MESSAGE
from models.db import scope as tenancy
from models.db.bounded_reads import STATEMENT_TIMEOUT, SourceUnavailable, from_database
from models.db.connection import Following, after_commit, apply_scope, unit_of_work
from models.db.errors import tried_again
from models.db.scope import for_groups, whole_service
from models.memory import inbox
from models.memory.inbox import CollisionError, Prepared, StoreResult
from models.queue import dead_letters
from models.queue.dead_letters import MisfitVectors, ReusedIds

log = logging.getLogger("jiyi.intake")
T = TypeVar("T")
#: Another writer that stores the same events at the same time makes ours start over; it cannot happen often.
MAX_COLLISIONS = 5
DATABASE_ERRORS = (DBAPIError, PoolTimeout, psycopg.Error)
#: Threads that store: while one waits for the disk, another prepares.
THREADS = 2
#: Events of one transaction, unless a single request has more.
MAX_TOGETHER = 500
#: Most seconds between two polls for one group, however many of its requests wait.
BUSY_POLL = 0.2
#: Seconds beyond its time that a request waits for a slow database.
GRACE_SECONDS = 2 * STATEMENT_TIMEOUT


@dataclass(slots=True)
class EventBatch:
    """Events that are stored together or not at all."""

    events: Sequence[Event]
    #: Why they are not stored; only where somebody waits for an answer.
    error: Exception | None = None


@dataclass(slots=True)
class Rejected:
    """An event, or a whole message, that cannot be stored, and why: it becomes a dead letter."""

    body: str
    reason: str
    traceback: str | None = None
    #: Whether the group that it names may be believed; else it is kept under none.
    believed: bool = True

    def identity(self) -> tuple[UUID | None, str | None]:
        event_id, group_id = identity(self.body)
        return event_id, group_id if self.believed else None


@dataclass(frozen=True, slots=True)
class Ingestor:
    """Stores the batches of one kind of source."""

    #: True for a queue, which delivers again: a database that is away is waited for, and a refused part
    #: becomes a dead letter. False for requests: each part gets its own error.
    redelivers: bool
    #: Most milliseconds of a statement; None: the connection's own limit.
    statement_timeout_ms: int | None = None

    def ingest(
        self, parts: Sequence[EventBatch], rejected: Sequence[Rejected] = (), ready: Prepared | None = None
    ) -> StoreResult:
        """Store the events of all parts, and what was rejected before as dead letters.

        ``ready``: :func:`models.memory.inbox.prepare_all` of the events, if it was called before.

        Safe to repeat because an event that is stored already changes nothing.

        Raises:
            DATABASE_ERRORS, CollisionError: (``redelivers``) the database is away, or others keep storing the
            same events.
        """
        try:
            return self._store_together(parts, rejected, ready)
        except Exception as error:  # one part must not stop the others, whatever is wrong with it
            if len(parts) == 1 and not rejected:
                return self._refuse(parts[0], error)
            if self.redelivers and is_transient(error):
                raise
            log.warning("a batch of %d parts was refused (%s); storing one by one", len(parts), error)
        total = self._store_together([], rejected) if rejected else StoreResult()
        for part in parts:
            total.add(self.ingest([part]))
        return total

    def _follow(self, following: Following) -> None:
        """Run what follows a commit: live events and wake-ups. No request waits for that."""
        following() if self.redelivers else announcer().put(following)

    def _refuse(self, part: EventBatch, error: Exception) -> StoreResult:
        """Refuse a part that cannot be stored even alone."""
        if not self.redelivers:
            part.error = error
            return self._keep_reused(error.events) if isinstance(error, ReusedIds) else StoreResult()
        if is_transient(error):
            raise error
        reason, trace = f"the database refused it: {error}", "".join(traceback.format_exception(error))
        letters = [Rejected(event_bodies.encode([event]).decode(), reason, trace) for event in part.events]
        return self._store_together([], letters)

    def _keep_reused(self, events: Sequence[Event]) -> StoreResult:
        """Keep the events that a request was refused for, so that ``event_states`` reports them."""
        try:
            with for_groups(*(event.group_id for event in events)), unit_of_work(self._follow) as connection:
                refused = StoreResult(refused=[*dead_letters.add_reused(connection, events)])
                after_commit(connection, inbox.announce, refused)
                return refused
        except DATABASE_ERRORS:
            log.exception("%d events with reused ids were refused, but not kept", len(events))
            return StoreResult()

    def _store_together(
        self, parts: Sequence[EventBatch], rejected: Sequence[Rejected], ready: Prepared | None = None
    ) -> StoreResult:
        return tried_again(lambda: self._store_once(parts, rejected, ready))

    def _store_once(
        self, parts: Sequence[EventBatch], rejected: Sequence[Rejected], ready: Prepared | None
    ) -> StoreResult:
        events = [event for part in parts for event in part.events]
        for attempt in range(1, MAX_COLLISIONS + 1):
            try:
                with (
                    for_groups(*(event.group_id for event in events)),
                    unit_of_work(self._follow) as connection,
                ):
                    if self.statement_timeout_ms is not None:
                        connection.execute(_TIMEOUT, {"timeout": str(self.statement_timeout_ms)})
                    if rejected:  # of groups that they only claim to be of, or of none
                        with whole_service():
                            apply_scope(connection)
                            _add_dead_letters(connection, rejected)
                        apply_scope(connection)
                    result = inbox.store(connection, events, ready)
                    if result.reused and not self.redelivers:
                        raise ReusedIds(result.reused)  # a request is stored whole or not at all
                    if result.misfits and not self.redelivers:
                        raise MisfitVectors(result.misfits)
                    result.refused += dead_letters.add_reused(connection, result.reused)
                    result.refused += dead_letters.add_misfits(connection, result.misfits)
                    result.refused += [item.identity()[1] for item in rejected]
            except CollisionError as error:
                log.info("%s; starting over, attempt %d", error, attempt)
            else:
                return result
        raise CollisionError(f"still colliding after {MAX_COLLISIONS} attempts")


class Announcer:
    """The thread of this process that announces what requests have stored.

    What is stored while an announcement is under way is announced together. What a process that ends has not
    announced is no loss: the reconciler wakes what stays overdue.
    """

    def __init__(self) -> None:
        self.waiting: queue.SimpleQueue[Following] = queue.SimpleQueue()
        threading.Thread(target=self._work, name="announce", daemon=True).start()

    def put(self, following: Following) -> None:
        self.waiting.put(following)

    def _work(self) -> None:
        while True:
            together = Following()
            together.add(self.waiting.get())
            with suppress(queue.Empty):
                while True:
                    together.add(self.waiting.get_nowait())
            together()


@once
def announcer() -> Announcer:
    """This process's; made on first use, so always after a fork."""
    return Announcer()


def is_transient(error: Exception) -> bool:
    """Whether waiting helps: the server is away, ended the session, or others hold what we need."""
    if isinstance(error, CollisionError):
        return True
    if isinstance(error, DBAPIError):
        if error.connection_invalidated:
            return True
        error = error.orig if isinstance(error.orig, Exception) else error
    if not isinstance(error, psycopg.Error):
        return isinstance(error, PoolTimeout)
    if error.sqlstate is None:  # the connection broke, or the driver itself refused a value
        return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
    # 08: connection, 53: out of resources, 40: try again, 55P03: a lock, 57: ended.
    return error.sqlstate[:2] in ("08", "53", "40", "57") or error.sqlstate == "55P03"


def identity(body: str) -> tuple[UUID | None, str | None]:
    """Event id and group of a refused event, as far as they can be read."""
    try:
        MESSAGE.check(body.encode("utf-8", "replace"))
        content = json.loads(body)
    except (ValueError, RecursionError):
        return None, None
    if not isinstance(content, dict):
        return None, None
    try:
        event_id = UUID(str(content.get("event_id")))
    except ValueError:
        event_id = None
    group_id = content.get("group_id")
    if not isinstance(group_id, str) or "\x00" in group_id or not group_id.isprintable():
        group_id = None
    return event_id, group_id


def _add_dead_letters(connection: Connection, rejected: Iterable[Rejected]) -> None:
    for item in rejected:
        event_id, group_id = item.identity()
        # What was refused, and why, is in the dead letter: a log holds nobody's words.
        log.warning("refused event %s: %s", event_id or "(no id)", fields_in(item.reason, wire.FIELD_NAMES))
        dead_letters.add_message(connection, item.body, item.reason, event_id, group_id, item.traceback)


@dataclass(frozen=True, slots=True)
class StoredCounts:
    accepted: int
    repeated: int


@dataclass(slots=True)
class _Waiting:
    part: EventBatch
    ready: Prepared
    trace: str | None
    future: Future[StoredCounts] = field(default_factory=Future)


class GroupCommit:
    def __init__(self) -> None:
        self.waiting: queue.SimpleQueue[_Waiting] = queue.SimpleQueue()
        for number in range(THREADS):
            threading.Thread(target=self._work, name=f"store-{number}", daemon=True).start()

    def store(self, events: Sequence[Event], seconds: float) -> StoredCounts:
        """Return when they are in the database, all or none.

        Raises:
            ReusedIds, CollisionError: an id is taken.
            DATABASE_ERRORS: the database refuses them, or is away.
            concurrent.futures.TimeoutError: it took longer; whether they were stored is not known.
        """
        foreign = {event.group_id for event in events} - set(tenancy.current().groups)
        if foreign:
            raise ValueError(f"events of the group {min(foreign)!r}, which the request may not write to")
        item = _Waiting(EventBatch(events), inbox.prepare_all(events), tracing.current())
        self.waiting.put(item)
        return item.future.result(seconds)

    def _work(self) -> None:
        while True:
            together = [self.waiting.get()]
            while sum(len(item.part.events) for item in together) < MAX_TOGETHER:
                try:
                    together.append(self.waiting.get_nowait())
                except queue.Empty:
                    break
            try:
                _store(together)
            except BaseException as error:  # the thread has to go on, and nobody waits in vain
                log.exception("events could not be stored")
                for item in together:
                    if not item.future.done():
                        item.future.set_exception(error)


def _store(together: Sequence[_Waiting]) -> None:
    # Of equal keys the first is stored.
    ready = {key: memory for item in reversed(together) for key, memory in item.ready.items()}
    traces = {
        event.key: item.trace for item in together if item.trace is not None for event in item.part.events
    }
    with tracing.batch("process events", traces, "stored"):
        fresh = set(INGESTOR.ingest([item.part for item in together], ready=ready).fresh)
    for item in together:
        if item.part.error is not None:
            item.future.set_exception(item.part.error)
            continue
        new = {event.key for event in item.part.events} & fresh
        fresh -= new
        item.future.set_result(StoredCounts(len(new), len(item.part.events) - len(new)))


@once
def group_commit() -> GroupCommit:
    """This process's; made on first use, so always after a fork."""
    return GroupCommit()


@dataclass(eq=False, slots=True)
class _Waiter(Generic[T]):
    """One request. Times are of ``time.monotonic``."""

    group_id: str
    #: Ids whose status is not final yet.
    open: set[UUID]
    deadline: float
    due: float
    pause: float = FIRST_POLL
    rows: dict[UUID, T] = field(default_factory=dict)
    finished: threading.Event = field(default_factory=threading.Event)
    error: Exception | None = None


class StatusPoller(Generic[T]):
    """Polls the status of rows for waiting requests. Thread-safe; its thread ends with the last wait.

    Args:
        read: the status of some ids of a group, in the group's scope; unknown ids may be left out.
        final: whether a status will not change any more.
    """

    def __init__(
        self, read: Callable[[Connection, str, Sequence[UUID]], Mapping[UUID, T]], final: Callable[[T], bool]
    ) -> None:
        self._read, self._final = read, final
        self._changed = threading.Condition()
        self.waiting: dict[str, list[_Waiter[T]]] = {}
        #: When each waiting group was polled last.
        self.polled_at: dict[str, float] = {}
        self.thread: threading.Thread | None = None

    def wait(self, group_id: str, ids: Collection[UUID], seconds: float) -> Mapping[UUID, T] | None:
        """The status of the ids once all are final or time is up; None if the database does not answer."""
        now = time.monotonic()
        request: _Waiter[T] = _Waiter(group_id, set(ids), now + seconds, now + min(FIRST_POLL, seconds))
        with self._changed:
            self.waiting.setdefault(group_id, []).append(request)
            if self.thread is None:
                self.thread = threading.Thread(target=self._run, name="status-poller", daemon=True)
                self.thread.start()
            self._changed.notify()
        if not request.finished.wait(seconds + GRACE_SECONDS):
            with self._changed:
                self._forget(request)
            return None
        if isinstance(request.error, SourceUnavailable):
            return None
        if request.error is not None:
            raise request.error
        return request.rows

    def _run(self) -> None:
        while True:
            with self._changed:
                while not (due := self._due()):
                    if not self.waiting:
                        self.thread = None
                        return
                    self._changed.wait(self._seconds())
            for group_id, waiting in due.items():
                self._poll(group_id, waiting)

    def _due(self) -> dict[str, list[_Waiter[T]]]:
        """The waiting requests of the groups that are to be polled now."""
        now = time.monotonic()
        return {
            group_id: list(waiting)
            for group_id, waiting in self.waiting.items()
            if self._time(group_id) <= now
        }

    def _seconds(self) -> float:
        return max(0.0, min(map(self._time, self.waiting)) - time.monotonic())

    def _time(self, group_id: str) -> float:
        """When a group is to be polled: the more of its requests wait, the less often."""
        waiting = self.waiting[group_id]
        pause = min(FIRST_POLL * len(waiting), BUSY_POLL)
        return max(min(request.due for request in waiting), self.polled_at.get(group_id, 0.0) + pause)

    def _poll(self, group_id: str, waiting: Sequence[_Waiter[T]]) -> None:
        ids = sorted(set().union(*(request.open for request in waiting)))
        error: Exception | None = None
        all_rows: Mapping[UUID, T] = {}
        try:
            with for_groups(group_id):
                all_rows = from_database(lambda connection: self._read(connection, group_id, ids))
        except Exception as failure:  # noqa: BLE001 – the waiting request raises it
            error = failure
        now = time.monotonic()
        with self._changed:
            self.polled_at[group_id] = now
            for request in waiting:
                request.error = error
                rows = {row: all_rows[row] for row in request.open if row in all_rows}
                request.rows |= rows
                request.open -= {row for row, value in rows.items() if self._final(value)}
                if error is not None or not request.open or now >= request.deadline:
                    self._forget(request)
                    request.finished.set()
                else:
                    request.pause = min(2 * request.pause, LAST_POLL)
                    request.due = min(now + request.pause, request.deadline)

    def _forget(self, one: _Waiter[T]) -> None:
        waiting = self.waiting.get(one.group_id, [])
        if one in waiting:
            waiting.remove(one)
        if not waiting:
            self.waiting.pop(one.group_id, None)
            self.polled_at.pop(one.group_id, None)


_TIMEOUT = text("SELECT set_config('statement_timeout', :timeout, true)")
#: Below the seconds that a request waits, so that PostgreSQL itself ends what nobody waits for any more.
INGESTOR = Ingestor(redelivers=False, statement_timeout_ms=2_500)
