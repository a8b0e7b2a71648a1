"""The processes of a deployment; ``python -m workers.procfile NAME`` becomes one of them."""

from __future__ import annotations

import os
import sys

import psycopg
from sqlalchemy.exc import SQLAlchemyError

from engine import subjects
from engine.providers.embedder_specs import embedding_threads
from jiyi.protocol.limits import CALLS_IN_HAND, RETRIEVAL_THREADS
from jiyi.protocol.wire.calls import retrieval_queues
from jiyi.settings import get_settings
from models.db.connection import check_sessions, engine
from workers import errors_in_one_line, migrate
from workers.alive import INTAKE, WEB

#: Tasks that one worker of upkeep, reflection or a subject's own queue runs at a time.
THREADS = 2

CELERY = [sys.executable, "-m", "celery", "--app=workers.app"]
#: Chatter between workers that nobody listens to, and a look at every other worker at start.
QUIET = ["--loglevel=INFO", "--without-gossip", "--without-mingle", "--without-heartbeat"]
RETRIEVING = RETRIEVAL_THREADS + CALLS_IN_HAND


def commands() -> dict[str, list[str]]:
    """Name → command, to be run in the checkout."""
    settings = get_settings()
    first, *more = retrieval_queues(settings.retrieval_shards)
    return {
        "intake": [sys.executable, "-m", INTAKE],
        # A thread for each call that it has in hand; how many compute at a time is decided by group
        # (``tasks.framework.answering``).
        "retrieval": _worker("retrieval", RETRIEVING, f"{first},inspection,actions"),
        **{queue.replace(".", "-"): _worker(queue, RETRIEVING) for queue in more},
        "embedding": _worker("embedding", embedding_threads(settings)),
        "upkeep": _worker("upkeep", THREADS),
        # Apart from upkeep, whose threads must not all wait for an LLM; as many as may ask it at a time.
        "reflection": _worker("reflection", max(THREADS, settings.llm_questions if settings.has_llm else 0)),
        # Apart from both: appointments are kept on time, whatever upkeep and reflection are at.
        **{queue: _worker(queue, THREADS) for queue in subjects.queues()},
        "beat": [*CELERY, "beat", "--loglevel=INFO"],
        "web": [sys.executable, "-m", WEB],
    }


def _worker(name: str, threads: int, queues: str = "") -> list[str]:
    """``queues``: the one of its name unless given."""
    options = [f"--hostname={name}@%h", f"--queues={queues or name}"]
    return [*CELERY, "worker", *options, "--pool=threads", f"--concurrency={threads}", *QUIET]


def fits_the_database() -> None:
    """Raise WrongRevision or SettingsError if code, database or PgBouncer do not fit; not if it is away."""
    try:
        check_sessions()
        migrate.check()
    except (SQLAlchemyError, psycopg.Error) as error:
        sys.stderr.write(f"the database's revision is not known yet: {type(error).__name__}\n")
    for connections in engine.made():
        connections.dispose()


def main() -> None:
    name = sys.argv[1] if len(sys.argv) == 2 else ""
    with errors_in_one_line(name):
        available = commands()
        if name not in available:
            sys.exit(f"usage: python -m workers.procfile {'|'.join(available)}")
        fits_the_database()
    os.execv(available[name][0], available[name])  # noqa: S606 – the process becomes the other one


if __name__ == "__main__":
    main()
