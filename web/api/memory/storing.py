"""Events of many requests into one transaction: whoever comes while one is committed goes along with the next.

A transaction of one event takes nearly as long as one of fifty. Nobody waits for others to come: a request that finds
nothing under way is stored at once.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as Late
from dataclasses import dataclass, field
from uuid import UUID

import psycopg
from sqlalchemy import Connection

from jiyi.memory.nodes import Derived
from jiyi.once import once
from jiyi.protocol.events import Event
from models.db import scope as tenancy
from models.db.scope import Scope
from models.memory import inbox
from models.queue import news
from models.queue.wakeups import wake
from web.api.problems import Refused
from web.sources import FAILURES, PATIENCE, Unanswered, one_line, writing

log = logging.getLogger("jiyi.web")

#: Threads that store: while one waits for the disk, another prepares.
STORERS = 2
#: Events of one transaction, unless a single request brings more.
MAX_TOGETHER = 500
#: Another writer stored one of the same events at the same moment; the next attempt finds it there.
MAX_COLLISIONS = 3


@dataclass(frozen=True, slots=True)
class Kept:
    """What became of one request's events: how many were new."""

    accepted: int
    repeated: int


@dataclass(slots=True)
class _Waiting:
    events: Sequence[Event]
    derived: Mapping[UUID, Derived]
    #: What the request may see; its events are stored within it.
    scope: Scope
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
        item = _Waiting(events, inbox.derive_all(events), tenancy.current())
        self._waiting.put(item)
        try:
            return item.done.result(PATIENCE)
        except Late:
            raise Unanswered("database", f"no answer within {PATIENCE:g} s") from None

    def _work(self) -> None:
        while True:
            together = [self._waiting.get()]
            while sum(len(item.events) for item in together) < MAX_TOGETHER:
                try:
                    together.append(self._waiting.get_nowait())
                except queue.Empty:
                    break
            try:
                self._keep_all(together)
            except BaseException:  # whatever it was, the thread has to go on
                log.exception("events could not be stored")

    def _keep_all(self, together: Sequence[_Waiting]) -> None:
        try:
            stored = _store(together)
        except Exception as error:  # one request's events must not spoil another's
            if len(together) > 1:
                for item in together:
                    self._keep_all([item])
            else:
                together[0].done.set_exception(_said(error))
            return
        fresh = set(stored.fresh)
        for item in together:
            new = {event.event_id for event in item.events} & fresh
            fresh -= new
            item.done.set_result(Kept(len(new), len(item.events) - len(new)))
        tell(stored)


def keep_with(events: Sequence[Event], also: Callable[[Connection], None]) -> None:
    """Store events in a transaction of their own, after ``also`` in the same one."""
    item = _Waiting(events, inbox.derive_all(events), tenancy.current())
    try:
        stored = _store([item], also)
    except Exception as error:
        raise _said(error) from error
    tell(stored)


def tell(stored: inbox.Stored) -> None:
    """After the commit: to the workers, and to those who watch. Never raises for a broker or a Valkey that is away."""
    wake(*stored.owed)
    news.stored(stored)


def _store(together: Sequence[_Waiting], also: Callable[[Connection], None] | None = None) -> inbox.Stored:
    events = [event for item in together for event in item.events]
    derived = {event_id: made for item in together for event_id, made in item.derived.items()}

    def change(connection: Connection) -> inbox.Stored:
        if also is not None:
            also(connection)
        return inbox.store(connection, events, derived)

    with tenancy.for_groups(*(group for item in together for group in item.scope.groups)):
        for _ in range(MAX_COLLISIONS - 1):
            try:
                return writing(change)()
            except inbox.CollisionError:
                continue
        return writing(change)()


def _said(error: Exception) -> Exception:
    """An error as the API says it."""
    match error:
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
