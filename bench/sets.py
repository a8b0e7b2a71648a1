"""Retrieval from lists of agents and from long conversations: is the evidence of a question retrieved, and
how much else?

    python -m bench.sets FILE… [--json] [--relevance-only]

A ``FILE`` is a list of agents, ``{"agent_id", "memories": [{"key", "text", "at"}], "questions": [{"text",
"evidence": [keys], "kind", "now"}]}``, or one conversation, ``{"id", "sessions": [{"id", "at", "turns":
[{"id", "speaker", "text"}]}], "questions": [{"question", "evidence": [turn ids], "kind"}]}``. A question
whose first line is ``<speaker>: words`` is a dialogue, and asked as one: what ``<Assistant>`` or nobody says
is the assistant's. Everything goes through the service with its default embedder, and no LLM. Figures are
means over a file's questions, and over each kind's:

``recall@k``
    share of the question's evidence among the first k
``kept``, ``dropped``
    of all first tens together, the share of the evidence that the default ``JIYI_MIN_PROBABILITY`` leaves in
    the answer, and the share of all else that it leaves out; relevances without a probability keep everything
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
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
from bench.support.ranking import DECIMALS, Figures
from bench.support.service import machine, running
from jiyi.settings import Settings

#: Turns of a conversation are this far apart, from the start of their session.
TURN_SECONDS = 60
RECALLS = (5, 10, 30)
#: Of so many first memories ``kept`` and ``dropped`` are.
FIRST = 10

#: Who is the assistant in a query that is a dialogue, and what its lines look like.
ASSISTANT = "Assistant"
QUOTES = '"“” '
_SPOKEN = re.compile(r"<(?P<who>[^<>]+)>\s*[:：]\s*(?P<words>.*\S)")

Answered = tuple[Question, list[str]]


def read(path: Path) -> list[Agent]:
    """The agents of a file in either form."""
    content = json.loads(path.read_text(encoding="utf-8"))
    return (
        [_of_conversation(content)] if isinstance(content, dict) else [_of_agent(entry) for entry in content]
    )


def _of_agent(entry: dict[str, Any]) -> Agent:
    memories = [
        Memory(row["key"], row["text"], datetime.fromisoformat(row["at"])) for row in entry["memories"]
    ]
    known = {memory.key for memory in memories}
    questions = [
        Question(
            row["text"],
            known.intersection(row["evidence"]),
            row["kind"],
            datetime.fromisoformat(row["now"]) if row.get("now") else None,
            messages=messages_of(row["text"]),
        )
        for row in entry["questions"]
    ]
    return Agent(entry["agent_id"], memories, [question for question in questions if question.evidence])


def messages_of(text: str) -> list[dict[str, str]]:
    """The messages of a query that is a dialogue, each line one; none of any other query."""
    lines = [line.strip() for line in text.strip().splitlines()]
    if not lines or not _SPOKEN.fullmatch(lines[0]):
        return []
    found = []
    for line in lines:
        spoken = _SPOKEN.fullmatch(line)
        who, words = (spoken["who"], spoken["words"]) if spoken else (ASSISTANT, line)
        speaker = {"role": "assistant"} if who == ASSISTANT else {"role": "user", "name": who}
        found.append({**speaker, "content": words.strip(QUOTES)})
    return found if any(message["role"] == "user" for message in found) else []


def _of_conversation(entry: dict[str, Any]) -> Agent:
    memories = [
        Memory(
            key=turn["id"],
            text=f"{turn['speaker']}: {turn['text']}",
            occurred_at=datetime.fromisoformat(session["at"]) + timedelta(seconds=TURN_SECONDS * place),
            session_id=session["id"],
            subject=turn["speaker"],
        )
        for session in entry["sessions"]
        for place, turn in enumerate(session["turns"])
    ]
    known = {memory.key for memory in memories}
    questions = [
        Question(row["question"], known.intersection(row["evidence"]), row["kind"])
        for row in entry["questions"]
    ]
    return Agent(entry["id"], memories, [question for question in questions if question.evidence])


def run(
    paths: Sequence[Path], console: Console, variant: Variant
) -> dict[str, dict[str, dict[str, Figures]]]:
    """Of each file, by its name: the figures by relevance and kind of question."""
    files = {path.name: [_named(path, agent) for agent in read(path)] for path in paths}
    agents = [agent for group in files.values() for agent in group]
    likely = replace(
        variant,
        options={**variant.options, "min_probability": Settings.model_fields["min_probability"].default},
    )
    found: dict[str, dict[str, dict[str, Figures]]] = {name: {} for name in files}
    with running(**variant.settings) as client:
        keys = remember(client, agents, console)
        for relevance in RELEVANCES:
            for name, group in files.items():
                answers = ask(client, group, keys, relevance, console, variant)
                kept = (
                    ask(client, group, keys, relevance, console, likely) if relevance == "hybrid" else answers
                )
                found[name][relevance] = figures(answers, kept)
    return found


def figures(answers: Sequence[Answered], likely: Sequence[Answered]) -> dict[str, Figures]:
    """Of all questions and of each kind; ``likely`` are the answers without what is not likely enough."""
    rows = by_kind(answers, RECALLS, ())
    for kind, row in rows.items():
        pairs = [
            (question, all_keys[:FIRST], set(likely_keys))
            for (question, all_keys), (_, likely_keys) in zip(answers, likely, strict=True)
            if kind in ("overall", question.kind)
        ]
        row["kept"] = _share(
            [key in left for question, keys, left in pairs for key in keys if key in question.evidence]
        )
        row["dropped"] = _share(
            [
                key not in left
                for question, keys, left in pairs
                for key in keys
                if key not in question.evidence
            ]
        )
    return rows


def _share(values: Sequence[bool]) -> float:
    return round(sum(values) / len(values), DECIMALS) if values else 0.0


def _named(path: Path, agent: Agent) -> Agent:
    """Two files may have agents of one name."""
    return replace(agent, agent_id=f"{path.stem}/{agent.agent_id}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", type=Path, nargs="+")
    add_variant(parser)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    result = run(arguments.files, Console(stderr=True), arguments.variant)
    if arguments.json:
        print(json.dumps(result))
        return
    table = Table(title=f"Evidence retrieved, {arguments.variant.name} · {machine()}")
    for heading in ("file", "relevance", "questions", *(f"recall@{k}" for k in RECALLS), "kept", "dropped"):
        table.add_column(heading)
    for name, relevances in result.items():
        for relevance, kinds in relevances.items():
            for kind, row in kinds.items():
                table.add_row(name, relevance, kind, *(f"{value:.3f}" for value in row.values()))
    Console().print(table)


if __name__ == "__main__":
    main()
