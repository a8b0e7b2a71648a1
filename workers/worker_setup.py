"""Every Celery worker's parts besides its tasks: meters, heartbeat, watchdog, desired state."""

from __future__ import annotations

import logging
import os
import re
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

import celery.worker.consumer
import kombu
import psutil
import redis
from celery import signals
from celery.app.amqp import AMQP

from engine import subjects
from engine.providers import calls
from jiyi import __version__
from jiyi.protocol.base import JsonObject
from jiyi.protocol.operations import WorkerMode
from jiyi.protocol.wire.bounds import MESSAGE, TooMuchError
from jiyi.protocol.wire.broker import BROKER_ERRORS, PUBLISHED_AT
from jiyi.settings import get_settings
from models.db.bounded_reads import SourceUnavailable, from_database
from models.db.scope import whole_service
from models.erasure import cache_invalidation
from models.erasure.cache_invalidation import worker_id
from models.operations import histograms, meters, worker_liveness
from models.operations.worker_actions import DesiredState, find_desired_state, last_desired_state
from models.operations.worker_liveness import TASK as CANARY
from models.operations.worker_liveness import WorkerReport
from models.queue.broker_queues import messages_ready
from tasks.erasure import forget, forget_everything
from workers import errors_in_one_line, logs, tracing
from workers.supervision.processes import lower_priority

#: Pattern of task names that are logged; a name made of somebody's words is not.
TASK_NAME = re.compile(r"[a-z][a-z0-9_.]{0,99}")
messages_log = logging.getLogger("jiyi.messages")
modes_log = logging.getLogger("jiyi.modes")
#: Set while this worker is not meant to take anything.
HELD = threading.Event()
#: Seconds that a stop leaves to what is in hand. Another worker retries unfinished tasks.
STOP_SECONDS = 10.0


class Modes:
    """The mode of this process. For one thread.

    Started after an operator stopped the process before it, it takes nothing, and does not end: it would only
    be started again.
    """

    def __init__(self, consumer: Any) -> None:
        self._consumer = consumer
        self._queues = list(consumer.app.amqp.queues.consume_from)
        self.started_at = time.time()
        self.desired = DesiredState()
        #: Whether the audit log was searched for a desired state newer than one from before this process.
        self._audit_log_read = False
        self.mode: WorkerMode = "running"
        #: Whether this process ends because somebody wants it.
        self.ending = False

    def follow(self, busy: bool) -> WorkerMode:
        """Follow the desired state, ``busy`` or not. Raises what Valkey raises."""
        desired = find_desired_state(self._consumer.hostname)
        if desired.at:  # an older one was written back by somebody else than an operator
            if desired.mode != "running" and desired.at < self.started_at and not self._audit_log_read:
                self._ask()
            desired = self.desired = max(desired, self.desired, key=lambda one: one.at)
        mode: WorkerMode = (
            "stopped" if desired.mode == "draining" and desired.at < self.started_at else desired.mode
        )
        if mode != self.mode:
            modes_log.warning("worker mode set by an operator: %s", mode)
            self._take(mode == "running")
            self.mode = mode
        may_end = mode == "stopped" or (mode == "draining" and not busy)
        if may_end and desired.at >= self.started_at and not self.ending:
            self._end()
        return self.mode

    def _ask(self) -> None:
        """Ask the audit log whether a state from before this process is the latest; it counts until then."""
        with suppress(SourceUnavailable), whole_service():
            self.desired = from_database(
                lambda connection: last_desired_state(connection, self._consumer.hostname)
            )
            self._audit_log_read = True

    def _take(self, on: bool) -> None:
        """Take messages from now on, or none. The main thread, whose Celery's consumer is, does it soon."""
        if on == (not HELD.is_set()):
            return
        queues = self._consumer.app.amqp.queues
        if on:
            HELD.clear()
            queues.select(self._queues)  # what a consumer that connects again reads
        else:
            HELD.set()
        change = self._consumer.add_task_queue if on else self._consumer.cancel_task_queue
        for queue in self._queues:
            self._consumer.call_soon(change, queue)

    def _end(self) -> None:
        self.ending = True
        late = threading.Timer(STOP_SECONDS, os._exit, (os.EX_OK,))
        late.daemon = True
        late.start()
        os.kill(os.getpid(), signal.SIGTERM)


