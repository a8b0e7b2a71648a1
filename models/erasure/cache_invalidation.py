"""Orders in Valkey to all workers to drop what they remember of what is erased, and clearing Valkey.

Workers look for orders with each heartbeat. Orders name agents: they are withdrawn once answered. What was
deleted stays in Valkey's append-only files until they are rewritten.
"""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import cast
from uuid import uuid4

import redis

from engine.erasure import Whom
from jiyi.polling import poll
from jiyi.settings import get_settings
from models.db import valkey_keys
from models.db.valkey import valkey
from models.erasure.matching import UUIDS
from models.erasure.parts import parts
from models.memory import access
from models.operations import worker_liveness
from models.queue.broker_queues import broker_client, redis_address

#: Seconds after which an order that nobody withdrew is gone: the worker that gave it has died, and another
#: one gives it again.
ORDER_LIVES = 600

#: What carries an order out: group, agents → what was dropped.
Forget = Callable[[str, list[str]], dict[str, int]]


def give(group_id: str, agents: Collection[str]) -> str:
    """Have every worker drop what it has of the agents, and all questions; returns the order's id."""
    order_id = uuid4().hex
    with valkey().pipeline(transaction=True) as pipe:
        pipe.hset(valkey_keys.ORDERS, order_id, json.dumps({"group_id": group_id, "agents": sorted(agents)}))
        pipe.expire(valkey_keys.ORDERS, ORDER_LIVES)
        pipe.execute()
    return order_id


def withdraw(order_id: str) -> None:
    """The order and its answers are no longer needed."""
    with valkey().pipeline(transaction=True) as pipe:
        pipe.hdel(valkey_keys.ORDERS, order_id)
        pipe.delete(valkey_keys.order_answers(order_id))
        pipe.execute()


def answers(order_id: str) -> dict[str, dict[str, int]]:
    """Worker → what it dropped, of those that have carried the order out."""
    entries = cast("dict[bytes, bytes]", valkey().hgetall(valkey_keys.order_answers(order_id)))
    return {worker.decode(): json.loads(dropped) for worker, dropped in entries.items()}


def missing_workers(answered: Iterable[str]) -> list[str]:
    """Workers that live and have not answered yet. One that was silent for longer has died, or drops all."""
    alive = {worker.worker_id for worker in worker_liveness.workers() if worker.counts}
    return sorted(alive - set(answered))


def carry_out(worker_id: str, finished_ids: set[str], forget: Forget) -> set[str]:
    """Carry out the orders that are not in ``finished_ids``; returns the ids of all that still stand."""
    standing = cast("dict[bytes, bytes]", valkey().hgetall(valkey_keys.ORDERS))
    for order_id, order in ((name.decode(), text) for name, text in standing.items()):
        if order_id in finished_ids:
            continue
        scope = json.loads(order)
        dropped = forget(scope["group_id"], scope["agents"])
        with valkey().pipeline(transaction=True) as pipe:
            pipe.hset(valkey_keys.order_answers(order_id), worker_id, json.dumps(dropped))
            pipe.expire(valkey_keys.order_answers(order_id), ORDER_LIVES)
            pipe.execute()
    return {name.decode() for name in standing}


#: Keys read with one SCAN, and searched at most.
SCAN_COUNT, MAX_KEYS = 1_000, 1_000_000
#: Elements of a key read at once, and at most.
ELEMENTS, MAX_ELEMENTS = 1_000, 1_000_000
#: Characters of a value that are looked at: none of ours is longer but messages in hand.
MAX_VALUE = 16 * 1024 * 1024

#: What holds texts of users, or names: anything else under ``jiyi:`` holds numbers and names of our own.
REPLIES, STREAMS, BREAKERS = "jiyi:reply:", "jiyi:stream:", "jiyi:breaker:"


def worker_id() -> str:
    """As ``models.retrieval.index_cache`` reports it."""
    return f"{platform.node()}:{os.getpid()}"


def clear(group_id: str, node_ids: Collection[str], touched: Iterable[str], whom: Whom) -> dict[str, int]:
    """Take the memories and names out of every buffer; other memories' accesses are written first."""
    access.flush()
    ids, all_ids = list(node_ids), set(node_ids)
    pages = [ids[start : start + ELEMENTS] for start in range(0, len(ids), ELEMENTS)]
    gone = {
        "access_buffer": sum(take_out([access.member(group_id, entry) for entry in page]) for page in pages),
        "touched": sum(valkey().delete(valkey_keys.touched(group_id, agent_id)) for agent_id in touched),
        "stream": _clear_stream(group_id, all_ids, whom),
        "replies": _delete_found(REPLIES, all_ids, whom),
        "errors": _delete_found(BREAKERS, all_ids, whom),
        "searches": _delete_found(valkey_keys.SEARCH, all_ids, whom),
        "retrievals": _take_notes_out(all_ids, whom),
    }
    for part in parts():
        gone |= part.clear_valkey(group_id)
    return gone


def take_out(members: Sequence[str]) -> int:
    """Of the buffer of accesses, and of those that are being written."""
    handed_over = [
        key.decode() for key in valkey().scan_iter(match=f"{valkey_keys.ACCESS_FLUSH}*", count=SCAN_COUNT)
    ]
    times = [valkey_keys.ACCESS, *(key for key in handed_over if not key.endswith(valkey_keys.EACH_SUFFIX))]
    for key in times:
        _take_out_of_each(key + valkey_keys.EACH_SUFFIX, set(members))
    with valkey().pipeline(transaction=False) as pipe:
        for key in times:
            pipe.zrem(key, *members)
        return sum(pipe.execute())


