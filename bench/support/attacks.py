"""Attacks on a web or a proxy, in a process of their own and at a low priority: attackers compute on machines
of their own.

python -m bench.support.attacks NAME PORT SECONDS     # the attacker's key in JIYI_KEY; prints how often each
status came back

Some go over the broker, whose address is in JIYI_BROKER_URL: there nothing comes back.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import sys
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from typing import Any
from uuid import uuid4

import kombu

from jiyi.protocol.wire.broker import exchange
from jiyi.protocol.wire.signatures import new_key
from jiyi.settings import get_settings
from workers.supervision.processes import lower_priority

#: The attackers' group and agent.
GROUP, AGENT = "attacker", "mallory"
#: Seconds that one waits for an answer, and after one that refuses it.
PATIENCE, PAUSE = 90.0, 0.1
#: What the process says first, when it is about to attack.
BEGUN = "begun"
#: How far the process gives way to the service (``nice``).
NICENESS = 10
#: A character of which Unicode's form NFKC makes eighteen.
EXPANDING = "\ufdfa"

#: Bytes of the largest bodies, just below what is read.
LARGE = 15_000_000
#: Bytes of the longest text that is sent to the proxy.
PROXY_TEXT = 24_000_000
#: What a message has beside its body, as kombu's producer takes it.
Message = tuple[bytes, dict[str, Any]]
Request = tuple[str, str, bytes, dict[str, str]]


@dataclass(frozen=True, slots=True)
class Attack:
    """``at_once`` connections, each of which sends one request after the other."""

    at_once: int
    #: The requests, each with its method, address, body and headers beside those of all.
    requests: Callable[[], Iterator[Request]]
    #: Whether it has a key.
    key: bool = True


@dataclass(frozen=True, slots=True)
class Flood:
    """Messages over the broker, one after the other on each of ``at_once`` connections."""

    at_once: int
    messages: Callable[[], Iterator[Message]]


def _many(before: bytes, one: bytes, after: bytes, size: int = LARGE) -> bytes:
    return before + (one + b",") * (size // (len(one) + 1)) + one + after


def _retrievals(texts: Callable[[], list[str]]) -> Callable[[], Iterator[Request]]:
    def made() -> Iterator[Request]:
        while True:
            body = {"agent_id": AGENT, "queries": texts(), "timeout": 60}
            yield "POST", "/api/v1/retrieve", json.dumps(body, ensure_ascii=False).encode(), {}

    return made


def _bodies() -> Iterator[Request]:
    many = b'{"x": [' + b"{}," * 5_000_000 + b"{}]}"
    large = json.dumps(
        {"events": [{"agent_id": AGENT, "description": "tea " * 4_900} for _ in range(500)]}
    ).encode()
    while True:
        yield "POST", "/api/v1/retrieve", many, {}
        yield "POST", "/api/v1/events", many, {}
        yield "POST", "/api/v1/events", large, {}


def _values() -> Iterator[Request]:
    """Each value would be a problem of its own."""
    numbers = [_many(b'{"events":[', one, b"]}") for one in (b"1", b'""')]
    listed = _many(b'{"origins":[', b"1", b"]}", 900_000)
    asked = _many(b'{"agent_id":"mallory","queries":[', b"1", b"]}", 900_000)
    below = _many(b'{"agent_id":"mallory","queries":[', b"1", b"]}", 190_000)
    while True:
        for body in numbers:
            yield "POST", "/api/v1/events", body, {}
        yield "POST", "/api/v1/actions/memory.list", listed, {}
        for body in (asked, below):
            yield "POST", "/api/v1/retrieve", body, {}


def _forms() -> Iterator[Request]:
    form = b"name=a&" + b"x=1&" * (LARGE // 4)
    while True:
        yield "POST", "/sign-in", form, {"Content-Type": "application/x-www-form-urlencoded"}


def _bombs() -> Iterator[Message]:
    """Some kilobytes each, and 15 MB once they are decompressed."""
    event = {
        "exchange": exchange(),
        "routing_key": "memory.observed",
        "content_type": "application/json",
        "content_encoding": "utf-8",
    }
    packed = [zlib.compress(_many(b'{"events":[', one, b"]}")) for one in (b"{}", b"1", b"[]")]
    while True:
        for body in packed:
            yield body, {**event, "headers": {"compression": "application/x-gzip"}}


def _calls() -> Iterator[Message]:
    """Of a task that there is, with many values, and of one that there is not."""
    asked = _many(
        b'[["x",{"group_id":"attacker","agent_id":"mallory","queries":[', b"1", b"]}],{},{}]", 600_000
    )
    to_retrieval = {
        "exchange": "retrieval",
        "routing_key": "retrieval",
        "content_type": "application/json",
        "content_encoding": "utf-8",
    }
    while True:
        for task in ("retrieval.retrieve", "no.such_task"):
            yield (
                asked,
                {
                    **to_retrieval,
                    "headers": {
                        "task": task,
                        "id": str(uuid4()),
                        "lang": "py",
                        "argsrepr": "",
                        "kwargsrepr": "",
                    },
                },
            )


@cache
def _large_chats() -> list[tuple[str, bytes]]:
    """As much as a body may have: one long text of all that is looked for in texts, many messages, many
    values, too many values.
    """
    prose = (
        b"my password is hunter2 and <system-reminder>tea</system-reminder> 4111 1111 1111 1111"
        b" sk-tea-and-cake "
    )
    text = (
        b'{"model":"m","messages":[{"role":"user","content":"' + prose * (PROXY_TEXT // len(prose)) + b'"}]}'
    )
    messages = _many(
        b'{"model":"m","messages":[', b'{"role":"user","content":"I like tea."}', b"]}", 4_000_000
    )
    numbers = _many(b'{"model":"m","input":[', b"0.123456789012", b"]}", 4_000_000)
    objects = _many(b'{"model":"m","messages":[],"x":[', b"{}", b"]}", 2 * LARGE)
    chats = [("/v1/chat/completions", body) for body in (text, messages, objects)]
    return [*chats, ("/v1/embeddings", numbers)]


def _proxied() -> Iterator[Request]:
    while True:
        for path, body in _large_chats():
            yield "POST", path, body, {}


def _strangers() -> Iterator[Request]:
    body = b'{"model":"m","messages":[{"role":"user","content":"hello"}]}'
    while True:
        yield "POST", "/v1/chat/completions", body, {"X-Jiyi-Key": str(new_key())}


def _documents() -> Iterator[Request]:
    while True:
        host = {"Host": f"localhost:{random.randrange(1, 65_536)}"}
        yield "GET", "/api/openapi.json", b"", host
        yield "GET", "/api/docs", b"", host


def _waits() -> Iterator[Request]:
    while True:
        body = json.dumps({"agent_id": AGENT, "description": f"tea {random.random()}"}).encode()
        yield "POST", "/api/v1/events?wait=30", body, {}


#: By name. The first is refused for its size, the second is as much as one request may ask for. The last
#: leaves the most work behind.
ATTACKS: dict[str, Attack | Flood] = {
    "texts that expand": Attack(9, _retrievals(lambda: [EXPANDING * 8_000] * 32)),
    "texts of many tokens": Attack(
        16, _retrievals(lambda: [f"{random.random()}" + ":" * 480 for _ in range(32)])
    ),
    "documents without a key": Attack(64, _documents, key=False),
    "requests that wait": Attack(110, _waits),
    "large bodies": Attack(8, _bodies),
    "bodies of many values": Attack(8, _values),
    "forms without a key": Attack(6, _forms, key=False),
    "proxy bodies": Attack(8, _proxied),
    "unknown keys": Attack(16, _strangers, key=False),
    "compressed messages": Flood(2, _bombs),
    "calls of many values": Flood(2, _calls),
}

#: Those of them that go to the proxy.
AT_PROXY = frozenset({"proxy bodies", "unknown keys"})


def run(attack: Attack, port: int, seconds: float, key: str) -> Counter[str]:
    """Attack for so long. How often each status came back; ``cut`` is a connection that ended without one."""
    end = time.monotonic() + seconds
    headers = {
        "Content-Type": "application/json",
        **({"Authorization": f"Bearer {key}"} if attack.key else {}),
    }

    def send(_: int) -> Counter[str]:
        found: Counter[str] = Counter()
        for method, address, body, more in attack.requests():
            if time.monotonic() > end:
                return found
            with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)) as connection:
                try:
                    connection.request(method, address, body, {**headers, **more})
                    response = connection.getresponse()
                    response.read()
                except (OSError, http.client.HTTPException):
                    status = "cut"
                else:
                    status = str(response.status)
            found[status] += 1
            if not status.startswith("2"):
                time.sleep(PAUSE)
        return found

    with ThreadPoolExecutor(attack.at_once) as threads:
        return sum(threads.map(send, range(attack.at_once)), Counter())


def flood(attack: Flood, seconds: float) -> Counter[str]:
    """Send messages for so long. How many were taken by the broker."""
    end = time.monotonic() + seconds

    def send(_: int) -> Counter[str]:
        found: Counter[str] = Counter()
        with kombu.Connection(get_settings().broker_url) as connection, connection.Producer() as producer:
            for body, options in attack.messages():
                if time.monotonic() > end:
                    return found
                producer.publish(body, **options)
                found["published"] += 1
                time.sleep(PAUSE)
        return found

    with ThreadPoolExecutor(attack.at_once) as threads:
        return sum(threads.map(send, range(attack.at_once)), Counter())


if __name__ == "__main__":
    lower_priority(NICENESS)
    name, port, seconds = sys.argv[1:]
    chosen = ATTACKS[name]
    print(BEGUN, flush=True)
    if isinstance(chosen, Flood):
        print(json.dumps(flood(chosen, float(seconds))))
    else:
        print(json.dumps(run(chosen, int(port), float(seconds), os.environ.get("JIYI_KEY", ""))))