#: Seconds between tries to reach a broker that is away: the first pause, what each is longer by, the longest.
#: kombu's own pauses of 2, 4, 6 … 30 s outlast most outages, and to try costs next to nothing.
FIRST, STEP, MOST = 0.5, 0.5, 5.0
#: Names of the workers (``workers.procfile``) that do such work.
BACKGROUND = frozenset({"embedding", "upkeep", "reflection", *subjects.queues()})
#: How far they give way (``nice``): of a core that is wanted by both they get a quarter.
NICENESS = 5
#: Celery's loggers of "received" and of "succeeded".
LISTING = ("celery.worker.strategy", "celery.app.trace")
#: Workers that answer, by the beginning of their names (``workers.procfile``).
ANSWERING = "retrieval"
#: Ends of runs that are kept, to count those of a minute.
MOST_ENDS = 10_000
#: Tasks in hand that a heartbeat names.
MOST_REPORTED = 20
#: Ends of a run by Celery's name of its state; all others are done.
OUTCOMES = dict.fromkeys(("FAILURE", "REVOKED", "REJECTED"), "failed") | {"RETRY": "retried"}
heartbeat_log = logging.getLogger("jiyi.heartbeat")
watchdog_log = logging.getLogger("jiyi.watchdog")
#: Exit code of "try again": the supervisor is meant to.
EX_TEMPFAIL = 75
#: Looks within the time after which a worker counts as deaf.
CHECKS_PER_TIMEOUT = 5
#: Seconds; an answer takes milliseconds.
ANSWER_SECONDS = 2.0


class BrokerConnection(kombu.Connection):  # type: ignore[misc]  # kombu has no types
    """Kombu's, with shorter pauses."""

    def ensure_connection(
        self, errback: Any = None, max_retries: int | None = None, **options: Any
    ) -> BrokerConnection:
        """As kombu's; returns itself, connected."""
        pauses = {"interval_start": FIRST, "interval_step": STEP, "interval_max": MOST}
        super().ensure_connection(errback, max_retries, **{**pauses, **options})
        return self


class SoonAgain(AMQP):  # type: ignore[misc]  # Celery has no types
    """Celery's, with such connections."""

    Connection = BrokerConnection


def quieten(sender: str = "", **_: Any) -> None:
    """``sender``: the worker's name."""
    if sender.startswith(ANSWERING):
        for name in LISTING:
            logging.getLogger(name).setLevel(logging.WARNING)


