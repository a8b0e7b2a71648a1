"""What a prompt says holds after months of talk: ``python -m bench.truth FILE [FILE …] [--json] [--show]``.

Each line of a file is a small life: messages of a user with an assistant, and questions. ``{id, language,
kind, turns: [{at, role, text, session, user?}], questions: [{q, at, user?, has: [[alternatives], …], not:
[…]}]}``; times have the speaker's zone. All messages go through the whole service as shipped, without an LLM;
then each question is asked. Of each group of ``has`` a string has to stand in what is said to hold (*has*),
and none of ``not`` may (*clean*), but in a line that is marked as earlier or ended; *right* is both.
``prompt`` is what ``conversations.context`` puts before an answer, ``find`` what ``context`` does. Shares of
all questions and of each kind.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any

from bench.support.quality import AS_SHIPPED, settle
from bench.support.service import running
from jiyi import Client

#: A line with one of these says that it is of the past.
MARKED = re.compile(
    r"\((?:[^()]*; )?(?:earlier|no"
    r" longer|ended|until|replaced)[^()]*\)|（(?:早先|曾经|已)[^（）]*）|\(早先；[^()]*\)",
    re.IGNORECASE,
)
#: As shipped; what was said days ago waits no longer than a second.
SETTINGS = {**AS_SHIPPED.settings, "extract_window_seconds": "1"}
#: Questions asked at once.
AT_ONCE = 2
Judged = tuple[bool, bool]
#: The name of a file, and a line of it.
Life = tuple[str, dict[str, Any]]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--json", action="store_true", help="one line, for programs")
    parser.add_argument(
        "--show", action="store_true", help="the prompts that are not right, to standard error"
    )
    arguments = parser.parse_args()
    with running(**SETTINGS) as client:
        table = measured(client, read(arguments.files), show=arguments.show)
    if arguments.json:
        print(json.dumps(table, ensure_ascii=False))
        return
    for name, row in table.items():
        print(
            f"{name:16} {row['questions']:4}  "
            + "  ".join(f"{way}: {row[way]}" for way in ("prompt", "find"))
        )


def read(files: Iterable[Path]) -> list[Life]:
    """The lives of some files, each with its file's name."""
    lines = [
        (file.stem, line)
        for file in files
        for line in file.read_text(encoding="utf-8").splitlines()
        if line.strip()
    ]
    return [(name, json.loads(line)) for name, line in lines]


def measured(client: Client, lives: list[Life], *, show: bool = False) -> dict[str, dict[str, Any]]:
    """Live them, ask their questions, and give the shares of all, of each file and of each kind. ``show``:
    what is not right.
    """
    _live(client, [life for _, life in lives])
    with ThreadPoolExecutor(AT_ONCE) as pool:
        answers = list(pool.map(lambda life: list(_asked(client, life[1])), lives))
    figures: dict[str, list[tuple[Judged, Judged]]] = defaultdict(list)
    for (file, life), answered in zip(lives, answers, strict=True):
        for question, prompt, found in answered:
            judged = judge(prompt, question), judge(found, question)
            for name in dict.fromkeys(("all", file, life["kind"])):
                figures[name].append(judged)
            if show and not all(judged[0]):
                print(
                    life["id"],
                    life["kind"],
                    judged[0],
                    json.dumps(question, ensure_ascii=False),
                    prompt,
                    sep="\n",
                    file=sys.stderr,
                )
    return {name: _shares(judged) for name, judged in figures.items()}


def holding(text: str) -> str:
    """The lines that are not marked as of the past, in lower case."""
    return "\n".join(line for line in text.splitlines() if not MARKED.search(line)).lower()


def judge(text: str, question: dict[str, Any]) -> Judged:
    """Whether a text has all that it has to, and nothing that it must not."""
    said = holding(text)
    has = all(any(alternative.lower() in said for alternative in group) for group in question["has"])
    return has, not any(stale.lower() in said for stale in question["not"])


def _shares(judged: Iterable[tuple[Judged, Judged]]) -> dict[str, Any]:
    rows = list(judged)
    shares: dict[str, Any] = {"questions": len(rows)}
    for place, way in enumerate(("prompt", "find")):
        of_way = [row[place] for row in rows]
        shares[way] = {
            "right": _mean(all(one) for one in of_way),
            "has": _mean(has for has, _ in of_way),
            "clean": _mean(clean for _, clean in of_way),
        }
    return shares


def _mean(values: Iterable[bool]) -> float:
    kept = list(values)
    return round(sum(kept) / len(kept), 3)


def _live(client: Client, lives: list[dict[str, Any]]) -> None:
    """All messages, session by session, each ended and looked through before the next begins."""
    sessions = [list(_sessions(life)) for life in lives]
    for number in range(max(map(len, sessions))):
        ended = []
        for life, parts in zip(lives, sessions, strict=True):
            if number < len(parts):
                name, turns = parts[number]
                for turn in turns:
                    whose = {"user_id": turn["user"]} if turn.get("user") else {}
                    at = datetime.fromisoformat(turn["at"])
                    client.add_turn(
                        life["id"],
                        turn["role"],
                        turn["text"],
                        f"{life['id']}-{name}",
                        occurred_at=at,
                        **whose,
                    )
                ended += [
                    (life["id"], f"{life['id']}-{name}", user)
                    for user in dict.fromkeys(turn.get("user") for turn in turns)
                ]
        settle()
        for agent, session, user in ended:
            client.end_session(agent, session, **({"user_id": user} if user else {}))
        settle()
        time.sleep(2)  # the window of extraction
        settle()


def _sessions(life: dict[str, Any]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    names = dict.fromkeys(turn.get("session") or "s" for turn in life["turns"])
    return (
        (name, [turn for turn in life["turns"] if (turn.get("session") or "s") == name]) for name in names
    )


def _asked(client: Client, life: dict[str, Any]) -> Iterator[tuple[dict[str, Any], str, str]]:
    for question in life["questions"]:
        whose = {"user_id": question["user"]} if question.get("user") else {}
        prompt = (
            client.within(300)
            .conversations.context(agent_id=life["id"], query=question["q"], **whose)
            .context
        )
        yield (
            question,
            prompt,
            client.context(life["id"], question["q"], touch=False, timeout=300, **whose).text,
        )


if __name__ == "__main__":
    main()
