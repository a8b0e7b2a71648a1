"""Many tenants and one large agent in one service: does it stay as fast, and within its memory?

    python -m bench.scale [--tenants 200] [--memories 400000] [--large 200000] [--index-mib 256] [--json]

Tenants share ``--memories`` equally and are stored mixed, as in life; one tenant is measured before the
others are there. Vectors are made up with as many free directions as those of embedders have (``FREE``): in
384 independent ones nothing is near anything.

* **loaded_per_s**: memories with their vectors that the inbox stores by COPY, in one process;
  **disk_bytes_per_memory**: of the database.
* **alone_p50_ms**, **retrieve_p50_ms**, **retrieve_p95_ms**: a retrieval of a tenant that was asked before,
  alone and among all.
* **cold_p50_ms**: the first one of a tenant.
* **worker_rss_mb**: of the retrieval worker once all tenants were asked; **worker_start_mb**: before that.
  Its indexes may take ``--index-mib``.
* **recall_large**: the share of the truly nearest memories that the large agent's answers have;
  **large_p50_ms**: a retrieval of it; **large_first_p50_ms**: of the first ones, once its indexes are made
  and nothing is owed.
* **large_ready_s**: until it had indexes of its own; **backup_s**, **restore_s**: `jiyi backup` and `jiyi
  restore --force` of all of it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any
from uuid import UUID

import numpy as np
from rich.console import Console
from rich.table import Table
from sqlalchemy import text

from bench.latency import WORDS_A_QUESTION, WORDS_A_TEXT, milliseconds, sentences
from bench.support.processes import resident_bytes
from bench.support.ranking import quantile
from bench.support.service import machine, running
from bench.tenants import AGENT, DIMENSIONS, MODEL, TOP_K, ask, await_large
from bench.web import settle
from jiyi import Client
from jiyi.protocol import events
from jiyi.protocol.wire.vectors import Float32
from jiyi.settings import get_settings
from models.db.connection import unit_of_work
from models.db.scope import as_owner
from models.memory.inbox import store
from workers import ephemeral

#: Directions in which vectors vary freely.
FREE = 32
#: Memories of a transaction, and of a tenant in it.
BATCH, SLICE = 1_000, 20
#: Tenants whose retrievals are timed, retrievals of each, questions to the large agent.
TIMED, ROUNDS, QUESTIONS = 100, 5, 50
SEED = 20261127
LARGE = "large"
#: Seconds that an index of a million vectors may take on a machine that does much else.
PATIENCE = 3_600
#: Seconds; as for a first retrieval.
TIMEOUT = 60
#: What ``JIYI_INDEX_MAX_NODES`` is at least.
LEAST_LARGE = 10
#: The share of its memories with which the large agent outgrows an index in memory: what comes later is added
#: to the database's one by one, at some hundreds a second.
LARGE_FROM = 0.95
#: More than any agent that is held in memory.
NEVER_LARGE = 10_000_000
_VACUUMS = text("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'autovacuum worker'")
_SIZE = text("SELECT pg_database_size(current_database())")


class Vectors:
    """Made-up ones, all with the same free directions."""

    def __init__(self) -> None:
        self._directions = np.random.default_rng(SEED).standard_normal((FREE, DIMENSIONS), dtype=np.float32)

    def of(self, count: int, *seed: int) -> Float32:
        made = (
            np.random.default_rng([SEED, *seed]).standard_normal((count, FREE), dtype=np.float32)
            @ self._directions
        )
        made /= np.linalg.norm(made, axis=1, keepdims=True)
        return made


class Load:
    """Stores memories and keeps the time."""

    def __init__(self) -> None:
        self.memories, self.seconds = 0, 0.0
        self._random = np.random.default_rng(SEED)
        self._waiting: list[tuple[str, bytes]] = []
        #: Of the large agent's memories, in their order.
        self.large: list[UUID] = []

    def add(self, group_id: str, vectors: Float32) -> None:
        self._waiting += [(group_id, vector.tobytes()) for vector in vectors]
        while len(self._waiting) >= BATCH:
            self.flush()

    def flush(self) -> None:
        batch, self._waiting = self._waiting[:BATCH], self._waiting[BATCH:]
        made = [
            events.build(
                {
                    "type": "memory.observed",
                    "group_id": group_id,
                    "agent_id": AGENT,
                    "payload": {
                        "description": description,
                        "poignancy": 1 + number % 10,
                        "historic": True,
                        "vector": vector,
                        "embedding_model": MODEL,
                    },
                }
            )
            for number, ((group_id, vector), description) in enumerate(
                zip(batch, sentences(self._random, len(batch), WORDS_A_TEXT), strict=True)
            )
        ]
        self.large += [event.event_id for event in made if event.group_id == LARGE]
        begun = time.perf_counter()
        with unit_of_work() as connection:
            store(connection, made)
        self.seconds += time.perf_counter() - begun
        self.memories += len(made)


def names(tenants: int) -> list[str]:
    return [f"tenant-{number}" for number in range(tenants)]


def fill_tenants(load: Load, vectors: Vectors, first: int, last: int, memories: int) -> None:
    for start in range(0, memories, SLICE):
        for number in range(first, last):
            load.add(f"tenant-{number}", vectors.of(min(SLICE, memories - start), number, start))
    load.flush()


def fill_large(load: Load, vectors: Vectors, count: int) -> Float32:
    """Returns its vectors, in the order of the memories."""
    made = np.concatenate(
        [vectors.of(min(BATCH, count - start), 0, 0, start) for start in range(0, count, BATCH)]
    )
    for start in range(0, count, BATCH):
        load.add(LARGE, made[start : start + BATCH])
    load.flush()
    return made


def timed(group_ids: Sequence[str], vectors: Vectors, rounds: int, seed: int) -> list[list[float]]:
    """Milliseconds of each tenant's retrievals, one after the other."""
    questions = iter(
        sentences(np.random.default_rng([SEED, seed]), rounds * len(group_ids), WORDS_A_QUESTION)
    )
    found = []
    for number, group_id in enumerate(group_ids):
        asked: Iterator[tuple[str, Float32]] = zip(
            islice(questions, rounds), vectors.of(rounds, seed, number), strict=True
        )
        with Client(group_id) as client:
            found.append(
                [
                    milliseconds(
                        lambda question=question, vector=vector, client=client: client.retrieve(  # type: ignore[misc]
                            AGENT,
                            question,
                            vectors=[vector.tobytes()],
                            embedding_model=MODEL,
                            timeout=TIMEOUT,
                        )
                    )
                    for question, vector in asked
                ]
            )
    return found


