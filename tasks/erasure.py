"""Erasure as pending work, step by step, each bounded and noted before the next, until workers, Valkey and
backups have forgotten.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast
from uuid import UUID

from sqlalchemy import Connection, text

from engine.erasure import Names
from engine.providers import embedders
from jiyi.polling import poll
from jiyi.protocol.base import JsonMapping
from jiyi.protocol.erasure import Erasure, ErasurePreview, ErasureReport
from jiyi.text.remembering import forget_texts
from models.conversations import standing
from models.db import scope
from models.db.actions import Actor
from models.db.connection import session_engine, unit_of_work
from models.db.scope import whole_service
from models.erasure import actions, cache_invalidation, deletion, matching, refusal, traces
from models.erasure import cache_invalidation as orders
from models.erasure.parts import parts
from models.erasure.progress import (
    ERASE,
    ErasureProgress,
    begin,
    finish,
    forget_names,
    note,
    note_report,
    noted_ids,
    save,
    started_at,
)
from models.memory import nodes
from models.operations import backups
from models.queue import pending_work, stream
from models.retrieval import index_cache, records
from tasks.framework.rpc import implements
from tasks.framework.work import Batch, work_task

#: Seconds after which a run stops between two steps, to go on with the next message.
RUN_SECONDS = 45.0


@work_task(ERASE, batch=1, time_limit=110, alone=True)
def erase(batch: Batch) -> None:
    """Carry erasures on. Safe to repeat because every step is noted with what it did in one transaction."""
    for erasure_id in batch.subject_ids:
        with whole_service():
            pause = _run(batch, erasure_id)
            if pause is None:
                continue
            with unit_of_work() as connection:
                pending_work.postpone(
                    connection, ERASE, [erasure_id], pause, "waits for the workers, or tries again"
                )
        batch.subject_ids = []


def _run(batch: Batch, erasure_id: UUID) -> float | None:
    """Steps until it is done or time is up (None), or it has to wait (seconds)."""
    until = time.monotonic() + RUN_SECONDS
    while time.monotonic() < until:
        with unit_of_work() as connection:
            progress = begin(connection, erasure_id)
            step = None if progress is None else IN_DATABASE.get(progress.step)
            if progress is not None and step is not None:
                progress.state = "running"
                if step(connection, progress):
                    progress.advance()
                save(connection, progress)
        if progress is None:
            break
        if step is not None:
            continue
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


@implements(actions.preview)
def preview(actor: Actor, request: Erasure) -> ErasurePreview:
    """Safe to repeat because it only reads."""
    with unit_of_work() as connection:
        return matching.preview(connection, actor.group_id, request)


#: A step of one transaction; it gives whether it has ended.
Step = Callable[[Connection, ErasureProgress], bool]


def _wait(connection: Connection, progress: ErasureProgress) -> bool:
    """Everybody who stores knows of the erasure from now on."""
    refusal.wait_for_storing(connection)
    agents = matching.agents_of(connection, progress.group_id, progress.what, progress.request)
    progress.place["agents"] = sorted({*progress.agents, *agents})
    return True


def _note(connection: Connection, progress: ErasureProgress) -> bool:
    whose = (progress.erasure_id, progress.group_id)
    for agent_id in progress.agents:
        matching.note_agent(connection, *whose, agent_id)
    if progress.request is not None:
        matching.note_nodes(connection, *whose, progress.request.node_ids)
    return True


def _withhold(connection: Connection, progress: ErasureProgress) -> bool:
    """What turns say of memories that are named one by one goes with these; what else they say is recorded
    again.
    """
    if progress.request is not None and progress.request.node_ids:
        turns = standing.withhold(connection, progress.group_id, progress.request.node_ids)
        matching.note_nodes(connection, progress.erasure_id, progress.group_id, turns)
    return True


def _go_on(progress: ErasureProgress, name: str, last: Any) -> bool:
    """Note where a step goes on the next time; whether it has ended."""
    if last is not None:
        progress.place[name] = last
    return last is None


def _note_events(connection: Connection, progress: ErasureProgress) -> bool:
    if not progress.names:
        return True
    after = progress.place.pop("events_after", 0)
    whose = (progress.erasure_id, progress.group_id)
    last = matching.note_events(connection, *whose, Names(progress.names), after)
    return _go_on(progress, "events_after", last)


def _note_memories(connection: Connection, progress: ErasureProgress) -> bool:
    if not progress.names:
        return True
    whose, names = (progress.erasure_id, progress.group_id), Names(progress.names)
    agent_id, node_count = progress.place.pop("memories_after", ("", 0))
    if not agent_id:  # the first page; what other subjects have is less
        for part in parts():
            part.note_named(connection, *whose, names)
    after = matching.note_named(connection, *whose, names, (agent_id, node_count))
    return _go_on(progress, "memories_after", after and list(after))


def _note_resting(connection: Connection, progress: ErasureProgress) -> bool:
    return not matching.note_resting(connection, progress.erasure_id, progress.group_id)


def _delete(connection: Connection, progress: ErasureProgress) -> bool:
    after = UUID(progress.place.pop("deleted_upto", str(UUID(int=0))))
    last, gone, agents = deletion.delete_noted(connection, progress.erasure_id, progress.group_id, after)
    progress.count("scrubbed", reflections=gone.pop("focal_points", 0))
    progress.count("erased", **gone)
    progress.place["touched"] = sorted({*progress.touched, *agents})
    return _go_on(progress, "deleted_upto", last and str(last))


def _repetitions(connection: Connection, progress: ErasureProgress) -> bool:
    after = progress.place.pop("repetitions_after", 0)
    last, count = deletion.erase_repetitions(connection, progress.erasure_id, progress.group_id, after)
    progress.count("erased", events=count)
    return _go_on(progress, "repetitions_after", last)


def _agents(connection: Connection, progress: ErasureProgress) -> bool:
    for agent_id in progress.agents:
        progress.count("erased", **deletion.delete_agent(connection, (progress.group_id, agent_id)))
    if progress.agents:
        for part in parts():
            progress.count("erased", **part.delete_of_agents(connection, progress.group_id, progress.agents))
    return True


def _texts(connection: Connection, progress: ErasureProgress) -> bool:
    records.flush()  # earlier retrievals are scrubbed, too
    ids = noted_ids(connection, progress.erasure_id)
    progress.count("scrubbed", **deletion.scrub(connection, progress.group_id, progress.whom, ids))
    connection.execute(_LONG_STATEMENT_TIMEOUT)
    progress.count("scrubbed", **traces.blank(connection, progress.group_id, ids, traces.NOT_MEMORIES))
    return True


def _counts(connection: Connection, progress: ErasureProgress) -> bool:
    """What is counted of the memories of one more agent that lost some."""
    agent_ids: list[str] = progress.place.setdefault("to_count", list(progress.touched))
    if not agent_ids:
        del progress.place["to_count"]
        return True
    agent_id = agent_ids.pop()
    if agent_id not in progress.agents:
        connection.execute(_LONG_STATEMENT_TIMEOUT)
        drift = nodes.repair(connection, progress.group_id, agent_id)
        deletion.recount(connection, progress.group_id, agent_id)
        progress.count("corrected", agents=1, keywords=drift.keywords)
    return False


#: By name. Each is one transaction, again and again until it has ended.
IN_DATABASE: dict[str, Step] = {
    "wait": _wait,
    "note": _note,
    "withhold": _withhold,
    "note events": _note_events,
    "note memories": _note_memories,
    "note what rests on them": _note_resting,
    "delete": _delete,
    "repetitions": _repetitions,
    "agents": _agents,
    "texts": _texts,
    "counts": _counts,
}

_LONG_STATEMENT_TIMEOUT = text("SET LOCAL statement_timeout = '30min'")


#: Seconds that the workers get to answer; and between two orders to those that have not.
ANSWER_SECONDS, ASK_AGAIN = 3.0, 5.0
#: Seconds before another attempt when something was found left; doubled each time, up to the last.
TRY_AGAIN, TRY_AGAIN_MAX = 5.0, 3_600.0
#: A claim holds so long while tables are vacuumed and scanned. Seconds.
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


def _workers(progress: ErasureProgress) -> float | None:
    """Have every worker that holds indexes drop what it has of the agents touched, and all questions."""
    answered: dict[str, Any] = progress.place.setdefault("workers", {})
    agents = [*progress.agents, *progress.touched]
    order_id = orders.give(progress.group_id, agents)
    try:
        poll(
            lambda: orders.missing_workers({*answered, *orders.answers(order_id)}),
            lambda missing: not missing,
            ANSWER_SECONDS,
        )
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


def _valkey(progress: ErasureProgress) -> float | None:
    with unit_of_work() as connection:
        ids = noted_ids(connection, progress.erasure_id)
    agents = {*progress.agents, *progress.touched}
    progress.count("valkey", **cache_invalidation.clear(progress.group_id, ids, agents, progress.whom))
    progress.count("logs", lines=traces.blank_logs(progress.whom))
    _advance(progress)
    return None


def _vacuum(progress: ErasureProgress) -> float | None:
    vacuum((*TOUCHED, *(table for part in parts() for table in part.vacuumed)))
    _advance(progress)
    return None


def _proof(progress: ErasureProgress) -> float | None:
    """Look for what is left; with nothing left the names go, too."""
    proof = traces.Proof()
    whom = progress.whom
    with unit_of_work() as connection:
        connection.execute(_LONG_STATEMENT_TIMEOUT)
        ids = noted_ids(connection, progress.erasure_id)
        traces.search_tables(connection, proof, progress.group_id, whom, ids)
    traces.search_valkey(proof, progress.group_id, whom, ids)
    traces.search_logs(proof, whom)
    with unit_of_work() as connection:
        report = _report(progress, proof)
        if not proof.remaining:
            forget_names(connection, progress, report)
            return None
        tries: int = progress.place.get("tries", 0) + 1
        progress.place["tries"] = tries
        progress.restart()
        save(connection, progress)
        before = traces.backups_before(datetime.now(UTC))
        note_report(connection, progress, _completed(connection, progress, report, before))
    return min(TRY_AGAIN * 2.0 ** (tries - 1), TRY_AGAIN_MAX)


def _append_only_files(progress: ErasureProgress) -> float | None:
    rewritten = cache_invalidation.rewrite(progress.place.setdefault("rewriting", []), ANSWER_SECONDS)
    if rewritten is None:
        _save(progress)
        return ASK_AGAIN
    progress.place["report"]["append_only_files"] = rewritten
    _advance(progress)
    return None


def _finish(progress: ErasureProgress) -> float | None:
    """The erasure is done; a backup in place of those of before knows no names any more."""
    report: ErasureReport = progress.place["report"]
    # The new backup has this row as well: restored, it takes no others along.
    if "before" not in progress.place:
        progress.place["before"] = [path.name for path in traces.backups_before(datetime.now(UTC))]
        _save(progress)
    before = [backups.folder() / name for name in progress.place["before"]]
    if progress.place["delete_backups"]:
        backups.make(seconds=LONG_STEP)
        report["backups"] = {"deleted": sum(map(backups.delete, before))}
    with unit_of_work() as connection:
        report = _completed(connection, progress, report, before)
        note(progress, datetime.fromisoformat(report["at"]))
        finish(connection, progress, report)
    return None


def _report(progress: ErasureProgress, proof: traces.Proof) -> ErasureReport:
    report: dict[str, Any] = {
        "erasure_id": str(progress.erasure_id),
        "group_id": progress.group_id,
        "kind": progress.kind,
        "names": progress.what.get("names", []),
        **progress.place.get("counts", {}),
        "agents": len(progress.agents),
        "workers": progress.place.get("workers", {}),
        **proof.document,
    }
    return cast("ErasureReport", report)


def _completed(
    connection: Connection, progress: ErasureProgress, report: ErasureReport, before: Sequence[Path]
) -> ErasureReport:
    now = datetime.now(UTC)
    complete: dict[str, Any] = {
        **report,
        "backups_left": traces.backups_left(before),
        "seconds": round((now - started_at(connection, progress.erasure_id)).total_seconds(), 1),
        "at": now.isoformat(),
    }
    return cast("ErasureReport", {**complete, "sha256": report_digest(complete)})


def report_digest(report: JsonMapping) -> str:
    """Of a report without its ``sha256``: whether it is still what was written."""
    return hashlib.sha256(json.dumps(report, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def _tidy(progress: ErasureProgress) -> float | None:
    """The erasure's own row held the names until the proof."""
    vacuum(OWN_TABLES)
    stream.publish(progress.group_id, "erasure.done", erasure=str(progress.erasure_id))
    return None


def _advance(progress: ErasureProgress) -> None:
    progress.advance()
    _save(progress)


def _save(progress: ErasureProgress) -> None:
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
    """Drop all indexes and texts: this worker may have missed an order."""
    index_cache.forget_all()
    _forget_texts()


def _forget_texts() -> int:
    """Drop what is remembered of texts, whosever they were; returns how many questions."""
    questions = embedders.forget_questions()
    forget_texts()
    for part in parts():
        part.forget()
    return questions


#: By name. Each gives seconds to wait, if it has to be called again.
OUTSIDE: dict[str, Callable[[ErasureProgress], float | None]] = {
    "workers": _workers,
    "valkey": _valkey,
    "vacuum": _vacuum,
    "proof": _proof,
    "append-only files": _append_only_files,
    "finish": _finish,
    "tidy": _tidy,
}
