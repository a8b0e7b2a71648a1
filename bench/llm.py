"""What an LLM is worth, and what it costs: the same through the whole service, with it and with rules.

    python -m bench.llm [FILE …] [--lives N] [--talks N] [--smollm] [--untried] [--show] [--json]
    python -m bench.llm --costs FILE … [--turns N] [--pace N] [--json]

The LLM is what ``JIYI_LLM`` and the settings after it name; ``--smollm`` starts llama.cpp with SmolLM2-135M
(``make test-llm`` installs both). A ``FILE`` is one of ``bench.truth``; ``--lives`` takes a sample with all
kinds, in turn.

``truth``
    shares of right prompts (``prompt``) and answers (``find``) as ``bench.truth`` gives them
``extraction``
    as ``bench.extraction`` gives them for its own labelled conversations, of which ``--talks`` takes the
    first
``reflection``
    each life's agent is asked to reflect: ``thoughts``, and the share that has half of its telling words in
    its evidence (``grounded``)
``cost``
    of each of the three: questions, those that could not be used, those that rules answered in its place,
    requests, tokens, seconds of all questions together, money, and seconds on the clock
``left_to_rules``
    prompts that the model is not asked, since it failed its trial; ``--untried`` asks it everything

``--costs`` says what a model that answers everything at once (``bench.support.perfect``) is asked about the
first ``--turns`` of the conversations given, as in ``bench/conversations``: requests and tokens by prompt.
They come session by session, each looked through at its end, or ``--pace`` turns at a time, as in a chat that
goes on slowly.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any
from uuid import uuid4

from rich.console import Console
from sqlalchemy import text

from bench import extraction, injection, truth
from bench.support import perfect, smollm
from bench.support.quality import settle
from bench.support.ranking import DECIMALS
from bench.support.service import machine, running
from engine.providers.llms import RULES, llm_endpoint
from engine.providers.verdicts import verdict
from jiyi import Client
from jiyi.protocol import events as wire
from jiyi.settings import get_settings
from jiyi.text.words import telling
from models.db.connection import unit_of_work
from models.db.scope import whole_service
from models.memory.inbox import store
from models.queue.wakeups import task_name
from workers import ephemeral

#: A small model on this machine: minutes for a question, one at a time, short answers.
SMOLLM = {"llm": "compatible:smollm2", "llm_timeout": "300", "llm_questions": "1", "llm_max_tokens": "400"}
#: What there is to be looked through is so at once, and nobody asks what a perfect model can do.
PERFECT = {"llm": "compatible:perfect", "extract_window_seconds": "0", "llm_trial_days": "0"}
#: Share of a thought's telling words that its evidence must have.
GROUNDED = 0.5
COUNTED = (
    "questions",
    "unusable",
    "repaired",
    "by_rules",
    "dropped",
    "calls",
    "prompt_tokens",
    "completion_tokens",
    "seconds",
    "cost",
)

Figures = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--lives", type=int, help="of the files, so many lives")
    parser.add_argument("--talks", type=int, default=4, help="labelled conversations of bench.extraction")
    parser.add_argument("--smollm", action="store_true", help="with SmolLM2-135M on this machine")
    parser.add_argument("--untried", action="store_true", help="ask it everything, whatever it can do")
    parser.add_argument(
        "--show", action="store_true", help="the prompts that are not right, to standard error"
    )
    parser.add_argument("--json", action="store_true", help="one line, for programs")
    parser.add_argument(
        "--costs",
        action="store_true",
        help="requests and tokens of conversations, with a model that answers everything",
    )
    parser.add_argument("--turns", type=int, default=1_000, help="of the conversations, so many turns")
    parser.add_argument(
        "--pace", type=int, default=0, help="turns that are looked through at once; 0: a session's"
    )
    arguments = parser.parse_args()
    if arguments.costs:
        figures = asked_of(arguments.files, arguments.turns, arguments.pace)
        print(json.dumps(figures, indent=None if arguments.json else 1))
        return
    lives = sample(truth.read(arguments.files), arguments.lives)
    with ExitStack() as stack:
        settings: dict[str, str] = {"llm_trial_days": "0"} if arguments.untried else {}
        if arguments.smollm:
            settings |= {**SMOLLM, "llm_base_url": stack.enter_context(smollm.serving())}
        sides = {
            "rules": measured(lives, arguments, llm=RULES),
            "llm": measured(lives, arguments, **settings),
        }
    result = {"machine": machine(), "lives": len(lives), **sides}
    print(
        json.dumps(result, ensure_ascii=False)
        if arguments.json
        else json.dumps(result, ensure_ascii=False, indent=1)
    )


def sample(lives: Sequence[truth.Life], most: int | None) -> list[truth.Life]:
    """So many lives, of each kind in turn, and of a kind's each language in turn."""
    groups: dict[tuple[str, str], list[truth.Life]] = defaultdict(list)
    for life in lives:
        groups[life[1]["kind"], life[1]["language"]].append(life)
    ordered = sorted(groups.values(), key=len, reverse=True)
    kinds: dict[str, list[truth.Life]] = defaultdict(list)
    for number in range(max(map(len, ordered), default=0)):
        for group in ordered:
            kinds[group[0][1]["kind"]] += group[number : number + 1]
    turns = [
        life for number in range(len(lives)) for some in kinds.values() for life in some[number : number + 1]
    ]
    return turns[:most]


