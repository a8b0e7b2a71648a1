"""The same conversations and questions given to Jiyi and to other memory systems: what they find, and how
fast.

    python -m bench.peers FILE [--json] [--limit CONVERSATIONS] [--only NAME …]

``FILE`` is LoCoMo's JSON. No LLM anywhere; every system gets the same vectors, from an OpenAI-compatible
endpoint on loopback. The peers are installed from PyPI, each into an environment of its own below
``$JIYI_BENCH_CACHE`` (``~/.cache/jiyi-bench``), and share one PostgreSQL server, each with a database of its
own. One system runs at a time. A peer that cannot be installed or started is skipped, and the reason is
reported. (Hindsight needs pg_trgm, and brings a server of its own.)
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track
from rich.table import Table
from sqlalchemy import create_engine, text
from sqlalchemy.engine import make_url

from bench import locomo
from bench.support.endpoint import serving
from bench.support.environments import PEERS, Conversation, Peer, Skipped
from bench.support.quality import AS_SHIPPED, RELEVANCES, REQUEST_SECONDS, TOP_K, Agent, remember
from bench.support.ranking import DECIMALS, figures, mean, quantile
from bench.support.service import machine
from engine.providers.embedders import embedder
from jiyi import Client
from jiyi.settings import RelevanceMode, get_settings
from workers import ephemeral

RECALLS, NDCGS = (5, 10, 30), (10,)
DEFAULT_LIMIT = 2
#: Of the table where it goes into a file.
WIDTH = 128

#: Keys retrieved for a question of an agent, and the seconds it took.
Ask = Callable[[Agent, str], tuple[list[str], float]]


def measure(
    agents: Sequence[Agent], ask: Ask, ingest_seconds: float, title: str, console: Console
) -> dict[str, Any]:
    """A system's row: its first question, which may load things, is asked once beforehand."""
    ask(agents[0], agents[0].questions[0].text)
    rows, seconds, short = [], [], 0
    pairs = [(agent, question) for agent in agents for question in agent.questions]
    for agent, question in track(pairs, description=title, console=console):
        ranked, spent = ask(agent, question.text)
        rows.append(figures(ranked, question.evidence, RECALLS, NDCGS))
        seconds.append(spent)
        short += len(ranked) < min(TOP_K, len(agent.memories))
    return mean(rows) | {
        "ingest_s": round(ingest_seconds, 1),
        "query_ms_p50": round(statistics.median(seconds) * 1000, 1),
        "query_ms_p95": round(quantile(seconds, 0.95) * 1000, 1),
        "short": short,
    }


def measure_jiyi(agents: Sequence[Agent], console: Console) -> dict[str, dict[str, Any]]:
    """Jiyi's own rows, a mode each. Memories go in as events, questions through the queue."""
    logs = get_settings().home / "log"
    with Client("bench") as client:
        with ephemeral.processes(logs):
            begun = time.perf_counter()
            keys = remember(client, agents, console)
            spent = time.perf_counter() - begun

        def asking(relevance: RelevanceMode) -> Ask:
            def ask(agent: Agent, question: str) -> tuple[list[str], float]:
                begun = time.perf_counter()
                answer = client.retrieve(
                    agent.agent_id,
                    question,
                    timeout=REQUEST_SECONDS,
                    relevance=relevance,
                    **AS_SHIPPED.options,
                )
                return [
                    keys.get(node.node_id, "") for node in answer.retrieved_nodes
                ], time.perf_counter() - begun

            return ask

        rows = {}
        for mode in RELEVANCES:
            with ephemeral.processes(
                logs
            ):  # new ones each time: they remember the vectors of questions, and the peers embed each
                rows[f"Jiyi, {mode}"] = measure(agents, asking(mode), spent, f"Jiyi, {mode}", console)
        return rows


