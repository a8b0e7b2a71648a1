"""What the proxy adds to a request of an LLM, beside the same request without it, in the same run.

    python -m bench.proxy [--json] [--memories N] [--requests N] [--turns N] [--streams N] [--pause S]

A service of its own, an agent with so many memories (made-up texts, each with its vector), an upstream that
answers at once, and the proxy, all on this machine. Every question is a new one, so that each is embedded;
after ``--turns`` of them a new conversation begins. Between two requests there is a pause, as a reader makes
one: in it the service stores and embeds what was said, which no request waits for. With ``--pause 0`` each
request has that work of the one before beside it.

* **added p50, p95**: milliseconds from the request to the end of its answer, beyond the median without the
  proxy.
* **opening, later**: the same median of the first messages of conversations alone, and of all others.
* **first token added**: the same until the first byte of a streamed answer, at the median.
* **streams**: so many at once: how many a second, with the proxy and without, and how many came back as the
  upstream sent them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx2
import numpy as np
from rich.console import Console
from rich.table import Table

from bench.latency import fill, made_up, unit_vectors
from bench.support.proxies import PIECES, proxy, upstream
from bench.support.ranking import quantile
from bench.support.service import key_of, machine, running
from bench.web import settle
from engine.providers.embedders import embedder
from jiyi import Client
from workers import ephemeral

GROUP, AGENT = "bench", "klaus"
#: Of the memories, in turn: what is recalled for an answer is of some kind.
KINDS = ["preference", *["knowledge"] * 9]
ANSWER = {"role": "assistant", "content": "".join(f"word {n} " for n in range(20))}
#: Seconds that anything may take.
PATIENCE = 120.0
#: Questions of a conversation.
TURNS = 8
#: Seconds between two requests: enough for what was said in one to be stored and embedded, and far less than
#: it takes to read an answer.
PAUSE_SECONDS = 0.3

_numbers = count()


def body(history: list[dict[str, str]]) -> dict[str, Any]:
    """A new question after what was said so far."""
    question = f"What did Klaus do with parcel {next(_numbers)} in the morning?"
    history.append({"role": "user", "content": question})
    return {"model": "m", "stream": True, "messages": history}


def one_after_the_other(
    address: str, headers: dict[str, str], requests: int, turns: int, pause: float = 0.0
) -> tuple[list[float], list[float]]:
    """Milliseconds until the first byte and until the end, of each request; ``pause`` seconds before each."""
    first, whole = [], []
    history: list[dict[str, str]] = []
    with httpx2.Client(timeout=PATIENCE) as http:
        for number in range(requests):
            history = [*history, ANSWER] if number % turns else []
            asked = body(history)
            time.sleep(pause)
            began = time.perf_counter()
            with http.stream("POST", f"{address}/chat/completions", json=asked, headers=headers) as response:
                pieces = response.iter_raw()
                next(pieces)
                first.append((time.perf_counter() - began) * 1_000)
                for _ in pieces:
                    pass
            whole.append((time.perf_counter() - began) * 1_000)
    return first, whole


def together(address: str, headers: dict[str, str], streams: int) -> tuple[float, int]:
    """Streams a second, all at once, and how many had every byte."""

    async def ask(http: httpx2.AsyncClient) -> bytes:
        return (await http.post(f"{address}/chat/completions", json=body([]), headers=headers)).content

    async def all_of_them() -> list[bytes]:
        async with httpx2.AsyncClient(
            timeout=PATIENCE, limits=httpx2.Limits(max_connections=streams)
        ) as http:
            return await asyncio.gather(*(ask(http) for _ in range(streams)))

    began = time.perf_counter()
    answers = asyncio.run(all_of_them())
    return streams / (time.perf_counter() - began), sum(answer == b"".join(PIECES) for answer in answers)


def measure(memories: int, requests: int, turns: int, streams: int, pause: float) -> dict[str, Any]:
    """All figures."""
    with (
        running(),
        TemporaryDirectory(prefix="jiyi-bench-web-") as logs,
        ephemeral.served(Path(logs)) as (port, _),
        upstream() as direct,
    ):
        random = np.random.default_rng(1)
        fill(made_up(random, AGENT, unit_vectors(random, memories), embedder().model, KINDS))
        with Client(GROUP) as client:
            client.retrieve(AGENT, "What did Klaus do?", timeout=PATIENCE)  # the worker reads the agent
        settle(PATIENCE)  # what follows from so many memories at once is done
        headers = {"authorization": f"Bearer {key_of(GROUP, 'publish', 'read')}"}
        with proxy(f"http://127.0.0.1:{port}", direct, AGENT) as address:
            for place in (address, direct):
                one_after_the_other(place, headers, 5, turns)
            first, whole = one_after_the_other(address, headers, requests, turns, pause)
            first_direct, whole_direct = one_after_the_other(direct, headers, requests, turns, pause)
            rate, same = together(address, headers, streams)
            rate_direct, _ = together(direct, headers, streams)
    base = quantile(whole_direct, 0.5)
    return {
        "machine": machine(),
        "memories": memories,
        "turns": turns,
        "pause_s": pause,
        "added_p50_ms": quantile(whole, 0.5) - base,
        "added_p95_ms": quantile(whole, 0.95) - base,
        "opening_p50_ms": quantile(whole[::turns], 0.5) - base,
        "later_p50_ms": quantile([took for number, took in enumerate(whole) if number % turns] or whole, 0.5)
        - base,
        "first_token_added_ms": quantile(first, 0.5) - quantile(first_direct, 0.5),
        "streams": {"at_once": streams, "identical": same, "a_second": rate, "direct_a_second": rate_direct},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="What the proxy adds to a request.")
    parser.add_argument("--json", action="store_true", help="figures as JSON")
    parser.add_argument("--memories", type=int, default=10_000)
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--turns", type=int, default=TURNS, help="questions of a conversation")
    parser.add_argument("--streams", type=int, default=100)
    parser.add_argument("--pause", type=float, default=PAUSE_SECONDS, help="seconds between two requests")
    asked = parser.parse_args()
    figures = measure(asked.memories, asked.requests, asked.turns, asked.streams, asked.pause)
    if asked.json:
        print(json.dumps(figures, indent=2))
        return
    table = Table("", "", title=figures["machine"], show_header=False)
    for name in (
        "memories",
        "pause_s",
        "added_p50_ms",
        "added_p95_ms",
        "opening_p50_ms",
        "later_p50_ms",
        "first_token_added_ms",
    ):
        table.add_row(name.replace("_", " "), f"{figures[name]:,.1f}")
    streams = figures["streams"]
    table.add_row(
        f"{streams['at_once']} streams at once",
        f"{streams['a_second']:.0f}/s; direct {streams['direct_a_second']:.0f}/s",
    )
    Console().print(table)


if __name__ == "__main__":
    main()
