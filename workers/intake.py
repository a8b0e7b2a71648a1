"""The intake: events from the exchange into the database, in batches, acknowledged after the commit.

One loop, one thread: drain up to ``JIYI_INTAKE_BATCH`` messages or ``JIYI_INTAKE_WAIT_MS``, decode, one
transaction, acknowledge, wake the workers. What cannot be stored goes to the dead letters in that same
transaction, so a bad event neither blocks the queue nor disappears.
"""

from __future__ import annotations

import json
import logging
import signal
import time
import traceback
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from uuid import UUID

import kombu
import psycopg
from kombu.exceptions import OperationalError as BrokerError
from kombu.transport.redis import QoS as RedisQoS
from kombu.transport.virtual import QoS as VirtualQoS
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from jiyi import events as wire
from jiyi.broker import intake_queue
from jiyi.events import Event
from jiyi.settings import Settings, get_settings
from models import dead, inbox
from models.base import unit_of_work
from models.queues import INTAKE_UNACKED, INTAKE_UNACKED_INDEX
from tasks.work import wake
from workers.app import TRANSPORT_OPTIONS, app

log = logging.getLogger("jiyi.intake")

#: Another intake that stores the same events at the same time makes ours start over; it cannot happen often.
MAX_COLLISIONS = 5
#: Seconds between attempts to reach a broker or a database that is away.
FIRST_PAUSE, LAST_PAUSE = 0.5, 10.0
#: Seconds that a quiet loop waits for a message before it looks whether it is to stop.
IDLE_WAIT = 1.0
#: … and, while a batch is being stored, before it looks whether that is done.
STORING_WAIT = 0.01
#: Events of one transaction, beyond which a batch is full: several messages of 500 share one commit.
MAX_EVENTS = 2_000


DATABASE_ERRORS = (DBAPIError, PoolTimeout, psycopg.Error)


@dataclass(slots=True)
class Rejected:
    """An event, or a whole message, that cannot be stored, and why."""

    body: str
    reason: str
    traceback: str | None = None


@dataclass(slots=True)
class Drained:
    """What one look at the queue gave."""

    messages: list[kombu.Message] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    rejected: list[Rejected] = field(default_factory=list)


@dataclass(slots=True)
class Storing:
    """A batch in the other thread's hands; the result says whether its messages are to be acknowledged."""

    messages: list[kombu.Message]
    result: Future[bool]