class Consumer(celery.worker.consumer.Consumer):  # type: ignore[misc]  # Celery has no types
    """Celery's, which bounds a message before it is parsed, and never quotes what is no task."""

    def create_task_handler(self, *args: Any, **options: Any) -> Callable[[Any], Any]:
        return self.bounded(super().create_task_handler(*args, **options))

    def bounded(self, handle: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """A handler of messages that gets those alone that may be parsed."""

        def on_task_received(message: Any) -> Any:
            body = message.body
            try:
                MESSAGE.check(body.encode() if isinstance(body, str) else bytes(body))
            except TooMuchError as error:
                return self._delete(message, f"has {error}")
            return handle(message)

        return on_task_received

    def on_unknown_message(self, body: Any, message: Any) -> None:  # noqa: ARG002 – Celery's
        self._delete(message, "is of no known form")

    def on_unknown_task(self, body: Any, message: Any, exc: Exception) -> None:  # noqa: ARG002 – Celery's
        name = str((message.headers or {}).get("task"))
        is_task_name = TASK_NAME.fullmatch(name)
        self._delete(
            message, f"is for the task {name}, unknown here" if is_task_name else "is for an unknown task"
        )

    def on_invalid_task(self, body: Any, message: Any, exc: Exception) -> None:  # noqa: ARG002 – Celery's
        self._delete(message, f"is no valid task ({type(exc).__name__})")

    def on_decode_error(self, message: Any, exc: Exception) -> None:
        self._delete(message, f"cannot be read ({type(exc).__name__})")

    def _delete(self, message: Any, why: str) -> None:
        messages_log.error("a message of %d bytes %s; it is deleted", len(message.body or b""), why)
        message.reject_log_error(messages_log, self.connection_errors)


def begin_log(name: str) -> None:
    """The log of a worker, or of beat, by its name; lines for people have Celery's form."""
    with errors_in_one_line(name):
        if logs.as_json():
            signals.setup_logging.connect(lambda **_: logs.install(name), weak=False)  # replaces Celery's own
        else:
            logs.track_errors(name)


def begin(sender: str, **_: Any) -> None:
    """Priority, traces and log of the worker ``name@host``, before it makes threads, which inherit them."""
    name = sender.partition("@")[0]
    if name in BACKGROUND:
        lower_priority(NICENESS)
    with errors_in_one_line(sender):
        tracing.install(name)
    quieten(sender)
    begin_log(name)


class Watch:
    """Keeps when each running task began, when the last ones ended, and when something was last received."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.running, self.heard = 0, time.monotonic()
        self._begun: dict[str, tuple[float, float | None]] = {}
        self._in_hand: dict[str, tuple[str, float]] = {}
        self._ends: deque[float] = deque(maxlen=MOST_ENDS)

    @property
    def in_hand(self) -> tuple[tuple[str, float], ...]:
        """Tasks and the epoch seconds at which they began, the longest first."""
        return tuple(sorted(self._in_hand.copy().values(), key=lambda begun: begun[1]))

    def ended_lately(self) -> int:
        """Runs that ended within the last minute."""
        since = time.monotonic() - 60
        return sum(end >= since for end in self._ends.copy())

    def received(self, **_: Any) -> None:
        self.heard = time.monotonic()

    def _count(self, change: int) -> None:
        with self._lock:
            self.running += change
        self.received()

    def begun(self, task_id: str, task: Any, **_: Any) -> None:
        self._count(1)
        meters.began()
        self._begun[task_id] = (time.monotonic(), waited(task.request))
        if task.name != CANARY:
            self._in_hand[task_id] = (task.name, time.time())

    def ended(self, task_id: str, task: Any, state: str | None = None, **_: Any) -> None:
        self._count(-1)
        began, wait = self._begun.pop(task_id, (None, None))
        self._in_hand.pop(task_id, None)
        if began is None or task.name == CANARY or meters.was_idle():  # a canary has numbers of its own
            return
        self._ends.append(time.monotonic())
        outcome = "failed" if meters.has_failed() else OUTCOMES.get(state or "", "done")
        seconds = time.monotonic() - began
        meters.task(task.name, outcome, seconds, wait)
        histograms.RUN.observe([seconds], task.name)
        if wait is not None:
            histograms.QUEUED.observe([wait], task.name)


WATCH = Watch()


def waited(request: Any) -> float | None:
    """Seconds since the task could have begun: since it was sent, or since its ``eta``."""
    sent, eta = getattr(request, PUBLISHED_AT, None), getattr(request, "eta", None)
    if not isinstance(sent, int | float):
        return None
    due = max(sent, datetime.fromisoformat(eta).timestamp()) if eta else sent
    return max(0.0, time.time() - due)  # two machines' clocks differ


def stamp(headers: JsonObject | None = None, **_: Any) -> None:
    """A message says when it was sent."""
    if headers is not None:
        headers.setdefault(PUBLISHED_AT, time.time())


class WorkerHeartbeat:
    """Beats from :meth:`start` to :meth:`stop`, through Valkey.

    Celery's remote control is off: anybody with the broker's address may broadcast, a shutdown too.
    """

    def __init__(self, name: str, queues: Sequence[str], modes: Modes | None = None) -> None:
        self._name, self._queues, self._modes = name, list(queues), modes
        self._process = psutil.Process()
        self._stop = threading.Event()
        self._carried_out: set[str] = set()
        self._heard = time.monotonic()
        self._silent = False
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End in good order: nobody waits for this worker any more."""
        self._stop.set()
        self._thread.join()
        try:
            if self._modes is not None and self._modes.ending:  # stays to be seen
                last_word = self._report("stopped", ended=True)
                worker_liveness.record_heartbeat(worker_id(), self._name, self._queues, last_word)
            else:
                worker_liveness.forget(worker_id())
        except redis.RedisError as error:
            heartbeat_log.info("the last heartbeat was not sent: %s", error)  # it is forgotten in time

    def beat(self) -> None:
        """Record one heartbeat, and carry out the requested cache invalidations."""
        try:
            # After half of the time others may count it as dead, and erasures go on without it.
            if time.monotonic() - self._heard > worker_liveness.COUNTS_SECONDS / 2:
                forget_everything()
            in_hand = WATCH.in_hand
            mode = "running" if self._modes is None else self._modes.follow(bool(in_hand))
            at_work = {"in_hand": in_hand[:MOST_REPORTED], "tasks_a_minute": WATCH.ended_lately()}
            report = self._report(mode, rss_bytes=self._process.memory_info().rss, **at_work)
            worker_liveness.record_heartbeat(worker_id(), self._name, self._queues, report)
            self._carried_out = cache_invalidation.carry_out(worker_id(), self._carried_out, forget)
            self._silent = False
            self._heard = time.monotonic()
        except redis.RedisError as error:  # Valkey is away or full; said once
            level = logging.DEBUG if self._silent else logging.WARNING
            heartbeat_log.log(level, "no heartbeat: %s; trying again", error)
            self._silent = True

    def _report(self, mode: WorkerMode, **more: Any) -> WorkerReport:
        desired = DesiredState() if self._modes is None else self._modes.desired
        return WorkerReport(__version__, mode, wished_by=desired.by, wished_at=desired.at, **more)

    def _run(self) -> None:
        self.beat()
        while not self._stop.wait(worker_liveness.HEARTBEAT_EVERY):
            self.beat()


def watch_out(broker_url: str, queues: Sequence[str], seconds: float) -> None:
    """End this process when it is deaf for ``seconds``: messages wait, and it is idle and receives none.

    After its broker restarted, a Celery worker can believe that it is connected and yet receive nothing
    (celery #8030, #9054; our smoke test met it). That is looked for on a connection of its own.
    """
    waiting_since: float | None = None
    while True:
        time.sleep(seconds / CHECKS_PER_TIMEOUT)
        try:
            waiting = messages_ready(broker_url, queues, ANSWER_SECONDS) > 0
        except BROKER_ERRORS:
            waiting = False  # away, not silent
        now = time.monotonic()
        if not waiting or WATCH.running or HELD.is_set():
            waiting_since = None
        elif waiting_since is None:
            waiting_since = now
        elif now - max(waiting_since, WATCH.heard) > seconds:
            watchdog_log.critical(
                "messages have waited for %.0f s, and this idle worker received none: ending it",
                now - waiting_since,
            )
            # its main thread hears nothing, so it cannot be asked to stop; it holds no work
            os._exit(EX_TEMPFAIL)


HEARTBEATS: list[WorkerHeartbeat] = []


def start(sender: Any, **_: Any) -> None:
    """A worker is ready: give it a heartbeat, and the watchdog."""
    queues, settings = list(sender.app.amqp.queues.consume_from), get_settings()
    HEARTBEATS.append(WorkerHeartbeat(sender.hostname, queues, Modes(sender)))
    HEARTBEATS[-1].start()
    arguments = (settings.need("broker_url"), queues, settings.deaf_worker_seconds)
    threading.Thread(target=watch_out, args=arguments, name="watchdog", daemon=True).start()


def stop(**_: Any) -> None:
    while HEARTBEATS:
        HEARTBEATS.pop().stop()


def install() -> None:
    """In every process with the Celery app."""
    calls.on_call(histograms.called)
    handlers = {
        signals.celeryd_init: begin,
        signals.worker_ready: start,
        signals.worker_shutdown: stop,
        signals.task_received: WATCH.received,
        signals.task_prerun: WATCH.begun,
        signals.task_postrun: WATCH.ended,
        signals.before_task_publish: stamp,
    }
    for happening, handler in handlers.items():
        happening.connect(handler, weak=False)
    if "beat" in sys.argv[1:]:  # it has no such signal before its log
        begin_log("beat")
