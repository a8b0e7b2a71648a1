"""What has just changed, for those who watch: a short Valkey stream for each group.

Whoever changes something tells it after the commit. Only ids, names of agents, counts and durations go in, never the
text of a memory. It is news, not truth: a Valkey that is away costs a line in the log, and nothing waits for it.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import redis
from pydantic_core import to_json
from redis.client import Pipeline

from models.db import valkey_keys
from models.db.valkey import valkey

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
#: Seconds after which a group of which there is no news is forgotten here.
FORGOTTEN_AFTER = 86_400
#: Ids, or agents, that one entry names; its count tells how many there are.
MAX_IDS = 100
#: Seconds that nothing is told after Valkey did not answer, so that it costs the work no more than one wait.
PAUSE = 5.0

#: (group, kind, what there is to tell)
News = tuple[str, Kind, Mapping[str, Any]]
#: Milliseconds and a number: as Valkey orders its entries.
Place = tuple[int, int]

_ID = re.compile(r"(\d{1,15})(?:-(\d{1,19}))?", re.ASCII)
_quiet_until = 0.0


@dataclass(frozen=True, slots=True)
class Entry:
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
    """Tell one piece of news. Never raises for a Valkey that is away."""
    publish_all([(group_id, kind, data)])


def publish_all(news: Iterable[News]) -> None:
    """Tell all of a batch in one round trip. Never raises for a Valkey that is away."""
    global _quiet_until  # noqa: PLW0603 – one of each process
    told = list(news)
    if not told or time.monotonic() < _quiet_until:
        return
    try:
        arguments = [part for _, kind, data in told for part in (kind, to_json(data))]
        valkey().eval(_TELL, len(told), *(valkey_keys.stream(news[0]) for news in told), KEPT, FORGOTTEN_AFTER, *arguments)
    except (redis.RedisError, OSError) as error:
        _quiet_until = time.monotonic() + PAUSE
        log.warning("no news is told for %g s: %s", PAUSE, error)


def publish_many(pipe: Pipeline, news: Iterable[News]) -> None:
    """The same, on its way with whatever else the pipeline has to say."""
    for group_id, kind, data in news:
        key = valkey_keys.stream(group_id)
        pipe.xadd(key, {"kind": kind, "data": to_json(data)}, maxlen=KEPT, approximate=True)
        pipe.expire(key, FORGOTTEN_AFTER)


def read(group_id: str, after: str, block_ms: int | None = None, count: int = KEPT) -> list[Entry]:
    """A group's entries after an id (``0``: all there are), oldest first; waits up to ``block_ms`` for the first."""
    return read_groups({group_id: after}, block_ms, count).get(group_id, [])


def read_groups(after: Mapping[str, str], block_ms: int | None, count: int) -> dict[str, list[Entry]]:
    """The same for several groups with one question: group → entries; groups without any are left out."""
    groups = {valkey_keys.stream(group_id).encode(): group_id for group_id in after}
    reply: Any = valkey().xread({key: after[group_id] for key, group_id in groups.items()}, count=count, block=block_ms)
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


def _entry(entry_id: bytes, fields: Mapping[bytes, bytes]) -> Entry:
    return Entry(entry_id.decode(), fields[b"kind"].decode(), fields[b"data"].decode())


def counted(agents: Mapping[str, int]) -> dict[str, int]:
    """As many agents as an entry may name, those with most first."""
    return dict(agents) if len(agents) <= MAX_IDS else dict(sorted(agents.items(), key=lambda item: -item[1])[:MAX_IDS])


# A call for each would take several times as long to write down as to carry out.
_TELL = """
for i, key in ipairs(KEYS) do
    redis.call('XADD', key, 'MAXLEN', '~', ARGV[1], '*', 'kind', ARGV[2 * i + 1], 'data', ARGV[2 * i + 2])
    redis.call('EXPIRE', key, ARGV[2])
end
"""
