"""The sample diary: are questions answered in the language of the memories, and in the other one?

    python -m bench.diary [--json] [--relevance-only]

The project's own bilingual diary with its own questions (``examples/diary``): one agent writes mostly
English, the other mostly Chinese. Everything goes through the service with its default embedder, and no LLM.
Figures are means over the questions, by the question's language and that of the memories that answer it.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from datetime import datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.support.quality import (
    RELEVANCES,
    Agent,
    Memory,
    Question,
    Variant,
    add_variant,
    ask,
    by_kind,
    remember,
)
from bench.support.ranking import Figures
from bench.support.service import machine, running
from jiyi.text.words import language_of

DIARY = Path(__file__).resolve().parents[1] / "examples" / "diary"
RECALLS, NDCGS = (5, 10), (10,)


def lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DIARY / name).read_text(encoding="utf-8").splitlines()]


def read() -> list[Agent]:
    memories: dict[str, list[Memory]] = defaultdict(list)
    language: dict[str, str] = {}
    for event in lines("events.jsonl"):
        if event["type"] == "memory.observed":
            seen = event["payload"]
            language[event["event_id"]] = language_of(seen["description"])
            memories[event["agent_id"]].append(
                Memory(
                    key=event["event_id"],
                    text=seen["description"],
                    occurred_at=datetime.fromisoformat(event["occurred_at"]),
                    session_id=event.get("session_id"),
                    subject=seen.get("subject"),
                )
            )
    questions: dict[str, list[Question]] = defaultdict(list)
    for row in lines("questions.jsonl"):
        answered_in = "+".join(sorted({language[key] for key in row["evidence"]}))
        questions[row["agent_id"]].append(
            Question(row["question"], set(row["evidence"]), f"{row['language']} on {answered_in}")
        )
    return [Agent(agent_id, memories[agent_id], questions[agent_id]) for agent_id in memories]


def run(console: Console, variant: Variant) -> dict[str, dict[str, Figures]]:
    agents = read()
    with running(**variant.settings) as client:
        keys = remember(client, agents, console)
        return {
            relevance: by_kind(ask(client, agents, keys, relevance, console, variant), RECALLS, NDCGS)
            for relevance in RELEVANCES
        }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_variant(parser)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    result = run(Console(stderr=True), arguments.variant)
    if arguments.json:
        print(json.dumps(result))
        return
    table = Table(title=f"Recall@10 of the diary's questions, {arguments.variant.name} · {machine()}")
    for name in ("questions", *result):
        table.add_column(name, justify="right")
    for kind in result["hybrid"]:
        table.add_row(kind, *(f"{kinds[kind]['recall@10']:.3f}" for kinds in result.values()))
    Console().print(table)


if __name__ == "__main__":
    main()
