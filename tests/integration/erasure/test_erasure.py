"""Erasure on the real service: nothing is left in tables, keys, indexes and logs, and the rest stays."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psutil
import pytest
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from engine.erasure import Names, hash_of
from jiyi import Client
from jiyi.errors import InvalidRequest, NotFound
from jiyi.protocol.base import CHANGES
from jiyi.protocol.erasure import Erasure, ErasureState
from jiyi.protocol.events import Event, build
from jiyi.protocol.memory import ExportQuery
from jiyi.protocol.retrieval import Answer, RetrievalRequest
from models.db import valkey_keys
from models.db.actions import Actor
from models.db.connection import unit_of_work
from models.db.scope import whole_service
from models.db.valkey import valkey
from models.erasure import matching, progress, traces
from models.erasure.actions import request_erasure
from models.erasure.cache_invalidation import contents
from models.erasure.progress import ERASE, STEPS
from models.memory import agents, events
from models.operations import backups, worker_liveness
from models.operations.worker_liveness import COUNTS_SECONDS
from models.retrieval import enlargement, index_cache
from tasks import erasure as erasure_tasks
from tasks.erasure import IN_DATABASE, OUTSIDE, Step, report_digest
from tasks.erasure import erase as erase_task
from tasks.framework.work import KINDS, run_due
from tasks.memory import accumulate, strengthen
from tasks.retrieval.retrieve import retrieve
from tests.integration.client.test_service import publish_raw
from tests.integration.memory.accesses import touch
from tests.integration.memory.test_inbox import execute, observed, rows, save
from tests.integration.waiting import until
from workers.embedded.stack import Stack
from workers.ephemeral import environment
from workers.worker_setup import WorkerHeartbeat

pytestmark = pytest.mark.usefixtures("database")

PATIENCE_SECONDS = 60.0
T0 = datetime(2026, 3, 1, 8, tzinfo=UTC)
MODEL = "three-dimensions"
#: Not the one that running workers use.
OWN_DATABASE = 8


@pytest.fixture
def alone(database: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Without workers: a Valkey of the test's own; this process is the only one that holds indexes."""
    address = database.urls.redis_url.replace("db=0", f"db={OWN_DATABASE}")
    monkeypatch.setattr(worker_liveness, "HEARTBEAT_EVERY", 0.05)
    with environment(redis_url=address, backup_dir=str(tmp_path / "backups")):
        valkey().flushdb()
        index_cache.forget_all()
        heartbeat = WorkerHeartbeat("test@here", [])
        heartbeat.start()
        try:
            yield
        finally:
            heartbeat.stop()
            index_cache.forget_all()


def erase(group: str, **what: Any) -> dict[str, Any]:
    """Ask for it and carry it on here, to the end; the report."""
    erasure_id = ask(group, **what)
    carry_on()
    return report_of(group, erasure_id)


def ask(group: str, **what: Any) -> UUID:
    return request_erasure.perform(Actor(group), Erasure(**what)).erasure_id


