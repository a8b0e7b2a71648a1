"""One thread reads the news of every group that somebody watches, and hands it to the watchers' queues.

Each watcher is a request's thread; were each to wait in Valkey by itself, each would hold a connection. A watcher that
does not keep up is cut off when its queue is full: it comes back and goes on where it was.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from queue import Empty, Full, Queue

import redis

from jiyi.once import once
from models.queue import stream
from models.queue.stream import Entry, place

#: Live streams that one web process has open, each of which takes one of its threads; and of them those of one API key or person.
STREAMS, PER_OWNER = 24, 8
#: Live streams that one address (behind a proxy the client's) has open in one web process.
PER_ADDRESS = 16

log = logging.getLogger(__name__)

#: News that waits for one watcher. Entries are shared between the watchers, so the memory is that of a group's stream.
QUEUED = 1_000
#: Milliseconds of one blocking read; a group that was added meanwhile is among the next.
BLOCK_MS = 500
#: Seconds between attempts to read while Valkey is away.
PAUSE = 1.0
#: Entries read at once. More of them at a time than this may be more than are kept: then it is looked whether some were lost.
READ = stream.KEPT // 2


class TooManyWatchers(Exception):  # noqa: N818 – its name says what happened
    """``of_this_one``: the asker, or everybody at the asker's address, has too many streams open; else the whole process has."""

    def __init__(self, limit: int, *, of_this_one: bool) -> None:
        self.limit, self.of_this_one = limit, of_this_one
        super().__init__(f"{limit} streams are open already")


@dataclass(eq=False, slots=True)
class Watcher:
    """One client's subscription."""

    group_id: str
    owner: str
    address: str
    #: Live news comes after this id; what is before it is read by the watcher itself.
    since: str
    entries: Queue[Entry] = field(default_factory=lambda: Queue(QUEUED))
    #: It was too slow, or the process ends: nothing more comes.
    cut: bool = False

    def next(self, timeout: float) -> Entry | None:
        """The next entry; None if there is none in time."""
        try:
            return self.entries.get(timeout=timeout)
        except Empty:
            return None

    def missed(self, after: str) -> Iterator[Entry]:
        """What there was between an id and the live news, in pages. Raises what Valkey raises."""
        last = place(self.since)
        while page := stream.read(self.group_id, after, count=READ):
            for entry in page:
                if entry.place > last:
                    return
                yield entry
            after = page[-1].id


class Hub:
    """The watchers of one process. Thread-safe."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._watchers: dict[str, set[Watcher]] = {}
        #: Of each watched group the last id that was handed on.
        self._places: dict[str, str] = {}
        self._thread: threading.Thread | None = None

    def join(self, group_id: str, owner: str, address: str = "") -> Watcher:
        """Watch a group from now on; to be left in the end.

        Raises:
            TooManyWatchers: nobody is turned away who is there already.
            RedisError: Valkey is away.
        """
        self._refuse_too_many(owner, address)
        newest = stream.ends(group_id)[1]
        with self._changed:
            self._refuse_too_many(owner, address)
            watcher = Watcher(group_id, owner, address, self._places.setdefault(group_id, newest))
            self._watchers.setdefault(group_id, set()).add(watcher)
            if self._thread is None:
                self._thread = threading.Thread(target=self._read, name="news", daemon=True)
                self._thread.start()
            self._changed.notify()
        return watcher

    def leave(self, watcher: Watcher) -> None:
        """A second time does nothing."""
        with self._changed:
            watchers = self._watchers.get(watcher.group_id, set())
            watchers.discard(watcher)
            if not watchers:
                self._watchers.pop(watcher.group_id, None)
                self._places.pop(watcher.group_id, None)

    def watchers(self) -> list[Watcher]:
        """Whose streams are open."""
        with self._changed:
            return [watcher for watchers in self._watchers.values() for watcher in watchers]

    def cut_all(self) -> None:
        """End all streams, because the process is to end. Takes no lock: a signal's handler calls it."""
        for watchers in list(self._watchers.values()):
            for watcher in list(watchers):
                watcher.cut = True

    def _refuse_too_many(self, owner: str, address: str) -> None:
        there = self.watchers()
        if sum(watcher.owner == owner for watcher in there) >= PER_OWNER:
            raise TooManyWatchers(PER_OWNER, of_this_one=True)
        if address and sum(watcher.address == address for watcher in there) >= PER_ADDRESS:
            raise TooManyWatchers(PER_ADDRESS, of_this_one=True)
        if len(there) >= STREAMS:
            raise TooManyWatchers(STREAMS, of_this_one=False)

    def _read(self) -> None:
        answers = True
        while True:
            with self._changed:
                while not self._places:
                    self._changed.wait()
                after = dict(self._places)
            try:
                news = stream.read_groups(after, BLOCK_MS, READ)
                # After a pause, or a burst, Valkey may have dropped what was not read yet.
                doubtful = after if not answers else {group: after[group] for group in news if len(news[group]) >= READ}
                lost = [group for group in doubtful if _lost(group, after[group])]
                answers = True
            except (redis.RedisError, OSError) as error:
                if answers:
                    log.warning("news cannot be read: %s", error)
                answers = False
                time.sleep(PAUSE)
                continue
            self._hand_on(news, lost)

    def _hand_on(self, found: dict[str, list[Entry]], lost: list[str]) -> None:
        with self._changed:
            for group_id in lost:  # whoever comes back with its last id is told of the gap
                for watcher in self._watchers.get(group_id, ()):
                    watcher.cut = True
            for group_id, entries in found.items():
                if group_id not in self._places:
                    continue  # the last one has left meanwhile
                known = place(self._places[group_id])
                for watcher in self._watchers[group_id]:
                    _give(watcher, entries, known)
                self._places[group_id] = max(self._places[group_id], entries[-1].id, key=place)


def _give(watcher: Watcher, entries: list[Entry], known: stream.Place) -> None:
    try:
        for entry in entries:
            if entry.place > known and not watcher.cut:
                watcher.entries.put_nowait(entry)
    except Full:
        watcher.cut = True


def _lost(group_id: str, after: str) -> bool:
    return place(stream.ends(group_id)[0]) > place(after) > (0, 0)


@once
def hub() -> Hub:
    """This process's hub."""
    return Hub()
