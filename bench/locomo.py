"""LoCoMo: the turns that answer a question about a long conversation, are they retrieved?

    python -m bench.locomo FILE [--json] [--relevance-only] [--limit CONVERSATIONS]

``FILE`` is LoCoMo's JSON (see ``docs/benchmarks.md``). A conversation is one agent, a turn one event;
everything goes through the service with its default embedder, and no LLM. Figures are means over the
questions whose evidence names turns that exist.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
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

CATEGORIES = {1: "multi", 2: "temporal", 3: "open", 4: "single", 5: "adversarial"}
RECALLS, NDCGS = (5, 10, 20, 30), (10,)
#: Some are written ``D8:6; D9:17``, ``D:11:26`` or ``D30:05``.
TURN_ID = re.compile(r"D:?(\d+):(\d+)")
DATE_FORMAT = "%I:%M %p on %d %B, %Y"  # 1:56 pm on 8 May, 2023
TURN_SECONDS = 60


def turn_ids(text: str) -> list[str]:
    """The turns that an evidence entry names, written in one way."""
    return [f"D{int(session)}:{int(turn)}" for session, turn in TURN_ID.findall(text)]


def description(turn: dict[str, Any]) -> str:
    caption = turn.get("blip_caption")
    return f"{turn['speaker']}: {turn['text']}" + (f" [shares {caption}]" if caption else "")


def memories(conversation: dict[str, Any]) -> Iterator[Memory]:
    """A conversation's turns in order, a minute apart from the start of their session."""
    numbers = sorted(int(name[8:]) for name in conversation if re.fullmatch(r"session_\d+", name))
    for number in numbers:
        name = f"session_{number}"
        begun = datetime.strptime(conversation[f"{name}_date_time"], DATE_FORMAT).replace(tzinfo=UTC)
        for position, turn in enumerate(conversation[name]):
            yield Memory(
                key=turn_ids(turn["dia_id"])[0],
                text=description(turn),
                occurred_at=begun + timedelta(seconds=position * TURN_SECONDS),
                session_id=name,
                subject=turn["speaker"],
                provenance={"dia_id": turn["dia_id"]},
            )


def read(path: Path, limit: int | None = None) -> list[Agent]:
    agents = []
    for number, entry in enumerate(json.loads(path.read_text(encoding="utf-8"))[:limit]):
        turns = list(memories(entry["conversation"]))
        known = {turn.key for turn in turns}
        questions = []
        for row in entry["qa"]:
            evidence = known.intersection(key for text in row.get("evidence", ()) for key in turn_ids(text))
            if evidence:
                questions.append(
                    Question(row["question"], evidence, CATEGORIES.get(row["category"], str(row["category"])))
                )
        agents.append(Agent(entry.get("sample_id", f"conversation-{number}"), turns, questions))
    return agents


def run(path: Path, limit: int | None, console: Console, variant: Variant) -> dict[str, dict[str, Figures]]:
    agents = read(path, limit)
    with running(**variant.settings) as client:
        keys = remember(client, agents, console)
        return {
            relevance: by_kind(
                ask(client, agents, keys, relevance, console, variant),
                RECALLS,
                NDCGS,
                list(CATEGORIES.values()),
            )
            for relevance in RELEVANCES
        }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path)
    parser.add_argument("--limit", type=int, help="only the first conversations")
    add_variant(parser)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    result = run(arguments.file, arguments.limit, Console(stderr=True), arguments.variant)
    if arguments.json:
        print(json.dumps(result))
        return
    console = Console()
    for relevance, kinds in result.items():
        table = Table(title=f"LoCoMo, {relevance}, {arguments.variant.name} · {machine()}")
        table.add_column("questions")
        for name in kinds["overall"]:
            table.add_column(name, justify="right")
        for kind, row in kinds.items():
            table.add_row(kind, *(f"{value:.3f}" for value in row.values()))
        console.print(table)


if __name__ == "__main__":
    main()
