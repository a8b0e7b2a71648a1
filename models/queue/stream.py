"""What has just changed, for watchers: a short Valkey stream for each group, and the meters.

Published after the commit; only ids, names of agents, counts and durations, never texts. If Valkey is away
it is lost, and nothing waits for it.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from queue import Empty, Full, Queue
from typing import Any, Literal, get_args
from uuid import UUID

import redis
from pydantic_core import to_json
from redis.client import Pipeline

from jiyi.once import once
from models.db import valkey_keys
from models.db.valkey import valkey
from models.operations import meters
from models.operations.meters import WORK
from models.queue.dead_letters import INTAKE

log = logging.getLogger(__name__)
Kind = Literal[
    "node.stored",
    "node.retrievable",
    "retrieval.answered",
    "work.done",
    "work.failed",
    "letter.opened",
    "letter.resolved",
    "reflection.done",
    "agent.configured",
    "erasure.done",
    "wm.accepted",
    "wm.rejected",
    "memory.promoted",
    "node_state_change",
    "memory.retrieved",
    "memory.retrieval_error",
    "digest.ready",
    "store.used",
    "alert.delivered",
]
KINDS: tuple[Kind, ...] = get_args(Kind)
#: Entries kept for a group (Valkey keeps up to a hundred more): minutes of a busy group, days of a quiet one.
KEPT = 1_000
#: Seconds without live events after which a group's stream expires.
FORGOTTEN_AFTER = 86_400
#: Ids, or agents, that one entry names; its count is the number of all of them.
MAX_IDS = 100
#: Seconds that nothing is published after Valkey did not answer, so that it costs the work no more than one
#: wait.
PAUSE = 5.0
#: (group, kind, data) of a live event.
LiveEvent = tuple[str, Kind, Mapping[str, Any]]
#: Milliseconds and a number: as Valkey orders its entries.
Place = tuple[int, int]
quiet_until = 0.0
#: Live streams that one web process has open, each of which takes one of its threads; and of them those of
#: one API key or person.
STREAMS, PER_OWNER = 24, 8
#: Live streams that one address (behind a proxy the client's) has open in one web process.
PER_ADDRESS = 16
#: Live events that wait for one watcher. Entries are shared between the watchers, so the memory is that of a
#: group's stream.
QUEUED = 1_000
#: Milliseconds of one blocking read; a group that was added meanwhile is among the next.
BLOCK_MS = 500
#: Seconds between attempts to read while Valkey is away.
HUB_PAUSE = 1.0
#: Entries read at once. More of them at a time than this may be more than are kept: then it is looked whether
#: some were lost.
READ = KEPT // 2
#: (group, agent, id) of a node.
Node = tuple[str, str, UUID]


@dataclass(frozen=True, slots=True)
class StreamEntry:
    id: str
    kind: str
    #: JSON, on one line.
    data: str

    @property
    def place(self) -> Place:
        return place(self.id)


def place(entry_id: str) -> Place:
    """An id as numbers. Raises :class:`ValueError` if it is none."""
    match = _ID.fullmatch(entry_id)
    if match is None:
        raise ValueError(f"{entry_id!r} is not the id of an entry")
    return int(match[1]), int(match[2] or 0)


def publish(group_id: str, kind: Kind, **data: Any) -> None:
    """Publish one live event. Never raises for a Valkey that is away."""
    publish_all([(group_id, kind, data)])


def publish_all(events: Iterable[LiveEvent]) -> None:
    """Publish all of a batch in one round trip. Never raises for a Valkey that is away."""
    global quiet_until  # noqa: PLW0603 – one of each process
    batch = list(events)
    if not batch or time.monotonic() < quiet_until:
        return
    try:
        keys = [valkey_keys.stream(group_id) for group_id, _, _ in batch]
        arguments = [part for _, kind, data in batch for part in (kind, to_json(data))]
        valkey().eval(_PUBLISH, len(keys), *keys, KEPT, FORGOTTEN_AFTER, *arguments)
    except (redis.RedisError, OSError) as error:
        quiet_until = time.monotonic() + PAUSE
        log.warning("no live events are sent for %g s: %s", PAUSE, error)


def publish_many(pipe: Pipeline, events: Iterable[LiveEvent]) -> None:
    """The same, on its way with whatever else the pipeline has to say."""
    for group_id, kind, data in events:
        key = valkey_keys.stream(group_id)
        pipe.xadd(key, {"kind": kind, "data": to_json(data)}, maxlen=KEPT, approximate=True)
        pipe.expire(key, FORGOTTEN_AFTER)


def read(group_id: str, after: str, block_ms: int | None = None, count: int = KEPT) -> list[StreamEntry]:
    """Entries after an id (``0``: all), oldest first; waits up to ``block_ms`` for the first."""
    return read_groups({group_id: after}, block_ms, count).get(group_id, [])


def read_groups(after: Mapping[str, str], block_ms: int | None, count: int) -> dict[str, list[StreamEntry]]:
    """The same for several groups with one question: group → entries; groups without any are left out."""
    groups = {valkey_keys.stream(group_id).encode(): group_id for group_id in after}
    reply: Any = valkey().xread(
        {key: after[group_id] for key, group_id in groups.items()}, count=count, block=block_ms
    )
    # A list of pairs, or a dictionary, as the protocol has it.
    pairs = [(key, entries[0]) for key, entries in reply.items()] if isinstance(reply, dict) else reply or []
    return {groups[key]: [_entry(*entry) for entry in entries] for key, entries in pairs}


def ends(group_id: str) -> tuple[str, str]:
    """The ids of the oldest and the newest entry; ``0-0`` twice if there is none."""
    with valkey().pipeline(transaction=False) as pipe:
        pipe.xrange(valkey_keys.stream(group_id), count=1)
        pipe.xrevrange(valkey_keys.stream(group_id), count=1)
        oldest, newest = pipe.execute()
    return (oldest[0][0].decode(), newest[0][0].decode()) if oldest and newest else ("0-0", "0-0")


def _entry(entry_id: bytes, fields: Mapping[bytes, bytes]) -> StreamEntry:
    return StreamEntry(entry_id.decode(), fields[b"kind"].decode(), fields[b"data"].decode())


def counted(agents: Mapping[str, int]) -> dict[str, int]:
    """As many agents as an entry may name, those with most first."""
    most = sorted(agents.items(), key=lambda item: -item[1])[:MAX_IDS]
    return dict(agents if len(agents) <= MAX_IDS else most)


class TooManyWatchers(Exception):  # noqa: N818 – its name says what happened
    """``of_this_one``: the caller, or the address, has too many streams open; else the process has."""

    def __init__(self, limit: int, *, of_this_one: bool) -> None:
        self.limit, self.of_this_one = limit, of_this_one
        super().__init__(f"{limit} streams are open already")


@dataclass(eq=False, slots=True)
class Watcher:
    group_id: str
    owner: str
    address: str
    #: Live events come after this id; the watcher itself reads those before it.
    since: str
    entries: Queue[StreamEntry] = field(default_factory=lambda: Queue(QUEUED))
    #: It was too slow, or the process ends: nothing more comes.
    cut: bool = False

    def next(self, timeout: float) -> StreamEntry | None:
        """The next entry; None if there is none in time."""
        try:
            return self.entries.get(timeout=timeout)
        except Empty:
            return None

    def missed(self, after: str) -> Iterator[StreamEntry]:
        """The entries between an id and the live events, in pages. Raises what Valkey raises."""
        last = place(self.since)
        while page := read(self.group_id, after, count=READ):
            for entry in page:
                if entry.place > last:
                    return
                yield entry
            after = page[-1].id


class Hub:
    """The watchers of one process; thread-safe. One connection to Valkey reads for all.

    A watcher that does not keep up is cut off when its queue is full: it comes back where it was.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._watchers: dict[str, set[Watcher]] = {}
        #: Of each watched group the last id that was handed on.
        self._places: dict[str, str] = {}
        self._thread: threading.Thread | None = None

    def join(self, group_id: str, owner: str, address: str = "") -> Watcher:
        """Watch a group from now on; to be left in the end. Raises :class:`TooManyWatchers`, RedisError."""
        self._refuse_too_many(owner, address)
        newest = ends(group_id)[1]
        with self._changed:
            self._refuse_too_many(owner, address)
            watcher = Watcher(group_id, owner, address, self._places.setdefault(group_id, newest))
            self._watchers.setdefault(group_id, set()).add(watcher)
            if self._thread is None:
                self._thread = threading.Thread(target=self._read, name="live events", daemon=True)
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
                entries = read_groups(after, BLOCK_MS, READ)
                # After a pause, or a burst, Valkey may have dropped what was not read yet.
                doubtful = (
                    [group for group in entries if len(entries[group]) >= READ] if answers else [*after]
                )
                lost = [group for group in doubtful if place(ends(group)[0]) > place(after[group]) > (0, 0)]
                answers = True
            except (redis.RedisError, OSError) as error:
                if answers:
                    log.warning("live events cannot be read: %s", error)
                answers = False
                time.sleep(HUB_PAUSE)
                continue
            self._hand_on(entries, lost)

    def _hand_on(self, by_group: dict[str, list[StreamEntry]], lost: list[str]) -> None:
        with self._changed:
            for group_id in lost:  # a client that comes back with its last id learns of the gap
                for watcher in self._watchers.get(group_id, ()):
                    watcher.cut = True
            for group_id, entries in by_group.items():
                if group_id not in self._places:
                    continue  # the last one has left meanwhile
                previous = place(self._places[group_id])
                for watcher in self._watchers[group_id]:
                    _give(watcher, entries, previous)
                self._places[group_id] = max(self._places[group_id], entries[-1].id, key=place)


