"""Working memory: what a group's nodes said lately, in Valkey.

Two keys a group: the order by time, and the entries by id, each with its own expiry. The truth is
``quarantine_logs``: a reader that does not find the mark of complete keys rebuilds them from there. Changes
are single scripts, so that nobody sees half of one.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Annotated, Any, cast
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PlainSerializer, PlainValidator, TypeAdapter

from jiyi.protocol.knowledge import VERIFIED
from jiyi.protocol.tier_questions import HOT_SCORE, Kind, TierItem
from jiyi.protocol.wire.vectors import WIRE_TYPE, Float32, to_array, to_text
from models.db import valkey_keys
from models.db.valkey import valkey

#: Entries of a group's working memory; the oldest of more fall out.
WM_ENTRIES = 50
#: Hours that each entry of working memory lives.
WM_HOURS = 24

#: Seconds that the keys outlive their last entry, so that the job has time to note what has expired.
MARGIN = 3_600


def _packed(vector: Float32 | None) -> str | None:
    return None if vector is None else to_text(np.ascontiguousarray(vector, dtype=WIRE_TYPE).tobytes())


def _unpacked(text: str | None) -> Float32 | None:
    return None if text is None else to_array(base64.b64decode(text))


@dataclass(frozen=True, slots=True)
class WorkingEntry:
    """What is kept of an output. ``vector`` is of ``model``, and compared with no other's."""

    entry_id: Annotated[UUID, Field(alias="id")]
    content: str
    created_at: datetime
    expires_at: datetime
    agent_id: str
    node_id: str
    node_type: str | None = None
    session_id: str | None = None
    kind: Kind = "statement"
    confidence: float | None = None
    flags: tuple[str, ...] = ()
    vector: Annotated[NDArray[np.float32] | None, PlainValidator(_unpacked), PlainSerializer(_packed)] = None
    model: str | None = None

    def item(self, expires_at: datetime | None = None) -> TierItem:
        """As an answer has it."""
        same = ("content", "kind", "created_at", "session_id", "agent_id")
        about = {name: getattr(self, name) for name in ("node_id", "node_type", "confidence")}
        return TierItem(
            item_id=str(self.entry_id),
            source="hot",
            score=HOT_SCORE,
            expires_at=expires_at or self.expires_at,
            verified=VERIFIED in self.flags,
            metadata={**about, "flags": list(self.flags)},
            **{name: getattr(self, name) for name in same},
        )


def read(group_id: str, now: datetime | None = None) -> list[WorkingEntry] | None:
    """The entries that have not expired, newest first; None if they have to be rebuilt."""
    order, entries, whole = valkey_keys.working(group_id)
    with valkey().pipeline(transaction=True) as pipe:
        pipe.get(whole)
        pipe.zrevrange(order, 0, -1)
        pipe.hgetall(entries)
        is_whole, ids, values = pipe.execute()
    # also if only some of the keys were evicted
    if is_whole is None or not int(is_whole) == len(ids) == len(values):
        return None
    now = now or datetime.now(UTC)
    return [entry for entry in (_ENTRY.validate_json(values[one]) for one in ids) if entry.expires_at > now]


def push(group_id: str, entries: Sequence[WorkingEntry], *, whole: bool = False) -> list[UUID]:
    """Add entries, or put them in place of those with their ids; the ids of those that fall out for it,
    oldest first.

    ``whole``: these are all there are. Else what was not whole before is not now either.
    Safe to repeat because an entry is there once.
    """
    arguments: list[Any] = [WM_ENTRIES, int(WM_HOURS * 3_600) + MARGIN, len(entries), int(whole)]
    for entry in entries:
        arguments += [str(entry.entry_id), entry.created_at.timestamp(), _dump(entry)]
    return [UUID(entry_id.decode()) for entry_id in cast("list[bytes]", _run(_PUSH, group_id, arguments))]


def remove(group_id: str, entry_ids: Iterable[UUID]) -> int:
    """Take entries out; returns how many were there."""
    ids = [str(entry_id) for entry_id in entry_ids]
    return int(_run(_REMOVE, group_id, ids)) if ids else 0


def change(group_id: str, entry_id: UUID, **fields: Any) -> None:
    """Give an entry other values, if it is there. Under the group's lock, as all that changes entries."""
    _, entries, _ = valkey_keys.working(group_id)
    payload = cast("bytes | None", valkey().hget(entries, str(entry_id)))
    if payload is not None:
        valkey().hset(entries, str(entry_id), _dump(replace(_ENTRY.validate_json(payload), **fields)))


def count(group_id: str, **numbers: int) -> None:
    with valkey().pipeline(transaction=False) as pipe:
        for name, number in numbers.items():
            if number:
                pipe.hincrby(valkey_keys.working_stats(group_id), name, number)
        pipe.execute()


def stats(group_id: str) -> dict[str, int]:
    """What was counted: ``accepted``, ``rejected`` and ``rejected_<reason>``, ``fallen_out``, ``expired``."""
    counted = cast("dict[bytes, bytes]", valkey().hgetall(valkey_keys.working_stats(group_id)))
    return {name.decode(): int(number) for name, number in sorted(counted.items())}


def size(group_id: str) -> int:
    return valkey().zcard(valkey_keys.working(group_id)[0])


def forget(group_id: str) -> None:
    """Drop a group's keys: the next reader rebuilds them."""
    valkey().delete(*valkey_keys.working(group_id))


def _run(script: str, group_id: str, arguments: Sequence[Any]) -> Any:
    own = valkey_keys.working(group_id)
    return valkey().eval(script, len(own), *own, *arguments)


def _dump(entry: WorkingEntry) -> bytes:
    return _ENTRY.dump_json(entry, by_alias=True)


_ENTRY = TypeAdapter(WorkingEntry)


# KEYS: order, entries, how many there are. ARGV: most, seconds to live, how many, whether whole; id, time and
# JSON of each.
_PUSH = """
for i = 0, tonumber(ARGV[3]) - 1 do
    redis.call('ZADD', KEYS[1], ARGV[6 + 3 * i], ARGV[5 + 3 * i])
    redis.call('HSET', KEYS[2], ARGV[5 + 3 * i], ARGV[7 + 3 * i])
end
local out = redis.call('ZRANGE', KEYS[1], 0, -1 - tonumber(ARGV[1]))
if #out > 0 then
    redis.call('ZREM', KEYS[1], unpack(out))
    redis.call('HDEL', KEYS[2], unpack(out))
end
if ARGV[4] == '1' or redis.call('EXISTS', KEYS[3]) == 1 then
    redis.call('SET', KEYS[3], redis.call('ZCARD', KEYS[1]))
end
for _, key in ipairs(KEYS) do redis.call('EXPIRE', key, ARGV[2]) end
return out
"""
_REMOVE = """
local gone = redis.call('ZREM', KEYS[1], unpack(ARGV))
redis.call('HDEL', KEYS[2], unpack(ARGV))
if redis.call('EXISTS', KEYS[3]) == 1 then
    redis.call('SET', KEYS[3], redis.call('ZCARD', KEYS[1]), 'KEEPTTL')
end
return gone
"""
