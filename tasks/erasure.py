"""Erasure as work owed: step by step, each bounded, each noted before the next, until nothing is left."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Collection
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from celery import current_app
from celery.worker.control import control_command
from sqlalchemy import Connection, text

from jiyi.erasure import names as ask
from jiyi.erasure.names import Names, Whom
from jiyi.errors import NotFound
from jiyi.providers.embedders import cache
from jiyi.providers.websearch.choice import searcher
from jiyi.text import tokens as lexical
from jiyi.text.words import normalise
from models.accounts import audit
from models.db import roles
from models.db.connection import engine, unit_of_work
from models.db.scope import whole_service
from models.erasure import caches, deletion, ledger, matching, proof, refusal, tiers
from models.erasure import erasures as erasing
from models.erasure.erasures import ERASE, Progress
from models.memory import strength_check
from models.operations import backups
from models.queue import pending_work, stream
from models.queue.wakeups import wake
from models.retrieval import index_cache
from tasks.framework.inspection import inspects
from tasks.framework.work import Batch, work_task

#: Seconds after which a run stops between two steps, to go on with the next message.
RUN_SECONDS = 45.0
#: Seconds that the workers get to answer; and between two orders to those that have not.
ANSWER_SECONDS, ASK_AGAIN = 2.0, 5.0
#: Seconds before another attempt when something was found left; doubled each time, up to the last.
TRY_AGAIN, TRY_AGAIN_MAX = 5.0, 3_600.0
#: A claim holds so long while tables are vacuumed and looked through. Seconds.
LONG_STEP = 3_600.0
#: Tables that an erasure deletes from, or blanks rows of.
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
    "quarantine_logs",
    "knowledge",
    "knowledge_history",
    "digest_items",
)
OWN_TABLES = ("erasures", "erasing_ids")

#: A step of one transaction; it gives whether it has ended.
Step = Callable[[Connection, Progress], bool]


@work_task(ERASE, queue="upkeep", batch=1, time_limit=110, alone=True)
def erase(batch: Batch) -> None:
    """Carry erasures on.

    Safe to repeat because every step looks for what is there, and is noted with what it did in one transaction.
    """
    for erasure_id in batch.subject_ids:
        with whole_service():
            pause = _carry_on(batch, erasure_id)
            if pause is None:
                continue
            with unit_of_work() as connection:
                pending_work.postpone(connection, ERASE, [erasure_id], pause, "waits for the workers, or tries again")
        batch.subject_ids = []


def _carry_on(batch: Batch, erasure_id: UUID) -> float | None:
    """Until it is done or time is up (None), or it has to wait (seconds)."""
    until = time.monotonic() + RUN_SECONDS
    while time.monotonic() < until:
        with unit_of_work() as connection:
            progress = erasing.begin(connection, erasure_id)
            if progress is not None:
                progress.step = progress.step or next(iter(IN_DATABASE))
            if progress is not None and progress.step in IN_DATABASE:
                progress.state = "running"
                if IN_DATABASE[progress.step](connection, progress):
                    progress.step = _after(progress.step)
                erasing.save(connection, progress)
                continue
        if progress is None:
            break
        batch.extend(LONG_STEP)
        pause = OUTSIDE[progress.step](progress)
        if pause is not None:
            return pause
        if progress.step == "tidy":
            break
    else:
        batch.again.append(erasure_id)
    with batch.finish():
        pass
    return None


def _after(step: str) -> str:
    steps = [*IN_DATABASE, *OUTSIDE]
    return steps[steps.index(step) + 1]


def _whom(progress: Progress) -> Whom:
    return Whom(progress.names, progress.agents)


# Found


def _wait(connection: Connection, progress: Progress) -> bool:
    """Everybody who stores knows of the erasure from now on."""
    refusal.wait_for_storing(connection)
    found = matching.agents_of(connection, progress.group_id, progress.what, progress.asked)
    progress.place["agents"] = sorted({*progress.agents, *found})
    return True


def _note(connection: Connection, progress: Progress) -> bool:
    whose = (progress.erasure_id, progress.group_id)
    for agent_id in progress.agents:
        matching.note_agent(connection, *whose, agent_id)
    if progress.asked is not None:
        matching.note_nodes(connection, *whose, progress.asked.node_ids)
    return True


def _note_events(connection: Connection, progress: Progress) -> bool:
    if not progress.names:
        return True
    after = progress.place.pop("events_after", 0)
    last = matching.note_events(connection, progress.erasure_id, progress.group_id, Names(progress.names), after)
    if last is not None:
        progress.place["events_after"] = last
    return last is None


def _note_memories(connection: Connection, progress: Progress) -> bool:
    if not progress.names:
        return True
    agent_id, node_count = progress.place.pop("memories_after", ("", 0))
    if not agent_id:  # the first page; the tiers are smaller
        tiers.note_named(connection, progress.erasure_id, progress.group_id, Names(progress.names))
    after = matching.note_named(connection, progress.erasure_id, progress.group_id, Names(progress.names), (agent_id, node_count))
    if after is not None:
        progress.place["memories_after"] = list(after)
    return after is None


def _note_resting(connection: Connection, progress: Progress) -> bool:
    return not matching.note_resting(connection, progress.erasure_id, progress.group_id)


# Deleted


def _delete(connection: Connection, progress: Progress) -> bool:
    after = UUID(progress.place.pop("deleted_upto", str(UUID(int=0))))
    last, gone, agents = deletion.delete_noted(connection, progress.erasure_id, progress.group_id, after)
    progress.count("erased", **gone)
    progress.place["touched"] = sorted({*progress.place.get("touched", []), *agents})
    if last is not None:
        progress.place["deleted_upto"] = str(last)
    return last is None


def _repetitions(connection: Connection, progress: Progress) -> bool:
    after = progress.place.pop("repetitions_after", 0)
    last, count = deletion.erase_repetitions(connection, progress.erasure_id, progress.group_id, after)
    progress.count("erased", events=count)
    if last is not None:
        progress.place["repetitions_after"] = last
    return last is None


def _agents(connection: Connection, progress: Progress) -> bool:
    for agent_id in progress.agents:
        progress.count("erased", **deletion.delete_agent(connection, (progress.group_id, agent_id)))
    return True


def _texts(connection: Connection, progress: Progress) -> bool:
    ids = _ids(connection, progress)
    progress.count("scrubbed", **deletion.scrub(connection, progress.group_id, _whom(progress), ids))
    return True


def _counts(connection: Connection, progress: Progress) -> bool:
    """What is counted of the memories of one more agent that lost some."""
    left: list[str] = progress.place.setdefault("to_count", list(progress.place.get("touched", [])))
    if not left:
        del progress.place["to_count"]
        return True
    agent_id = left.pop()
    if agent_id not in progress.agents:
        connection.execute(_LONG_STATEMENT_TIMEOUT)
        drift = strength_check.repair(connection, progress.group_id, agent_id)
        deletion.recount(connection, progress.group_id, agent_id)
        progress.count("corrected", agents=1, keywords=drift.keywords)
    return False


def _ids(connection: Connection, progress: Progress) -> set[str]:
    rows = connection.execute(_IDS, {"id": progress.erasure_id})
    return {str(subject_id) for subject_id in rows.scalars()}


#: In their order. Each is one transaction, again and again until it has ended.
IN_DATABASE: dict[str, Step] = {
    "wait": _wait,
    "note": _note,
    "note events": _note_events,
    "note memories": _note_memories,
    "note what rests on them": _note_resting,
    "delete": _delete,
    "repetitions": _repetitions,
    "agents": _agents,
    "texts": _texts,
    "counts": _counts,
}


# Forgotten, and proved


def _workers(progress: Progress) -> float | None:
    """Have every worker that holds indexes drop what it has of the agents touched, and all questions."""
    answered: dict[str, Any] = progress.place.setdefault("workers", {})
    agents = [*progress.agents, *progress.place.get("touched", [])]
    arguments = {"group_id": progress.group_id, "agents": agents}
    replies = current_app.control.broadcast("jiyi_forget", arguments=arguments, reply=True, timeout=ANSWER_SECONDS)
    answered.update(caches.answers_of(replies))
    missing = caches.missing_workers(answered)
    if missing:
        progress.place["waits_for"] = missing
        _save(progress)
        return ASK_AGAIN
    progress.place.pop("waits_for", None)
    _go_on(progress)
    return None


def _valkey(progress: Progress) -> float | None:
    with unit_of_work() as connection:
        ids = _ids(connection, progress)
    agents = {*progress.agents, *progress.place.get("touched", [])}
    progress.count("valkey", **caches.clear(progress.group_id, ids, agents, _whom(progress)))
    progress.count("logs", lines=proof.blank_logs(_whom(progress)))
    _go_on(progress)
    return None


def _vacuum(progress: Progress) -> float | None:
    vacuum(TOUCHED)
    _go_on(progress)
    return None


def _backups(progress: Progress) -> float | None:
    if progress.asked is not None and progress.asked.delete_backups:
        before = proof.backups_before(datetime.now(UTC))
        backups.make(seconds=LONG_STEP)
        progress.count("backups", deleted=sum(map(backups.delete, before)))
    _go_on(progress)
    return None


def _proof(progress: Progress) -> float | None:
    """Look for what is left; with nothing left the erasure is done."""
    found = proof.Proof()
    whom = _whom(progress)
    with unit_of_work() as connection:
        connection.execute(_LONG_STATEMENT_TIMEOUT)
        ids = _ids(connection, progress)
        proof.look_through_tables(connection, found, progress.group_id, whom, ids)
    proof.look_through_valkey(found, progress.group_id, whom, ids)
    proof.look_through_logs(found, whom)
    with unit_of_work() as connection:
        now = datetime.now(UTC)
        report = _report(connection, progress, found, now)
        if not found.left:
            ledger.note(progress, now)
            erasing.finish(connection, progress, report)
            return None
        tries = int(progress.place.get("tries", 0)) + 1
        progress.place["tries"] = tries
        progress.state, progress.step = "incomplete", next(iter(IN_DATABASE))
        erasing.save(connection, progress)
        erasing.note_report(connection, progress, report)
    return min(TRY_AGAIN * 2.0 ** (tries - 1), TRY_AGAIN_MAX)


def _report(connection: Connection, progress: Progress, found: proof.Proof, now: datetime) -> dict[str, Any]:
    started = connection.execute(_STARTED, {"id": progress.erasure_id}).scalar_one()
    report = {
        "erasure_id": str(progress.erasure_id),
        "group_id": progress.group_id,
        "kind": progress.kind,
        "names": progress.what.get("names", []),
        **progress.place.get("counts", {}),
        "agents": len(progress.agents),
        "workers": progress.place.get("workers", {}),
        **found.document,
        "backups_left": proof.backups_left(now),
        "seconds": round((now - started).total_seconds(), 1),
        "at": now.isoformat(),
    }
    return {**report, "sha256": digest(report)}


def digest(report: dict[str, Any]) -> str:
    """Of a report without its ``sha256``: whether it is still what was written."""
    return hashlib.sha256(json.dumps(report, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def _tidy(progress: Progress) -> float | None:
    """The erasure's own row held the names until a moment ago."""
    vacuum(OWN_TABLES)
    stream.publish(progress.group_id, "erasure.done", erasure=str(progress.erasure_id))
    return None


