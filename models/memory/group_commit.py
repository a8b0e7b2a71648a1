"""Events of many requests into one transaction: whoever comes while one is committed goes along with the next.

Nobody waits for others to come: a request that finds nothing under way is stored at once.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from jiyi.once import once
from jiyi.protocol.events import Event
from models.db import scope as tenancy
from models.memory import inbox
from models.memory.inbox import Prepared
from models.memory.ingest import Ingestor, Part

log = logging.getLogger("jiyi.web")

#: Threads that store: while one waits for the disk, another prepares.
THREADS = 2
#: Events of one transaction, unless a single request brings more.
MAX_TOGETHER = 500
#: Below the seconds that a request waits, so that PostgreSQL itself ends what nobody waits for any more.
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


class GroupCommit:
    """The threads of this process that store events."""

    def __init__(self) -> None:
        self._waiting: queue.SimpleQueue[_Waiting] = queue.SimpleQueue()
        for number in range(THREADS):
            threading.Thread(target=self._work, name=f"store-{number}", daemon=True).start()

    def store(self, events: Sequence[Event], seconds: float) -> Kept:
        """Return when they are in the database, all or none.

        Raises:
            ReusedIds, CollisionError: an id is taken.
            DATABASE_ERRORS: the database refuses them, or is away.
            concurrent.futures.TimeoutError: it took longer; whether they were stored is not known.
        """
        foreign = {event.group_id for event in events} - set(tenancy.current().groups)
        if foreign:
            raise ValueError(f"events of the group {min(foreign)!r}, for which the request does not speak")
        item = _Waiting(Part(events), inbox.prepare_all(events))
        self._waiting.put(item)
        return item.done.result(seconds)

    def _work(self) -> None:
        while True:
            together = [self._waiting.get()]
            while sum(len(item.part.events) for item in together) < MAX_TOGETHER:
                try:
                    together.append(self._waiting.get_nowait())
                except queue.Empty:
                    break
            try:
                _store(together)
            except BaseException:  # whatever it was, the thread has to go on
                log.exception("events could not be stored")


def _store(together: Sequence[_Waiting]) -> None:
    ready = {key: made for item in reversed(together) for key, made in item.ready.items()}  # of equal keys the first is stored
    fresh = set(INGESTOR.ingest([item.part for item in together], ready=ready).fresh)
    for item in together:
        if item.part.error is not None:
            item.done.set_exception(item.part.error)
            continue
        new = {event.key for event in item.part.events} & fresh
        fresh -= new
        item.done.set_result(Kept(len(new), len(item.part.events) - len(new)))


@once
def group_commit() -> GroupCommit:
    """This process's; made on first use, so always after a fork."""
    return GroupCommit()