def _give(watcher: Watcher, entries: list[StreamEntry], previous: Place) -> None:
    try:
        for entry in entries:
            if entry.place > previous and not watcher.cut:
                watcher.entries.put_nowait(entry)
    except Full:
        watcher.cut = True


@once
def hub() -> Hub:
    return Hub()


def count_events(new: int, repeated: int) -> None:
    """Events were stored, and others had been before."""
    if new:
        meters.add("events", number=new)
    if repeated:
        meters.add("events", "repeated", number=repeated)


def retrievable(nodes: Sequence[Node]) -> None:
    """Nodes have got their vectors."""
    publish_all(about(nodes, "node.retrievable"))


def refused(groups: Iterable[str | None]) -> None:
    """Events became dead letters, of these groups (None: of none that can be read)."""
    counts = Counter(groups)
    meters.add("events", "rejected", number=counts.total())
    opened(INTAKE, {group_id: count for group_id, count in counts.items() if group_id is not None})


def opened(kind: str, counts: Mapping[str, int]) -> None:
    """Dead letters were opened: group → how many."""
    publish_all((group, "letter.opened", {"kind": kind, "count": count}) for group, count in counts.items())


def resolved(group_id: str, count: int, action: str) -> None:
    """Dead letters were closed: ``replayed`` or ``discarded``."""
    if count:
        publish(group_id, "letter.resolved", action=action, count=count)


