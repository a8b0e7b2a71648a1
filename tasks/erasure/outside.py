"""Steps of an erasure outside of its transactions: workers, Valkey, vacuum and backups forget; then the proof is made."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection
from datetime import UTC, datetime
from typing import Any, cast

from sqlalchemy import Connection, text

from engine.providers import embedders
from engine.retrieval.query import marked_sentences
from engine.text import keywords as lexical
from jiyi.polling import poll
from jiyi.protocol.base import JsonMapping
from jiyi.protocol.erasure import ErasureReport
from jiyi.text.words import normalise
from models.db import scope
from models.db.connection import session_engine, unit_of_work
from models.erasure import cache_invalidation, traces
from models.erasure import cache_invalidation as orders
from models.erasure.parts import parts
from models.erasure.progress import Progress, finish, note, note_report, noted_ids, save, started_at
from models.operations import backups
from models.queue import stream
from models.retrieval import index_cache

#: Seconds that the workers get to answer; and between two orders to those that have not.
ANSWER_SECONDS, ASK_AGAIN = 3.0, 5.0
#: Seconds before another attempt when something was found left; doubled each time, up to the last.
TRY_AGAIN, TRY_AGAIN_MAX = 5.0, 3_600.0
#: A claim holds so long while tables are vacuumed and looked through. Seconds.
LONG_STEP = 3_600.0
#: The core's tables that an erasure deletes from, or blanks rows of.
TOUCHED = (
    "memory_nodes",
    "node_access",
    "next_vectors",
    "events",
    "dead_letters",
    "pending_work",
    "kw_strength",
    "term_frequencies",
    "reflections",
    "audit_log",
    "job_ticks",
    "agents",
    "retrievals",
)
OWN_TABLES = ("erasures", "erasing_ids")


def _workers(progress: Progress) -> float | None:
    """Have every worker that holds indexes drop what it has of the agents touched, and all questions."""
    answered: dict[str, Any] = progress.place.setdefault("workers", {})
    agents = [*progress.agents, *progress.touched]
    order_id = orders.give(progress.group_id, agents)
    try:
        poll(lambda: orders.missing_workers({*answered, *orders.answers(order_id)}), lambda missing: not missing, ANSWER_SECONDS)
        answered.update(orders.answers(order_id))
    finally:
        orders.withdraw(order_id)
    missing = orders.missing_workers(answered)
    if missing:
        progress.place["waits_for"] = missing
        _save(progress)
        return ASK_AGAIN
    progress.place.pop("waits_for", None)
    _advance(progress)
    return None


def _valkey(progress: Progress) -> float | None:
    with unit_of_work() as connection:
        ids = noted_ids(connection, progress.erasure_id)
    agents = {*progress.agents, *progress.touched}
    progress.count("valkey", **cache_invalidation.clear(progress.group_id, ids, agents, progress.whom))
    progress.count("logs", lines=traces.blank_logs(progress.whom))
    _advance(progress)
    return None


def _vacuum(progress: Progress) -> float | None:
    vacuum((*TOUCHED, *(table for part in parts() for table in part.vacuumed)))
    _advance(progress)
    return None


def _backups(progress: Progress) -> float | None:
    if progress.asked is not None and progress.asked.delete_backups:
        before = traces.backups_before(datetime.now(UTC))
        backups.make(seconds=LONG_STEP)
        progress.count("backups", deleted=sum(map(backups.delete, before)))
    _advance(progress)
    return None


def _proof(progress: Progress) -> float | None:
    """Look for what is left; with nothing left the erasure is done."""
    proof = traces.Proof()
    whom = progress.whom
    with unit_of_work() as connection:
        connection.execute(_LONG_STATEMENT_TIMEOUT)
        ids = noted_ids(connection, progress.erasure_id)
        traces.look_through_tables(connection, proof, progress.group_id, whom, ids)
    traces.look_through_valkey(proof, progress.group_id, whom, ids)
    traces.look_through_logs(proof, whom)
    with unit_of_work() as connection:
        now = datetime.now(UTC)
        report = _report(connection, progress, proof, now)
        if not proof.left:
            note(progress, now)
            finish(connection, progress, report)
            return None
        tries: int = progress.place.get("tries", 0) + 1
        progress.place["tries"] = tries
        progress.restart()
        save(connection, progress)
        note_report(connection, progress, report)
    return min(TRY_AGAIN * 2.0 ** (tries - 1), TRY_AGAIN_MAX)


def _report(connection: Connection, progress: Progress, found: traces.Proof, now: datetime) -> ErasureReport:
    report: dict[str, Any] = {
        "erasure_id": str(progress.erasure_id),
        "group_id": progress.group_id,
        "kind": progress.kind,
        "names": progress.what.get("names", []),
        **progress.place.get("counts", {}),
        "agents": len(progress.agents),
        "workers": progress.place.get("workers", {}),
        **found.document,
        "backups_left": traces.backups_left(now),
        "seconds": round((now - started_at(connection, progress.erasure_id)).total_seconds(), 1),
        "at": now.isoformat(),
    }
    return cast("ErasureReport", {**report, "sha256": report_digest(report)})


def report_digest(report: JsonMapping) -> str:
    """Of a report without its ``sha256``: whether it is still what was written."""
    return hashlib.sha256(json.dumps(report, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def _tidy(progress: Progress) -> float | None:
    """The erasure's own row held the names until a moment ago."""
    vacuum(OWN_TABLES)
    stream.publish(progress.group_id, "erasure.done", erasure=str(progress.erasure_id))
    return None


def _advance(progress: Progress) -> None:
    progress.advance()
    _save(progress)


def _save(progress: Progress) -> None:
    with unit_of_work() as connection:
        save(connection, progress)


def vacuum(tables: Collection[str]) -> None:
    """Take deleted rows out of tables and their indexes: until then they are only not shown."""
    with session_engine().connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        with scope.as_owner(connection):
            connection.exec_driver_sql("SET statement_timeout = 0")
            connection.exec_driver_sql("SET lock_timeout = '5min'")
            for table in tables:
                connection.exec_driver_sql(f"VACUUM {table}")
        connection.detach()  # its settings are nobody else's


def forget(group_id: str, agents: list[str]) -> dict[str, int]:
    """Drop indexes of the agents, and what else this process remembers of texts; returns what it dropped."""
    dropped = index_cache.forget(group_id, set(agents))
    dropped["questions"] = _forget_texts()
    return dropped


def forget_everything() -> None:
    """Drop all indexes and texts: this worker was out of reach for so long that it may have missed an order."""
    index_cache.forget_all()
    _forget_texts()


def _forget_texts() -> int:
    """Drop what is remembered of texts, whosever they were; returns how many questions."""
    questions = embedders.forget_questions()
    normalise.cache_clear()
    marked_sentences.cache_clear()
    lexical.forget()
    for part in parts():
        part.forget()
    return questions


#: By name. Each gives seconds to wait, if it has to be called again.
OUTSIDE: dict[str, Callable[[Progress], float | None]] = {
    "workers": _workers,
    "valkey": _valkey,
    "vacuum": _vacuum,
    "backups": _backups,
    "proof": _proof,
    "tidy": _tidy,
}
_LONG_STATEMENT_TIMEOUT = text("SET LOCAL statement_timeout = '30min'")
