"""The first retrieval of an agent that no worker holds, beside the second one.

    python -m bench.cold [--json] [--nodes 200,1000,100000] [--agents N]

Many tenants, each asked seldom: nearly every retrieval is an agent's first. The memories are stored before
the workers start; then the largest agents are asked first, so that the first figure of all has in it what a
worker does once in its life. Questions were asked before, of another agent: their vectors are cached. Made-up
memories and questions are those of ``bench.latency``.

* **cold**: an agent's first retrieval, through the queue; of sizes up to ``MANY`` the median of ``--agents``
  agents.
* **warm**: its second one, with another question.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from bench.latency import (
    PATIENCE,
    QUESTIONS,
    SEED,
    WORDS_A_QUESTION,
    fill,
    made_up,
    milliseconds,
    sentences,
    unit_vectors,
)
from bench.support.ranking import quantile
from bench.support.service import machine, running
from engine.providers.embedders import embedder
from jiyi import Client
from jiyi.settings import get_settings
from workers import ephemeral

SIZES = (200, 1_000, 100_000)
#: Memories up to which there are several agents of a size.
MANY = 10_000


def agents_of(size: int, count: int) -> list[str]:
    return [f"agent-{size}-{number}" for number in range(count if size <= MANY else 1)]


def store(size: int, agents: Sequence[str]) -> None:
    for number, agent in enumerate(agents):
        random = np.random.default_rng([SEED, size, number])
        fill(made_up(random, agent, unit_vectors(random, size), embedder().model))


def measure(client: Client, agents: Sequence[str], questions: Sequence[str]) -> dict[str, float]:
    def ask(agent: str, question: str) -> float:
        return milliseconds(lambda: client.retrieve(agent, question, timeout=PATIENCE))

    cold, warm = [], []
    for number, agent in enumerate(agents):
        cold.append(ask(agent, questions[number % len(questions)]))
        warm.append(ask(agent, questions[(number + 1) % len(questions)]))
    first, second = quantile(cold, 0.5), quantile(warm, 0.5)
    return {
        "cold_ms": round(first, 2),
        "warm_ms": round(second, 2),
        "ratio": round(first / second, 2),
        "agents": len(agents),
    }


def run(sizes: Sequence[int], count: int, console: Console) -> dict[str, Any]:
    results: dict[str, Any] = {}
    with running((), embedder="hashing:384") as client:
        questions = sentences(np.random.default_rng(SEED), QUESTIONS, WORDS_A_QUESTION)
        store(1, ["known"])
        for size in sizes:
            with console.status(f"storing agents of {size:,}"):
                store(size, agents_of(size, count))
        with ephemeral.processes(get_settings().home / "log"):
            for question in questions:
                client.retrieve("known", question, timeout=PATIENCE)
            for size in sorted(sizes, reverse=True):
                with console.status(f"{size:,} memories"):
                    results[str(size)] = measure(client, agents_of(size, count), questions)
    return results | {"machine": machine()}


def table_of(result: dict[str, Any]) -> Table:
    table = Table(title=f"An agent's first retrieval and its second, ms · {result['machine']}")
    for column in ("memories", "agents", "cold", "warm", "ratio"):
        table.add_column(column, justify="right")
    for size in sorted(int(name) for name in result if name.isdigit()):
        row = result[str(size)]
        table.add_row(
            f"{size:,}",
            str(row["agents"]),
            f"{row['cold_ms']:.1f}",
            f"{row['warm_ms']:.1f}",
            f"{row['ratio']:.1f}",
        )
    return table


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--nodes", type=lambda given: [int(part) for part in given.split(",")], default=list(SIZES)
    )
    parser.add_argument("--agents", type=int, default=20, help="of each size that is not large")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    result = run(arguments.nodes, arguments.agents, Console(stderr=True))
    if arguments.json:
        print(json.dumps(result))
    else:
        Console().print(table_of(result))


if __name__ == "__main__":
    main()
