"""MemDaily: the messages that answer a question about someone's everyday life (Chinese), are they retrieved?

    python -m bench.memdaily FILE [--json] [--relevance-only] [--noise N] [--limit TRAJECTORIES]

``FILE`` is a list of trajectories (see ``docs/benchmarks.md``). A trajectory is one agent, a message one
event; everything goes through the service with its default embedder, and no LLM. With ``--noise`` each agent
also remembers N messages of other trajectories, in order of time. The figure is recall@5: the mean of each
kind of question, and ``macro``, the mean of those.
"""

from __future__ import annotations

import argparse
import json
import random
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track
from rich.table import Table

from bench.support.quality import RELEVANCES, Agent, Memory, Question, Variant, add_variant, ask, remember
from bench.support.ranking import DECIMALS, figures, mean
from bench.support.service import machine, running
from engine.providers.embedders import embedder
from jiyi.client.client import chunks

RECALL = 5
SEED = 20240401
EMBED_BATCH = 64
#: ``2024年04月01日 周一 08:30``; the day of the week follows from the date.
TIME = re.compile(r"(\d{4})年(\d{1,2})月(\d{1,2})日\D*(\d{1,2})[:：](\d{2})")


def moment(text: str) -> datetime:
    """A message's time. Raises ValueError if it is written in another way."""
    found = TIME.search(text)
    if found is None:
        raise ValueError(f"{text!r}: no time like 2024年04月01日 周一 08:30")
    year, month, day, hour, minute = map(int, found.groups())
    return datetime(year, month, day, hour, minute, tzinfo=UTC)


def read(path: Path, limit: int | None = None) -> list[Agent]:
    agents = []
    for number, trajectory in enumerate(json.loads(path.read_text(encoding="utf-8"))[:limit]):
        agent_id = f"{number}-{trajectory['source']}-{trajectory['tid']}"
        agents.append(
            Agent(
                agent_id,
                [_memory(agent_id, message) for message in trajectory["messages"]],
                [
                    _question(agent_id, row, trajectory["kind"])
                    for row in trajectory["questions"]
                    if row["target_step_id"]
                ],
            )
        )
    return agents


def _key(agent_id: str, mid: Any) -> str:
    return f"{agent_id}/{mid}"


def _memory(agent_id: str, message: dict[str, Any]) -> Memory:
    return Memory(
        _key(agent_id, message["mid"]),
        message["message"],
        moment(message["time"]),
        provenance={"place": message["place"]},
    )


def _question(agent_id: str, row: dict[str, Any], kind: str) -> Question:
    evidence = {_key(agent_id, mid) for mid in row["target_step_id"]}
    return Question(row["question"], evidence, kind, moment(row["time"]) if row.get("time") else None)


def with_noise(agents: Sequence[Agent], count: int, seed: int = SEED) -> list[Agent]:
    """Each agent with ``count`` memories of others besides its own, in order of time; always the same
    ones.
    """
    everything = [(agent.agent_id, memory) for agent in agents for memory in agent.memories]
    mixed = []
    for agent in agents:
        others = [memory for agent_id, memory in everything if agent_id != agent.agent_id]
        chosen = random.Random(f"{seed}/{agent.agent_id}").sample(others, min(count, len(others)))
        mixed.append(
            replace(agent, memories=sorted([*agent.memories, *chosen], key=lambda memory: memory.occurred_at))
        )
    return mixed


def with_vectors(agents: Sequence[Agent], console: Console) -> list[Agent]:
    """The memories with the vectors that the service would give them.

    Noise repeats each text some dozen times: made here once each and brought along, as an import does.
    """
    engine = embedder()
    texts = sorted({memory.text for agent in agents for memory in agent.memories})
    vectors: dict[str, bytes] = {}
    for batch in track(
        list(chunks(texts, EMBED_BATCH)), description=f"embedding {len(texts):,} texts", console=console
    ):
        vectors.update(
            (text, vector.tobytes()) for text, vector in zip(batch, engine.passages(batch), strict=True)
        )
    return [
        replace(
            agent,
            memories=[
                replace(memory, vector=vectors[memory.text], embedding_model=engine.model)
                for memory in agent.memories
            ],
        )
        for agent in agents
    ]


def summary(answers: Sequence[tuple[Question, list[str]]]) -> dict[str, float]:
    """Mean recall@5 of each kind, and of the kinds."""
    rows: dict[str, list[dict[str, float]]] = {}
    for question, ranked in answers:
        rows.setdefault(question.kind, []).append(figures(ranked, question.evidence, [RECALL]))
    kinds = {kind: mean(group)[f"recall@{RECALL}"] for kind, group in rows.items()}
    return {"macro": round(sum(kinds.values()) / len(kinds), DECIMALS)} | kinds


def run(
    path: Path, noise: int, limit: int | None, console: Console, variant: Variant
) -> dict[str, dict[str, float]]:
    agents = read(path, limit)
    with running(**variant.settings) as client:
        if noise:
            agents = with_vectors(with_noise(agents, noise), console)
        keys = remember(client, agents, console)
        return {
            relevance: summary(ask(client, agents, keys, relevance, console, variant))
            for relevance in RELEVANCES
        }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path)
    parser.add_argument(
        "--noise", type=int, default=0, help="messages of other trajectories in each haystack"
    )
    parser.add_argument("--limit", type=int, help="only the first trajectories")
    add_variant(parser)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    result = run(arguments.file, arguments.noise, arguments.limit, Console(stderr=True), arguments.variant)
    if arguments.json:
        print(json.dumps(result))
        return
    noise = f", {arguments.noise} messages of noise" if arguments.noise else ""
    table = Table(title=f"MemDaily, recall@{RECALL}{noise}, {arguments.variant.name} · {machine()}")
    table.add_column("questions")
    for relevance in result:
        table.add_column(relevance, justify="right")
    for kind in next(iter(result.values())):
        table.add_row(kind, *(f"{kinds[kind]:.3f}" for kinds in result.values()))
    Console().print(table)


if __name__ == "__main__":
    main()
