"""Transactions that need the same rows: one order of locks, and another try for the one that was ended."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from datetime import UTC, datetime
from typing import Any
from unittest.mock import Mock

import psycopg
import pytest
from pydantic import BaseModel
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from jiyi.protocol.events import made
from models.db import errors
from models.db.actions import Action, Actor, Context
from models.db.connection import unit_of_work
from models.db.scope import for_groups
from models.growth import self_review
from models.memory import agents, ingest
from models.memory.work import EMBED
from models.queue import pending_work
from models.reflection import reflections
from models.reflection.reflections import REFLECT, REFLECT_CONVERSATION
from tasks import reflection as reflecting
from tasks.framework import work
from tasks.memory import embed
from tests.integration.memory.test_inbox import observed, rows, save
from tests.integration.threads import Threads
from tests.integration.waiting import until

pytestmark = pytest.mark.usefixtures("database", "nothing_owed")

#: Seconds that a busy machine may take to get a thread as far as its lock.
PATIENCE = 60.0


class Nothing(BaseModel):
    """A request."""


def ended(group: str, session: str) -> Any:
    return made("session.ended", (group, "klaus"), datetime.now(UTC), {}, session_id=session)


def until_it_waits_for_a_lock(future: Future[object]) -> None:
    """For a row that the caller's transaction has."""
    until(lambda: future.done() or rows("SELECT FROM pg_locks WHERE NOT granted"))


def owe_a_reflection(name: tuple[str, str], trigger: Any) -> None:
    with unit_of_work() as connection:
        reflections.ask(connection, *name, trigger)
        key = agents.key_of(connection, *name)
        assert key is not None
        pending_work.enqueue(connection, REFLECT, [(key, name[0])])


def asked_for(group: str) -> tuple[str, str]:
    """An agent with something to think about, whose reflection is owed."""
    name = (group, "klaus")
    save(*(observed(group, f"Klaus sells bread on day {day}", poignancy=6) for day in range(6)))
    with unit_of_work() as connection:
        self_review.ensure_schedule(connection, name)
    owe_a_reflection(name, "hours")
    return name


@pytest.mark.parametrize("other", ["conversations", "hours"])
def test_a_reflection_that_ends_while_a_conversation_of_its_agent_does_or_the_scan_finds_its_hours_over(
    group: str, other: Any
) -> None:
    """Whoever stores the end has the agent and wants its reflection; the other must not reverse it."""
    name = asked_for(group)
    with Threads(1) as pool, unit_of_work() as connection:
        if other == "conversations":
            agents.lock_agents(connection, [name])
        else:
            scanned = text("SELECT FROM self_reflections WHERE group_id = :g FOR UPDATE")
            connection.execute(scanned, {"g": group})
        reflected = pool.submit(work.run_due, work.KINDS[REFLECT], reflecting.reflect)
        until_it_waits_for_a_lock(reflected)
        reflections.ask(connection, *name, other)  # no deadlock: nobody waits for us
        connection.commit()
        assert reflected.result(PATIENCE) == 1
    states = {row["state"] for row in rows("SELECT state FROM reflections WHERE group_id = :g", g=group)}
    assert states & {"done", "nothing"}


def test_many_sessions_of_one_agent_end_at_once_beside_its_reflections(group, monkeypatch):
    """Over the intake's own code, without another try: no transaction is ended in favour of another."""
    monkeypatch.setattr(errors, "TRIES", 1)
    name = asked_for(group)

    def end(number: int) -> BaseException | None:
        part = ingest.EventBatch([ended(group, f"s{number}")])
        ingest.Ingestor(redelivers=False).ingest([part])
        return part.error

    def reflect_again() -> None:
        owe_a_reflection(name, "request")
        work.run_due(work.KINDS[REFLECT], reflecting.reflect)
        work.run_due(work.KINDS[REFLECT_CONVERSATION], reflecting.reflect_on_conversation)

    with for_groups(group), Threads(8) as pool:
        ends = [pool.submit(end, number) for number in range(80)]
        again = [pool.submit(reflect_again) for _ in range(10)]
        assert {one.result(PATIENCE * 2) for one in (*ends, *again)} == {None}
    failed = "SELECT last_error FROM pending_work WHERE group_id = :g AND last_error IS NOT NULL"
    assert rows(failed, g=group) == []


def test_two_that_owe_the_same_subjects_in_opposite_order_do_not_meet(group: str) -> None:
    subjects = sorted((observed(group).event_id, group) for _ in range(2))
    both = threading.Barrier(2)

    def owe(order: list[object]) -> None:
        both.wait(PATIENCE)
        with unit_of_work() as connection:
            pending_work.enqueue(connection, EMBED, order)  # type: ignore[arg-type]

    with Threads(2) as pool:
        for one in [pool.submit(owe, list(subjects)), pool.submit(owe, list(reversed(subjects)))]:
            one.result(PATIENCE)
    assert len(rows("SELECT FROM pending_work WHERE group_id = :g", g=group)) == 2


def conflict() -> DBAPIError:
    return DBAPIError("UPDATE …", {}, psycopg.errors.DeadlockDetected("deadlock detected"))


def test_an_action_that_met_another_is_done_once(group: str) -> None:
    calls: list[int] = []
    after: list[int] = []

    def change(context: Context, _request: Nothing) -> int:
        calls.append(1)
        context.audit("something")
        context.after_commit(lambda: after.append(1))
        if len(calls) < errors.TRIES:
            raise conflict()
        return len(calls)

    action: Action[Nothing, int] = Action(
        name="test.change",
        request=Nothing,
        result=int,
        scope="admin",
        function=change,
        doc="A test's.",
        queue="upkeep",
    )
    assert action.perform(Actor(group, "test"), Nothing()) == errors.TRIES
    assert after == [1]
    assert len(rows("SELECT FROM audit_log WHERE group_id = :g", g=group)) == 1


def test_what_is_no_conflict_is_not_tried_again_and_what_is_not_for_ever() -> None:
    for error, tries in (
        (psycopg.errors.UniqueViolation("twice"), 1),
        (psycopg.errors.DeadlockDetected("deadlock"), errors.TRIES),
    ):
        broken = Mock(side_effect=DBAPIError("SELECT …", {}, error))
        with pytest.raises(DBAPIError):
            errors.tried_again(broken)
        assert broken.call_count == tries


def test_work_that_met_another_transaction_costs_no_attempt(group: str) -> None:
    event = observed(group)
    save(event)
    assert embed is not None  # its kind is known
    work.run_due(work.KINDS[EMBED], Mock(side_effect=conflict()))
    (row,) = rows(
        "SELECT attempts FROM pending_work WHERE kind = 'embed' AND subject_id = :id", id=event.event_id
    )
    assert row["attempts"] == 0


def test_an_intake_that_met_another_transaction_stores_its_batch_once(group, monkeypatch):
    event = observed(group)
    store, calls = ingest.inbox.store, []

    def meets(connection: Connection, events: object, ready: object = None) -> object:
        calls.append(1)
        done = store(connection, events, ready)  # type: ignore[arg-type]
        if len(calls) == 1:
            raise conflict()
        return done

    monkeypatch.setattr(ingest.inbox, "store", meets)
    part = ingest.EventBatch([event])
    ingest.Ingestor(redelivers=True).ingest([part])
    assert part.error is None
    assert len(rows("SELECT FROM memory_nodes WHERE group_id = :g", g=group)) == 1
