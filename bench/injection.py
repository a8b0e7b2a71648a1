"""What is put before an answer: is what answers it among it, and does it keep to its budget?

    python -m bench.injection FILE… [--json] [--limit CONVERSATIONS] [--budgets 500,1000,2000]

A ``FILE`` is LoCoMo's or BEAM's JSON (see ``docs/benchmarks.md``), or the project's own ``bench/chat.json``,
``bench/changes.json`` or one of ``bench/conversations``.
Everything goes through the two calls of the loop, with the
default embedder and no LLM. A turn of the evidence counts if one line of the context has at least 80 % of its
tokens:

``evidence_recall``
    mean over the questions of the share of their evidence that counts
``tokens_max``
    the largest context; ``over`` counts those over their budget, split ones too
``right``
    share of the questions that have at least one turn of their evidence in the context
``changed_right``
    of the questions about what has changed: what holds today is there, and what does not is left out or
    marked as earlier
``cache_share``, ``cache_share_single``
    each session talked anew, its prompts as a chat program sends them: share of their tokens that a
    provider's prompt cache has from the prompt before; with what stays the same apart, and with one block in
    the system prompt
``evidence_split``
    ``evidence_recall`` with what stays the same apart, for the first question of a session;
    ``evidence_later``: for ten questions of one session, with what was recalled for those before
``unmarked``
    of the questions about what has not: a turn of their evidence is there, and not marked as earlier
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean
from typing import Any

from rich.console import Console
from rich.progress import track
from rich.table import Table
from sqlalchemy import text

from bench import chat, locomo
from bench.support.quality import Agent, settle
from bench.support.ranking import DECIMALS
from bench.support.service import machine, running
from jiyi import Client
from jiyi.chat import shapes
from jiyi.chat.loop import ConversationLoop
from jiyi.polling import poll
from jiyi.text.budget import estimate_tokens
from jiyi.text.words import tokens
from models.db.connection import unit_of_work

BUDGETS = (500, 1_000, 2_000)
#: Questions of a session where more than one is asked.
ROW = 10
#: What a chat program's own prompt is, where sessions are talked anew.
SYSTEM = "You are a kind companion who remembers what people told you."
#: Share of a turn's tokens that a line must have.
SHOWN = 0.8
#: Seconds that a call may take here: the figures are about what is found, not about a machine under load.
PATIENCE = 60.0
#: What was said days ago waits for nothing more than a second.
SETTINGS = {"extract_window_seconds": "0.05"}
FLUSH_SECONDS = 600.0
#: What a line says that is no longer so.
EARLIER = re.compile(r"\((?:earlier; |早先；|no longer so since ).*\)$")


@dataclass(frozen=True)
class Asked:
    """A question, the texts of turns that answer it, and of turns that once did."""

    text: str
    evidence: list[str]
    outdated: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Answered:
    """What came of a question."""

    recall: float
    tokens: int
    #: None where nothing has changed.
    changed_right: bool | None
    #: Whether a turn of the evidence is there, and not marked as earlier.
    stands: bool = False


@dataclass(frozen=True)
class Talk:
    """One agent's conversations, as a chat program passes them, and the questions with the texts that answer
    each.
    """

    agent_id: str
    sessions: dict[str, list[dict[str, Any]]]
    questions: list[Asked]


def read(path: Path, limit: int | None = None) -> list[Talk]:
    """LoCoMo's form, which BEAM has, too, or that of the project's chat. Speakers are people, or ``user`` and
    ``assistant``.
    """
    content = json.loads(path.read_text(encoding="utf-8"))
    chats = [content] if isinstance(content, dict) else content
    own = all("sessions" in one for one in chats)
    agents = [chat.agent_of(one) for one in chats[:limit]] if own else locomo.read(path, limit)
    return [_talk(agent) for agent in agents]


def _talk(agent: Agent) -> Talk:
    sessions: dict[str, list[dict[str, Any]]] = {}
    texts = {}
    for memory in agent.memories:
        speaker = memory.subject or "user"
        text = memory.text.removeprefix(f"{speaker}: ")
        who = {"role": speaker} if speaker in ("user", "assistant") else {"role": "user", "name": speaker}
        sessions.setdefault(str(memory.session_id), []).append(
            {**who, "content": text, "at": memory.occurred_at}
        )
        texts[memory.key] = text
    questions = [
        Asked(
            one.text,
            [texts[key] for key in one.evidence],
            [texts[key] for key in getattr(one, "outdated", ())],
        )
        for one in agent.questions
    ]
    return Talk(agent.agent_id, sessions, questions)


def counts(turn: str, lines: Sequence[Counter[str]]) -> bool:
    """Whether one line has enough of the turn's tokens."""
    said = Counter(tokens(turn))
    total = sum(said.values())
    return total > 0 and any(sum((said & line).values()) >= SHOWN * total for line in lines)


