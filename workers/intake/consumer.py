"""The intake: events from the exchange into the database, in batches, acknowledged after the commit.

Several intakes open batches at the same time, and store them in the order in which they were taken, each
shard of agents for itself (``workers.intake.sources``).
"""

from __future__ import annotations

import logging
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import partial

from jiyi import tracing
from jiyi.protocol.events import Event, EventKey
from jiyi.protocol.wire.broker import BROKER_ERRORS, INTAKE_QUEUE
from jiyi.protocol.wire.calls import retrieval_queue, retrieval_queues
from jiyi.settings import Settings, get_settings
from models.memory.inbox import CollisionError, Prepared, StoreResult
from models.memory.ingest import DATABASE_ERRORS, EventBatch, Ingestor, Rejected, is_transient
from workers import gc_tuning, logs
from workers import tracing as tracing_setup
from workers.app import app
from workers.intake.opening import Opened, Signatures, open_messages, refused
from workers.intake.sources import BATCH, MessageBatch, MessageSource, begin_again, ended, open_source

log = logging.getLogger("jiyi.intake")

#: Seconds after which a thread that computes lets another one go on. Python's 5 ms would be waited for at
#: each answer of the database while the other thread opens the next batch: a dozen times a batch.
SWITCH_INTERVAL = 0.0005
#: New objects between two looks for cycles: more than those of two batches, each of them alive until its
#: batch is stored. A look at 50,000 took as long as a thousand events. By the clock there is one a minute all
#: the same.
GC_THRESHOLD = 500_000
#: Seconds between attempts to reach a broker or a database that is away.
FIRST_PAUSE, LAST_PAUSE = 0.5, 10.0
#: Seconds that a quiet loop waits for a message before it looks whether it is to stop.
IDLE_WAIT = 1.0
#: … and, while a batch is being stored, before it looks whether that is done.
STORING_WAIT = 0.01
#: Seconds between two looks whether earlier batches of other intakes are stored: at first, and at most.
FIRST_LOOK, LAST_LOOK = 0.001, 0.05
#: Intakes that may die with a message in hand after a first one did. The supervisor gives up after five.
MOST_ATTEMPTS = 2
POISON = "was in hand each time when several intakes ended; put aside without being looked into"

INGESTOR = Ingestor(redelivers=True)
NO_TRACES: Mapping[EventKey, str] = {}


@dataclass(slots=True)
class Storing:
    """A batch that the other thread stores; the result says whether it is to be acknowledged."""

    batch: MessageBatch
    result: Future[bool]


