"""MemDaily in simple stores: each trajectory a store, each message an update (``bench.stores simple``)."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track

from bench.memdaily import RECALL, read, summary
from bench.support.quality import Agent, Question
from bench.support.service import running
from jiyi import Client
from jiyi.protocol.stores import Hit

THREADS = 4
#: Items among which the order by cosine alone is taken.
LOOKED_AT = 50
#: Seconds that embedding may take, and between two looks.
EMBEDDING_SECONDS, PAUSE = 900, 0.5


def run(path: Path, limit: int | None, console: Console) -> dict[str, Any]:
    """Recall@5 as shipped and by cosine alone, of each kind of question; messages that were lost, and said
    again.
    """
    agents = read(path, limit)
    with running() as client:
        stores = [
            {"name": _name(one), "type": "simple", "config": {"memory_path": f"{number}.json"}}
            for number, one in enumerate(agents)
        ]
        for start in range(0, len(stores), 50):
            client.stores.apply(graph=f"memdaily-{start}", memory=stores[start : start + 50])
        with ThreadPoolExecutor(THREADS) as pool:
            written = Counter(
                one
                for counts in track(
                    pool.map(lambda agent: _write(client, agent), agents),
                    description="writing",
                    total=len(agents),
                    console=console,
                )
                for one in counts
            )
        kept = _await_vectors(client, len(agents))
        asked = [(agent, question) for agent in agents for question in agent.questions]
        with ThreadPoolExecutor(THREADS) as pool:
            found = list(
                track(
                    pool.map(lambda one: _ask(client, *one), asked),
                    description="asking",
                    total=len(asked),
                    console=console,
                )
            )
    shipped, dense = summary([one for one, _ in found]), summary([one for _, one in found])
    messages = sum(len(agent.memories) for agent in agents)
    return {
        **shipped,
        "cosine_alone": dense,
        "messages": messages,
        "said_again": written["again"],
        "lost": messages - written["again"] - kept,
    }


def _name(agent: Agent) -> str:
    return agent.agent_id


def _write(client: Client, agent: Agent) -> list[str]:
    done = [
        client.stores.update(name=_name(agent), role="user", output_snapshot={"text": one.text})
        for one in agent.memories
    ]
    return ["stored" if one.item_id else "again" for one in done]


def _await_vectors(client: Client, stores: int) -> int:
    """Wait for all vectors; how many items there are."""
    until = time.monotonic() + EMBEDDING_SECONDS
    while True:
        page = client.stores.list(limit=stores).rows
        if not sum(one.pending for one in page):
            return sum(one.items for one in page)
        if time.monotonic() > until:
            raise TimeoutError(f"not embedded within {EMBEDDING_SECONDS} s")
        time.sleep(PAUSE)


def _ask(
    client: Client, agent: Agent, question: Question
) -> tuple[tuple[Question, list[str]], tuple[Question, list[str]]]:
    """The question with what was found, and with the order by cosine alone; what was said again stands for
    the first time.
    """
    keys = {one.text: one.key for one in reversed(agent.memories)}
    evidence = {keys[one.text] for one in agent.memories if one.key in question.evidence}
    mine = Question(question.text, evidence, question.kind, question.now)
    found = client.stores.retrieve(name=_name(agent), query=question.text, top_k=RECALL).hits
    many = client.stores.retrieve(name=_name(agent), query=question.text, top_k=LOOKED_AT).hits
    by_cosine = sorted(many, key=lambda hit: -(hit.cosine or -1))
    return (mine, _keys(found, keys)), (mine, _keys(by_cosine[:RECALL], keys))


def _keys(hits: Sequence[Hit], keys: dict[str, str]) -> list[str]:
    return [keys[hit.item.output_snapshot.text] for hit in hits if hit.item.output_snapshot is not None]
