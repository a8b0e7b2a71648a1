"""The intake: events from the exchange into the database, in batches, acknowledged after the commit.

Take up to ``JIYI_INTAKE_BATCH`` messages, decode, one transaction, acknowledge, wake the workers. What cannot
be stored goes to the dead letters in that same transaction, so a bad event neither blocks the queue nor disappears.
"""

from __future__ import annotations

import json
import logging
import signal
import time
import traceback
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, field
from uuid import UUID

import psycopg
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from jiyi.memory.nodes import Derived
from jiyi.operations.log_redaction import fields_in
from jiyi.protocol import events as wire
from jiyi.protocol.events import Event
from jiyi.settings import Settings, get_settings
from models.db.connection import tell_scope, unit_of_work
from models.db.scope import for_groups, whole_service
from models.memory import inbox
from models.queue import dead_letters, news
from tasks.framework.work import wake
from workers import gc_tuning
from workers.app import app
from workers.intake.signatures import Signatures
from workers.intake.sources import BROKER_ERRORS, Batch, Source, Taken, open_source

log = logging.getLogger("jiyi.intake")

#: Another intake that stores the same events at the same time makes ours start over; it cannot happen often.
MAX_COLLISIONS = 5
#: Seconds between attempts to reach a broker or a database that is away.
FIRST_PAUSE, LAST_PAUSE = 0.5, 10.0
#: Seconds that a quiet loop waits for a message before it looks whether it is to stop.
IDLE_WAIT = 1.0
#: … and, while a batch is being stored, before it looks whether that is done.
STORING_WAIT = 0.01

DATABASE_ERRORS = (DBAPIError, PoolTimeout, psycopg.Error)


@dataclass(slots=True)
class Rejected:
    """An event, or a whole message, that cannot be stored, and why."""

    body: str
    reason: str
    traceback: str | None = None
    #: Whether the group that it names may be believed; else it is kept under none.
    believed: bool = True

    def identity(self) -> tuple[UUID | None, str | None]:
        event_id, group_id = identity(self.body)
        return event_id, group_id if self.believed else None


@dataclass(slots=True)
class Opened:
    """What the messages of a batch held."""

    events: list[Event] = field(default_factory=list)
    rejected: list[Rejected] = field(default_factory=list)
    #: What follows from the events; None if that failed: the store then finds out which one is to blame.
    derived: dict[UUID, Derived] | None = None


@dataclass(slots=True)
class Storing:
    """A batch in the other thread's hands; the result says whether it is to be acknowledged."""

    batch: Batch
    result: Future[bool]