class Intake:
    """Reads one queue until told to stop.

    Two hands: this thread takes messages and acknowledges them (a kombu connection belongs to one thread), the
    other one stores. While a batch is being stored, the next one is taken.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.stopping = False
        self._held = Drained()
        self._storing: Storing | None = None
        self._storer = ThreadPoolExecutor(1, thread_name_prefix="store")

    def stop(self, *_: object) -> None:
        self.stopping = True

    def run(self) -> None:
        """Until :meth:`stop`. A broker or database that goes away is waited for."""
        pause = FIRST_PAUSE
        while not self.stopping:
            try:
                with self._connect() as connection:
                    self._consume(connection)
                    pause = FIRST_PAUSE
            except (BrokerError, OSError, *_errors_of(self.settings)) as error:
                log.warning("the broker is away: %s; trying again in %.1f s", error, pause)
                self._sleep(pause)
                pause = min(pause * 2, LAST_PAUSE)
        self._storer.shutdown()

    def _consume(self, connection: kombu.Connection) -> None:
        if self._storing is not None:  # taken over a connection that is gone: it will be delivered again, to no effect
            self._storing.result.result()
        self._held, self._storing = Drained(), None
        queue = intake_queue(self.settings)
        held_at_most = self.settings.intake_batch * 2  # one batch being stored, one being taken
        with connection.Consumer([queue], on_message=self._receive, prefetch_count=held_at_most, accept=["json"]):
            log.info("intake ready, reading %s", queue.name)
            while not self.stopping:
                self._fill(connection)
                self._hand_over()
            self._finish_storing()

    def _fill(self, connection: kombu.Connection) -> None:
        """Take messages until the batch is full or its time is up; while there is none, until the last is stored."""
        deadline: float | None = None
        while not self.stopping and not self._full():
            if deadline is not None:
                wait = deadline - time.monotonic()
            elif self._storing is not None:
                if self._storing.result.done():
                    return
                wait = STORING_WAIT
            else:
                wait = IDLE_WAIT
            if wait <= 0:
                return
            try:
                connection.drain_events(timeout=wait)
            except TimeoutError:
                if deadline is not None or self._storing is None:
                    return
                continue
            if deadline is None:
                deadline = time.monotonic() + self.settings.intake_wait_ms / 1000

    def _full(self) -> bool:
        return len(self._held.messages) >= self.settings.intake_batch or len(self._held.events) >= MAX_EVENTS

    def _hand_over(self) -> None:
        self._finish_storing()
        if self._held.messages and not self.stopping:
            held, self._held = self._held, Drained()
            self._storing = Storing(held.messages, self._storer.submit(self._store, held))

    def _finish_storing(self) -> None:
        if self._storing is not None:
            storing, self._storing = self._storing, None
            if storing.result.result():
                acknowledge(storing.messages)

    def _receive(self, message: kombu.Message) -> None:
        held = self._held
        held.messages.append(message)
        body = message.body if isinstance(message.body, bytes) else str(message.body).encode()
        if len(body) > self.settings.max_message_bytes:
            limit = f"{self.settings.max_message_bytes:,} (JIYI_MAX_MESSAGE_BYTES)"
            held.rejected.append(Rejected(readable(body), f"a message of {len(body):,} bytes is larger than {limit}"))
            return
        if message.content_type != wire.CONTENT_TYPE:
            held.rejected.append(Rejected(readable(body), f"content type {message.content_type!r} is not {wire.CONTENT_TYPE}"))
            return
        decoded = wire.decode(body)
        held.events.extend(decoded.events)
        held.rejected.extend(Rejected(*item) for item in decoded.rejected)

    def _store(self, held: Drained) -> bool:
        """In the other thread: store, then wake the workers. False: not stored, because the intake is to stop."""
        pause = FIRST_PAUSE
        while not self.stopping:
            try:
                stored = store(held.events, held.rejected)
            except (*DATABASE_ERRORS, inbox.CollisionError) as error:
                if not passes(error):
                    raise
                log.warning("the database is away: %s; nothing is acknowledged; trying again in %.1f s", error, pause)
                self._sleep(pause)
                pause = min(pause * 2, LAST_PAUSE)
            else:
                wake(*stored.owed)
                return True
        return False

    def _sleep(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while not self.stopping and (left := end - time.monotonic()) > 0:
            time.sleep(min(left, IDLE_WAIT))

    def _connect(self) -> kombu.Connection:
        """With its own list of messages in hand, so that they come back sooner than a task may take."""
        options = {
            **TRANSPORT_OPTIONS,
            "visibility_timeout": self.settings.intake_redelivery_seconds,
            "unacked_key": INTAKE_UNACKED,
            "unacked_index_key": INTAKE_UNACKED_INDEX,
            "unacked_mutex_key": "unacked_mutex.intake",
        }
        return kombu.Connection(self.settings.need("broker_url"), transport_options=options)


def acknowledge(messages: list[kombu.Message]) -> None:
    """Acknowledge many messages of one channel; on Redis in one round trip instead of one each."""
    if not messages:
        return
    qos = messages[0].channel.qos
    if isinstance(qos, RedisQoS):
        with qos.pipe_or_acquire() as pipe:
            for message in messages:
                qos._remove_from_indices(message.delivery_tag, pipe)  # noqa: SLF001 - kombu is pinned to one minor version
            pipe.execute()
        for message in messages:
            VirtualQoS.ack(qos, message.delivery_tag)
        return
    for message in messages:
        message.ack()


def store(events: list[Event], rejected: list[Rejected]) -> inbox.Stored:
    """Everything of a batch in one transaction; if the database refuses some event, each by itself.

    Raises:
        DATABASE_ERRORS: the database is away.
        CollisionError: other intakes keep storing the same events; they are not lost.
    """
    try:
        return _store_together(events, rejected)
    except (*DATABASE_ERRORS, ValueError) as error:
        if passes(error):
            raise
        log.warning("a batch of %d events was refused (%s); storing one by one", len(events), error)
    with unit_of_work() as connection:
        _bury(connection, rejected)
    total = inbox.Stored()
    for event in events:
        one = _store_alone(event)
        total = inbox.Stored(total.events + one.events, total.repeated + one.repeated, total.owed + one.owed)
    return total


def _store_together(events: list[Event], rejected: list[Rejected]) -> inbox.Stored:
    for attempt in range(1, MAX_COLLISIONS + 1):
        try:
            with unit_of_work() as connection:
                _bury(connection, rejected)
                return inbox.store(connection, events)
        except inbox.CollisionError as error:
            log.info("%s; starting over, attempt %d", error, attempt)
    raise inbox.CollisionError(f"still colliding after {MAX_COLLISIONS} attempts")


def _store_alone(event: Event) -> inbox.Stored:
    try:
        return _store_together([event], [])
    except (*DATABASE_ERRORS, ValueError) as error:
        if passes(error):
            raise
        body = wire.encode([event]).decode()
        with unit_of_work() as connection:
            _bury(connection, [Rejected(body, f"the database refused it: {error}", traceback.format_exc())])
        return inbox.Stored()


def _bury(connection: Connection, rejected: list[Rejected]) -> None:
    for item in rejected:
        log.warning("refused an event: %s", item.reason)
        event_id, group_id = identity(item.body)
        dead.bury_message(connection, item.body, item.reason, event_id, group_id, item.traceback)


def identity(body: str) -> tuple[UUID | None, str | None]:
    """Event id and group of a refused event, as far as they can be read."""
    try:
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


def readable(body: bytes) -> str:
    """A body as text that PostgreSQL can hold."""
    return body.decode("utf-8", errors="replace").replace("\x00", "\N{REPLACEMENT CHARACTER}")


def passes(error: Exception) -> bool:
    """Whether waiting helps: the server could not be reached or ended the session, or others hold what we need;
    as opposed to refusing what was sent."""
    if isinstance(error, inbox.CollisionError):
        return True
    if isinstance(error, DBAPIError):
        if error.connection_invalidated:
            return True
        error = error.orig if isinstance(error.orig, Exception) else error
    if not isinstance(error, psycopg.Error):
        return isinstance(error, PoolTimeout)
    # No state: the connection broke. 08: connection, 53: out of resources, 40: try again, 55P03: a lock, 57: ended.
    return error.sqlstate is None or error.sqlstate[:2] in ("08", "53", "40", "57") or error.sqlstate == "55P03"


def _errors_of(settings: Settings) -> tuple[type[BaseException], ...]:
    connection = kombu.Connection(settings.need("broker_url"))
    return (*connection.connection_errors, *connection.channel_errors)


def main() -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    app.loader.import_default_modules()  # the kinds of work, so that it knows which queues to wake
    intake = Intake(get_settings())
    signal.signal(signal.SIGTERM, intake.stop)
    signal.signal(signal.SIGINT, intake.stop)
    intake.run()
    log.info("intake stopped")


if __name__ == "__main__":
    main()
