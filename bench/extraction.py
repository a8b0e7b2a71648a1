"""What is extracted from conversations: are the facts found, is nothing made up, does a changed fact retire
the old one?

    python -m bench.extraction LOCOMO MEMDAILY [--labelled FILE] [--rows FOLDER --writer NAME …] [--limit
    CONVERSATIONS] [--json]

The two files are LoCoMo's JSON and MemDaily's (``-`` leaves one out). Everything goes through the loop's
calls and the service with its defaults and no LLM. ``own`` are the labelled conversations beside this module,
``labelled`` those of the file given, in the same form: a line of JSON for each, ``{"id", "messages":
[{"role", "text", "at", "session"?}], "facts": [{"turn", "must": ["a|b", …], "supersedes": turn or null}],
"nothing": [turns], "holds"?: [turns]}``. Turns are places in ``messages``, from 0; a fact's memory must have
one alternative of each ``must``; facts of ``holds`` may not be retired.

``facts`` and ``changes`` are the rows of the writers named
(``bench/labelled``), each a conversation of its own. They show something if the heads were not trained on the
writer: ``python -m tools.train --without NAME --out FILE``, then ``JIYI_HEADS_WEIGHTS=FILE``; for ``own`` the
NAME is ``bench``.

``survive``
    share of the turns that a question rests on which a memory names in ``filling`` with half of their telling
    tokens
``yield``
    share of all turns from which anything was extracted; ``superseded`` counts memories that were retired
``precision``, ``recall``, ``junk``, ``superseded_right``
    share of memories that find a labelled fact, of facts that are found, of turns with nothing to remember
    that yielded something, of changed facts that end with the old memory retired and the new one in force
``wrongly_retired``
    facts that hold, whose memory was retired
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from sqlalchemy import text

from bench import injection, locomo, memdaily
from bench.injection import Talk
from bench.support.quality import Agent
from bench.support.ranking import DECIMALS
from bench.support.service import machine, running
from engine.heads.judgements import RETIRING
from jiyi.text.words import telling
from models.db.connection import unit_of_work

OWN = Path(__file__).with_suffix(".jsonl")
#: Share of a turn's telling tokens that its memories must keep.
KEPT = 0.5
#: When the first statement of a row is made, and how many days later the one that may change it.
FIRST_DAY, DAYS_LATER = datetime(2026, 3, 2, 9, tzinfo=UTC), 40

Figures = dict[str, float]


@dataclass(frozen=True, slots=True)
class Extracted:
    """A memory that was extracted, with the numbers of the messages that it names."""

    text: str
    turns: frozenset[int]
    kind: str
    retired: bool


def labelled(path: Path) -> list[dict[str, Any]]:
    """The conversations of a file of JSON lines. Raises :class:`SystemExit` naming a line that is none."""
    found = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.strip():
            try:
                found.append(json.loads(line))
            except json.JSONDecodeError as error:
                raise SystemExit(
                    f"{path}, line {number}: not JSON ({error}): mend or remove the line"
                ) from None
    return found


def of_rows(folder: Path, writers: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
    """Rows of ``facts`` and ``changes`` as labelled conversations: any memory of the message finds the
    fact.
    """
    facts, changes = [], []
    for writer in writers:
        for row in _rows(folder / f"facts_{writer}.jsonl"):
            said = [
                *([_message("assistant", row["before"], 0)] if row["before"] else []),
                _message("user", row["text"], 0),
            ]
            last = len(said) - 1
            facts.append(
                _conversation(
                    row["id"], said, [_fact(last)] if row["lasting"] else [], [] if row["lasting"] else [last]
                )
            )
        for row in _rows(folder / f"changes_{writer}.jsonl"):
            ended = row["label"] in RETIRING
            said = [_message("user", row["older"], 0), _message("user", row["newer"], DAYS_LATER)]
            changes.append(
                _conversation(
                    row["id"], said, [_fact(0), _fact(1, 0 if ended else None)], [], [] if ended else [0]
                )
            )
    return {name: rows for name, rows in (("facts", facts), ("changes", changes)) if rows}


def _rows(path: Path) -> list[dict[str, Any]]:
    return labelled(path) if path.exists() else []


def _message(role: str, said: str, day: int) -> dict[str, Any]:
    return {
        "role": role,
        "text": said,
        "at": (FIRST_DAY + timedelta(days=day)).isoformat(),
        "session": str(day),
    }


def _fact(turn: int, supersedes: int | None = None) -> dict[str, Any]:
    return {"turn": turn, "must": [], "supersedes": supersedes}


def _conversation(
    name: str,
    messages: list[dict[str, Any]],
    facts: list[dict[str, Any]],
    nothing: list[int],
    holds: Sequence[int] = (),
) -> dict[str, Any]:
    return {"id": name, "messages": messages, "facts": facts, "nothing": nothing, "holds": list(holds)}


def talk_of(prefix: str, conversation: dict[str, Any]) -> Talk:
    sessions: dict[str, list[dict[str, Any]]] = {}
    for one in conversation["messages"]:
        sessions.setdefault(one.get("session", "only"), []).append(
            {"role": one["role"], "content": one["text"], "at": one["at"]}
        )
    return Talk(f"{prefix}-{conversation['id']}", sessions, [])


def chats(prefix: str, agents: Iterable[Agent]) -> list[tuple[Talk, list[bool]]]:
    """Agents of another benchmark as talks, and of each message whether a question rests on it, in the order
    of the sessions.
    """
    found = []
    for agent in agents:
        wanted = {key for question in agent.questions for key in question.evidence}
        sessions: dict[str, list[dict[str, Any]]] = defaultdict(list)
        marks: dict[str, list[bool]] = defaultdict(list)
        for memory in agent.memories:
            name, _, said = memory.text.partition(": ") if prefix == "locomo" else ("", "", memory.text)
            session = memory.session_id or "only"
            sessions[session].append(
                {"role": "user", "name": name or None, "content": said, "at": memory.occurred_at}
            )
            marks[session].append(memory.key in wanted)
        found.append(
            (
                Talk(f"{prefix}-{agent.agent_id}", dict(sessions), []),
                [mark for some in marks.values() for mark in some],
            )
        )
    return found


def read_back() -> dict[str, list[Extracted]]:
    """What the service extracted, by agent; messages are numbered in the order in which they were
    recorded.
    """
    numbers: dict[Any, int] = {}
    counts: dict[str, int] = defaultdict(int)
    found: dict[str, list[Extracted]] = defaultdict(list)
    with unit_of_work() as connection:
        for row in connection.execute(_NODES):
            if row.kind == "session":
                numbers[str(row.node_id)] = counts[row.agent_id]
                counts[row.agent_id] += 1
            else:
                turns = frozenset(numbers[str(one)] for one in row.filling if str(one) in numbers)
                found[row.agent_id].append(
                    Extracted(row.description, turns, row.kind, row.superseded_by is not None)
                )
    return found


_NODES = text("""
    SELECT node_id, agent_id, kind, description, filling, superseded_by FROM memory_nodes
    WHERE kind IS NOT NULL AND (kind <> 'session' OR provenance ->> 'role' IS NOT NULL)
    ORDER BY agent_id, kind <> 'session', node_count
