"""Stanford's saved memories, through the whole pipeline: do they rank exactly as in the original code?

The memory is published as events with its stored vectors, stored by the intake, and retrieved through the
queue in ``stanford`` mode; the answers are compared with those that the original gave.

    python -m bench.parity MEMORY CASES [--json]

``MEMORY`` is a persona's folder; cases that name another one find it beside it, or in a folder ``edge``
there.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from bench.support.service import machine, running
from jiyi import Client
from jiyi.cli import stanford
from jiyi.cli.stanford import SavedMemory
from jiyi.polling import poll
from jiyi.protocol import memory as protocol
from jiyi.protocol.conversations import AnyKind
from jiyi.protocol.memory import KeywordStrength

IMPORT_SECONDS = 300
#: ada-002's; the made-up vectors of the edge cases have as many.
DIMENSIONS = 1536


def made_up_vector(text: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The edge cases' vector of a text: normal numbers seeded by its SHA-256, of length 1."""
    seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
    vector = np.random.Generator(np.random.PCG64(seed)).standard_normal(DIMENSIONS)
    return vector / np.linalg.norm(vector)


def normalised_cases(path: Path) -> Iterator[dict[str, Any]]:
    """The three files' forms as one: ``memory, focal_texts, n, expected`` with a list per focal text."""
    for case in json.loads(path.read_text(encoding="utf-8")):
        single = "focal_text" in case
        yield {
            "memory": case.get("memory") or case["persona"],
            "focal_texts": [case["focal_text"]] if single else case["focal_texts"],
            "n": case["n"],
            "expected": [case["expected"]] if single else case["expected"],
            "made_up": case.get("embeddings") == "sha256",
        }


def find(root: Path, name: str) -> Path:
    """The folder of the memory a case names: ``root`` itself, in it, or beside it."""
    root = root.resolve()
    places = [base / sub / name for base in (root.parent, root) for sub in (".", "edge", "../edge")]
    return next((place for place in places if place.is_dir()), root)


def load(folder: Path, *, made_up: bool) -> SavedMemory:
    memory = stanford.read(folder)
    if made_up:
        memory = replace(
            memory,
            vectors={node["embedding_key"]: made_up_vector(node["embedding_key"]) for node in memory.nodes},
        )
    return memory


def publish(client: Client, memory: SavedMemory, agent_id: str) -> None:
    client.observe_many(stanford.events(memory, client.group, agent_id), wait=True, timeout=IMPORT_SECONDS)


def compare(
    client: Client, memory: SavedMemory, agent_id: str, case: dict[str, Any]
) -> tuple[bool, bool, float]:
    """(same order, same set, largest score error) of one case."""
    vectors = [
        made_up_vector(text) if case["made_up"] else memory.vectors[text] for text in case["focal_texts"]
    ]
    answer = client.retrieve(
        agent_id,
        case["focal_texts"],
        top_k=case["n"],
        mode="stanford",
        now=memory.now or datetime.now(UTC),
        touch=False,
        vectors=vectors,
        embedding_model=stanford.ORIGINAL_MODEL,
        timeout=60,
    )
    same_order, same_set, error = True, True, 0.0
    for group, expected in zip(answer.groups, case["expected"], strict=True):
        got = [(node.provenance["node_id"], node.score) for node in group.retrieved_nodes]
        same_order &= [node_id for node_id, _ in got] == [node_id for node_id, _ in expected]
        same_set &= {node_id for node_id, _ in got} == {node_id for node_id, _ in expected}
        scores = dict(got)
        error = max(
            [error, *(abs(scores[node_id] - score) for node_id, score in expected if node_id in scores)]
        )
    return same_order, same_set, error