def recall(held: Float32, node_ids: Sequence[UUID], queries: Float32) -> float:
    """The share of the truly nearest that the large agent's answers have."""
    shares, count = [], min(TOP_K, len(held))
    with Client(LARGE) as client:
        for query in queries:
            nearest = {node_ids[row] for row in np.argsort(-(held @ query))[:count]}
            answer = ask(client, query)
            if answer.debug.exact:
                raise RuntimeError("the large agent was answered from memory")
            shares.append(len(nearest & set(answer.accessed_ids)) / count)
    return round(float(np.mean(shares)), 4)


def jiyi(*arguments: str) -> float:
    """Seconds that the command takes."""
    begun = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "workers.backup", *arguments], check=True, stdout=subprocess.DEVNULL
    )
    return round(time.perf_counter() - begun, 1)


def database_bytes() -> int:
    with unit_of_work() as connection:
        return int(connection.execute(_SIZE).scalar_one())


def analyze() -> None:
    with unit_of_work() as connection, as_owner(connection):
        connection.execute(text("ANALYZE"))  # as the server does by itself, only later


def await_vacuum() -> None:
    """Until the database has ended what it does by itself after so many rows, if it does within the hour."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        with (
            unit_of_work() as connection,
            as_owner(connection),
        ):  # whose transaction sees what was under way as it began
            if not connection.execute(_VACUUMS).scalar_one():
                return
        time.sleep(1)


def median(found: Iterable[float]) -> float:
    return round(quantile(list(found), 0.5), 2)


def measure_tenants(
    console: Console, load: Load, vectors: Vectors, tenants: int, memories: int
) -> dict[str, Any]:
    """Of one tenant alone, and of all."""
    fill_tenants(load, vectors, 0, 1, memories)
    analyze()
    start = resident_bytes("retrieval")
    alone = timed(names(1), vectors, 1 + ROUNDS * 10, 1)[0][1:]
    with console.status(f"storing {tenants:,} tenants"):
        fill_tenants(load, vectors, 1, tenants, memories)
    analyze()
    sampled = names(tenants)[:: max(1, tenants // TIMED)][:TIMED]
    with console.status("asking some tenants"):
        answers = timed(sampled, vectors, 1 + ROUNDS, 2)
    warm = [spent for one in answers for spent in one[1:]]
    with console.status("asking all tenants"):
        timed(names(tenants), vectors, 1, 3)
    return {
        "alone_p50_ms": median(alone),
        "retrieve_p50_ms": median(warm),
        "retrieve_p95_ms": round(quantile(warm, 0.95), 2),
        "among_by_alone": round(median(warm) / median(alone), 2),
        "cold_p50_ms": median(one[0] for one in answers[1:] or answers),
        "worker_start_mb": round(start / 2**20),
        "worker_rss_mb": round(resident_bytes("retrieval") / 2**20),
    }


def measure_large(console: Console, load: Load, vectors: Vectors, count: int) -> dict[str, Any]:
    with console.status(f"storing an agent of {count:,}"):
        held = fill_large(load, vectors, count)
    begun = time.perf_counter()
    await_large(1, console, PATIENCE)
    ready = time.perf_counter() - begun
    analyze()
    settle(PATIENCE)
    await_vacuum()
    first, later = (timed([LARGE], vectors, 1 + QUESTIONS, seed)[0][1:] for seed in (4, 6))
    return {
        "recall_large": recall(held, load.large, vectors.of(QUESTIONS, 5)),
        "large_first_p50_ms": median(first),
        "large_p50_ms": median(later),
        "large_ready_s": round(ready, 1),
    }


def back_up_and_restore() -> dict[str, Any]:
    """Nothing else may be connected. Restored into an empty database of another server."""
    home = get_settings().home
    ephemeral.forget()
    found = {"backup_s": jiyi("backup", str(home / "all.dump"))}
    with ephemeral.database(home / "second"):
        ephemeral.forget()
        found["restore_s"] = jiyi("restore", str(home / "all.dump"))
    return found


def run(console: Console, tenants: int, memories: int, large: int, index_mib: int) -> dict[str, Any]:
    vectors, load = Vectors(), Load()
    settings = {
        "index_max_bytes": str(index_mib * 2**20),
        "index_max_nodes": str(int(large * LARGE_FROM) or NEVER_LARGE),
    }
    with running((), embedder="hashing", **settings):
        empty = database_bytes()
        with ephemeral.processes(get_settings().home / "log"):
            found = measure_tenants(console, load, vectors, tenants, memories // tenants)
            console.print(json.dumps(found), soft_wrap=True)  # what is known so far, of a run that takes long
            if large:
                found |= measure_large(console, load, vectors, large)
        found |= {
            "memories": load.memories,
            "loaded_per_s": round(load.memories / load.seconds),
            "disk_bytes_per_memory": round((database_bytes() - empty) / load.memories),
        }
        console.print(json.dumps(found), soft_wrap=True)
        with console.status("backup and restore"):
            found |= back_up_and_restore()
    return found | {"tenants": tenants, "large": large, "index_mib": index_mib, "machine": machine()}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tenants", type=int, default=200)
    parser.add_argument("--memories", type=int, default=400_000, help="of all tenants together")
    parser.add_argument(
        "--large",
        type=int,
        help="memories of the large agent; 0: none; by default half as many as of all tenants",
    )
    parser.add_argument("--index-mib", type=int, default=256, help="what the worker's indexes may take")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    large = arguments.memories // 2 if arguments.large is None else arguments.large
    if not 0 < arguments.tenants <= arguments.memories:
        parser.error("--tenants: at least 1, and at most as many as --memories")
    if large and not 2 * max(LEAST_LARGE, arguments.memories // arguments.tenants) <= large:
        parser.error(f"--large: at least twice as many as a tenant has, and {2 * LEAST_LARGE}; or 0")
    result = run(Console(stderr=True), arguments.tenants, arguments.memories, large, arguments.index_mib)
    if arguments.json:
        print(json.dumps(result))
        return
    table = Table(title=f"Scale · {result['machine']}")
    table.add_column("what")
    table.add_column("measured", justify="right")
    for name, value in result.items():
        if name != "machine":
            table.add_row(name, f"{value:,}")
    Console().print(table)


if __name__ == "__main__":
    main()