class Intake:
    """Reads one queue until told to stop.

    Two hands: while a batch is being stored, the next one is taken and opened; so a busy queue fills batches by
    itself, and a quiet one is not kept waiting.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.stopping = False
        self._storer = ThreadPoolExecutor(1, thread_name_prefix="store")
        self._signatures = Signatures(settings)

    def stop(self, *_: object) -> None:
        self.stopping = True

    def run(self) -> None:
        """Until :meth:`stop`. A broker or database that goes away is waited for."""
        pause = FIRST_PAUSE
        while not self.stopping:
            try:
                with closing(open_source(self.settings)) as source:
                    log.info("intake ready, reading %s", self.settings.intake_queue)
                    pause = FIRST_PAUSE
                    self._read(source)
            except BROKER_ERRORS as error:
                log.warning("the broker is away: %s; trying again in %.1f s", error, pause)
                self._sleep(pause)
                pause = min(pause * 2, LAST_PAUSE)
        self._storer.shutdown()

    def _read(self, source: Source) -> None:
        storing: Storing | None = None
        while not self.stopping:
            # With a batch in the other hand look only for what is there: its end must not wait for the next message.
            batch = source.take(self.settings.intake_batch, IDLE_WAIT if storing is None else STORING_WAIT)
            opened = self._open(batch) if batch else None
            if storing is not None and (batch is not None or storing.result.done()):
                self._finish(source, storing)
                storing = None
            if batch is not None and opened is not None:
                storing = Storing(batch, self._storer.submit(self._store, opened))
        if storing is not None:
            self._finish(source, storing)

    @staticmethod
    def _finish(source: Source, storing: Storing) -> None:
        if storing.result.result():
            acknowledge(source, storing.batch)

    def _open(self, batch: Batch) -> Opened | None:
        """What a batch holds; None when the intake is to stop, and its messages are to be delivered again."""
        if not self._know_signers(batch):
            return None
        opened = Opened()
        for message in batch.messages:
            problem = self._signatures.problem(message)
            if problem:
                opened.rejected.append(Rejected(readable(message.body), problem, believed=False))
                continue
            problem = self._problem(message)
            if problem:
                opened.rejected.append(Rejected(readable(message.body), problem))
                continue
            try:
                decoded = wire.decode(message.body)
            except Exception as error:  # whatever a message does to us, it must not come back for ever
                log.exception("a message could not be opened")
                opened.rejected.append(Rejected(readable(message.body), f"cannot be opened: {error!r}", traceback.format_exc()))
                continue
            rejected = [Rejected(*item) for item in decoded.rejected]
            signed_for = self._signatures.group(message)
            if signed_for is not None:
                foreign = {event.group_id for event in decoded.events} - {signed_for}
                if foreign:
                    problem = f"signed for the group {signed_for!r}, but of the group {min(foreign)!r}"
                    opened.rejected.append(Rejected(readable(message.body), problem, believed=False))
                    continue
                for item in rejected:
                    item.believed = identity(item.body)[1] == signed_for
            opened.events.extend(decoded.events)
            opened.rejected.extend(rejected)
        with suppress(Exception):
            opened.derived = inbox.derive_all(opened.events)
        return opened

    def _know_signers(self, batch: Batch) -> bool:
        """Have the keys at hand that the batch is signed with. False: not, because the intake is to stop."""
        pause = FIRST_PAUSE
        while not self.stopping:
            try:
                self._signatures.look_up(batch.messages)
            except DATABASE_ERRORS as error:
                if not passes(error):
                    raise
                log.warning("the database is away: %s; signatures wait; trying again in %.1f s", error, pause)
                self._sleep(pause)
                pause = min(pause * 2, LAST_PAUSE)
            else:
                return True
        return False

    def _problem(self, message: Taken) -> str:
        if len(message.body) > self.settings.max_message_bytes:
            limit = f"{self.settings.max_message_bytes:,} (JIYI_MAX_MESSAGE_BYTES)"
            return f"a message of {len(message.body):,} bytes is larger than {limit}"
        if message.content_type != wire.CONTENT_TYPE:
            return f"content type {message.content_type!r} is not {wire.CONTENT_TYPE}"
        return ""

    def _store(self, opened: Opened) -> bool:
        """In the other thread: store, then wake the workers. False: not stored, because the intake is to stop."""
        pause = FIRST_PAUSE
        while not self.stopping:
            try:
                stored = store(opened.events, opened.rejected, opened.derived)
            except (*DATABASE_ERRORS, inbox.CollisionError) as error:
                if not passes(error):
                    raise
                log.warning("the database is away: %s; nothing is acknowledged; trying again in %.1f s", error, pause)
                self._sleep(pause)
                pause = min(pause * 2, LAST_PAUSE)
            else:
                wake(*stored.owed)
                news.stored(stored)
                if opened.rejected:
                    news.refused(item.identity()[1] for item in opened.rejected)
                return True
        return False

    def _sleep(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while not self.stopping and (left := end - time.monotonic()) > 0:
            time.sleep(min(left, IDLE_WAIT))


def acknowledge(source: Source, batch: Batch) -> None:
    """After the commit, never before: from here on the broker forgets the batch."""
    source.acknowledge(batch)


def store(events: list[Event], rejected: list[Rejected], derived: dict[UUID, Derived] | None = None) -> inbox.Stored:
    """Everything of a batch in one transaction; if the database refuses some event, each by itself.

    Raises:
        DATABASE_ERRORS: the database is away.
        CollisionError: other intakes keep storing the same events; they are not lost.
    """
    try:
        return _store_together(events, rejected, derived)
    except Exception as error:  # one event must not block the queue, whatever is wrong with it
        if passes(error):
            raise
        log.warning("a batch of %d events was refused (%s); storing one by one", len(events), error)
    with whole_service(), unit_of_work() as connection:
        _bury(connection, rejected)
    total = inbox.Stored()
    for event in events:
        total.add(_store_alone(event))
    return total


def _store_together(events: list[Event], rejected: list[Rejected], derived: dict[UUID, Derived] | None) -> inbox.Stored:
    for attempt in range(1, MAX_COLLISIONS + 1):
        try:
            with for_groups(*(event.group_id for event in events)), unit_of_work() as connection:
                if rejected:  # of groups that they only claim to be of, or of none
                    with whole_service():
                        tell_scope(connection)
                        _bury(connection, rejected)
                    tell_scope(connection)
                return inbox.store(connection, events, derived)
        except inbox.CollisionError as error:
            log.info("%s; starting over, attempt %d", error, attempt)
    raise inbox.CollisionError(f"still colliding after {MAX_COLLISIONS} attempts")


def _store_alone(event: Event) -> inbox.Stored:
    try:
        return _store_together([event], [], None)
    except Exception as error:  # kept with its reason; the others go on
        if passes(error):
            raise
        body = wire.encode([event]).decode()
        with whole_service(), unit_of_work() as connection:
            _bury(connection, [Rejected(body, f"the database refused it: {error}", traceback.format_exc())])
        news.refused([event.group_id])
        return inbox.Stored()


def _bury(connection: Connection, rejected: list[Rejected]) -> None:
    for item in rejected:
        event_id, group_id = item.identity()
        # What was refused, and why, is in the dead letter: a log holds nobody's words.
        log.warning("refused event %s: %s", event_id or "(no id)", fields_in(item.reason, wire.FIELD_NAMES))
        dead_letters.bury_message(connection, item.body, item.reason, event_id, group_id, item.traceback)


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
    if error.sqlstate is None:  # the connection broke, or the driver itself refused a value
        return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
    # 08: connection, 53: out of resources, 40: try again, 55P03: a lock, 57: ended.
    return error.sqlstate[:2] in ("08", "53", "40", "57") or error.sqlstate == "55P03"


def main() -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    app.loader.import_default_modules()  # the kinds of work, so that it knows which queues to wake
    gc_tuning.tune_gc()
    intake = Intake(get_settings())
    signal.signal(signal.SIGTERM, intake.stop)
    signal.signal(signal.SIGINT, intake.stop)
    intake.run()
    log.info("intake stopped")


if __name__ == "__main__":
    main()
