"""A question to simple stores of many items, through the queue, beside numpy (``bench.stores scale``)."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from statistics import median
from typing import Any
from uuid import uuid4

import numpy as np
from rich.console import Console

from bench.support.service import running
from jiyi.text.words import content_digest, tokens
from models.db.connection import driver, reading_engine, unit_of_work
from models.db.rows import Copy, copy_rows, packed_json, packed_texts, packed_vector
from models.db.scope import as_owner
from models.stores import rows
from models.stores.tables import StoreItem

#: Values of a vector: those of the default embedder.
SIZE = 384
TIMES, WARM_UP, TOP_K = 41, 3, 5
SEED = 20240401
#: Rows of one COPY.
COPIED = 10_000
WORDS = (
    "kiln clay glaze cup bowl plate oven market fair order blue green Friday Mia Porto 窑 釉 杯子 周五 订单"
).split()
QUESTION = "When is the blue glaze ready for the fair? 蓝釉什么时候好？"
COLUMNS = (
    "item_id",
    "group_id",
    "store_id",
    "key",
    "revision",
    "content_summary",
    "content_hash",
    "metadata",
    "attachments",
    "tokens",
)


def run(sizes: Sequence[int], console: Console) -> dict[str, Any]:
    """By number of items: milliseconds through the queue (median), of the first question, and of numpy
    alone.
    """
    result: dict[str, Any] = {}
    with running(embedder=f"hashing:{SIZE}") as client:
        for size in sizes:
            name = f"scale-{size}"
            client.stores.apply(
                graph=name,
                memory=[
                    {
                        "name": name,
                        "type": "simple",
                        "config": {"memory_path": f"{name}.json", "max_items": size},
                    }
                ],
            )
            console.print(f"filling a store with {size:,} items")
            matrix = _fill(client.group, name, size)
            ask = partial(client.within(60).stores.retrieve, name=name, query=QUESTION, top_k=TOP_K)
            first = _timed(ask)
            asked = [_timed(ask) for _ in range(TIMES)]
            query = matrix[0]
            alone = [_timed(partial(_nearest, matrix, query)) for _ in range(TIMES)]
            result[str(size)] = {
                "p50_ms": round(median(asked[WARM_UP:]), 2),
                "first_ms": round(first, 1),
                "numpy_p50_ms": round(median(alone[WARM_UP:]), 3),
            }
    return result


def _fill(group: str, name: str, size: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    random = np.random.default_rng(SEED)
    matrix = random.standard_normal((size, SIZE), dtype=np.float32)
    matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
    for start in range(0, size, COPIED):
        with unit_of_work() as connection:
            store = rows.need(connection, group, name)
            revision = rows.bump(connection, store.store_id)
            made = []
            for number in range(start, min(start + COPIED, size)):
                text = f"Input: \nOutput: Note {number}: {' '.join(random.choice(WORDS, 12))}."
                key = uuid4()
                told = (
                    key.bytes,
                    group,
                    store.store_id.bytes,
                    str(key),
                    revision,
                    text,
                    content_digest(text),
                )
                made.append(
                    (
                        *told,
                        packed_json(b"{}"),
                        packed_texts([]),
                        " ".join(tokens(text)),
                        packed_vector(matrix[number]),
                        f"hashing-{SIZE}",
                    )
                )
            copy_rows(driver(connection), [Copy(StoreItem, (*COLUMNS, "embedding", "embedding_model"), made)])
    with reading_engine().connect() as connection, as_owner(connection):
        connection.exec_driver_sql("ANALYZE store_items")  # as autovacuum does within a minute
    return matrix


def _nearest(
    matrix: np.ndarray[Any, np.dtype[np.float32]], query: np.ndarray[Any, np.dtype[np.float32]]
) -> Any:
    scores = matrix @ query
    count = min(3 * TOP_K, len(scores))
    return np.argpartition(-scores, count - 1)[:count]


def _timed(call: Callable[[], Any]) -> float:
    """Milliseconds."""
    began = time.perf_counter()
    call()
    return (time.perf_counter() - began) * 1_000