def carry_on(patience: float = PATIENCE_SECONDS) -> None:
    """Workers have so many seconds to answer."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(erasure_tasks, "ANSWER_SECONDS", patience)
        for _ in range(20):
            if not run_due(KINDS[ERASE], erase_task):
                return


def due_now() -> None:
    """What an erasure waits for has passed: a lease, or the time until it tries again."""
    execute("UPDATE pending_work SET due_at = now(), attempts = 0 WHERE kind = 'erase'")


def descriptions(group: str) -> set[object]:
    """What the group remembers."""
    return {row["description"] for row in rows("SELECT * FROM memory_nodes WHERE group_id = :g", g=group)}


def state_of(group: str, erasure_id: UUID) -> ErasureState:
    with unit_of_work() as connection:
        found = progress.one(connection, group, erasure_id)
    assert found is not None
    return found


def report_of(group: str, erasure_id: UUID) -> dict[str, Any]:
    found = state_of(group, erasure_id)
    assert found.state == "done", found
    assert found.report is not None
    assert found.report["left"] == 0
    return found.report


def places(*names: str, group: str | None = None, besides: Sequence[str] = ()) -> list[str]:
    """Every table and key in which one of the names stands: a search of the test's own, through everything.

    Rows that name a group of ``besides`` do not count: those of earlier tests, which may have told of the
    same people.
    """
    whom = Names(names)
    found = []
    with unit_of_work() as connection:
        for table, columns in traces.tables(connection).items():
            texts = ", ".join(f'"{name}"::text' for name, kind in columns if kind not in ("vector", "bytea"))
            for (content,) in connection.execute(text(f"SELECT concat_ws(' | ', {texts}) FROM {table}")):
                if any(other in content for other in besides):
                    continue
                if whom.found_in(content) and (group is None or group in content):
                    found.append(table)
    for key in valkey().scan_iter(count=1_000):
        if any(whom.found_in(one.decode("utf-8", "replace")) for one in (key, *contents(key))):
            found.append(key.decode())
    return found


def asked(group: str, question: str, agent_id: str = "klaus", **options: Any) -> Answer:
    request = RetrievalRequest(group_id=group, agent_id=agent_id, queries=[question], **options)
    return retrieve(request)


def thought(group: str, description: str, *evidence: Event, **fields: Any) -> Event:
    ids = [event.event_id for event in evidence]
    return observed(group, description, node_type="thought", evidence=ids, **fields)


@pytest.mark.usefixtures("alone", "nothing_owed")
def test_a_person_goes_from_everything_and_the_others_stay_as_they_were(group: str) -> None:
    earlier = [row["group_id"] for row in rows("SELECT DISTINCT group_id FROM agents")]
    at = {"occurred_at": T0}
    met = observed(
        group,
        "Maria Lopez waters the tomatoes",
        subject="Maria Lopez",
        keywords=["Maria Lopez", "tomatoes"],
        **at,
    )
    zh = observed(group, "和玛丽亚一起在书店整理旧书", **at)
    chat = observed(
        group,
        "a talk about roses",
        node_type="chat",
        utterances=[["MARIA LOPEZ", "hello"], ["Klaus", "hi"]],
        **at,
    )
    insight = thought(group, "Somebody here has green fingers", met, **at)
    deeper = thought(group, "Gardens make friends", insight, **at)
    others = [
        observed(group, f"Klaus reads chapter {number} about bees", keywords=["bees"], **at)
        for number in range(4)
    ]
    similar = observed(group, "Mariana Lopezova keeps bees", keywords=["Mariana", "bees"], **at)
    save(met, zh, chat, insight, deeper, *others, similar)
    upkeep_all()
    ended = build(
        {
            "type": "session.ended",
            "group_id": group,
            "agent_id": "klaus",
            "session_id": "s",
            "payload": {"partner": "Maria Lopez"},
        }
    )
    save(ended)
    with unit_of_work() as connection, whole_service():
        connection.execute(
            text("""
            INSERT INTO dead_letters (letter_id, kind, group_id, reason, body) VALUES
            (gen_random_uuid(), 'intake', :g, 'payload.poignancy: (got ''Maria Lopez'')', '{}'),
            (gen_random_uuid(), 'intake', NULL, 'not JSON', '{"a": "\\u739b\\u4e3d\\u4e9a'),
            (gen_random_uuid(), 'intake', :g, 'of somebody else', '{}')
        """),
            {"g": group},
        )
        connection.execute(
            text(
                "UPDATE memory_nodes SET archived_at = now(), archived_reason = 'faded' WHERE node_id = :id"
            ),
            {"id": zh.event_id},
        )
    assert asked(group, "Maria Lopez tomatoes").accessed_ids  # warm index, access buffer, touched stream
    assert len(places("Maria Lopez", "玛丽亚", group=group)) >= 6
    numbers = rows("SELECT node_count, type_counts FROM agents WHERE group_id = :g", g=group)

    report = erase(group, person="Maria Lopez", aliases=["玛丽亚"])

    assert places("Maria Lopez", "玛丽亚", besides=earlier) == []
    assert valkey().zrange(valkey_keys.ACCESS, 0, -1) == []
    left = {row["node_id"] for row in rows("SELECT node_id FROM memory_nodes WHERE group_id = :g", g=group)}
    assert left == {event.event_id for event in (*others, similar)}
    assert report["erased"]["memory_nodes"] == 5
    assert report["scrubbed"]["dead_letters"] == 2
    assert len(rows("SELECT 1 FROM dead_letters WHERE group_id = :g", g=group)) == 1
    # Scores are relative to all candidates: so the others are as in an agent that never knew her.
    never = f"{group}-never"
    texts = [(str(event.payload.description), list(event.payload.keywords)) for event in (*others, similar)]
    save(*(observed(never, description, keywords=keywords, **at) for description, keywords in texts))
    upkeep_all()
    asked(never, "tomatoes")
    for question in ("bees", "chapter 2", "Mariana"):
        mine, theirs = (asked(one, question, touch=False).retrieved_nodes for one in (group, never))
        assert [(node.description, node.score) for node in mine] == [
            (node.description, node.score) for node in theirs
        ]
    assert rows("SELECT node_count, type_counts FROM agents WHERE group_id = :g", g=group) == numbers
    strengths = {
        row["keyword"]: row["strength"]
        for row in rows("SELECT * FROM kw_strength WHERE group_id = :g", g=group)
    }
    assert strengths == {"bees": 5, "mariana": 1}
    assert report["workers"]
    assert report["sha256"] == report_digest(
        {name: value for name, value in report.items() if name != "sha256"}
    )


@pytest.mark.usefixtures("alone", "nothing_owed")
def test_what_was_erased_does_not_come_back_and_its_record_holds_hashes_only(group: str) -> None:
    event, other = observed(group, "Maria Lopez sings"), observed(group, "Klaus listens")
    save(event, other)
    save(observed(group, "about the pruned one: Maria Lopez", event_id=(pruned := uuid4())))
    execute("DELETE FROM events WHERE event_id = :id", id=pruned)
    erase(group, person="Maria Lopez")
    (row,) = rows("SELECT * FROM erasures WHERE group_id = :g", g=group)
    assert row["what"] == {"names": [hash_of("MARIA LOPEZ", progress.name_key())]}
    trail = rows(
        "SELECT action, target, details FROM audit_log WHERE group_id = :g ORDER BY audit_id", g=group
    )
    assert [one["action"] for one in trail] == ["erasure.request", "erasure.finish"]
    assert hash_of("maria lopez", progress.name_key()) in json.dumps(trail[0]["details"])
    assert rows("SELECT 1 FROM erasing_ids WHERE group_id = :g", g=group) == []
    save(
        event,
        observed(group, "about the pruned one: Maria Lopez", event_id=pruned),
        thought(group, "She sings well", event),
    )
    assert places("Maria Lopez", "She sings well", group=group) == []
    (row,) = rows("SELECT * FROM events WHERE event_id = :id", id=event.event_id)
    assert (row["outcome"], row["payload"], row["agent_id"], row["node_id"]) == ("erased", {}, "", None)
    with unit_of_work() as connection:
        assert [one.event_id for one in events.exported(connection, group, ExportQuery())] == [other.event_id]
        states = events.states(connection, group, [event.event_id])
    assert states[0].state == "erased"


@pytest.mark.usefixtures("alone", "nothing_owed")
def test_what_arrives_while_it_is_erased_is_not_kept(group: str) -> None:
    save(observed(group, "Maria Lopez sings"), observed(group, "mine", agent_id="gone"))
    ask(group, person="Maria Lopez")
    ask(group, agent_id="gone")
    late, fine = observed(group, "Maria Lopez again"), observed(group, "Klaus again")
    save(late, fine, observed(group, "more of mine", agent_id="gone"))
    statement = "SELECT node_id FROM memory_nodes WHERE group_id = :g AND description LIKE '%again'"
    assert rows(statement, g=group) == [{"node_id": fine.event_id}]
    carry_on()
    assert places("Maria Lopez", "more of mine", group=group) == []
    assert rows("SELECT 1 FROM agents WHERE group_id = :g AND agent_id = 'gone'", g=group) == []


@pytest.mark.usefixtures("alone", "nothing_owed")
def test_an_agent_goes_and_one_of_its_name_starts_from_nothing(group: str) -> None:
    save(
        *(
            observed(group, f"Klaus reads book {number}", agent_id="klaus", occurred_at=T0)
            for number in range(30)
        )
    )
    save(observed(group, "somebody who mentions klaus", agent_id="maria"))
    upkeep_all()
    asked(group, "book")
    (key,) = [key for key, *_ in index_cache.held() if key.group_id == group]
    index = index_cache.index_of(key)
    assert index.size == 30
    with unit_of_work() as connection:
        identity = agents.find_agents(connection, group, "klaus")
    report = erase(group, agent_id="klaus")
    assert (report["erased"]["memory_nodes"], report["erased"]["agents"]) == (30, 1)
    assert rows("SELECT agent_id FROM agents WHERE group_id = :g", g=group) == [{"agent_id": "maria"}]
    assert rows("SELECT agent_id FROM memory_nodes WHERE group_id = :g", g=group) == [{"agent_id": "maria"}]
    assert rows("SELECT 1 FROM audit_log WHERE group_id = :g AND target = 'klaus'", g=group) == []
    assert valkey().exists(valkey_keys.touched(group, "klaus")) == 0
    assert asked(group, "book").status == "unknown_agent"
    # Made anew: a worker that was away, and still has the old index, starts over as well.
    save(observed(group, "Klaus plants a tree", agent_id="klaus", occurred_at=T0))
    with unit_of_work() as connection:
        again = agents.find_agents(connection, group, "klaus")
        assert identity is not None
        assert again is not None
        assert again.identity != identity.identity
        index.reset_if_stale(again.identity)
        index.refresh(connection)
    assert index.size == 1
    assert [node.description for node in asked(group, "book").retrieved_nodes] == ["Klaus plants a tree"]


@pytest.mark.usefixtures("alone", "nothing_owed")
def test_single_memories_go_with_what_rests_on_them(group: str) -> None:
    first, second = observed(group, "first"), observed(group, "second")
    on_first, on_second = thought(group, "on first", first), thought(group, "on second", second)
    save(first, second, on_first, on_second)
    erase(group, node_ids=[first.event_id, uuid4()])
    assert descriptions(group) == {"second", "on second"}
    with pytest.raises(NotFound):
        ask(group, node_ids=[first.event_id])
    with pytest.raises(NotFound):
        ask(group, agent_id="nobody")


@pytest.mark.usefixtures("alone", "nothing_owed")
def test_a_preview_changes_nothing_and_the_erasure_that_dies_at_every_step_ends_complete(
    group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (*IN_DATABASE, *OUTSIDE) == STEPS
    met = observed(group, "Maria Lopez sings", keywords=["Maria Lopez"])
    save(
        met,
        thought(group, "Somebody sings", met),
        observed(group, "her own", agent_id="maria-lopez"),
        observed(group, "Klaus listens", keywords=["music"]),
    )
    upkeep_all()
    with unit_of_work() as connection:
        found = matching.preview(connection, group, Erasure(person="Maria Lopez"))
    none = {"dead_letters": 0, "outputs": 0, "knowledge": 0}
    assert found.counts == {"memories": 3, "resting_on_others": 1, "events": 3, **none}
    assert (found.agents, len(found.examples)) == (["maria-lopez"], 3)
    assert len(descriptions(group)) == 4

    erasure_id, died = ask(group, person="Maria Lopez"), []

    def dying_once(step: str, original: Step) -> Step:
        def run(connection: Connection, progress: progress.ErasureProgress) -> bool:
            done = original(connection, progress)
            if step not in died:
                died.append(step)
                raise SystemExit
            return done

        return run

    for step, original in list(IN_DATABASE.items()):
        monkeypatch.setitem(IN_DATABASE, step, dying_once(step, original))
    for _ in IN_DATABASE:
        with pytest.raises(SystemExit):
            run_due(KINDS[ERASE], erase_task)
        due_now()
    carry_on()
    assert died == list(IN_DATABASE)
    report = report_of(group, erasure_id)
    assert places("Maria Lopez", group=group) == []
    assert report["erased"]["memory_nodes"] == 3
    assert descriptions(group) == {"Klaus listens"}


@pytest.mark.usefixtures("alone", "nothing_owed")
def test_what_is_found_left_in_a_key_or_table_that_nobody_thought_of_is_told_and_tried_again(
    group: str,
) -> None:
    save(observed(group, "Maria Lopez sings"), observed(group, "else"))
    valkey().set("jiyi:something:new", "a cache that nobody thought of: maria lopez")
    owner("CREATE TABLE of_a_later_version (group_id text, notes text[])")
    try:
        owner("GRANT ALL ON of_a_later_version TO jiyi_service")
        owner("INSERT INTO of_a_later_version VALUES (%s, ARRAY['a', 'Maria Lopez'])", group)
        erasure_id = ask(group, person="Maria Lopez")
        carry_on()
        found = state_of(group, erasure_id)
        left = found.report or {}
        assert (found.state, left["left"]) == ("incomplete", 2)
        assert (left["places"].keys(), left["places"]["valkey"]) == (
            {"of_a_later_version", "valkey"},
            ["jiyi:something"],
        )
    finally:
        owner("DROP TABLE of_a_later_version")
    valkey().delete("jiyi:something:new")
    due_now()
    carry_on()
    report = report_of(group, erasure_id)
    assert {"memory_nodes", "events", "audit_log", "job_ticks", "dead_letters"} <= report["looked_through"][
        "tables"
    ].keys()
    with unit_of_work() as connection:
        assert set(traces.NOT_MEMORIES) <= traces.tables(connection).keys()


@pytest.mark.usefixtures("alone", "nothing_owed")
def test_a_worker_that_does_not_answer_is_waited_for_until_it_counts_as_dead(group: str) -> None:
    save(observed(group, "Maria Lopez sings"), observed(group, "else"))
    erasure_id = ask(group, person="Maria Lopez")
    worker_liveness.record_heartbeat("far-away:1", "retrieval@far-away", [])
    for _ in range(3):
        carry_on(patience=0.1)
        due_now()
    waiting = state_of(group, erasure_id)
    assert (waiting.state, waiting.step) == ("running", "workers")
    assert descriptions(group) == {"else"}, "what it asked for is done"
    (owed,) = rows("SELECT attempts FROM pending_work WHERE kind = 'erase' AND group_id = :g", g=group)
    assert owed["attempts"] <= 1  # nobody gives up on it
    silent = {"name": "retrieval@far-away", "queues": [], "at": time.time() - 2 * COUNTS_SECONDS}
    valkey().hset(valkey_keys.WORKERS, "far-away:1", json.dumps(silent))
    carry_on()
    report_of(group, erasure_id)


@pytest.mark.usefixtures("alone", "nothing_owed")
def test_lines_of_an_old_log_are_blanked_in_place(group: str, tmp_path: Path) -> None:
    log = tmp_path / "log" / "intake.log"
    log.parent.mkdir()
    log.write_text("started\nrefused: Maria Lopez 玛丽亚\nstopped\n", "utf-8")
    size = log.stat().st_size
    save(observed(group, "Maria Lopez sings"), observed(group, "else"))
    with environment(home=str(tmp_path), backup_dir=str(tmp_path / "backups")):
        assert erase(group, person="Maria Lopez")["logs"] == {"lines": 1}
    assert log.stat().st_size == size
    assert log.read_text("utf-8").splitlines()[::2] == ["started", "stopped"]
    assert set(log.read_text("utf-8").splitlines()[1]) == {"-"}


def owner(statement: str, *parameters: str) -> None:
    with backups.connect() as connection:
        connection.execute(statement.encode(), parameters)


@pytest.mark.usefixtures("alone", "nothing_owed")
def test_a_large_agents_terms_are_counted_as_if_it_had_never_been(group: str) -> None:
    kept = [observed(group, f"Klaus reads book {number}", occurred_at=T0) for number in range(3)]
    gone = observed(group, "Maria Lopez reads a diary", occurred_at=T0)
    save(kept[0], gone, kept[1])
    with unit_of_work() as connection:
        key = agents.key_of(connection, group, "klaus")
        assert key is not None
        large = enlargement.begin(connection, key)
        assert large is not None
        enlargement.mark(connection, large, range(101))
        enlargement.count_terms(connection, large)
        enlargement.finish(connection, large)
    save(kept[2], observed(group, "Maria Lopez writes", occurred_at=T0))
    erase(group, person="Maria Lopez")
    counted = {
        (row["term"], row["counted"]): row["texts"]
        for row in rows("SELECT * FROM term_frequencies WHERE group_id = :g", g=group)
    }
    assert counted["", "at first"] == 2 * counted["", "since"]
    assert {term for term, _ in counted} == {"", *_terms(group)}
    assert all(texts > 0 for texts in counted.values())


def _terms(group: str) -> set[str]:
    found = rows("SELECT tokens FROM memory_nodes WHERE group_id = :g", g=group)
    return {term for row in found for term in str(row["tokens"]).split()}


@pytest.mark.usefixtures("alone", "nothing_owed")
def test_backups_of_before_are_told_and_deleted_if_asked(group: str) -> None:
    save(observed(group, "Maria Lopez sings"), observed(group, "Juan Perez sings"))
    made = backups.make()
    aged = made.path.with_name("jiyi-20260101T000000Z.dump")
    made.path.rename(aged)
    assert erase(group, person="Maria Lopez")["backups_left"]["holding_it"] == 1
    assert aged.exists()
    report = erase(group, person="Juan Perez", delete_backups=True)
    assert report["backups"] == {"deleted": 1}
    assert not aged.exists()
    assert len(backups.existing()) == 1


@pytest.mark.usefixtures("alone", "nothing_owed")
def test_erasures_of_agents_are_applied_again_after_a_restore(group: str) -> None:
    save(observed(group, "mine", agent_id="gone"), observed(group, "else, with Maria Lopez"))
    before = datetime.now(UTC)
    erase(group, agent_id="gone")
    erase(group, person="Maria Lopez")
    assert "gone" not in progress.path().read_text()
    assert progress.since(datetime.now(UTC)) == []
    save(observed(group, "mine, from a backup", agent_id="gone"))
    with unit_of_work() as connection, whole_service():
        assert progress.apply_again(connection, before) == {"agents": 1, "others": 1}
    carry_on()
    assert rows("SELECT agent_id FROM agents WHERE group_id = :g", g=group) == [{"agent_id": "klaus"}]


def upkeep_all() -> None:
    for kind, handler in (("strengthen", strengthen), ("accumulate", accumulate)):
        while run_due(KINDS[kind], handler):
            pass


# On the running service


def test_a_persons_words_are_nowhere_afterwards(client: Client, database: Stack) -> None:
    word, zh = f"Quillfeather{uuid4().hex[:8]}", "罕见人名测试"
    group = client.group
    client.observe(
        "klaus", f"{word} brought a cake", subject=word, keywords=[word, "cake"], poignancy=4, wait=True
    )
    client.observe("klaus", f"今天{zh}来书店看书", poignancy=3, wait=True)
    chat = client.observe(
        "klaus",
        "a talk",
        node_type="chat",
        utterances=[[word, "I like roses"], ["Klaus", "so do I"]],
        wait=True,
    )
    client.observe("klaus", "There are people who bake", node_type="thought", evidence=[chat], wait=True)
    client.observe("klaus", "Klaus repairs the clock", poignancy=4, wait=True)
    client.observe(f"{word}-agent", "my own memory", wait=True)
    # warm index, question remembered, access buffer
    assert client.retrieve("klaus", f"what about {word}?").accessed_ids
    assert client.retrieve("klaus", zh).accessed_ids
    _cause_trouble(group, word, zh)
    preview = client.erasure.preview(person=word, aliases=[zh])
    assert preview.agents == [f"{word}-agent"]
    # the index may have made room for those of other tests meanwhile
    assert client.retrieve("klaus", zh).accessed_ids
    # Tests that retrieve in this process have reported its indexes, and an erasure would wait for its answer.
    valkey().delete(valkey_keys.indexes(f"{platform.node()}:{os.getpid()}"))
    # A worker that has its first index after the erasure was asked nothing, and one that another test killed
    # cannot answer.
    reported = {
        worker for worker in index_cache.reports() if psutil.pid_exists(int(worker.rpartition(":")[2]))
    }
    erasure_id = client.erasure.request(person=word, aliases=[zh]).erasure_id
    report = client.erasure.wait_for(erasure_id, PATIENCE_SECONDS).report
    assert report is not None
    assert report["left"] == 0
    assert [one.erasure_id for one in client.erasure.list().rows] == [erasure_id]
    with pytest.raises(NotFound):
        client.erasure.get(id=uuid4())
    assert places(word, zh) == []
    assert reported <= set(report["workers"])
    assert sum(one["indexes"] for one in report["workers"].values()) >= 1
    assert [row.description for row in client.memory.list(agent_id="klaus").rows] == [
        "Klaus repairs the clock"
    ]
    assert [node.description for node in client.retrieve("klaus", word).retrieved_nodes] == [
        "Klaus repairs the clock"
    ]
    whom = Names([word, zh])
    files = [path for path in database.log_dir.rglob("*") if path.is_file()]
    assert {"intake.log", "retrieval.log", "beat.log", "postgres.log"} <= {path.name for path in files}
    shown = [path.name for path in files if whom.found_in(path.read_text("utf-8", "replace"))]
    assert shown == []


def _cause_trouble(group: str, word: str, zh: str) -> None:
    """Messages that are refused, events that are none, failing work and statements: all full of the word."""
    event = {"type": "memory.observed", "group_id": group, "agent_id": "klaus"}
    bodies = [
        {**event, "payload": {"description": f"{word} {zh}", "poignancy": f"{word}"}},
        {**event, "payload": {"description": "x", "node_type": word, "keywords": f"{word}"}},
        {**event, "type": f"{word}.happened", "payload": {}},
        {**event, "occurred_at": f"{word} o'clock", "payload": {"description": zh}},
        {**event, "event_id": word, "payload": {"description": zh, word: 1, "provenance": {word: "\x00"}}},
    ]
    for body in bodies:
        publish_raw(json.dumps(body, ensure_ascii=False))
    publish_raw(f'{{"{word}": ')
    with Client(group) as client, pytest.raises(InvalidRequest):
        client.transport.call(
            "rpc.erasure.request", CHANGES, {"group_id": group, "person": word, "agent_id": {zh: word}}, None
        )
    for statement in (
        "INSERT INTO memory_nodes (node_id, group_id, description) VALUES (gen_random_uuid(), :g, :word)",
        "SELECT CAST(:word AS uuid), :g",
    ):
        with pytest.raises(DBAPIError), whole_service(), unit_of_work() as connection:
            connection.execute(text(statement), {"g": group, "word": f"{word} {zh}"})
    until(
        lambda: len(rows("SELECT 1 FROM dead_letters WHERE body LIKE :word", word=f"%{word}%")) > len(bodies)
    )


def test_an_erasure_leaves_another_group_s_memory_of_the_same_id(alone: None, group: str) -> None:
    """And of the same words."""
    other = f"{group}-b"
    mine = observed(group, "Maria Lopez waters the ferns")
    theirs = observed(other, "Maria Lopez sells tomatoes", event_id=mine.event_id)
    save(mine, theirs, observed(other, "Klaus buys some", agent_id="maria"))
    touch(other, [theirs.event_id], T0.timestamp())
    erase(group, person="Maria Lopez")
    assert descriptions(group) == set()
    of = {"g": other, "id": mine.event_id}
    (node,) = rows("SELECT description FROM memory_nodes WHERE group_id = :g AND node_id = :id", **of)
    assert node["description"] == "Maria Lopez sells tomatoes"
    assert rows("SELECT outcome FROM events WHERE group_id = :g AND event_id = :id", **of) == [
        {"outcome": "stored"}
    ]
    assert rows("SELECT 1 FROM node_access WHERE group_id = :g AND node_id = :id", **of)


def test_what_is_not_counted_yet_does_not_count_as_left(alone: None, group: str, nothing_owed: None) -> None:
    """An event that comes while another is erased is counted once, when its work is done."""
    gone, *kept = [observed(group, f"Klaus sees {what}") for what in ("a fern", "a cat", "a boat")]
    save(gone, *kept)
    run_due(KINDS["accumulate"], accumulate)
    save(observed(group, "Klaus sees a kite"))
    erase(group, node_ids=[gone.event_id])
    run_due(KINDS["accumulate"], accumulate)
    (agent,) = rows("SELECT importance_ele_n FROM agents WHERE group_id = :g", g=group)
    assert agent["importance_ele_n"] == 3