def worked(kind: str, counts: Mapping[str, int]) -> None:
    """Work was settled: group → how many subjects."""
    if total := sum(counts.values()):
        meters.add(WORK, kind, "done", number=total)
        publish_all((group, "work.done", {"kind": kind, "count": count}) for group, count in counts.items())


def failed(kind: str, counts: Mapping[str, int], error: BaseException, attempt: int) -> None:
    """An attempt failed. Of the error only its class is published: its text may be a memory's."""
    if total := sum(counts.values()):
        meters.add(WORK, kind, "failed", number=total)
        details = {"kind": kind, "error": type(error).__name__, "attempt": attempt}
        publish_all(
            (group_id, "work.failed", {**details, "count": count}) for group_id, count in counts.items()
        )


def about(nodes: Iterable[Node], kind: Kind) -> list[LiveEvent]:
    """One live event for each group: the first ids, how many there are, and whose."""
    groups: dict[str, list[Node]] = {}
    for node in nodes:
        groups.setdefault(node[0], []).append(node)
    return [
        (
            group_id,
            kind,
            {
                "ids": [str(node_id) for _, _, node_id in its[:MAX_IDS]],
                "count": len(its),
                "agents": counted(Counter(agent_id for _, agent_id, _ in its)),
            },
        )
        for group_id, its in groups.items()
    ]


_ID = re.compile(r"(\d{1,15})(?:-(\d{1,19}))?", re.ASCII)
# A call for each would take several times as long to write down as to carry out.
_PUBLISH = """
for i, key in ipairs(KEYS) do
    redis.call('XADD', key, 'MAXLEN', '~', ARGV[1], '*', 'kind', ARGV[2 * i + 1], 'data', ARGV[2 * i + 2])
    redis.call('EXPIRE', key, ARGV[2])
end
"""