#: After those in the database, and in their order. Each gives seconds to wait, if it has to be called again.
OUTSIDE: dict[str, Callable[[Progress], float | None]] = {
    "workers": _workers,
    "valkey": _valkey,
    "vacuum": _vacuum,
    "backups": _backups,
    "proof": _proof,
    "tidy": _tidy,
}


def _go_on(progress: Progress) -> None:
    progress.step = _after(progress.step)
    _save(progress)


def _save(progress: Progress) -> None:
    with unit_of_work() as connection:
        erasing.save(connection, progress)


def vacuum(tables: Collection[str]) -> None:
    """Take deleted rows out of tables and their indexes: until then they are only not shown."""
    with engine().connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        with roles.as_owner(connection):
            connection.exec_driver_sql("SET statement_timeout = 0")
            connection.exec_driver_sql("SET lock_timeout = '5min'")
            for table in tables:
                connection.exec_driver_sql(f"VACUUM {table}")
        connection.detach()  # its settings are nobody else's


_LONG_STATEMENT_TIMEOUT = text("SET LOCAL statement_timeout = '30min'")
_IDS = text("SELECT subject_id FROM erasing_ids WHERE erasure_id = :id")
_STARTED = text("SELECT created_at FROM erasures WHERE erasure_id = :id")


