"""A bilingual chat with an assistant: are questions about it answered first, and by what holds today?

    python -m bench.chat [--json] [--relevance-only]

The project's own chat (``bench/chat.json``): somebody talks with an assistant over some months, in Chinese
and in English, mostly about small things; facts change. Everything goes through the service with its default
embedder and no LLM, in four variants: with and without reflection, with and without sessions. The figures of
the first are those of the deployment's defaults:

``first``, ``in_five``
    share of the questions whose answer is the first memory, or among the first five
``newer_first``
    share of the ``contradicted`` questions where what holds today comes before all that it contradicts
``thoughts_in_five``
    places among the first five that thoughts of the service's own take, of five times ``questions``
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.support.quality import Agent, Memory, Question, Variant, add_variant, ask, remember
from bench.support.ranking import DECIMALS
from bench.support.service import NEVER, machine, running

CHAT = Path(__file__).with_name("chat.json")
TURN_SECONDS = 30
FIVE = 5


@dataclass(frozen=True)
class Asked(Question):
    """With the turns that were true once."""

    outdated: frozenset[str] = frozenset()


def read(path: Path = CHAT) -> Agent:
    return agent_of(json.loads(path.read_text(encoding="utf-8")))


def agent_of(chat: dict[str, Any]) -> Agent:
    """The project's chat, or a conversation of ``bench/conversations``."""
    memories = [
        Memory(
            key=turn["id"],
            text=turn["text"],
            session_id=session.get("session_id") or session["id"],
            subject=turn["speaker"],
            occurred_at=datetime.fromisoformat(session.get("begins") or session["at"])
            + timedelta(seconds=TURN_SECONDS * place),
        )
        for session in chat["sessions"]
        for place, turn in enumerate(session["turns"])
    ]
    questions = [
        Asked(row["question"], set(row["evidence"]), "chat", None, frozenset(row.get("outdated", ())))
        for row in chat["questions"]
    ]
    return Agent(chat.get("agent_id") or chat["id"], memories, questions)


def without_sessions(agent: Agent) -> Agent:
    return replace(agent, memories=[replace(memory, session_id=None) for memory in agent.memories])


def figures(answers: Sequence[tuple[Question, list[str]]]) -> dict[str, float]:
    """What the module's description says, of one variant; a thought has no key."""
    contradicted = [
        (question, keys) for question, keys in answers if isinstance(question, Asked) and question.outdated
    ]
    return {
        "questions": len(answers),
        "first": _share([bool(keys) and keys[0] in question.evidence for question, keys in answers]),
        "in_five": _share([not question.evidence.isdisjoint(keys[:FIVE]) for question, keys in answers]),
        "contradicted": len(contradicted),
        "newer_first": _share([newer_first(question, keys) for question, keys in contradicted]),
        "thoughts_in_five": sum(not key for _, keys in answers for key in keys[:FIVE]),
    }


def newer_first(question: Asked, keys: Sequence[str]) -> bool:
    """Whether a turn that answers comes before all that were true once. It has to be retrieved."""
    places = {key: place for place, key in enumerate(keys)}
    first = min(places.get(key, len(keys)) for key in question.evidence)
    return first < min(places.get(key, len(keys)) for key in question.outdated)


def _share(values: Sequence[bool]) -> float:
    return round(sum(values) / len(values), DECIMALS) if values else 0.0


def run(console: Console, variant: Variant) -> dict[str, Any]:
    rows: dict[str, dict[str, float]] = {}
    quiet = {
        **variant.settings,
        "agent_defaults": f"{variant.settings['agent_defaults']}, importance_trigger_max={NEVER}",
    }
    for reflection, settings in (("reflection", variant.settings), ("no reflection", quiet)):
        with running(**settings) as client:
            for sessions, chat in (("sessions", read()), ("no sessions", without_sessions(read()))):
                agent = replace(chat, agent_id=f"{chat.agent_id}, {sessions}")
                keys = remember(client, [agent], console)
                rows[f"{reflection}, {sessions}"] = figures(
                    ask(client, [agent], keys, "hybrid", console, variant)
                )
    return {**rows["reflection, sessions"], "variants": rows}


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
    table = Table(title=f"A bilingual chat, {arguments.variant.name} · {machine()}")
    for name in ("variant", *next(iter(result["variants"].values()))):
        table.add_column(name, justify="right")
    for name, row in result["variants"].items():
        table.add_row(name, *(f"{value:g}" for value in row.values()))
    Console().print(table)


if __name__ == "__main__":
    main()