class Intake:
    """Reads one queue until stopped: one thread stores a batch, the other takes and opens the next."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.stopping = False
        self._storer = ThreadPoolExecutor(1, thread_name_prefix="store")
        self._signatures = Signatures(settings)

    def stop(self, *_: object) -> None:
        self.stopping = True

    def run(self) -> None:
        """Until :meth:`stop`. A broker or database that goes away is waited for."""
        pauses = self._pauses()
        while not self.stopping:
            try:
                with closing(open_source(self.settings)) as source:
                    log.info("intake ready, reading %s", INTAKE_QUEUE)
                    pauses = self._pauses()
                    self._read(source)
            except BROKER_ERRORS as error:
                log.warning("the broker is away: %s; trying again", error)
                next(pauses)
        self._storer.shutdown()

    def _read(self, source: MessageSource) -> None:
        storing: Storing | None = None
        while not self.stopping:
            # While a batch is being stored look only for what is there: its end must not wait for the next
            # message.
            batch = source.take(BATCH, IDLE_WAIT if storing is None else STORING_WAIT)
            opened = self._open(batch) if batch and not batch.again else None
            if storing is not None and (batch is not None or storing.result.done()):
                self._finish(source, storing)
                storing = None
            if batch is not None and opened is not None:
                storing = Storing(batch, self._storer.submit(self._store, source, batch, opened))
            elif batch is not None and batch.again and self._store_again(source, batch):
                source.acknowledge(batch)
        if storing is not None:
            self._finish(source, storing)

    @staticmethod
    def _finish(source: MessageSource, storing: Storing) -> None:
        if storing.result.result():
            source.acknowledge(storing.batch)  # after the commit, never before: the broker forgets the batch

    def _open(self, batch: MessageBatch) -> Opened | None:
        """What a batch holds; None when the intake is to stop, and its messages are to be delivered again."""
        if not self._until_done("signatures wait", lambda: self._signatures.look_up(batch.messages)):
            return None
        return open_messages(batch.messages, self._signatures)

    def _store(self, source: MessageSource, batch: MessageBatch, opened: Opened) -> bool:
        """In the other thread, shard by shard, each in its turn. False: the intake is to stop."""
        for shard, events in enumerate(by_shard(opened.events, self.settings.retrieval_shards)):
            step = partial(store_part, opened, events, shard)
            turn = self._await_turn(source, batch, shard)
            if not (turn and self._until_done("nothing is acknowledged", step)):
                return False
        return True

    def _await_turn(self, source: MessageSource, batch: MessageBatch, shard: int) -> bool:
        pause = FIRST_LOOK
        while not self.stopping:
            turn = source.turn(batch, shard)
            if turn is True:
                return True
            if turn is False:
                time.sleep(pause)
                pause = min(pause * 2, LAST_LOOK)
            elif self._store_again(source, turn):
                source.acknowledge(turn)
        return False

    def _store_again(self, source: MessageSource, batch: MessageBatch) -> bool:
        """A batch of which an intake may have died, one by one, to see of which message."""
        signatures = Signatures(self.settings)  # the other thread is using its own
        has_signatures = self._until_done("signatures wait", lambda: signatures.look_up(batch.messages))
        if not (has_signatures and self._await_turn(source, batch, 0)):
            return False
        for message in batch.messages:
            if begin_again(message) > MOST_ATTEMPTS:
                log.error("%s: a message of %d bytes", POISON, len(message.body))
                opened = Opened(rejected=[refused(message, POISON, believed=False)])
            else:
                opened = open_messages([message], signatures)
            step = partial(store_part, opened, opened.events, 0)
            is_stored = self._until_done("nothing is acknowledged", step)
            ended(message)  # with its process alive
            if not is_stored:
                return False
        return True

    def _until_done(self, meanwhile: str, step: Callable[[], object]) -> bool:
        """Repeat a step while the database is away. False: the intake is to stop."""
        pauses = self._pauses()
        while not self.stopping:
            try:
                step()
            except (*DATABASE_ERRORS, CollisionError) as error:
                if not is_transient(error):
                    raise
                log.warning("the database is away: %s; %s; trying again", error, meanwhile)
                next(pauses)
            else:
                return True
        return False

    def _pauses(self) -> Iterator[None]:
        """Each ``next`` sleeps, twice as long as the one before, unless the intake is to stop."""
        seconds = FIRST_PAUSE
        while True:
            end = time.monotonic() + seconds
            while not self.stopping and (remaining := end - time.monotonic()) > 0:
                time.sleep(min(remaining, IDLE_WAIT))
            yield
            seconds = min(seconds * 2, LAST_PAUSE)


def store(
    events: Sequence[Event],
    rejected: Sequence[Rejected],
    ready: Prepared | None = None,
    traces: Mapping[EventKey, str] = NO_TRACES,
) -> StoreResult:
    """Store a batch; refused events become dead letters. Raises as :meth:`Ingestor.ingest`."""
    with tracing.batch("process events", traces, "stored"):
        return INGESTOR.ingest([EventBatch([event]) for event in events], rejected, ready)


def by_shard(events: Sequence[Event], shards: int) -> list[list[Event]]:
    """The events, in their order, by the shard of their agent."""
    if shards == 1:
        return [list(events)]
    places = {queue: shard for shard, queue in enumerate(retrieval_queues(shards))}
    parts: list[list[Event]] = [[] for _ in places]
    for event in events:
        parts[places[retrieval_queue(event.group_id, event.agent_id or "", shards)]].append(event)
    return parts


def store_part(opened: Opened, events: Sequence[Event], shard: int) -> None:
    """One shard's events of a batch; what was rejected goes with the first."""
    rejected = opened.rejected if shard == 0 else ()
    if events or rejected:
        store(events, rejected, opened.ready, opened.traces)


def main() -> None:
    logs.install("intake")
    tracing_setup.install("intake")
    gc_tuning.tune_malloc()
    app.loader.import_default_modules()  # the kinds of work, so that it knows which queues to wake
    gc_tuning.tune_gc(GC_THRESHOLD)
    sys.setswitchinterval(SWITCH_INTERVAL)
    intake = Intake(get_settings())
    signal.signal(signal.SIGTERM, intake.stop)
    signal.signal(signal.SIGINT, intake.stop)
    intake.run()
    log.info("intake stopped")