def measured(lives: Sequence[truth.Life], arguments: argparse.Namespace, **settings: str) -> Figures:
    """All figures with these settings, in a service of its own."""
    costs: dict[str, Figures] = {}
    with running(**truth.SETTINGS, **settings) as client:
        figures: Figures = {"model": get_settings().llm}
        with costing("truth", costs):
            figures["truth"] = truth.measured(client, list(lives), show=arguments.show) if lives else {}
        with costing("extraction", costs):
            figures["extraction"] = extracted(client, arguments.talks)
        with costing("reflection", costs):
            figures["reflection"] = reflected(client, [life["id"] for _, life in lives])
        left = [] if get_settings().llm == RULES else verdict(llm_endpoint(get_settings())).prompts_by_rules()
    return {
        **figures,
        "cost": costs,
        "left_to_rules": {f"{row.prompt} {row.language or ''}".strip(): row.why for row in left},
    }


def asked_of(files: Sequence[Path], most: int, pace: int) -> Figures:
    """Requests and tokens by prompt for so many turns, with a perfect model."""
    talks, left = [], most
    for talk in (talk for file in files for talk in injection.read(file)):
        sessions: dict[str, list[dict[str, Any]]] = {}
        for name, messages in talk.sessions.items():
            sessions |= {name: messages[:left]} if left else {}
            left -= len(sessions.get(name, []))
        talks.append(replace(talk, sessions=sessions))
    rounds = [list(_portions(talk, pace)) for talk in talks]
    with (
        perfect.serving() as address,
        ephemeral.folder("jiyi-bench-") as home,
        ephemeral.database(home, **PERFECT, llm_base_url=address),
        whole_service(),
    ):
        for number in range(max(map(len, rounds))):
            with unit_of_work() as connection:
                store(
                    connection,
                    [event for portions in rounds for event in chain(*portions[number : number + 1])],
                )
            _work()
        with unit_of_work() as connection:
            rows = {row["prompt"]: dict(row) for row in connection.execute(_ASKED).mappings()}
            memories = connection.execute(_MEMORIES).scalar_one()
    every = {
        key: sum(row[key] for row in rows.values()) for key in ("calls", "prompt_tokens", "completion_tokens")
    }
    return {"turns": most - left, "pace": pace, "memories": memories, "all": every, "prompts": rows}


