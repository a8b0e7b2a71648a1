"""Erasure as pending work: step by step, each bounded, each noted before the next, until nothing is left."""

from __future__ import annotations

import time
from collections.abc import Callable
from uuid import UUID

from sqlalchemy import Connection, text

from engine.erasure import Names
from jiyi.protocol.erasure import Erasure, ErasurePreview
from models.db.actions import Actor
from models.db.connection import unit_of_work
from models.db.scope import whole_service
from models.erasure import actions, deletion, matching, refusal, traces
from models.erasure.parts import parts
from models.erasure.progress import ERASE, Progress, begin, noted_ids, save
from models.memory import nodes
from models.queue import pending_work
from models.retrieval import records
from tasks.erasure.outside import LONG_STEP, OUTSIDE
from tasks.framework.rpc import implements
from tasks.framework.work import Batch, work_task

#: Seconds after which a run stops between two steps, to go on with the next message.
RUN_SECONDS = 45.0


@work_task(ERASE, batch=1, time_limit=110, alone=True)
def erase(batch: Batch) -> None:
    """Carry erasures on.

    Safe to repeat because every step looks for what is there, and is noted with what it did in one transaction.
    """
    for erasure_id in batch.subject_ids:
        with whole_service():
            pause = _run(batch, erasure_id)
            if pause is None:
                continue
            with unit_of_work() as connection:
                pending_work.postpone(connection, ERASE, [erasure_id], pause, "waits for the workers, or tries again")
        batch.subject_ids = []


def _run(batch: Batch, erasure_id: UUID) -> float | None:
    """Steps until it is done or time is up (None), or it has to wait (seconds)."""
    until = time.monotonic() + RUN_SECONDS
    while time.monotonic() < until:
        with unit_of_work() as connection:
            progress = begin(connection, erasure_id)
            if progress is not None and progress.step in IN_DATABASE:
                progress.state = "running"
                if IN_DATABASE[progress.step](connection, progress):
                    progress.advance()
                save(connection, progress)
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


@implements(actions.preview)
def preview(actor: Actor, request: Erasure) -> ErasurePreview:
    """Safe to repeat because it only reads."""
    with unit_of_work() as connection:
        return matching.preview(connection, actor.group_id, request)


#: A step of one transaction; it gives whether it has ended.
Step = Callable[[Connection, Progress], bool]


def _wait(connection: Connection, progress: Progress) -> bool:
    """Everybody who stores knows of the erasure from now on."""
    refusal.wait_for_storing(connection)
    agents = matching.agents_of(connection, progress.group_id, progress.what, progress.asked)
    progress.place["agents"] = sorted({*progress.agents, *agents})
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
    if not agent_id:  # the first page; what other subjects have is less
        for part in parts():
            part.note_named(connection, progress.erasure_id, progress.group_id, Names(progress.names))
    after = matching.note_named(connection, progress.erasure_id, progress.group_id, Names(progress.names), (agent_id, node_count))
    if after is not None:
        progress.place["memories_after"] = list(after)
    return after is None


def _note_resting(connection: Connection, progress: Progress) -> bool:
    return not matching.note_resting(connection, progress.erasure_id, progress.group_id)


def _delete(connection: Connection, progress: Progress) -> bool:
    after = UUID(progress.place.pop("deleted_upto", str(UUID(int=0))))
    last, gone, agents = deletion.delete_noted(connection, progress.erasure_id, progress.group_id, after)
    progress.count("erased", **gone)
    progress.place["touched"] = sorted({*progress.touched, *agents})
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
    if progress.agents:
        for part in parts():
            progress.count("erased", **part.delete_of_agents(connection, progress.group_id, progress.agents))
    return True


def _texts(connection: Connection, progress: Progress) -> bool:
    records.flush()  # what was asked before is looked through, too
    ids = noted_ids(connection, progress.erasure_id)
    progress.count("scrubbed", **deletion.scrub(connection, progress.group_id, progress.whom, ids))
    connection.execute(_LONG_STATEMENT_TIMEOUT)
    progress.count("scrubbed", **traces.blank(connection, progress.group_id, ids, traces.NOT_MEMORIES))
    return True


def _counts(connection: Connection, progress: Progress) -> bool:
    """What is counted of the memories of one more agent that lost some."""
    left: list[str] = progress.place.setdefault("to_count", list(progress.touched))
    if not left:
        del progress.place["to_count"]
        return True
    agent_id = left.pop()
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
