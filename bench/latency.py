"""How long a retrieval takes, from the call to the answer, beside the least that numpy needs for the same
ranking.

    python -m bench.latency [--json] [--nodes 1000,10000,100000] [--retrievals N] [--plot FILE]

One agent a size, in a service of its own. Memories are about a dozen words from a Zipf-distributed
vocabulary, in sessions of 20, with random unit vectors of 384 values: random, because what a product takes
does not depend on the values. Retrievals are one after the other, as by default (hybrid relevance, the best
30, counted as accessed), with questions that were asked before: their vectors are cached, so that no embedder
is measured.

* **p50, p95**: a retrieval when nothing was written since the last one.
* **after a write**: the first retrieval after one new memory, which the index has to take in.
* **cold**: the first retrieval of all, for which the worker reads the whole agent.
* **numpy**: ``vectors @ query``, partition, sort of the best 30; in this process, in the same run.
* **empty task**: a call through the same queue to the same worker that is answered as soon as it is read: the
  least that a retrieval can take.
* **CPU**: of all processes together, this one among them, for one retrieval.
* **bytes a memory**: what the retrieval worker's memory grew by when it read the agent.
* **a second**: retrievals of 32 callers at the same time, who ask again as soon as they have their answer.
* **while told**: one after the other again, while 1,000 events a second come in for the same agent over the
  broker.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import cycle, islice, product, takewhile
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from sqlalchemy import text

from bench.support.processes import cpu_seconds, resident_bytes
from bench.support.ranking import quantile
from bench.support.service import machine, running
from engine.providers.embedders import embedder
from jiyi import Client
from jiyi.client.client import chunks
from jiyi.errors import InvalidRequest
from jiyi.protocol import events
from jiyi.protocol.events import Event
from jiyi.protocol.retrieval import DEFAULT_TOP_K
from jiyi.protocol.wire.calls import retrieval_queue
from jiyi.protocol.wire.vectors import Float32
from models.db.connection import unit_of_work
from models.db.scope import as_owner
from models.memory.inbox import store

DIMENSIONS = 384
VOCABULARY = 5_000
WORDS_A_TEXT = 12
WORDS_A_QUESTION = 6
QUESTIONS = 20
SESSION = 20
#: Retrievals after a write.
WRITES = 20
BATCH = 1_000
#: Seconds; the first retrieval of a large agent reads it all.
PATIENCE = 60
#: Callers at the same time, and for how many seconds.
CALLERS, CALLING_SECONDS = 32, 4.0
#: Events a second for an agent that is asked meanwhile, the messages a second that they come in, and for how
#: many seconds.
TOLD, MESSAGES, TOLD_SECONDS = 1_000, 10, 3
SEED = 20260301
#: What design §13 allows: size → milliseconds at the median.
GOALS = {1_000: 5, 10_000: 8, 100_000: 25}

Random = np.random.Generator


def unit_vectors(random: Random, count: int, dimensions: int = DIMENSIONS) -> Float32:
    made = random.standard_normal((count, dimensions), dtype=np.float32)
    made /= np.linalg.norm(made, axis=1, keepdims=True)
    return made


def sentences(random: Random, count: int, words: int) -> list[str]:
    """Made-up texts, the words of which are as unevenly frequent as a language's."""
    syllables = [first + vowel for first in "bdfgklmnprstvz" for vowel in "aeiou"]
    vocabulary = np.array(["".join(word) for word in islice(product(syllables, repeat=3), VOCABULARY)])
    shares = 1 / np.arange(1, VOCABULARY + 1)
    picked = random.choice(vocabulary, size=(count, words), p=shares / shares.sum())
    return [" ".join(row) for row in picked]


def made_up(
    random: Random, agent_id: str, vectors: Float32, model: str, kinds: Sequence[str] = ()
) -> Iterator[Event]:
    """Memories without a kind, or of these kinds in turn, as what is extracted from conversations has."""
    for i, (description, vector) in enumerate(
        zip(sentences(random, len(vectors), WORDS_A_TEXT), vectors, strict=True)
    ):
        yield events.build(
            {
                "type": "memory.observed",
                "group_id": "bench",
                "agent_id": agent_id,
                "session_id": f"s-{i // SESSION}",
                "payload": {
                    # historic: nothing but the memories themselves is to be stored
                    "description": description,
                    "poignancy": 1 + i % 10,
                    "historic": True,
                    "vector": vector.tobytes(),
                    "embedding_model": model,
                    **(
                        {"kind": (kind := kinds[i % len(kinds)]), "uri": f"agent://{agent_id}/{kind}/parcels"}
                        if kinds
                        else {}
                    ),
                },
            }
        )