""")


def survival(talks: Sequence[tuple[Talk, list[bool]]], extracted: dict[str, list[Extracted]]) -> Figures:
    survived = wanted = yielded = turns = retired = 0
    for talk, marks in talks:
        memories = extracted.get(talk.agent_id, [])
        retired += sum(memory.retired for memory in memories)
        messages = [message for some in talk.sessions.values() for message in some]
        for number, (message, mark) in enumerate(zip(messages, marks, strict=True)):
            own = [memory.text for memory in memories if number in memory.turns]
            turns += 1
            yielded += bool(own)
            if mark:
                wanted += 1
                said = set(telling(message["content"]))
                survived += bool(own) and len(said & set(telling(" ".join(own)))) >= KEPT * len(said)
    return {
        "survive": round(survived / max(1, wanted), DECIMALS),
        "yield": round(yielded / max(1, turns), DECIMALS),
        "superseded": retired,
        "evidence": wanted,
        "turns": turns,
    }


def judged(
    prefix: str, conversations: Sequence[dict[str, Any]], extracted: dict[str, list[Extracted]]
) -> Figures:
    facts = found = memories = right = junk = nothing = changed = changed_right = wrongly = 0
    for conversation in conversations:
        own = extracted.get(f"{prefix}-{conversation['id']}", [])
        finders = [[memory for memory in own if finds(memory, fact)] for fact in conversation["facts"]]
        facts += len(finders)
        found += sum(map(bool, finders))
        memories += len(own)
        right += len({id(memory) for some in finders for memory in some})
        solutions = {turn for memory in own if memory.kind == "experience" for turn in memory.turns}
        holding = set(conversation.get("holds", ()))
        wrongly += sum(any(memory.retired and turn in memory.turns for memory in own) for turn in holding)
        nothing += len(conversation["nothing"])
        junk += sum(
            any(turn in memory.turns for memory in own) and turn not in solutions
            for turn in conversation["nothing"]
        )
        for fact, new in zip(conversation["facts"], finders, strict=True):
            if fact["supersedes"] is not None:
                old = [
                    memory
                    for other, some in zip(conversation["facts"], finders, strict=True)
                    if other["turn"] == fact["supersedes"]
                    for memory in some
                ]
                changed += 1
                changed_right += any(memory.retired for memory in old) and any(
                    not memory.retired for memory in new
                )
    return {
        "precision": round(right / max(1, memories), DECIMALS),
        "recall": round(found / max(1, facts), DECIMALS),
        "junk": round(junk / max(1, nothing), DECIMALS),
        "superseded_right": round(changed_right / max(1, changed), DECIMALS),
        "wrongly_retired": wrongly,
        "facts": facts,
        "nothing": nothing,
        "memories": memories,
    }


def finds(memory: Extracted, fact: dict[str, Any]) -> bool:
    """Whether a memory names the fact's turn and holds one alternative of everything that it must."""
    said = normal(memory.text)
    return fact["turn"] in memory.turns and all(
        any(normal(one) in said for one in must.split("|")) for must in fact["must"]
    )


