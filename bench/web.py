"""What HTTP costs: events and retrievals through the API, beside the same work without it.

    python -m bench.web [--json] [--seconds S] [--clients 1,8,32] [--memories N]

A service of its own: the web as it is served (``python -m workers.web.serve``) and all workers, on this
machine, over loopback. Each client is a thread with one connection that it keeps, and asks again as soon as
it has its answer, for ``--seconds``.

* **event**, **100 events**: ``POST /api/v1/events``, answered when they are in the database. Beside it the
  same storing by threads of this process, and ``Client.observe`` or ``observe_many``, which only hand them to
  the broker.
* **retrieve**: ``POST /api/v1/retrieve`` for one agent of ``--memories`` memories, with questions asked
  before, so that no embedder is measured. Beside it ``Client.retrieve``.

The clients take their share of the machine, too: with many of them the figures are those of all together.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import count
from typing import Any, Self

import numpy as np
from rich.console import Console
from rich.table import Table
from sqlalchemy import text

from bench.latency import (
    DIMENSIONS,
    QUESTIONS,
    SEED,
    WORDS_A_QUESTION,
    fill,
    made_up,
    sentences,
    unit_vectors,
)
from bench.support.ranking import quantile
from bench.support.service import machine, running
from engine.providers.embedders import embedder
from jiyi import Client
from jiyi.protocol.accounts import CreateKey, NewKey
from jiyi.protocol.event_requests import EventsBody
from jiyi.protocol.wire.signatures import new_key
from jiyi.settings import get_settings
from models.accounts.actions import create_key
from models.db.actions import Actor
from models.db.connection import unit_of_work
from models.db.scope import for_groups
from models.memory.inbox import store
from workers import ephemeral

GROUP, AGENT = "bench", "klaus"
BATCH = 100
#: Agents that events are told of: of one alone the writers would wait for each other.
WRITERS = 20
SENTENCE = "Klaus Mueller is reading a book on the effects of gentrification ({})"
#: Seconds that the web gets to answer first, and a single request at most.
START_SECONDS, REQUEST_SECONDS = 60.0, 60.0
CLIENTS = (1, 8, 32)
WORK = ("event", "100 events", "retrieve")

Ask = Callable[[int], object]


class Connection:
    """One connection to the API, kept open."""

    def __init__(self, port: int, key: str) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=REQUEST_SECONDS)
        self._connection.connect()
        self._connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}

    def post(self, path: str, body: Any, status: int) -> Any:
        self._connection.request("POST", path, json.dumps(body), self._headers)
        answer = self._connection.getresponse()
        content = answer.read()
        if answer.status != status:
            raise RuntimeError(f"{path}: {answer.status} {content[:300]!r}")
        return json.loads(content)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()


def observation(number: int) -> dict[str, Any]:
    return {
        "agent_id": f"writer-{number % WRITERS}",
        "description": SENTENCE.format(number),
        "poignancy": 4,
        "keywords": ["klaus", "gentrification"],
    }


def over_http(work: str, connection: Connection, questions: Sequence[str]) -> Ask:
    """One request of a kind, by its number."""

    def ask(number: int) -> object:
        match work:
            case "event":
                return connection.post("/api/v1/events", observation(number), 202)
            case "100 events":
                events = [observation(number * BATCH + i) for i in range(BATCH)]
                return connection.post("/api/v1/events", {"events": events}, 202)
            case _:
                question = questions[number % len(questions)]
                return connection.post("/api/v1/retrieve", {"agent_id": AGENT, "query": question}, 200)

    return ask


def without_http(work: str, client: Client, questions: Sequence[str]) -> Ask:
    """The same by the client library."""

    def ask(number: int) -> object:
        match work:
            case "event":
                return client.observe(**observation(number))
            case "100 events":
                return client.observe_many([observation(number * BATCH + i) for i in range(BATCH)])
            case _:
                return client.retrieve(AGENT, questions[number % len(questions)])

    return ask


def stored(work: str) -> Ask:
    """The same durable work by this process itself, a transaction each."""

    def ask(number: int) -> object:
        made = (
            [observation(number)]
            if work == "event"
            else [observation(number * BATCH + i) for i in range(BATCH)]
        )
        body = EventsBody.model_validate_json(json.dumps({"events": made}))
        with for_groups(GROUP), unit_of_work() as connection:
            return store(connection, body.as_events(GROUP))  # workers are woken, too, as by HTTP

    return ask


def measure(asks: Sequence[Ask], seconds: float) -> dict[str, float]:
    """Each ask in a thread of its own, again and again: milliseconds of one, and how many a second of all."""
    numbers = count()
    start = threading.Barrier(len(asks))

    def run(ask: Ask) -> list[float]:
        ask(next(numbers))  # the connection, the first look at everything
        start.wait()
        spent, end = [], time.perf_counter() + seconds
        while (begun := time.perf_counter()) < end:
            ask(next(numbers))
            spent.append((time.perf_counter() - begun) * 1000)
        return spent

    with ThreadPoolExecutor(len(asks)) as pool:
        spent = [one for thread in pool.map(run, asks) for one in thread]
    return {
        "p50_ms": round(quantile(spent, 0.5), 2),
        "p95_ms": round(quantile(spent, 0.95), 2),
        "per_s": round(len(spent) / seconds, 1),
    }


def settle(seconds: float = START_SECONDS) -> None:
    """Return when nothing is left to be done of what was told before: each figure is to be of its own work
    alone.
    """
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with unit_of_work() as connection:
            if not connection.execute(text("SELECT EXISTS (SELECT FROM pending_work)")).scalar_one():
                return
        time.sleep(0.2)


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def make_key() -> str:
    key = new_key()
    create_key.perform(
        Actor(GROUP, "bench"), CreateKey(key=NewKey.of(key), name="bench", scopes=["publish", "read"])
    )
    return str(key)


@contextmanager
def served() -> Iterator[None]:
    """The web, once it answers."""
    with ephemeral.processes(get_settings().home / "log", ("web",)):
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            try:
                with socket.create_connection(("127.0.0.1", get_settings().web_port), 1):
                    break
            except OSError:
                time.sleep(0.1)
        yield


def run(clients: Sequence[int], memories: int, seconds: float, console: Console) -> dict[str, Any]:
    settings = {
        "embedder": f"hashing:{DIMENSIONS}",
        "web_port": str(free_port()),
        "rate_limit": "",
        "secret_key": "x" * 32,
    }
    found: dict[str, Any] = {name: {} for name in WORK}
    with running(**settings) as client, served():
        random = np.random.default_rng(SEED)
        fill(made_up(random, AGENT, unit_vectors(random, memories), embedder().model))
        questions = sentences(random, QUESTIONS, WORDS_A_QUESTION)
        for question in questions:
            client.retrieve(AGENT, question, timeout=REQUEST_SECONDS)
        key, port = make_key(), get_settings().web_port
        for work in reversed(WORK):  # retrieval first: what is written is not to be in its way
            for number in clients:
                with console.status(f"{work}, {number} clients"):
                    connections = [Connection(port, key) for _ in range(number)]
                    row = {"http": measure([over_http(work, one, questions) for one in connections], seconds)}
                    for one in connections:
                        one.__exit__()
                    settle()
                    if work != "retrieve":
                        row["stored"] = measure([stored(work)] * number, seconds)
                        settle()
                    row["client"] = measure([without_http(work, client, questions)] * number, seconds)
                    settle()
                beside = row.get("stored", row["client"])
                found[work][str(number)] = {
                    **row,
                    "ratio_p50": round(row["http"]["p50_ms"] / beside["p50_ms"], 2),
                }
    return found | {
        "memories": memories,
        "seconds": seconds,
        "cpus": os.cpu_count(),
        "machine": machine(),
        "date": datetime.now(UTC).date().isoformat(),
    }


def table_of(result: dict[str, Any]) -> Table:
    table = Table(
        title=(
            f"The API over loopback: p50 / p95 in ms, requests a second · {result['machine']} ·"
            f" {result['date']}"
        ),
        caption="ratio: of the medians, to what is stored in process; of retrievals to the client",
    )
    for column in (
        "work",
        "clients",
        "HTTP",
        "a second",
        "stored in process",
        "a second",
        "client",
        "a second",
        "ratio",
    ):
        table.add_column(column, justify="right")
    for work in WORK:
        for number, row in result[work].items():
            figures = [figure for way in ("http", "stored", "client") for figure in _figures(row.get(way))]
            table.add_row(work, number, *figures, f"{row['ratio_p50']:.2f}")
    return table


def _figures(row: dict[str, float] | None) -> tuple[str, str]:
    if row is None:
        return "–", ""
    return f"{row['p50_ms']:,.1f} / {row['p95_ms']:,.1f}", f"{row['per_s']:,.0f}"


def numbers(argument: str) -> list[int]:
    return [int(part) for part in argument.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--clients", type=numbers, default=list(CLIENTS), help="numbers of clients, with commas between"
    )
    parser.add_argument("--memories", type=int, default=1_000, help="of the agent that is asked")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each measurement")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    result = run(arguments.clients, arguments.memories, arguments.seconds, Console(stderr=True))
    if arguments.json:
        print(json.dumps(result))
    else:
        Console().print(table_of(result))


if __name__ == "__main__":
    main()
