"""Recent accesses of one agent's memories, told to all retrieval workers at once (the database follows a second later)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import cast
from uuid import UUID

from pydantic_core import from_json, to_json
from redis.client import Pipeline

from models.db import valkey_keys
from models.db.valkey import valkey

#: Entries kept for an agent, and seconds for which each is kept: a reader that was away for longer catches up from the database.
KEPT, KEPT_SECONDS = 1_000, 300
#: Seconds after which an agent that nobody asks is forgotten here.
FORGOTTEN_AFTER = 3_600
#: A new reader looks this far back, beyond what the database may not know yet. Seconds.
LOOK_BACK = 60
#: Agents that are looked through for those asked last.
MAX_AGENTS = 10_000


def tell(group_id: str, agent_id: str, node_ids: Sequence[UUID], at: float) -> None:
    """The memories were accessed at ``at`` (epoch seconds, maybe simulated)."""
    with valkey().pipeline(transaction=False) as pipe:
        tell_with(pipe, group_id, agent_id, node_ids, at)
        pipe.execute()


def tell_with(pipe: Pipeline, group_id: str, agent_id: str, node_ids: Sequence[UUID], at: float) -> None:
    """The same, on its way with whatever else the pipeline has to say."""
    key = valkey_keys.touched(group_id, agent_id)
    entry = to_json({"at": at, "ids": node_ids})
    pipe.xadd(key, {"touch": entry}, maxlen=KEPT, approximate=True)
    pipe.xtrim(key, minid=_place(KEPT_SECONDS), approximate=True)
    pipe.expire(key, FORGOTTEN_AFTER)


def asked_lately(limit: int) -> list[tuple[str, str]]:
    """(group_id, agent_id) of up to ``limit`` agents whose memories were accessed last, the latest first."""
    keys = [key.decode() for key in islice(valkey().scan_iter(match=f"{valkey_keys.TOUCHED}*", count=1_000), MAX_AGENTS)]
    with valkey().pipeline(transaction=False) as pipe:
        for key in keys:
            pipe.xrevrange(key, count=1)
        last = pipe.execute()
    at = {key: int(entries[0][0].split(b"-")[0]) for key, entries in zip(keys, last, strict=True) if entries}
    return [valkey_keys.touched_agent(key) for key in sorted(at, key=at.__getitem__, reverse=True)[:limit]]


@dataclass(frozen=True, slots=True)
class Access:
    """Memories that were accessed together."""

    #: 16 bytes each.
    node_ids: list[bytes]
    #: Epoch seconds.
    at: float


class Cursor:
    """One reader's place in an agent's accesses.

    ``missed``: it was away for so long that some may be gone which it has not read. They are in the database by now; whoever has read
    them there says so by setting it to False.
    """

    def __init__(self, group_id: str, agent_id: str) -> None:
        self._key = valkey_keys.touched(group_id, agent_id)
        self._place = _place(LOOK_BACK)
        self._read_at = time.monotonic()
        self.missed = False

    def read(self) -> list[Access]:
        """What is new since the last call."""
        accesses: list[Access] = []
        news = cast("list[tuple[bytes, dict[bytes, bytes]]]", valkey().xrange(self._key, min=f"({self._place}"))
        for place, fields in news:
            self._place = place.decode()
            entry = from_json(fields[b"touch"])
            accesses.append(Access([bytes.fromhex(node_id.replace("-", "")) for node_id in entry["ids"]], entry["at"]))
        away, self._read_at = time.monotonic() - self._read_at, time.monotonic()
        # Entries bear the server's time, which may differ from a writer's by less than the look back.
        self.missed |= away > KEPT_SECONDS - LOOK_BACK or len(accesses) >= KEPT
        return accesses


def _place(seconds: float) -> str:
    """That of what was told so many seconds ago."""
    return f"{int((time.time() - seconds) * 1000)}-0"
