"""What grows of long chats without tools or tasks (nothing should), and what looking for due heartbeats
costs.

    python -m bench.growth LOCOMO [--limit CONVERSATIONS] [--agents N] [--json]

The file is LoCoMo's JSON (see ``docs/benchmarks.md``). Each conversation goes through the loop of a chat
program, with its sessions' ends, and everything that follows is waited for. Then so many agents' heartbeats
are due at once, in a database of their own.

``skills``, ``workflows``
    candidates of any status, also those that the gate refused
``soul_versions``, ``proposals``
    versions of SOUL, and proposals to change a file or to solve a pain
``due_scan_s``, ``update_s``, ``ratio``
    seconds of the job that owes the heartbeats, of one bare UPDATE of the same rows, and how many times as
    long
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from rich.console import Console
from sqlalchemy import text

from bench import injection
from bench.support.quality import settle
from bench.support.service import machine, running
from models.db.connection import unit_of_work
from models.db.scope import whole_service
from workers import ephemeral

AGENTS = 10_000
#: What grows depends on words, not on vectors; this embedder costs nothing.
SETTINGS = {**injection.SETTINGS, "embedder": "hashing"}

Figures = dict[str, float]


def chats(path: Path, limit: int | None, console: Console) -> Figures:
    """Say it all, end every session, and count what grew."""
    talks = injection.read(path, limit)
    with running(**SETTINGS) as client:
        injection.remember(client, talks, console)
        for talk in talks:
            for session_id in talk.sessions:
                client.end_session(talk.agent_id, session_id)
        poll_for_ends(sum(len(talk.sessions) for talk in talks))
        settle()
        with whole_service(), unit_of_work() as connection:
            found = connection.execute(_GROWN).mappings().one()
            return {"conversations": len(talks), **{name: int(count) for name, count in found.items()}}


def poll_for_ends(count: int) -> None:
    """Return when so many ends of sessions are stored."""
    deadline = time.monotonic() + injection.FLUSH_SECONDS
    while time.monotonic() < deadline:
        with whole_service(), unit_of_work() as connection:
            if connection.execute(_ENDS).scalar_one() >= count:
                return
        time.sleep(0.2)
    raise TimeoutError(f"{count} ends of sessions were not stored in {injection.FLUSH_SECONDS:g} s")


def due(agents: int) -> Figures:
    """The job beside one bare UPDATE of the same rows, in the same database, with nothing else running."""
    with ephemeral.folder("jiyi-bench-") as folder, ephemeral.database(folder, embedder="hashing"):
        from tasks.appointments import due_scan
        from tasks.framework.jobs import Run  # it reads the settings, so not before they are there

        now = datetime.now(UTC)
        with whole_service():
            with unit_of_work() as connection:
                connection.execute(_GROUP)
                connection.execute(_AGENTS, {"count": agents})
                connection.execute(_HEARTBEATS, {"due": now - timedelta(minutes=1)})
            with unit_of_work() as connection:
                begun = time.perf_counter()
                connection.execute(_BARE)
                bare = time.perf_counter() - begun
            with unit_of_work() as connection:
                connection.execute(_AGAIN)
            run = Run("due_scan", now)
            begun = time.perf_counter()
            due_scan(run)
            took = time.perf_counter() - begun
            with unit_of_work() as connection:
                owed = connection.execute(_OWED).scalar_one()
    return {
        "agents": agents,
        "owed": int(owed),
        "due_scan_s": round(took, 3),
        "update_s": round(bare, 3),
        "ratio": round(took / bare, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path)
    parser.add_argument("--limit", type=int, help="only the first conversations")
    parser.add_argument("--agents", type=int, default=AGENTS, help="heartbeats that are due at once; 0: none")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    result = {"chats": chats(arguments.file, arguments.limit, Console(file=sys.stderr))}
    if arguments.agents:
        result["due"] = due(arguments.agents)
    if arguments.json:
        print(json.dumps(result))
        return
    Console().print(f"Growth · {machine()}")
    for name, figures in result.items():
        Console().print(f"[b]{name}[/b]  " + "  ".join(f"{key} {value:g}" for key, value in figures.items()))


_GROWN = text("""
    SELECT (SELECT count(*) FROM proposals WHERE kind = 'skill') AS skills,
        (SELECT count(*) FROM proposals WHERE kind = 'pipeline') AS workflows,
        (SELECT count(*) FROM identity_versions WHERE file = 'SOUL') AS soul_versions,
        (SELECT count(*) FROM proposals WHERE kind IN ('identity', 'solution')) AS proposals,
        (SELECT count(*) FROM trajectories) AS trajectories, (SELECT count(*) FROM patterns) AS patterns,
        (SELECT count(*) FROM dead_letters) AS dead_letters
""")
_ENDS = text("SELECT count(*) FROM events WHERE type = 'session.ended'")
_GROUP = text("INSERT INTO groups (group_id) VALUES ('bench') ON CONFLICT DO NOTHING")
_AGENTS = text("""
    INSERT INTO agents (group_id, agent_id, agent_key, importance_trigger_curr)
    SELECT 'bench', 'agent-' || n, gen_random_uuid(), 150 FROM generate_series(1, :count) AS n
""")
_HEARTBEATS = text("""
    INSERT INTO heartbeats (group_id, agent_id, agent_key, next_tick_at)
    SELECT group_id, agent_id, agent_key, :due FROM agents WHERE group_id = 'bench'
""")
_BARE = text(
    "UPDATE heartbeats SET owed_for = next_tick_at WHERE enabled AND next_tick_at <= now() + interval '1"
    " minute'"
)
_AGAIN = text("UPDATE heartbeats SET owed_for = NULL")
_OWED = text("SELECT count(*) FROM pending_work WHERE kind = 'heartbeat'")

if __name__ == "__main__":
    main()