def fill(made: Iterator[Event]) -> None:
    for batch in chunks(made, BATCH):
        with unit_of_work() as connection:
            store(connection, batch)
    with unit_of_work() as connection, as_owner(connection):
        connection.execute(text("ANALYZE"))  # as the server does by itself, only later


def milliseconds(action: Callable[[], object]) -> float:
    begun = time.perf_counter()
    action()
    return (time.perf_counter() - begun) * 1000


def by_numpy(vectors: Float32, queries: Float32, count: int) -> list[float]:
    def best(query: Float32) -> object:
        products = vectors @ query
        pool = np.argpartition(products, -DEFAULT_TOP_K)[-DEFAULT_TOP_K:]
        return pool[np.argsort(-products[pool])]

    for query in queries:
        best(query)
    return [milliseconds(partial(best, query)) for query in islice(cycle(queries), count)]


def measure(client: Client, size: int, count: int) -> dict[str, float]:
    """The figures of one agent with ``size`` memories."""
    random = np.random.default_rng(SEED + size)
    agent_id, model = f"agent-{size}", embedder().model
    vectors = unit_vectors(random, size)
    fill(made_up(random, agent_id, vectors, model))
    questions = sentences(random, QUESTIONS, WORDS_A_QUESTION)
    queries = np.stack([embedder().query(question) for question in questions])
    reference = quantile(by_numpy(vectors, queries, count), 0.5)

    def ask(question: str) -> float:
        return milliseconds(lambda: client.retrieve(agent_id, question, timeout=PATIENCE))

    before = resident_bytes("retrieval")
    cold = ask(questions[0])
    grown = resident_bytes("retrieval") - before
    for question in questions:
        ask(question)
    used = cpu_seconds()
    spent = [ask(question) for question in islice(cycle(questions), count)]
    used = cpu_seconds() - used
    a_second = at_once(ask, questions)
    after_write = []
    for question, event in zip(
        questions, made_up(random, agent_id, unit_vectors(random, WRITES), model), strict=False
    ):
        with unit_of_work() as connection:
            store(connection, [event])
        after_write.append(ask(question))
    told = list(made_up(random, agent_id, unit_vectors(random, TOLD * TOLD_SECONDS), model))
    while_told, events_per_s = meanwhile(ask, questions, told)
    median = quantile(spent, 0.5)
    figures = {
        "p50_ms": median,
        "p95_ms": quantile(spent, 0.95),
        "after_write_p50_ms": quantile(after_write, 0.5),
        "cold_ms": cold,
        "cpu_ms": used * 1000 / count,
        "bytes_per_memory": grown / size,
        "per_s": a_second,
        "while_told_p50_ms": while_told,
        "while_told_events_per_s": events_per_s,
        "numpy_p50_ms": reference,
        "ratio": median / reference,
    }
    return {name: round(value, 2) for name, value in figures.items()}


def at_once(ask: Callable[[str], float], questions: Sequence[str]) -> float:
    """Retrievals a second of many callers."""
    end = time.perf_counter() + CALLING_SECONDS

    def call(number: int) -> int:
        asked = 0
        for question in cycle(questions[number % len(questions) :]):
            ask(question)
            asked += 1
            if time.perf_counter() > end:
                return asked
        return asked

    with ThreadPoolExecutor(CALLERS) as pool:
        return sum(pool.map(call, range(CALLERS))) / CALLING_SECONDS