def measure_peer(
    peer: Peer, agents: Sequence[Agent], given: dict[str, Any], log: Path, console: Console
) -> dict[str, Any]:
    """The peer's row, or ``{"skipped": reason}``."""
    conversation = None
    try:
        with console.status(f"installing and starting {peer.name}"):
            conversation = Conversation(peer, given, log)
        running = conversation
        spent = 0.0
        for agent in track(agents, description=f"{peer.title}: remembering", console=console):
            rows = [
                {
                    "key": memory.key,
                    "text": memory.text,
                    "time": memory.occurred_at.isoformat(),
                    "session": memory.session_id,
                    "speaker": memory.subject,
                }
                for memory in agent.memories
            ]
            spent += running.say({"remember": agent.agent_id, "memories": rows})["seconds"]

        def ask(agent: Agent, question: str) -> tuple[list[str], float]:
            found = running.say({"ask": agent.agent_id, "question": question, "top_k": TOP_K})
            return found["keys"], found["seconds"]

        return measure(agents, ask, spent, peer.title, console)
    except Skipped as reason:
        return {"skipped": str(reason)}
    finally:
        if conversation is not None:
            conversation.close()


def new_database(name: str) -> str:
    """A database of its own on the embedded server, as libpq's and asyncpg's URL."""
    url = make_url(get_settings().need("database_url"))
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    engine.dispose()
    return url.set(drivername="postgresql", database=name).render_as_string(hide_password=False)


def run(path: Path, limit: int, only: Sequence[str], console: Console) -> dict[str, Any]:
    # Idle OpenMP threads that spin take the core that another process needs: 0.1 s instead of 0.02 s a
    # question.
    os.environ.setdefault(
        "OMP_WAIT_POLICY", "passive"
    )  # before the embedder is loaded; Jiyi's workers inherit it
    agents = locomo.read(path, limit)
    questions = {question.text for agent in agents for question in agent.questions}
    rows: dict[str, dict[str, Any]] = {}
    with ephemeral.folder("jiyi-bench-") as home, ephemeral.database(home):
        if not only or "jiyi" in only:
            rows |= measure_jiyi(agents, console)
        with serving(questions) as address:
            for peer in PEERS:
                if only and peer.name not in only:
                    continue
                own = home / peer.name
                own.mkdir()
                given = {
                    "database_url": new_database(f"peer_{peer.name}"),
                    "embeddings_url": address,
                    "model": embedder().model,
                    "dimensions": embedder().dimensions,
                    "folder": str(own),
                }
                rows[peer.title] = measure_peer(peer, agents, given, home / f"{peer.name}.log", console)
    return {
        "systems": rows,
        "machine": machine(),
        "conversations": len(agents),
        "memories": sum(len(agent.memories) for agent in agents),
        "questions": sum(len(agent.questions) for agent in agents),
        "versions": {peer.name: list(peer.requirements) for peer in PEERS},
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path)
    parser.add_argument(
        "--limit", type=int, default=DEFAULT_LIMIT, help="conversations (default %(default)s)"
    )
    parser.add_argument("--only", nargs="+", default=[], choices=["jiyi", *(peer.name for peer in PEERS)])
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    result = run(arguments.file, arguments.limit, arguments.only, Console(stderr=True))
    if arguments.json:
        print(json.dumps(result))
        return
    console = Console(width=None if sys.stdout.isatty() else WIDTH)
    table = Table(
        title=f"{result['memories']:,} memories, {result['questions']:,} questions · {result['machine']}"
    )
    columns = [*(f"recall@{k}" for k in RECALLS), *(f"ndcg@{k}" for k in NDCGS)]
    for name in ("", *columns, "ingest s", "query ms p50", "p95", f"< {TOP_K}"):
        table.add_column(name, justify="right" if name else "left")
    for title, row in result["systems"].items():
        if "skipped" not in row:
            values = [f"{row[name]:.{DECIMALS - 1}f}" for name in columns]
            table.add_row(
                title,
                *values,
                *(f"{row[name]:,}" for name in ("ingest_s", "query_ms_p50", "query_ms_p95", "short")),
            )
    console.print(table)
    for title, row in result["systems"].items():
        if "skipped" in row:
            console.print(f"{title}: skipped: {row['skipped']}")


if __name__ == "__main__":
    main()