def _portions(talk: injection.Talk, pace: int) -> Iterator[list[wire.Event]]:
    """What of a talk is looked through at once; after its last turn a session ends."""
    for session, messages in talk.sessions.items():
        about = {"group_id": "bench", "agent_id": talk.agent_id, "session_id": session}
        turns = [
            wire.build({
                **about, "type": "turn.recorded", "occurred_at": one["at"],
                "payload": {"role": one["role"], "name": one.get("name"), "text": one["content"]},
            })
            for one in messages
        ]  # fmt: skip
        step = pace or max(1, len(turns))
        for begin in range(0, len(turns), step):
            ended = (
                [wire.build({**about, "type": "session.ended", "event_id": uuid4()})]
                if begin + step >= len(turns)
                else []
            )
            yield [*turns[begin : begin + step], *ended]


def _work() -> None:
    """Do in this process what is owed by now."""
    from workers.app import app  # late: it reads the settings, and begins to count what is used

    app.loader.import_default_modules()
    while True:
        with unit_of_work() as connection:
            kinds = connection.execute(_DUE).scalars().all()
        if not kinds:
            return
        for kind in kinds:
            app.tasks[task_name(kind)]()


def extracted(client: Client, talks: int) -> Figures:
    rows = extraction.labelled(extraction.OWN)[:talks]
    injection.remember(client, [extraction.talk_of("own", row) for row in rows], Console(file=sys.stderr))
    return dict(extraction.judged("own", rows, extraction.read_back()))


def reflected(client: Client, agents: Sequence[str]) -> Figures:
    before = len(_thoughts())
    for agent in agents:
        client.reflection.request(agent_id=agent)
    settle()
    new = _thoughts()[before:]
    grounded = [
        len(words & set(telling(seen))) >= GROUNDED * len(words)
        for said, seen in new
        if (words := set(telling(said)))
    ]
    return {
        "agents": len(agents),
        "thoughts": len(new),
        "grounded": round(sum(grounded) / max(1, len(grounded)), DECIMALS),
    }


def _thoughts() -> list[tuple[str, str]]:
    """Each thought with its evidence, in the order of making."""
    with unit_of_work() as connection:
        return [(row.description, row.seen or "") for row in connection.execute(_THOUGHTS)]


@contextmanager
def costing(name: str, costs: dict[str, Figures]) -> Iterator[None]:
    """Note what has been used meanwhile."""
    before, began = _used(), time.monotonic()
    yield
    used = {key: value - before[key] for key, value in _used().items()}
    costs[name] = {
        **{key: round(value, DECIMALS) for key, value in used.items()},
        "clock": round(time.monotonic() - began, 1),
    }


def _used() -> dict[str, float]:
    with unit_of_work() as connection:
        return {name: float(value) for name, value in connection.execute(_USED).mappings().one().items()}


_USED = text(f"SELECT {', '.join(f'coalesce(sum({name}), 0) AS {name}' for name in COUNTED)} FROM llm_usage")
_DUE = text("SELECT DISTINCT kind FROM pending_work WHERE due_at <= clock_timestamp() ORDER BY kind")
_ASKED = text("""
    SELECT prompt, sum(questions)::int AS questions, sum(calls)::int AS calls, sum(prompt_tokens)::int AS
    prompt_tokens,
        sum(completion_tokens)::int AS completion_tokens, sum(unusable)::int AS unusable
    FROM llm_usage GROUP BY prompt ORDER BY prompt
""")
_MEMORIES = text("SELECT count(*) FROM memory_nodes WHERE kind IN ('knowledge', 'preference')")
_THOUGHTS = text("""
    SELECT t.description, (
        SELECT string_agg(e.description, ' ') FROM memory_nodes e
        WHERE jsonb_exists(t.filling, CAST(e.node_id AS text))
    ) AS seen
    FROM memory_nodes t WHERE t.type = 'thought' AND t.provenance ->> 'reflection' IS NOT NULL
    ORDER BY t.created_at, t.node_count
""")


if __name__ == "__main__":
    main()