def meanwhile(
    ask: Callable[[str], float], questions: Sequence[str], told: Sequence[Event]
) -> tuple[float, float]:
    """Milliseconds at the median while the events are told to the agent that is asked, and how many of these
    a second were sent.
    """

    def tell() -> float:
        with Client(told[0].group_id) as client:
            begun = time.perf_counter()
            for number, batch in enumerate(chunks(told, TOLD // MESSAGES), start=1):
                client.observe_many(batch)
                time.sleep(max(0.0, begun + number / MESSAGES - time.perf_counter()))
            return len(told) / (time.perf_counter() - begun)

    with ThreadPoolExecutor(1) as pool:
        telling = pool.submit(tell)
        spent = [ask(question) for question in takewhile(lambda _: not telling.done(), cycle(questions))]
        return quantile(spent, 0.5), telling.result()


def empty_task(client: Client, count: int) -> float:
    """Milliseconds at the median of a call that the worker refuses at once, because it names nobody."""
    queue = retrieval_queue(client.group, "", client.settings.retrieval_shards)

    def call() -> None:
        with suppress(InvalidRequest):
            client.transport.call("retrieval.retrieve", queue, {}, PATIENCE)

    for _ in range(QUESTIONS):
        call()
    return round(quantile([milliseconds(call) for _ in range(count)], 0.5), 2)


def run(sizes: Sequence[int], count: int, console: Console) -> dict[str, Any]:
    results: dict[str, Any] = {}
    with running(embedder=f"hashing:{DIMENSIONS}") as client:
        results["empty_task_p50_ms"] = empty_task(client, count)
        for size in sizes:
            with console.status(f"{size:,} memories"):
                results[str(size)] = measure(client, size, count)
    return results | {"retrievals": count, "machine": machine()}


def plot(result: dict[str, Any], path: Path, console: Console) -> None:
    try:
        import matplotlib as mpl  # type: ignore[import-not-found]  # optional: for the picture only
    except ImportError:
        console.print("no plot: matplotlib is not installed")
        return
    mpl.use("agg")
    from matplotlib import pyplot as plt

    sizes = sorted(int(name) for name in result if name.isdigit())
    figure, axes = plt.subplots(figsize=(7, 4), dpi=150)
    for name, label, style in (
        ("p50_ms", "median", "o-"),
        ("p95_ms", "95th percentile", "o--"),
        ("after_write_p50_ms", "after a write", "s:"),
        ("numpy_p50_ms", "numpy alone", "x-"),
    ):
        axes.plot(sizes, [result[str(size)][name] for size in sizes], style, label=label)
    axes.plot(list(GOALS), list(GOALS.values()), "k_", markersize=14, label="goal for the median")
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="memories of one agent",
        ylabel="milliseconds",
        title="One retrieval",
    )
    axes.grid(visible=True, which="both", alpha=0.25)
    axes.legend()
    figure.text(0.99, 0.01, result["machine"], ha="right", fontsize=6, color="gray")
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def table_of(result: dict[str, Any]) -> Table:
    title = f"Retrieval through the queue, ms · {result['retrievals']} each · {result['machine']}"
    table = Table(title=title, caption=f"an empty task: {result['empty_task_p50_ms']} ms")
    for column in (
        "memories",
        "p50",
        "goal",
        "p95",
        "after a write",
        "cold",
        "CPU",
        "bytes a memory",
        "a second",
        "while told",
        "numpy p50",
        "ratio",
    ):
        table.add_column(column, justify="right")
    for size in sorted(int(name) for name in result if name.isdigit()):
        row = result[str(size)]
        table.add_row(
            f"{size:,}",
            f"{row['p50_ms']:.1f}",
            str(GOALS.get(size, "–")),
            f"{row['p95_ms']:.1f}",
            f"{row['after_write_p50_ms']:.1f}",
            f"{row['cold_ms']:.0f}",
            f"{row['cpu_ms']:.1f}",
            f"{row['bytes_per_memory']:,.0f}",
            f"{row['per_s']:.0f}",
            f"{row['while_told_p50_ms']:.1f}",
            f"{row['numpy_p50_ms']:.2f}",
            f"{row['ratio']:.1f}",
        )
    return table


def sizes_of(argument: str) -> list[int]:
    sizes = [int(part) for part in argument.split(",")]
    if min(sizes) <= DEFAULT_TOP_K:
        raise argparse.ArgumentTypeError(f"each must be more than {DEFAULT_TOP_K}")
    return sizes


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--nodes", type=sizes_of, default=list(GOALS), help="numbers of memories, with commas between"
    )
    parser.add_argument("--retrievals", type=int, default=200, help="of each size")
    parser.add_argument("--plot", type=Path, help="write a picture here; needs matplotlib")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    console = Console(stderr=True)
    result = run(arguments.nodes, arguments.retrievals, console)
    if arguments.plot is not None:
        plot(result, arguments.plot, console)
    if arguments.json:
        print(json.dumps(result))
    else:
        Console().print(table_of(result))


if __name__ == "__main__":
    main()
