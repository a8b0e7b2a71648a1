"""Events of many requests into one transaction: whoever comes while one is committed goes along with the next.

Nobody waits for others to come: a request that finds nothing under way is stored at once.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as Late
from dataclasses import dataclass, field

import psycopg

from jiyi.once import once
from jiyi.protocol.events import Event
from jiyi.protocol.rest import FieldProblem
from models.db import scope as tenancy
from models.memory.ingestion import inbox
from models.memory.ingestion.inbox import Prepared
from models.memory.ingestion.ingest import Ingestor, Part
from models.queue.reused_ids import ReusedIds, reason_of
from web.api.problems import Refused
from web.sources import FAILURES, PATIENCE, Unanswered, one_line

log = logging.getLogger("jiyi.web")

#: Threads that store: while one waits for the disk, another prepares.
STORERS = 2
#: Events of one transaction, unless a single request brings more.
MAX_TOGETHER = 500
#: Below :data:`web.sources.PATIENCE`, so that PostgreSQL itself ends what nobody waits for any more.
INGESTOR = Ingestor(redelivers=False, statement_timeout_ms=2_500)


@dataclass(frozen=True, slots=True)
class Kept:
    """What became of one request's events: how many were new."""

    accepted: int
    repeated: int


@dataclass(slots=True)
class _Waiting:
    part: Part
    ready: Prepared
    done: Future[Kept] = field(default_factory=Future)


class Storers:
    """The threads of this process that store events."""

    def __init__(self) -> None:
        self._waiting: queue.SimpleQueue[_Waiting] = queue.SimpleQueue()
        for number in range(STORERS):
            threading.Thread(target=self._work, name=f"store-{number}", daemon=True).start()

    def keep(self, events: Sequence[Event]) -> Kept:
        """Return when they are in the database.

        Raises:
            Refused: the database refuses them, or an id is taken.
            Unanswered: the database is away, or slow; whether they were stored is not known.
        """
        foreign = {event.group_id for event in events} - set(tenancy.current().groups)
        if foreign:
            raise ValueError(f"events of the group {min(foreign)!r}, for which the request does not speak")
        item = _Waiting(Part(events), inbox.prepare_all(events))
        self._waiting.put(item)
        try:
            return item.done.result(PATIENCE)
        except Late:
            raise Unanswered("database", f"no answer within {PATIENCE:g} s") from None

    def _work(self) -> None:
        while True:
            together = [self._waiting.get()]
            while sum(len(item.part.events) for item in together) < MAX_TOGETHER:
                try:
                    together.append(self._waiting.get_nowait())
                except queue.Empty:
                    break
            try:
                _keep(together)
            except BaseException:  # whatever it was, the thread has to go on
                log.exception("events could not be stored")


def _keep(together: Sequence[_Waiting]) -> None:
    ready = {key: made for item in reversed(together) for key, made in item.ready.items()}  # of equal keys the first is stored
    fresh = set(INGESTOR.ingest([item.part for item in together], ready=ready).fresh)
    for item in together:
        if item.part.error is not None:
            item.done.set_exception(_said(item.part.error))
            continue
        new = {event.key for event in item.part.events} & fresh
        fresh -= new
        item.done.set_result(Kept(len(new), len(item.part.events) - len(new)))


def _said(error: Exception) -> Exception:
    """An error as the API says it."""
    match error:
        case ReusedIds():
            problems = [FieldProblem(field="event_id", message=reason_of(event)) for event in error.events]
            return Refused(409, str(error), problems, code=error.code)
        case inbox.CollisionError():
            return Refused(409, "event_id: taken by something else; choose another.")
        case psycopg.DataError():
            return Refused(422, f"The database refused it: {one_line(error)}")
        case psycopg.OperationalError():
            return Unanswered("database", one_line(error))
    return Unanswered("database", one_line(error)) if isinstance(error, FAILURES) else error


@once
def storers() -> Storers:
    """This process's; made on first use, so always after a fork."""
    return Storers()
