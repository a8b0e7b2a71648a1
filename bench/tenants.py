"""Many small tenants in one service: does each get all of its own best memories?

    python -m bench.tenants [--tenants 200] [--memories 100] [--json]

An approximate index over all tenants loses results silently, above all when vectors are uncorrelated, as
here: the nearest of all belong to others, and what is left after the filter is too little. Every tenant's
answers, ranked by cosine alone, are compared with an exact scan of its vectors.

Once as ordinary agents, whose memories are all compared; once as large ones, with a bound so low that each
agent outgrows it: then the database's approximate index serves them, all tenants' rows in one.

* **recall**: the share of the truly nearest ones that were returned.
* **short**: answers with fewer memories than were asked for.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table
from sqlalchemy import text

from bench.latency import unit_vectors
from bench.support.service import machine, running
from jiyi import Client
from jiyi.protocol import events
from jiyi.protocol.events import Event
from jiyi.protocol.retrieval import Answer
from jiyi.protocol.wire.vectors import Float32
from models.db.connection import unit_of_work
from models.memory.inbox import store

#: Unless given on the command line.
TENANTS, MEMORIES = 200, 100
QUERIES = 3
TOP_K = 10
DIMENSIONS = 384
MODEL = f"random-{DIMENSIONS}"
AGENT = "agent"
BATCH = 1_000
SEED = 20260302
#: Memories beyond which an agent is large, where none is to be.
NEVER_LARGE = 200_000
#: Seconds that the agents may take to become large.
PATIENCE = 300

_READY = text("SELECT count(*) FROM agents WHERE large_ready_at IS NOT NULL")

#: Of a tenant: its vectors, and the memories' ids in the same order.
Tenant = tuple[Float32, list[UUID]]


def made_up(group_id: str, vectors: Float32) -> Iterator[Event]:
    for i, vector in enumerate(vectors):
        payload = {
            "description": f"memory {i}",
            "historic": True,
            "vector": vector.tobytes(),
            "embedding_model": MODEL,
        }
        yield events.build(
            {"type": "memory.observed", "group_id": group_id, "agent_id": AGENT, "payload": payload}
        )


def fill(random: np.random.Generator, count: int, memories: int) -> dict[str, Tenant]:
    tenants: dict[str, Tenant] = {}
    everything: list[Event] = []
    for number in range(count):
        group_id, vectors = f"tenant-{number}", unit_vectors(random, memories, DIMENSIONS)
        made = list(made_up(group_id, vectors))
        tenants[group_id] = vectors, [event.event_id for event in made]
        everything.extend(made)
    mixed = random.permutation(len(everything))  # the tenants' rows lie mixed, as in life
    for start in range(0, len(mixed), BATCH):
        with unit_of_work() as connection:
            store(connection, [everything[i] for i in mixed[start : start + BATCH]])
    return tenants


def nearest(tenant: Tenant, query: Float32) -> set[UUID]:
    vectors, node_ids = tenant
    cosines = vectors.astype(np.float64) @ query.astype(np.float64)
    return {node_ids[row] for row in np.argsort(-cosines)[:TOP_K]}


def ask_all(tenants: dict[str, Tenant], console: Console, *, exact: bool) -> dict[str, float]:
    """Each tenant's questions, the same ones whatever the path."""
    random = np.random.default_rng(SEED + 1)
    recalls, short = [], 0
    for group_id, tenant in track(tenants.items(), "tenants", console=console, transient=True):
        with Client(group_id) as client:
            for query in unit_vectors(random, QUERIES, DIMENSIONS):
                answer = ask(client, query)
                if answer.debug.exact != exact:
                    raise RuntimeError(f"{group_id} was answered by the other path")
                found = set(answer.accessed_ids)
                short += len(found) < TOP_K
                recalls.append(len(found & nearest(tenant, query)) / TOP_K)
    return {"recall": round(float(np.mean(recalls)), 4), "short": short}


def ask(client: Client, query: Float32) -> Answer:
    answer = client.retrieve(
        AGENT,
        "what is near",
        vectors=[query.tobytes()],
        embedding_model=MODEL,
        relevance="dense",
        recency_w=0,
        importance_w=0,
        top_k=TOP_K,
    )
    if answer.status != "ok":
        raise RuntimeError(f"{client.group} got no answer: {answer.status}")
    return answer


def run(console: Console, count: int, memories: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for path, bound in {"exact": NEVER_LARGE, "large": memories // 2}.items():
        with running(embedder="hashing", index_max_nodes=str(bound)):
            with console.status(f"{path}: storing"):
                tenants = fill(np.random.default_rng(SEED), count, memories)
            if path == "large":
                await_large(len(tenants), console)
            found[path] = ask_all(tenants, console, exact=path == "exact")
    return found | {"machine": machine()}


def await_large(tenants: int, console: Console, patience: int = PATIENCE) -> None:
    """Return when all agents are served from the database's own indexes."""
    with console.status("making the indexes"):
        for _ in range(patience):
            with unit_of_work() as connection:
                if connection.execute(_READY).scalar_one() == tenants:
                    return
            time.sleep(1)
    raise RuntimeError(f"after {patience} s not all agents are large")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tenants", type=int, default=TENANTS)
    parser.add_argument("--memories", type=int, default=MEMORIES, help=f"of each tenant, at least {TOP_K}")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if arguments.memories < TOP_K:
        parser.error(f"--memories: fewer than the {TOP_K} that are asked for")
    result = run(Console(stderr=True), arguments.tenants, arguments.memories)
    if arguments.json:
        print(json.dumps(result))
        return
    table = Table(
        title=(
            f"{arguments.tenants} tenants × {arguments.memories} memories, {QUERIES} questions each ·"
            f" {result['machine']}"
        )
    )
    for column in ("path", f"recall@{TOP_K}", "answers cut short"):
        table.add_column(column, justify="right")
    for path in ("exact", "large"):
        table.add_row(path, f"{result[path]['recall']:.4f}", str(result[path]["short"]))
    Console().print(table)


if __name__ == "__main__":
    main()