def ask(loop: ConversationLoop, talk: Talk, *, row: int = 0) -> Iterator[Answered]:
    """Each question by itself, in one text; or as one of ``row`` of a session, with what stays the same
    apart.
    """
    chat: list[dict[str, Any]] = []
    for place, question in enumerate(talk.questions):
        if not row or place % row == 0:
            chat = []
        chat.append({"role": "user", "content": question.text})
        session_id = f"{row} questions, {place // row}" if row else None
        ready = loop.before(
            talk.agent_id, "", question.text, session_id=session_id, messages=chat, split=row > 0
        )
        now = "\n".join(filter(None, [ready.system_prompt, ready.recalled]))
        lines = "\n".join([now, *ready.earlier.values()]).splitlines()
        shown = [Counter(tokens(line)) for line in lines]
        recall = sum(counts(turn, shown) for turn in question.evidence) / len(question.evidence)
        changed_right = _changed_right(question, lines) if question.outdated else None
        yield Answered(recall, estimate_tokens(now), changed_right, _stands(question, _today(lines)))
        chat.append({"role": "assistant", "content": "…"})


def _changed_right(question: Asked, lines: Sequence[str]) -> bool:
    today = _today(lines)
    return _stands(question, today) and not any(counts(turn, today) for turn in question.outdated)


def _stands(question: Asked, today: Sequence[Counter[str]]) -> bool:
    return any(counts(turn, today) for turn in question.evidence)


def _today(lines: Sequence[str]) -> list[Counter[str]]:
    """The tokens of the lines that are not marked as earlier."""
    return [Counter(tokens(line)) for line in lines if not EARLIER.search(line)]


def replay(loop: ConversationLoop, talk: Talk, *, split: bool) -> Iterator[tuple[float, int]]:
    """Each session's cache share and tokens, as the first speaker talks and a model answers with what the
    other said.
    """
    for session_id, messages in talk.sessions.items():
        first = messages[0].get("name", messages[0]["role"])
        chat: list[dict[str, Any]] = []
        prompts: list[list[dict[str, Any]]] = []
        for message in messages:
            asks = message.get("name", message["role"]) == first
            chat.append({"role": "user" if asks else "assistant", "content": message["content"]})
            if asks:
                ready = loop.before(
                    talk.agent_id,
                    SYSTEM,
                    message["content"],
                    session_id=session_id,
                    messages=chat,
                    split=split,
                )
                prompts.append(shapes.openai(ready))
        if len(prompts) > 1:
            yield shapes.cache_share(prompts), sum(estimate_tokens(str(prompt)) for prompt in prompts[1:])


def cached(loop: ConversationLoop, talks: Sequence[Talk], *, split: bool) -> float:
    """The mean over all sessions, each by its tokens. What an earlier budget has left of their prompts is
    forgotten.
    """
    with unit_of_work() as connection:
        connection.execute(text("DELETE FROM session_prompts"))
    shares = [share for talk in talks for share in replay(loop, talk, split=split)]
    return round(
        sum(share * tokens for share, tokens in shares) / max(1, sum(tokens for _, tokens in shares)),
        DECIMALS,
    )