def stored_as_saved(client: Client, memory: SavedMemory, agent_id: str) -> dict[str, bool]:
    """Whether strengths, depths, numbering and counters came out as the original saved them.

    Hand-made memories save no strengths, and depth 0 for thoughts: the original then computes its own, as we
    do.
    """
    nodes = {node.provenance["node_id"]: node for node in _all_nodes(client, agent_id)}
    saved = {node["node_id"]: node for node in memory.nodes}
    impossible = {
        node_id for node_id, node in saved.items() if node["type"] == "thought" and node["depth"] == 0
    }
    strengths: dict[str, dict[str, int]] = {"kw_strength_event": {}, "kw_strength_thought": {}}
    for row in _all_keywords(client, agent_id):
        strengths[f"kw_strength_{row.memory_type}"][row.keyword] = row.strength
    agents = client.agents.list(limit=500).rows
    agent = next(row for row in agents if row.agent_id == agent_id)

    def equal(name: str, *, but: AbstractSet[str] = frozenset()) -> bool:
        return nodes.keys() == saved.keys() and all(
            getattr(nodes[key], name) == saved[key][name] for key in nodes.keys() - but
        )

    counters = ("importance_trigger_curr", "importance_ele_n")
    return {
        "kw_strength": all(
            strengths[half] == counts for half, counts in memory.kw_strength.items() if counts
        ),
        "depth": equal("depth", but=impossible),
        "node_count": equal("node_count"),
        "type_count": equal("type_count"),
        "counters": all(
            getattr(agent, name) == memory.scratch[name] for name in counters if name in memory.scratch
        ),
    }


def _all_nodes(client: Client, agent_id: str) -> Iterator[protocol.Memory]:
    cursor: str | None = None
    while True:
        page = client.memory.list(
            agent_id=agent_id,
            kinds=get_args(AnyKind),
            superseded=True,
            archived="with",
            cursor=cursor,
            limit=500,
        )
        yield from page.rows
        if page.next is None:
            return
        cursor = page.next


def _all_keywords(client: Client, agent_id: str) -> Iterator[KeywordStrength]:
    cursor: str | None = None
    while True:
        page = client.memory.keywords(agent_id=agent_id, cursor=cursor, limit=500)
        yield from page.rows
        if page.next is None:
            return
        cursor = page.next


def run(root: Path, cases_path: Path, console: Console) -> dict[str, Any]:
    cases = list(normalised_cases(cases_path))
    result: dict[str, Any] = {
        "cases": 0,
        "same_order": 0,
        "same_set": 0,
        "max_score_error": 0.0,
        "stored": {},
    }
    with running(embedder="hashing") as client:
        memories: dict[str, SavedMemory] = {}
        for case in track(cases, description=cases_path.name, console=console):
            name = case["memory"]
            if name not in memories:
                memories[name] = load(find(root, name), made_up=case["made_up"])
                publish(client, memories[name], name)
            same_order, same_set, error = compare(client, memories[name], name, case)
            result["cases"] += 1
            result["same_order"] += same_order
            result["same_set"] += same_set
            result["max_score_error"] = max(result["max_score_error"], error)
        settle(client)
        result["stored"] = {name: stored_as_saved(client, memory, name) for name, memory in memories.items()}
    return result


def settle(client: Client) -> None:
    """Wait until the keyword strengths are counted, too."""
    poll(
        client.stats.show, lambda stats: all(row.kind == "reflect" for row in stats.work_owed), IMPORT_SECONDS
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("memory", type=Path)
    parser.add_argument("cases", type=Path)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    result = run(arguments.memory, arguments.cases, Console(stderr=True))
    if arguments.json:
        print(json.dumps(result))
        return
    table = Table(title=f"Parity with the original · {machine()}")
    for name in ("cases", "same_order", "same_set", "max_score_error"):
        table.add_column(name, justify="right")
    table.add_row(
        *(
            f"{result[name]:.2g}" if name == "max_score_error" else str(result[name])
            for name in ("cases", "same_order", "same_set", "max_score_error")
        )
    )
    console = Console()
    console.print(table)
    for name, checks in result["stored"].items():
        console.print(
            f"{name}: "
            + ", ".join(f"{what} {'equal' if same else 'DIFFERENT'}" for what, same in checks.items())
        )


if __name__ == "__main__":
    main()