def normal(words: str) -> str:
    """Without case, spaces, full-width forms and differences of date separators."""
    flat = re.sub(r"\s+", "", unicodedata.normalize("NFKC", words).lower())
    return re.sub(r"(?<=\d)[/.年月](?=\d)", "-", flat)


def run(
    files: dict[str, Path], rows: dict[str, list[dict[str, Any]]], limit: int | None, console: Console
) -> dict[str, Figures]:
    readers = {"locomo": locomo.read, "memdaily": memdaily.read}
    talks = {name: chats(name, readers[name](files[name], limit)) for name in readers if name in files}
    labels = {
        name: labelled(path)[:limit] for name, path in ({"own": OWN} | files).items() if name not in readers
    }
    labels |= {name: some[:limit] for name, some in rows.items()}
    everything = [talk for some in talks.values() for talk, _ in some]
    everything += [talk_of(name, one) for name, some in labels.items() for one in some]
    with running(**injection.SETTINGS) as client:
        injection.remember(client, everything, console)
        extracted = read_back()
    result = {name: survival(some, extracted) for name, some in talks.items()}
    return result | {name: judged(name, some, extracted) for name, some in labels.items()}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("locomo", help="LoCoMo's JSON, or -")
    parser.add_argument("memdaily", help="MemDaily's JSON, or -")
    parser.add_argument("--labelled", type=Path, help="more labelled conversations, JSON lines")
    parser.add_argument("--rows", type=Path, help="folder of labelled rows")
    parser.add_argument(
        "--writer", action="append", default=[], help="whose rows; may be given several times"
    )
    parser.add_argument("--limit", type=int, help="only the first conversations of each file")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    files = {name: Path(path) for name in ("locomo", "memdaily") if (path := getattr(arguments, name)) != "-"}
    if arguments.labelled:
        files["labelled"] = arguments.labelled
    rows = of_rows(arguments.rows, arguments.writer) if arguments.rows else {}
    if arguments.rows and not rows:
        raise SystemExit(
            f"{arguments.rows} has no facts or changes of {', '.join(arguments.writer) or 'nobody'}: name"
            " them with --writer"
        )
    result = run(files, rows, arguments.limit, Console(file=sys.stderr))
    if arguments.json:
        print(json.dumps(result))
        return
    table = Table(title=f"Extraction · {machine()}")
    table.add_column("set")
    table.add_column("figures")
    for name, figures in result.items():
        table.add_row(name, "  ".join(f"{key} {value:g}" for key, value in figures.items()))
    Console().print(table)


if __name__ == "__main__":
    main()