def remember(client: Client, talks: Sequence[Talk], console: Console) -> None:
    before = _stored()
    with ConversationLoop(client, seconds=PATIENCE) as loop:
        for talk in track(talks, description="remembering", console=console):
            for session_id, messages in talk.sessions.items():
                loop.after_completion(talk.agent_id, messages, session_id)
        if not loop.flush(FLUSH_SECONDS):
            raise TimeoutError(f"turns were not published in {FLUSH_SECONDS:g} s")
        published = loop.counts.published
    poll(
        lambda: _stored() - before,
        lambda stored: stored >= published,
        FLUSH_SECONDS,
        lambda stored: f"{stored:,} of {published:,} turns are stored",
    )
    settle()


def _stored() -> int:
    with unit_of_work() as connection:
        return int(
            connection.execute(
                text("SELECT count(*) FROM events WHERE type IN ('turn.recorded', 'turn.step')")
            ).scalar_one()
        )


def run(
    paths: Sequence[Path], limit: int | None, budgets: Sequence[int], console: Console
) -> dict[str, dict[str, float]]:
    talks = [talk for path in paths for talk in read(path, limit)]
    figures = {}
    with running(**SETTINGS) as client:
        remember(client, talks, console)
        for budget in budgets:
            with ConversationLoop(client, max_tokens=budget, seconds=PATIENCE) as loop:
                asked = track(talks, description=f"asking, {budget:,} tokens", console=console)
                answers = [answer for talk in asked for answer in ask(loop, talk)]
                first, later = (
                    [answer for talk in talks for answer in ask(loop, talk, row=row)] for row in (1, ROW)
                )
                split = {
                    "evidence_split": round(mean(answer.recall for answer in first), DECIMALS),
                    "evidence_later": round(mean(answer.recall for answer in later), DECIMALS),
                    "over": sum(answer.tokens > budget for answer in (*answers, *first, *later)),
                    "cache_share": cached(loop, talks, split=True),
                    "cache_share_single": cached(loop, talks, split=False),
                }
            figures[str(budget)] = _figures(answers) | split
            console.print(budget, figures[str(budget)])
    return figures


def _figures(answers: Sequence[Answered]) -> dict[str, float]:
    changed = [answer.changed_right for answer in answers if answer.changed_right is not None]
    still = [answer.stands for answer in answers if answer.changed_right is None]
    figures = {
        "evidence_recall": round(mean(answer.recall for answer in answers), DECIMALS),
        "tokens_max": max(answer.tokens for answer in answers),
        "tokens_mean": round(mean(answer.tokens for answer in answers), 1),
        "right": round(mean(answer.recall > 0 for answer in answers), DECIMALS),
        "questions": len(answers),
    }
    if changed:
        figures |= {
            "changed": len(changed),
            "changed_right": round(mean(changed), DECIMALS),
            "unmarked": round(mean(still), DECIMALS),
        }
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path, nargs="+")
    parser.add_argument("--limit", type=int, help="only the first conversations of a file")
    parser.add_argument("--budgets", default=",".join(map(str, BUDGETS)), help="tokens, separated by commas")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    result = run(
        arguments.file,
        arguments.limit,
        [int(one) for one in arguments.budgets.split(",")],
        Console(file=sys.stderr),
    )
    if arguments.json:
        print(json.dumps(result))
        return
    table = Table(title=f"Injection · {machine()}")
    for name in ("budget", *next(iter(result.values()))):
        table.add_column(name, justify="right")
    for budget, row in result.items():
        table.add_row(budget, *(f"{value:g}" for value in row.values()))
    Console().print(table)


if __name__ == "__main__":
    main()
