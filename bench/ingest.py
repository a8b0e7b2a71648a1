"""How many events a second become durable: through the exchange and the intake, beside bare references.

    python -m bench.ingest [--json] [--events N] [--rounds R]

* **single**: one event a message. Reference: a bare kombu consumer that acknowledges the same messages and
  does nothing else.
* **batched**: 500 events a message. Reference: bare ``COPY`` of the same rows into the same tables.

The queue is filled first and the clock runs from the first to the last row in the database, so that the
producer's own speed does not count; nor do the tasks that follow, which run when the intake leaves them room
(the workers are not started). Rounds alternate between the two, and medians are reported.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import kombu
from rich.console import Console
from rich.table import Table
from sqlalchemy import text

from bench.support.service import machine, running
from jiyi import Client
from jiyi.protocol import events
from jiyi.protocol.events import Event
from jiyi.protocol.wire.broker import exchange, intake_queue
from jiyi.settings import get_settings
from models.db.connection import engine, unit_of_work
from models.db.scope import as_owner, for_groups
from models.memory.inbox import store
from workers import ephemeral
from workers.intake import sources

BATCH = 500
AGENTS = 20
WAIT_SECONDS = 300
POLL_SECONDS = 0.05  # counting costs the database something, too

SENTENCES = (
    "Klaus Mueller is reading a book on the effects of gentrification in low-income communities",
    "林岚把新到的龙井换到了靠窗的架子上，顺手给砚台添了水",
    "Isabella Rodriguez is planning a party at the cafe and asks Maria to help with the decorations",
    "Tomas 把第三窑的温度降到一千二百二十五度，茶杯没有再塌",
)


def made_up(count: int, group_id: str) -> list[Event]:
    """Events like those of real agents: a sentence, a triple, two keywords, an importance."""
    return [
        events.build(
            {
                "type": "memory.observed",
                "group_id": group_id,
                "agent_id": f"agent-{i % AGENTS}",
                "session_id": f"s-{i // 50}",
                "payload": {
                    "description": f"{SENTENCES[i % len(SENTENCES)]} ({i})",
                    "subject": f"agent-{i % AGENTS}",
                    "predicate": "is",
                    "object": f"thing {i % 97}",
                    "keywords": [f"agent-{i % AGENTS}", f"thing {i % 97}"],
                    "poignancy": 1 + i % 10,
                },
            }
        )
        for i in range(count)
    ]


def stored_in(group_id: str) -> int:
    with for_groups(group_id), unit_of_work() as connection:
        return int(
            connection.execute(
                text("SELECT count(*) FROM events WHERE group_id = :g"), {"g": group_id}
            ).scalar_one()
        )


def through_intake(client: Client, count: int, per_message: int) -> float:
    """Events a second from queue to commit."""
    group_id = f"bench-{uuid4().hex[:8]}"
    made = made_up(count, group_id)
    with ephemeral.processes(get_settings().home / "log", ()):
        publish_all(client, made, per_message)
        with ephemeral.processes(get_settings().home / "log", ("intake",)):
            return rate(lambda: stored_in(group_id), count)


def rate(stored: Callable[[], int], count: int) -> float:
    """Events a second between the first commit and the last, the first batch not counted."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not (first := stored()) and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
    begun = time.perf_counter()
    while (now := stored()) < count and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
    return (now - first) / (time.perf_counter() - begun)


def publish_all(client: Client, made: list[Event], per_message: int) -> None:
    for start in range(0, len(made), per_message):
        client.observe_many(made[start : start + per_message])


def bare_consumer(client: Client, count: int) -> float:
    """Messages a second that kombu alone takes and acknowledges."""
    publish_all(client, made_up(count, "unused"), 1)
    taken = 0

    def on_message(message: kombu.Message) -> None:
        nonlocal taken
        taken += 1
        message.ack()

    settings = get_settings()
    with kombu.Connection(settings.broker_url) as connection:
        queue = intake_queue(settings)
        with connection.Consumer([queue], on_message=on_message, prefetch_count=sources.BATCH):
            connection.drain_events(timeout=5)
            begun, first = time.perf_counter(), taken
            while taken < count:
                connection.drain_events(timeout=5)
            return (taken - first) / (time.perf_counter() - begun)


def bare_copy(count: int) -> float:
    """Events a second by COPY alone: the very rows that the intake wrote, read back and copied into twin
    tables.
    """
    group_id = f"bench-{uuid4().hex[:8]}"
    made = made_up(count, group_id)
    for start in range(0, count, BATCH):
        with for_groups(group_id), unit_of_work() as connection:
            store(connection, made[start : start + BATCH])
    tables = ("events", "memory_nodes", "node_access", "pending_work")
    spent = 0.0
    with engine().connect() as connection, as_owner(connection):  # the twins are under no row-level security
        raw: Any = connection.connection.driver_connection
        for table in tables:
            raw.execute(f"CREATE TABLE IF NOT EXISTS bare_{table} (LIKE {table} INCLUDING ALL)")
        raw.commit()
        copies = {table: list(_dump(raw, table, group_id)) for table in tables}
        begun = time.perf_counter()
        for table, blocks in copies.items():
            with raw.cursor().copy(f"COPY bare_{table} FROM STDIN (FORMAT BINARY)") as copy:
                for block in blocks:
                    copy.write(block)
        raw.commit()
        spent = time.perf_counter() - begun
        for table in tables:
            raw.execute(f"DROP TABLE bare_{table}")
        raw.commit()
    return count / spent


def _dump(raw: Any, table: str, group_id: str) -> Iterator[bytes]:
    with raw.cursor().copy(
        f"COPY (SELECT * FROM {table} WHERE group_id = '{group_id}') TO STDOUT (FORMAT BINARY)"
    ) as copy:
        yield from map(bytes, copy)


def run(count: int, rounds: int, console: Console) -> dict[str, Any]:
    figures: dict[str, list[float]] = {
        "single": [],
        "single_reference": [],
        "batched": [],
        "batched_reference": [],
    }
    with running((), embedder="hashing") as client:
        with kombu.Connection(get_settings().broker_url) as connection:
            intake_queue(get_settings())(connection.default_channel).declare()
            exchange()(connection.default_channel).declare()
        for number in range(rounds):
            with console.status(f"round {number + 1} of {rounds}"):
                figures["single"].append(through_intake(client, count // 5, 1))
                figures["single_reference"].append(bare_consumer(client, count // 5))
                figures["batched"].append(through_intake(client, count, BATCH))
                figures["batched_reference"].append(bare_copy(count))
    medians = {name: statistics.median(values) for name, values in figures.items()}
    return {
        name: {
            "events_per_s": round(medians[name]),
            "reference_per_s": round(medians[f"{name}_reference"]),
            "ratio": round(medians[name] / medians[f"{name}_reference"], 3),
        }
        for name in ("single", "batched")
    } | {"events": count, "rounds": rounds, "machine": machine()}


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
    table = Table(title=f"Durable events · median of {result['rounds']} rounds · {result['machine']}")
    for column in ("", "events/s", "reference/s", "ratio"):
        table.add_column(column, justify="right")
    for name, reference in (("single", "bare kombu consumer"), ("batched", "bare COPY")):
        row = result[name]
        table.add_row(
            f"{name} (against {reference})",
            f"{row['events_per_s']:,}",
            f"{row['reference_per_s']:,}",
            f"{row['ratio']:.2f}",
        )
    Console().print(table)


if __name__ == "__main__":
    main()
