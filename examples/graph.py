"""Three agents and their declared stores, offline: no LLM, no key, no network.

    python -m examples.graph [--json]

A researcher looks things up in this project's own pages (a file store), a writer says what was found in its
own words and in those of earlier runs (a simple store that all runs share), a critic compares; a blackboard
has what was said in this run. What each agent is given, and what of its words is kept where, is declared in
``examples/graph.yaml``; the agents are a few lines of Python instead of an LLM, and know only what their
stores give them.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from examples.service import service
from jiyi import Client
from jiyi.stores.declarations import Stage
from jiyi.stores.graph import Graph
from jiyi.stores.manager import Retrieved

FILE = Path(__file__).with_suffix(".yaml")
TASK = "How does Jiyi keep an event that is delivered twice? 同一个事件被投递两次怎么办？"
#: Seconds until the pages are read, and between two looks. The first run waits; until its vector is there, a
#: chunk is found by its words.
INDEX_SECONDS, PAUSE = 120.0, 0.5
#: Characters that an agent takes of what it is given.
TAKEN = 160

#: What an agent says to its task, of what it is given.
Agent = Callable[[str, Retrieved], str]


def researcher(task: str, given: Retrieved) -> str:
    return "Found in the pages: " + (_best(given) or f"nothing about “{task}”.")


def writer(_task: str, given: Retrieved) -> str:
    return "In short: " + (_best(given) or "there is nothing to go by.")


def critic(_task: str, given: Retrieved) -> str:
    stores = sorted({one.store for one in given.items})
    return f"Checked against {', '.join(stores) or 'nothing'}: {len(given.items)} passages speak to it."


#: In the order of the graph: node, what it does, the stages that it goes through.
NODES: tuple[tuple[str, Agent, Sequence[Stage]], ...] = (
    ("researcher", researcher, [Stage.GEN]),
    ("writer", writer, [Stage.GEN]),
    ("critic", critic, [Stage.GEN, Stage.POST_GEN_THINKING]),
)


def play(client: Client, file: Path = FILE) -> dict[str, list[dict[str, Any]]]:
    """What each node was given at each stage, and what of its words was kept."""
    with Graph.from_file(client, file) as graph:
        _await_index(client)
        return _run(graph)


def _run(graph: Graph) -> dict[str, list[dict[str, Any]]]:
    told: dict[str, list[dict[str, Any]]] = {}
    for node_id, agent, stages in NODES:
        memory = graph.manager(node_id)
        said, rows = "", []
        for stage in stages:
            given = memory.retrieve(node_id, said or TASK, stage)
            said = agent(TASK, given)
            rows.append(
                {
                    "stage": stage,
                    "given": _given(given),
                    "scores": [round(score, 3) for score in given.scores],
                    "written": {},
                }
            )
        done = memory.update(node_id, TASK, said)
        failed: dict[str, Any] = {name: {"reason": reason} for name, reason in done.failed.items()}
        rows[-1]["written"] = {
            name: {"item": one.item_id, "reason": one.reason} for name, one in done.written.items()
        } | failed
        told[node_id] = rows
    return told


def _await_index(client: Client) -> None:
    until = time.monotonic() + INDEX_SECONDS
    while time.monotonic() < until:
        found = client.stores.show(name="project_docs")
        if found.files and "pending" not in found.files:
            return
        time.sleep(PAUSE)


def _given(given: Retrieved) -> list[dict[str, str]]:
    return [{"store": one.store, "item": one.hit.item.content_summary[:TAKEN]} for one in given.items]


def _best(given: Retrieved) -> str:
    return " ".join(given.items[0].hit.item.content_summary.split())[:TAKEN] if given.items else ""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with service(), Client() as client:
        told = play(client)
    if arguments.json:
        print(json.dumps(told, ensure_ascii=False))  # noqa: T201 – what the example is asked for
        return
    table = Table("node", "stage", "given", "score", "kept in", title=TASK)
    for node_id, rows in told.items():
        for row in rows:
            given = "\n".join(f"{one['store']}: {' '.join(one['item'].split())[:80]}" for one in row["given"])
            kept = ", ".join(name for name, one in row["written"].items() if one.get("item"))
            table.add_row(node_id, row["stage"], given, "\n".join(map(str, row["scores"])), kept)
    Console().print(table)


if __name__ == "__main__":
    main()