# In every worker


@control_command(args=[("group_id", str), ("agents", list)])  # Celery has no types
def jiyi_forget(_state: Any, group_id: str, agents: list[str]) -> dict[str, Any]:
    """Drop indexes of the agents, and what else this process remembers of texts; says what it dropped, and who it is."""
    dropped = index_cache.forget(group_id, set(agents))
    dropped["questions"] = cache.forget()
    normalise.cache_clear()
    lexical.forget()
    searcher.cache_clear()  # what was searched for on the web
    return {"worker": caches.worker_id(), "dropped": dropped}


# Asked for


@inspects("erase", ask.EraseQuery)
def ask_for(query: ask.EraseQuery) -> dict[str, Any]:
    """Safe to repeat because a second erasure of the same finds nothing."""
    with unit_of_work() as connection:
        if query.dry_run:
            return erasing.dry_run(connection, query.group_id, query.what)
        erasure_id = erasing.request(connection, query.group_id, query.what, audit.OPERATOR)
    wake(ERASE)
    return {"erasure_id": erasure_id}


@inspects("erasure", ask.ErasureQuery)
def erasure(query: ask.ErasureQuery) -> dict[str, Any]:
    """Safe to repeat because it only reads."""
    with unit_of_work() as connection:
        found = erasing.state(connection, query.group_id, query.erasure_id)
    if found is None:
        raise NotFound(f"erasure_id: no erasure {query.erasure_id} in the group {query.group_id!r}")
    return found


@inspects("erasures", ask.ErasuresQuery)
def erasures(query: ask.ErasuresQuery) -> dict[str, Any]:
    """Safe to repeat because it only reads."""
    with unit_of_work() as connection:
        rows = erasing.listed(connection, query.group_id, query.before, query.limit)
    return {"rows": rows, "next": rows[-1]["erasure_id"] if len(rows) == query.limit else None}
