"""What it costs that Valkey has each event on the disk before it is acknowledged: ``appendfsync always``
beside ``everysec``.

    python -m bench.durability [--json] [--events N] [--rounds R]

One service; Valkey is switched between the two, round by round, and medians are reported.

* **publish**: events a second from one client into the intake's queue, by ``observe`` (single) and by 500
  (batched).
* **store**: events a second from the queue into the database, as in ``bench.ingest``.
* **retrieve**: milliseconds of a retrieval, whose question and answer go through Valkey, too.

``cost`` is the share of the throughput that ``always`` takes; of a retrieval, how much longer it is.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import kombu
import redis
from rich.console import Console
from rich.table import Table

from bench.ingest import BATCH, made_up, publish_all, through_intake
from bench.latency import milliseconds
from bench.support.service import machine, running
from jiyi import Client
from jiyi.protocol.wire.broker import exchange, intake_queue
from jiyi.settings import get_settings
from workers import ephemeral

POLICIES = ("everysec", "always")
RETRIEVALS = 100
#: Figures that are better when they are smaller.
DURATIONS = ("retrieve_ms",)


def set_policy(policy: str) -> None:
    """For the running Valkey, without a restart."""
    with redis.Redis.from_url(get_settings().redis_url) as client:
        client.config_set("appendfsync", policy)


def publish_rate(client: Client, count: int, per_message: int) -> float:
    """Events a second that one client gets rid of. They are taken out of the queue again."""
    made = made_up(count, f"bench-{uuid4().hex[:8]}")
    begun = time.perf_counter()
    publish_all(client, made, per_message)
    taken = time.perf_counter() - begun
    with kombu.Connection(get_settings().broker_url) as connection:
        intake_queue(get_settings())(connection.default_channel).purge()
    return count / taken


def retrieval_ms(client: Client, agent_id: str) -> float:
    """The median of retrievals one after the other."""
    return statistics.median(
        milliseconds(lambda: client.retrieve(agent_id, "tea", touch=False)) for _ in range(RETRIEVALS)
    )


def measures(client: Client, events: int) -> dict[str, Callable[[], float]]:
    return {
        "publish_single": lambda: publish_rate(client, events // 5, 1),
        "publish_batched": lambda: publish_rate(client, events, BATCH),
        "store_single": lambda: through_intake(client, events // 5, 1),
        "store_batched": lambda: through_intake(client, events, BATCH),
    }


def run(events: int, rounds: int, console: Console) -> dict[str, Any]:
    figures: dict[str, dict[str, list[float]]] = {policy: defaultdict(list) for policy in POLICIES}
    with running((), embedder="hashing") as client:
        with ephemeral.processes(get_settings().home / "log", ("intake", "retrieval", "embedding")):
            client.observe("Ada", "Ada pours tea", wait=True, timeout=60)
            retrieval_ms(client, "Ada")
            for policy in POLICIES * rounds:
                set_policy(policy)
                figures[policy]["retrieve_ms"].append(retrieval_ms(client, "Ada"))
        with kombu.Connection(get_settings().broker_url) as connection:
            intake_queue(get_settings())(connection.default_channel).declare()
            exchange()(connection.default_channel).declare()
        for number in range(rounds):
            for policy in POLICIES:
                set_policy(policy)
                for name, measure in measures(client, events).items():
                    figures[policy][name].append(measure())
            console.print(f"{number + 1} of {rounds} rounds: {json.dumps(summary(figures))}", soft_wrap=True)
    return summary(figures) | {"events": events, "rounds": rounds, "machine": machine()}


def summary(figures: dict[str, dict[str, list[float]]]) -> dict[str, Any]:
    """Medians by measure and policy, and what ``always`` costs."""
    found: dict[str, Any] = {}
    for name in figures["always"]:
        every, always = (statistics.median(figures[policy][name]) for policy in POLICIES)
        cost = always / every - 1 if name in DURATIONS else 1 - always / every
        found[name] = {"everysec": round(every, 2), "always": round(always, 2), "cost": round(cost, 3)}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--events", type=int, default=20_000, help="of a batched round; a single round takes a fifth"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    result = run(arguments.events, arguments.rounds, Console(stderr=True))
    if arguments.json:
        print(json.dumps(result))
        return
    table = Table(title=f"appendfsync · median of {result['rounds']} rounds · {result['machine']}")
    for column in ("", *POLICIES, "cost"):
        table.add_column(column, justify="right")
    for name, row in result.items():
        if isinstance(row, dict):
            table.add_row(name, *(f"{row[policy]:,}" for policy in POLICIES), f"{row['cost']:.0%}")
    Console().print(table)


if __name__ == "__main__":
    main()