def _take_out_of_each(key: str, members: set[str]) -> None:
    """Of what was accessed together, leave the others."""
    for entry in cast("list[bytes]", valkey().lrange(key, 0, -1)):
        node_ids, at, group_id = entry.decode().split(":", 2)
        remaining = [
            node_id for node_id in node_ids.split(",") if access.member(group_id, node_id) not in members
        ]
        if len(remaining) <= node_ids.count(","):
            with valkey().pipeline(transaction=True) as pipe:
                pipe.lrem(key, 1, cast("str", entry))
                if remaining:
                    pipe.rpush(key, access.together(group_id, remaining, at))
                pipe.execute()


def _clear_stream(group_id: str, ids: set[str], whom: Whom) -> int:
    key = valkey_keys.stream(group_id)
    gone = [
        place
        for place, fields in _entries(key)
        if any(mentions(entry, ids, whom) for pair in fields.items() for entry in pair)
    ]
    if gone:
        valkey().xdel(key, *gone)
    return len(gone)


def _entries(stream: str | bytes) -> list[tuple[bytes, dict[bytes, bytes]]]:
    return cast("list[tuple[bytes, dict[bytes, bytes]]]", valkey().xrange(stream, count=MAX_ELEMENTS))


def _take_notes_out(ids: set[str], whom: Whom) -> int:
    """Of what was asked and waits to be written."""
    noted = cast("list[bytes]", valkey().lrange(valkey_keys.RETRIEVALS, 0, -1))
    gone = [entry for entry in noted if mentions(entry, ids, whom)]
    for entry in gone:
        valkey().lrem(valkey_keys.RETRIEVALS, 0, cast("str", entry))
    return len(gone)


def _delete_found(pattern: str, ids: set[str], whom: Whom) -> int:
    count = 0
    for key in valkey().scan_iter(match=f"{pattern}*", count=SCAN_COUNT):
        if any(mentions(value, ids, whom) for value in contents(key)):
            count += valkey().delete(key)
    return count


def mentions(value: bytes, ids: set[str], whom: Whom) -> bool:
    """Whether a value has one of the ids in it, or names whom it is about."""
    text = value[:MAX_VALUE].decode("utf-8", "replace")
    return whom.is_named_in(text) or any(text_id in ids for text_id in UUIDS.findall(text))


def contents(key: bytes) -> Iterator[bytes]:  # noqa: C901 – one case after another, each simple
    """Everything that a key holds, whatever its type: names of fields, members, values."""
    client = valkey()
    match cast("bytes", client.type(key)):
        case b"string":
            yield cast("bytes | None", client.get(key)) or b""
        case b"list":
            for start in range(0, MAX_ELEMENTS, ELEMENTS):
                entries = cast("list[bytes]", client.lrange(key, start, start + ELEMENTS - 1))
                yield from entries
                if len(entries) < ELEMENTS:
                    return
        case b"hash":
            for field, value in client.hscan_iter(key, count=ELEMENTS):
                yield from (field, value)
        case b"set":
            yield from client.sscan_iter(key, count=ELEMENTS)
        case b"zset":
            yield from (member for member, _ in client.zscan_iter(key, count=ELEMENTS))
        case b"stream":
            for _, fields in _entries(key):
                yield from (part for pair in fields.items() for part in pair)


REWRITTEN, OFF = "rewritten", "off"
FAILED = "the server could not rewrite it: see its log"
#: Part of a server's error if it has begun a rewrite on its own meanwhile.
_UNDER_WAY = "in progress"


def rewrite(begun: list[str], seconds: float) -> dict[str, str] | None:
    """Have each server rewrite its file: server → how it went; None if that takes longer.

    Call again then, with ``begun``, the servers that were asked. Raises redis.ConnectionError.
    """
    until, went = time.monotonic() + seconds, {}
    for name, client in _servers():
        try:
            if not client.info("persistence").get("aof_enabled"):
                went[name] = OFF
                continue
            if name not in begun:
                if not _is_idle(client, until):
                    return None
                client.bgrewriteaof()
                begun.append(name)
            if not _is_idle(client, until):
                return None
            succeeded = client.info("persistence").get("aof_last_bgrewrite_status") == "ok"
            went[name] = REWRITTEN if succeeded else FAILED
        except redis.ResponseError as error:  # a server may allow neither
            if _UNDER_WAY in str(error):
                return None
            went[name] = f"the server does not allow it: {error}"
    return went


def _servers() -> Iterator[tuple[str, redis.Redis]]:
    """By name; the broker, where messages went through, unless it is the same server, or of another kind."""
    yield "valkey", valkey()
    address = redis_address(get_settings().need("broker_url"))
    if address is not None and _run(broker := broker_client(address)) != _run(valkey()):
        yield "broker", broker


def _run(client: redis.Redis) -> object:
    return client.info("server").get("run_id")


def _is_idle(client: redis.Redis, until: float) -> bool:
    def idle() -> bool:
        persistence = client.info("persistence")
        names = ("aof_rewrite_in_progress", "aof_rewrite_scheduled")
        return not any(int(persistence.get(name, 0)) for name in names)

    return poll(idle, bool, max(0.0, until - time.monotonic()))
