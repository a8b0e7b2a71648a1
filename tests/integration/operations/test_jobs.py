"""Scheduled jobs against the real database: each slot once, each run visible, each change on record."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import Mock
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text

from engine.memory import counts_for_keywords
from engine.operations import DAY, HOUR, JOBS, Job, JobSchedule
from jiyi.errors import BrokerUnavailable, JiyiError, NotFound
from jiyi.protocol.base import Count, Request
from jiyi.protocol.events import build
from jiyi.protocol.memory import RestoreRequest
from jiyi.protocol.operations import RunJob
from jiyi.protocol.recall import ListMemories
from jiyi.protocol.retrieval import RetrievalRequest
from models.db import valkey_keys
from models.db.actions import Actor
from models.db.connection import unit_of_work
from models.memory import archive as archive_
from models.memory import archive as archiving
from models.memory import questions as memory_questions
from models.memory.nodes import lock, strengthen
from models.operations import actions
from models.queue import ticks, wakeups
from models.queue.ticks import MORE
from models.retrieval import records
from tasks import archive as archive_tasks
from tasks.archive import archive, expire_thoughts
from tasks.framework import jobs
from tasks.framework.jobs import FUNCTIONS, Run, perform
from tasks.operations import maintenance
from tasks.retrieval import indexes
from tests.integration.fields import check_fields
from tests.integration.memory.test_inbox import nodes, observed, rows, save
from tests.integration.threads import Threads
from tests.integration.waiting import until
from web.show import WORDS
from workers.ephemeral import environment

pytestmark = pytest.mark.usefixtures(
    "own_valkey"
)  # what a job wakes or warms stays where a test can look at it

NOW = datetime.now(UTC)


@pytest.fixture
def a_job() -> Iterator[Callable[..., Job]]:
    """Makes a job of a function, on a schedule of its own, that no beat knows."""
    made: list[str] = []

    def make(function: Callable[[Run], None], **options: Any) -> Job:
        name = f"test_{uuid4().hex}"
        made.append(name)
        FUNCTIONS[name] = function
        return Job(name, "A test's.", **{"when": JobSchedule(DAY, 3 * HOUR), "time_limit": 60, **options})

    yield make
    for name in made:
        del FUNCTIONS[name]
    with unit_of_work() as connection:
        connection.execute(text("DELETE FROM job_ticks WHERE job = ANY(:jobs)"), {"jobs": made})


def execute(sql: str, **parameters: object) -> None:
    with unit_of_work() as connection:
        connection.execute(text(sql), parameters)


def tick_of(job: Job) -> list[dict[str, Any]]:
    return rows("SELECT * FROM job_ticks WHERE job = :job ORDER BY slot", job=job.name)


def time_passes(job: Job) -> None:
    """A run that failed is tried again after some minutes."""
    execute(
        "UPDATE job_ticks SET started_at = started_at - interval '1 hour', finished_at = finished_at - interval"
        " '1 hour' WHERE job = :job",
        job=job.name,
    )


def audit_of(group: str) -> list[dict[str, Any]]:
    return rows("SELECT * FROM audit_log WHERE group_id = :g ORDER BY audit_id", g=group)


def letter(group: str, kind: str, **fields: Any) -> None:
    """A dead letter."""
    fields = {"letter_id": uuid4(), "kind": kind, "group_id": group, "reason": "x", **fields}
    execute(
        f"INSERT INTO dead_letters ({', '.join(fields)}) VALUES ({', '.join(f':{name}' for name in fields)})",
        **fields,
    )


# The mechanism


def test_a_slot_is_run_once_by_many_beats_at_once_and_leaves_a_row(a_job: Callable[..., Job]) -> None:
    together = threading.Barrier(6)
    job = a_job(lambda run: run.count(things=2))

    def beat(_: int) -> object:
        together.wait(60)
        return perform(job)

    with Threads(6) as pool:
        assert sum(tick is not None for tick in pool.map(beat, range(6))) == 1
    assert perform(job) is None
    (tick,) = tick_of(job)
    check_fields(tick, state="done", summary={"things": 2}, error=None, attempts=1)
    assert tick["finished_at"] >= tick["started_at"]


def test_a_clock_that_goes_back_finds_its_slots_run(a_job, monkeypatch):
    ran = []
    job = a_job(lambda run: ran.append(run.now), setting="reconcile_seconds")

    for seconds in (0, 2, 4, 2, 0, 4):
        now = NOW + timedelta(seconds=seconds)
        for module in (jobs, ticks):
            monkeypatch.setattr(module, "database_time", lambda _connection, now=now: now)
        perform(job)
    assert len(ran) == 3
    assert [tick["attempts"] for tick in tick_of(job)] == [1, 1, 1]


def test_a_job_is_not_begun_while_it_is_under_way_except_by_hand(a_job: Callable[..., Job]) -> None:
    started, go_on = threading.Event(), threading.Event()
    job = a_job(lambda _run: (started.set(), go_on.wait(60)), setting="reconcile_seconds")
    with Threads(1) as pool:
        first = pool.submit(perform, job, NOW - timedelta(hours=1))
        started.wait(60)
        assert perform(job) is None
        go_on.set()
        assert first.result() is not None
    assert perform(job) is not None
    assert perform(job, NOW) is not None


def test_a_job_that_may_overlap_does_not_wait_for_a_run_that_died(a_job: Callable[..., Job]) -> None:
    assert JOBS["reconcile"].overlaps, "what a crash left claimed would wait for minutes to be woken up"
    ran = []
    job = a_job(ran.append, setting="reconcile_seconds", overlaps=True)
    execute(
        "INSERT INTO job_ticks (job, slot, state, due_by) VALUES (:job, now() - interval '1 hour', 'running',"
        " now() + interval '1 hour')",
        job=job.name,
    )
    assert perform(job) is not None
    assert len(ran) == 1


@pytest.mark.parametrize(
    ("fail", "sentence"),
    [
        (JiyiError("the moon is away"), "the moon is away"),
        (ValueError("a\nb"), "ValueError: a"),
        ("SELECT nonsense FROM nowhere", 'UndefinedTable: relation "nowhere" does not exist'),
    ],
)
def test_a_job_that_fails_says_so_in_one_line_and_is_tried_again(a_job, fail, sentence):
    faults = iter([fail])

    def fails_once(run: Run) -> None:
        run.count(before=1)
        for each in faults:
            if isinstance(each, Exception):
                raise each
            with unit_of_work() as connection:
                connection.execute(text(each))

    job = a_job(fails_once)
    perform(job)
    (tick,) = tick_of(job)
    assert (tick["state"], tick["error"], tick["summary"]) == ("failed", sentence, {"before": 1})
    assert perform(job) is None  # not at once
    time_passes(job)
    assert perform(job) is not None
    (tick,) = tick_of(job)
    assert (tick["state"], tick["error"], tick["attempts"]) == ("done", None, 2)


def test_a_run_that_died_is_seen_as_failed_and_its_slot_is_taken_over(a_job: Callable[..., Job]) -> None:
    dying = a_job(Mock(side_effect=SystemExit))
    with pytest.raises(SystemExit):
        perform(dying)
    assert tick_of(dying)[0]["state"] == "running"
    assert perform(dying) is None  # it may just take long
    execute("UPDATE job_ticks SET due_by = now() - interval '1 second' WHERE job = :job", job=dying.name)
    with unit_of_work() as connection:
        seen = ticks.last(connection, [dying.name])[dying.name]
    assert (seen.state, "died" in (seen.error or "")) == ("failed", True)
    zombie = ticks.JobAttempt(dying.name, seen.slot, 1)
    FUNCTIONS[dying.name] = lambda run: run.count(done=1)
    time_passes(dying)
    assert perform(dying) is not None
    with unit_of_work() as connection:
        ticks.end(connection, zombie, {}, "too late")  # it was only slow: what it says no longer counts
    (tick,) = tick_of(dying)
    assert (tick["state"], tick["summary"], tick["attempts"]) == ("done", {"done": 1}, 2)


def test_the_reconciler_marks_runs_that_died(a_job: Callable[..., Job]) -> None:
    job, of_old = a_job(lambda _: None), a_job(lambda _: None, setting="reconcile_seconds")
    execute(
        "INSERT INTO job_ticks (job, slot, state, due_by) VALUES (:job, now(), 'running', now() - interval"
        " '1 s')",
        job=job.name,
    )
    # before there were states
    execute("INSERT INTO job_ticks (job, slot) VALUES (:job, now() - interval '1 hour')", job=of_old.name)
    run = Run("reconcile", NOW)
    maintenance.reconcile(run)
    assert job.name in run.summary["jobs_found_dead"]
    assert tick_of(job)[0]["state"] == "failed"
    assert perform(of_old) is not None


def test_a_run_whose_time_is_up_is_taken_up_by_the_next_look(a_job: Callable[..., Job]) -> None:
    left = [3, 3, 3, 1]
    job = a_job(lambda run: run.count(done=run.repeat(lambda _: left.pop(0), 3)), time_limit=-1)
    looks = [perform(job) for _ in range(6)]
    assert [tick is not None for tick in looks] == [True, True, True, True, False, False]
    (tick,) = tick_of(job)
    assert (tick["summary"], tick["attempts"], tick["state"]) == ({"done": 10}, 4, "done")


def test_a_job_that_is_switched_off_is_run_by_hand_only(a_job: Callable[..., Job]) -> None:
    job = a_job(lambda _: None, setting="backup_hours")
    assert perform(job) is None
    assert perform(job, NOW) is not None


# Expiry and archive


def thought(group: str, description: str = "a thought", **fields: Any) -> Any:
    return observed(group, description, node_type="thought", **fields)


def old(*node_ids: UUID, days: float = 100) -> None:
    """As if they had been stored, and accessed last, so long ago."""
    past = NOW - timedelta(days=days)
    execute("UPDATE memory_nodes SET stored_at = :at WHERE node_id = ANY(:ids)", at=past, ids=list(node_ids))
    execute(
        "UPDATE node_access SET last_accessed = :at WHERE node_id = ANY(:ids)", at=past, ids=list(node_ids)
    )


def archived(group: str) -> dict[str, str]:
    return {
        node["description"]: node["archived_reason"]
        for node in nodes(group)
        if node["archived_at"] is not None
    }


def run_in(group: str, function: Callable[[Run], None], **options: Any) -> dict[str, Any]:
    run = Run(function.__name__, NOW, group_id=group, **options)
    function(run)
    assert run.summary.keys() <= {*WORDS["results"], MORE}, "what the page of jobs has no word for"
    return run.summary


def test_expired_thoughts_are_archived_with_the_reason_and_a_record(group: str) -> None:
    gone = thought(group, "gone", occurred_at=NOW - timedelta(days=31))
    save(gone, thought(group, "fresh"), observed(group, "an event", occurred_at=NOW - timedelta(days=400)))
    before = nodes(group)
    assert run_in(group, expire_thoughts) == {"agents": 1, "expired": 1}
    assert archived(group) == {"gone": "expired"}
    (entry,) = audit_of(group)
    check_fields(entry, actor="job:expire_thoughts", action="archive.archive", target="klaus")
    assert entry["details"]["node_ids"] == [str(gone.event_id)]
    assert entry["details"]["reason"] == "expired"
    changed = {node["description"] for node, was in zip(nodes(group), before, strict=True) if node != was}
    assert changed == {"gone"}
    assert [n["changed_xid"] > w["changed_xid"] for n, w in zip(nodes(group), before, strict=True)].count(
        True
    ) == 1
    assert run_in(group, expire_thoughts) == {}
    assert len(audit_of(group)) == 1


def test_thoughts_of_an_agent_in_simulated_time_expire_by_its_own_clock(group: str) -> None:
    past = datetime(2023, 2, 13, tzinfo=UTC)
    save(
        thought(group, "simulated", occurred_at=past),
        observed(group, "now there", occurred_at=past + timedelta(days=10)),
    )
    assert run_in(group, expire_thoughts)["expired"] == 0
    assert archived(group) == {}
    save(observed(group, "a month later", occurred_at=past + timedelta(days=31)))
    assert run_in(group, expire_thoughts)["expired"] == 1
    assert archived(group) == {"simulated": "expired"}


def test_what_fades_is_old_unimportant_and_no_evidence_of_a_live_thought(group: str) -> None:
    kept = {
        name: observed(group, name, poignancy=poignancy)
        for name, poignancy in {"important": 5, "evidence": 2, "accessed": 1, "stored lately": 1}.items()
    }
    fading = {
        "faded": observed(group, "faded", poignancy=4.9),
        "without importance": observed(group, "without importance"),
        "evidence of the expired": observed(group, "evidence of the expired", poignancy=1),
        "chat": observed(group, "chat", node_type="chat", utterances=[["Klaus", "hello"]]),
    }
    save(*kept.values(), *fading.values())
    live = thought(group, "live", evidence=[str(kept["evidence"].event_id)], poignancy=8)
    expired = thought(
        group,
        "dead",
        evidence=[str(fading["evidence of the expired"].event_id)],
        poignancy=8,
        occurred_at=NOW - timedelta(days=60),
    )
    save(live, expired)
    old(*(event.event_id for event in [*kept.values(), *fading.values()]))
    execute(
        "UPDATE node_access SET last_accessed = :at WHERE node_id = :id", at=NOW, id=kept["accessed"].event_id
    )
    execute(
        "UPDATE memory_nodes SET stored_at = :at WHERE node_id = :id",
        at=NOW,
        id=kept["stored lately"].event_id,
    )
    assert run_in(group, archive) == {"agents": 1, "archived": 4}
    assert archived(group) == dict.fromkeys(fading, "faded")
    (entry,) = audit_of(group)
    assert entry["details"]["count"] == 4
    assert sorted(entry["details"]["node_ids"]) == sorted(str(event.event_id) for event in fading.values())
    assert run_in(group, archive) == {"agents": 1, "archived": 0}


def test_an_agent_in_simulated_time_keeps_what_is_recent_there_even_if_somebody_asked_it_today(group):
    past = datetime(2023, 2, 13, tzinfo=UTC)
    events = [
        observed(group, f"day {day}", occurred_at=past + timedelta(days=day)) for day in range(0, 120, 10)
    ]
    save(*events)
    execute(
        "UPDATE memory_nodes SET stored_at = :at WHERE group_id = :g", at=NOW - timedelta(days=500), g=group
    )
    execute("UPDATE node_access SET last_accessed = :at WHERE node_id = :id", at=NOW, id=events[-1].event_id)
    assert run_in(group, archive)["archived"] == 2
    assert archived(group).keys() == {"day 0", "day 10"}


def test_agents_in_stanford_mode_are_left_alone(group: str) -> None:
    faded = observed(group, "faded")
    configured = build(
        {"type": "agent.configured", "group_id": group, "agent_id": "klaus", "payload": {"mode": "stanford"}}
    )
    save(faded, thought(group, "expired", occurred_at=NOW - timedelta(days=50)), configured)
    old(faded.event_id)
    assert (run_in(group, archive), run_in(group, expire_thoughts)) == ({}, {})
    assert archived(group) == {}


def test_the_age_of_fading_is_a_setting_and_what_was_imported_today_does_not_fade_however_old_it_is(group):
    event, imported = (
        observed(group, "a week old", poignancy=1),
        observed(group, "imported", occurred_at=NOW - timedelta(days=1_000)),
    )
    save(event, imported, observed(group, "now"))
    old(event.event_id, days=8)
    assert run_in(group, archive)["archived"] == 0
    with environment(archive_after_days="7"):
        assert run_in(group, archive)["archived"] == 1
    assert archived(group) == {"a week old": "faded"}


def test_archiving_goes_on_batch_by_batch_where_a_kill_left_it_and_several_at_once_archive_each_once(
    group, monkeypatch
):
    monkeypatch.setattr(archive_tasks, "BATCH", 4)
    other = f"{group}-other"
    events = [observed(group, f"memory {i}") for i in range(20)]
    save(*events, observed(other, "theirs"))
    for name in (group, other):
        old(*(node["node_id"] for node in nodes(name)))
    original, calls = archiving.archive_faded, []

    def killed_in_the_second_batch(*arguments: Any, **named: Any) -> int:
        calls.append(original(*arguments, **named))
        if len(calls) == 2:
            raise SystemExit
        return calls[-1]

    with monkeypatch.context() as patch, pytest.raises(SystemExit):
        patch.setattr(archiving, "archive_faded", killed_in_the_second_batch)
        run_in(group, archive)
    assert len(archived(group)) == 4  # the second batch was rolled back, with its record
    assert [entry["details"]["count"] for entry in audit_of(group)] == [4]
    with Threads(3) as pool:
        for future in [pool.submit(run_in, group, archive) for _ in range(3)]:
            future.result()
    recorded = [node_id for entry in audit_of(group) for node_id in entry["details"]["node_ids"]]
    assert sorted(recorded) == sorted(str(event.event_id) for event in events)
    assert archived(other) == {}


def restore(group: str, **wanted: Any) -> Count:
    return archive_.restore.perform(Actor(group), RestoreRequest(**wanted))


@pytest.mark.parametrize("way", ["archive", "restore"])
def test_the_archive_and_a_move_to_another_model_do_not_block_each_other(group: str, way: str) -> None:
    # Thoughts' ids are in no order; what locks nodes by the order of their numbers meets what locks them by
    # their ids.
    ids = sorted((uuid4() for _ in range(3)), reverse=True)
    save(*(observed(group, f"memory {node_id}", event_id=node_id) for node_id in ids))
    old(*ids)
    if way == "restore":
        run_in(group, archive)

    def archive_or_restore() -> None:
        if way == "archive":
            run_in(group, archive)
        else:
            restore(group, agent_id="klaus")

    def fold() -> None:
        with unit_of_work() as connection:
            lock(connection, ids)
            connection.execute(text("SELECT pg_sleep(0.1)"))

    with unit_of_work() as other, Threads(2) as pool:
        other.execute(text("SELECT FROM memory_nodes WHERE node_id = :id FOR UPDATE"), {"id": ids[1]})
        both = [pool.submit(archive_or_restore), pool.submit(fold)]
        until(lambda: len(rows("SELECT FROM pg_locks WHERE NOT granted")) >= len(both))
        other.commit()
        for future in both:
            future.result()
    assert len(archived(group)) == (3 if way == "archive" else 0)


def test_restored_memories_stay_and_say_who_brought_them_back(group: str) -> None:
    faded = observed(group, "faded")
    expired = thought(group, "expired", occurred_at=NOW - timedelta(days=50), poignancy=9)
    save(faded, expired, observed(group, "today"))
    old(faded.event_id)
    run_in(group, archive)
    run_in(group, expire_thoughts)
    page = memory_questions.list_memories.perform(
        Actor(group), ListMemories(agent_id="klaus", archived="only")
    )
    assert [(row.description, row.archived_reason) for row in page.rows] == [
        ("expired", "expired"),
        ("faded", "faded"),
    ]
    assert restore(f"{group}-other", ids=[faded.event_id]) == Count(count=0)
    assert restore(group, ids=[faded.event_id]).count == 1
    assert restore(group, agent_id="klaus") == Count(count=1)
    assert archived(group) == {}
    assert run_in(group, archive)["archived"] == 0
    assert run_in(group, expire_thoughts) == {}
    told = [
        (entry["actor"], entry["details"]["node_ids"])
        for entry in audit_of(group)
        if entry["action"] == "archive.restore"
    ]
    assert told == [("operator", [str(faded.event_id)]), ("operator", [str(expired.event_id)])]
    assert restore(group, agent_id="klaus").count == 0


# Keyword strengths


def strengths(group: str) -> dict[tuple[str, str], int]:
    found = rows("SELECT memory_type, keyword, strength FROM kw_strength WHERE group_id = :g", g=group)
    return {(row["memory_type"], row["keyword"]): row["strength"] for row in found}


def counted(group: str) -> dict[tuple[str, str], int]:
    """As the tasks count them, once nothing is owed any more."""
    execute("DELETE FROM pending_work WHERE group_id = :g", g=group)
    counts = [
        node for node in nodes(group) if counts_for_keywords(node["type"], node["predicate"], node["object"])
    ]
    with unit_of_work() as connection:
        strengthen(connection, [node["node_id"] for node in counts])
    return strengths(group)


def test_keyword_strengths_that_drifted_are_reported_and_repaired(group: str) -> None:
    save(
        observed(group, "a", keywords=["Klaus", "Book", "klaus"]),
        observed(group, "b", keywords=["book"]),
        thought(group, "c", keywords=["book"]),
        observed(group, "d", node_type="chat", keywords=["book"]),
        observed(group, "bed is idle", subject="bed", predicate="is", object="idle", keywords=["bed"]),
    )
    right = counted(group)
    assert right == {("event", "klaus"): 2, ("event", "book"): 2, ("thought", "book"): 1}
    assert run_in(group, maintenance.recompute_kw_strength) == {"agents": 1, "keywords_off": 0}
    execute("UPDATE kw_strength SET strength = 7 WHERE group_id = :g AND keyword = 'klaus'", g=group)
    execute("DELETE FROM kw_strength WHERE group_id = :g AND memory_type = 'thought'", g=group)
    execute("INSERT INTO kw_strength VALUES (:g, 'klaus', 'event', 'ghost', 3)", g=group)
    drift = [{"group_id": group, "agent_id": "klaus", "keywords": 3, "off_by": 5 + 1 + 3}]
    expected = {"agents": 1, "keywords_off": 3, "drift": drift}
    assert run_in(group, maintenance.recompute_kw_strength) == expected
    assert strengths(group) == right
    assert audit_of(group)[0]["details"] == {"keywords": 3, "off_by": 9}
    assert run_in(group, maintenance.recompute_kw_strength) == {"agents": 1, "keywords_off": 0}


@pytest.mark.parametrize("kind", ["strengthen", "appraise"])
def test_memories_that_are_still_to_be_counted_are_no_drift(group: str, kind: str) -> None:
    waiting, buried = (
        observed(group, "waiting", keywords=["tea"]),
        observed(group, "buried", keywords=["tea"]),
    )
    save(waiting, buried)
    execute("DELETE FROM pending_work WHERE group_id = :g", g=group)
    execute(
        "INSERT INTO pending_work (kind, subject_id, group_id) VALUES (:k, :id, :g)",
        k=kind,
        id=waiting.event_id,
        g=group,
    )
    letter(group, kind, subject_id=buried.event_id)
    assert run_in(group, maintenance.recompute_kw_strength)["keywords_off"] == 0
    assert strengths(group) == {}


def test_two_repairs_at_once_repair_once(group: str) -> None:
    save(*(observed(group, f"memory {i}", keywords=[f"word{i}", "all"]) for i in range(30)))
    execute("DELETE FROM pending_work WHERE group_id = :g", g=group)
    with Threads(4) as pool:
        list(pool.map(lambda _: run_in(group, maintenance.recompute_kw_strength), range(4)))
    assert strengths(group) == {("event", "all"): 30} | {("event", f"word{i}"): 1 for i in range(30)}


def test_what_is_counted_during_a_repair_stays_counted(group: str) -> None:
    first, second = observed(group, "first", keywords=["tea"]), observed(group, "second", keywords=["tea"])
    save(first)
    counted(group)
    execute("UPDATE kw_strength SET strength = 5 WHERE group_id = :g", g=group)
    save(second)
    with unit_of_work() as other, Threads(1) as pool:
        other.execute(text("DELETE FROM pending_work WHERE subject_id = :id"), {"id": second.event_id})
        other.execute(
            text("UPDATE kw_strength SET strength = strength + 1 WHERE group_id = :g"), {"g": group}
        )
        repair = pool.submit(run_in, group, maintenance.recompute_kw_strength)  # waits for the row
        until(lambda: rows("SELECT FROM pg_locks WHERE NOT granted"))
        other.commit()
        repair.result(60)
    assert strengths(group) == {("event", "tea"): 2}


# Pruning


def test_only_old_rows_that_nothing_needs_are_pruned(group: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance, "PRUNE_BATCH", 2)
    done = [observed(group, f"done {i}") for i in range(5)]
    names = ("owing", "young", "nodeless", "lettered")
    owing, young, nodeless, lettered = events = [observed(group, name) for name in names]
    save(*done, *events)
    execute("DELETE FROM pending_work WHERE group_id = :g AND subject_id <> :id", g=group, id=owing.event_id)
    execute("DELETE FROM memory_nodes WHERE node_id = :id", id=nodeless.event_id)
    long_ago = NOW - timedelta(days=40)
    execute(
        "UPDATE events SET received_at = :at WHERE group_id = :g AND event_id <> :id",
        at=long_ago,
        g=group,
        id=young.event_id,
    )
    for state, days in (("open", None), ("discarded", 200), ("replayed", 200), ("discarded", 10)):
        letter(group, "intake", state=state, resolved_at=None if days is None else NOW - timedelta(days=days))
    job = f"test_{uuid4().hex}"
    for days in (100, 50, 40):
        execute("INSERT INTO job_ticks (job, slot) VALUES (:j, :s)", j=job, s=NOW - timedelta(days=days))

    def left() -> tuple[set[str], list[str], int]:
        return (
            {
                row["payload"]["description"]
                for row in rows("SELECT payload FROM events WHERE group_id = :g", g=group)
            },
            [
                row["state"]
                for row in rows("SELECT state FROM dead_letters WHERE group_id = :g ORDER BY state", g=group)
            ],
            len(rows("SELECT 1 AS x FROM job_ticks WHERE job = :j", j=job)),
        )

    assert "events" not in run_in(group, maintenance.prune), "unless that is asked for"
    letter(group, "embed", subject_id=lettered.event_id)
    with environment(prune_events_days="30"):
        run_in(group, maintenance.prune)
        kept = {"owing", "young", "nodeless", "lettered"}
        assert left() == (kept, ["discarded", "open", "open"], 1)
        execute("UPDATE dead_letters SET state = 'discarded' WHERE subject_id = :id", id=lettered.event_id)
        run_in(group, maintenance.prune)
    assert left()[0] == kept - {"lettered"}
    assert len(nodes(group)) == 8
    assert rows("SELECT 1 AS x FROM audit_log WHERE actor = 'job:prune' AND target = 'events'")
    execute("DELETE FROM job_ticks WHERE job = :j", j=job)


# Warm, snapshot, schedule


def test_the_agents_asked_last_are_warmed_the_latest_last_and_nothing_counts_as_accessed(group, monkeypatch):
    sent: list[dict[str, Any]] = []
    monkeypatch.setattr(
        indexes.current_app, "send_task", lambda name, **options: sent.append({"name": name, **options})
    )
    for number in range(indexes.WARM_AGENTS + 2):
        records.publish_accesses(group, f"agent: {number}", [uuid4()], NOW.timestamp())
        time.sleep(0.002)  # the streams' own clock has milliseconds
    run_in(group, indexes.warm)
    requests = [RetrievalRequest.model_validate(each["args"][1]) for each in sent]
    assert [(request.group_id, request.agent_id, request.touch) for request in requests] == [
        (group, f"agent: {number}", False) for number in range(2, indexes.WARM_AGENTS + 2)
    ]
    assert {each["queue"] for each in sent} == {"retrieval"}
    assert valkey_keys.touched_agent(valkey_keys.touched("a:b", "c:d")) == ("a:b", "c:d")


def test_a_snapshot_counts_queues_work_and_letters(group: str) -> None:
    save(observed(group, "memory"))
    found = run_in(group, maintenance.take_snapshot)
    assert found["owed"]["embed"] >= 1
    assert found["lag_seconds"] >= 0
    assert found["dead_letters"] >= 0
    assert {"retrieval", "upkeep", "memory.intake"} <= found["queues"].keys()


def test_the_schedule_tells_of_every_job_when_it_ran_and_when_it_will(group: str) -> None:
    now = datetime.now(UTC)
    perform(JOBS["snapshot"], now)
    found = {row.job: row for row in actions.list_jobs.perform(Actor(group), Request()).rows}
    took = datetime.now(UTC) - now  # the slot may have ended meanwhile
    assert found.keys() == JOBS.keys()
    snapshot = found["snapshot"]
    assert snapshot.last is not None and snapshot.next is not None
    assert (snapshot.last.state, (snapshot.last.seconds or 0) >= 0) == ("done", True)
    assert timedelta() < snapshot.next - now <= timedelta(seconds=300) + took
    assert (snapshot.lag_seconds or 0) <= took.total_seconds()
    assert (found["backup"].next, found["backup"].schedule) == (None, "off")


def test_a_job_that_is_not_there_is_named(group: str) -> None:
    with pytest.raises(NotFound, match=r"no job 'sleep'; there are archive, backup"):
        actions.run_job.perform(Actor(group), RunJob(job="sleep"))


def test_a_run_that_cannot_be_sent_leaves_no_audit_row(group: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wakeups, "_app", wakeups.own_app)
    with environment(broker_url="redis://127.0.0.1:1/0"), pytest.raises(BrokerUnavailable):
        actions.run_job.perform(Actor(group), RunJob(job="snapshot", whole_service=False))
    assert audit_of(group) == []
