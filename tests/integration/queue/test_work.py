"""Pending work: claimed, settled, given back, made dead letters; by tasks called as functions."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import wait
from typing import Any
from uuid import UUID, uuid4

import numpy as np
import pytest
from sqlalchemy import Connection, text

from engine.providers.embedders import embedder
from jiyi.errors import EmbeddingUnavailable, NotFound
from jiyi.protocol.event_bodies import encode
from jiyi.protocol.events import Event
from jiyi.protocol.operations import LettersRequest, ResolveBody, Resolved, RetryWork
from models.db.actions import Actor
from models.db.connection import unit_of_work
from models.memory import inbox
from models.memory import nodes as nodes_model
from models.memory.work import ACCUMULATE, DEPTH, EMBED, STRENGTHEN
from models.queue import actions, dead_letters, pending_work
from tasks.framework import work as tasks
from tasks.framework.work import MAX_ATTEMPTS
from tasks.memory import accumulate, embed, settle_depth, strengthen
from tests.integration.memory.test_inbox import execute, nodes, observed, owed, rows, save
from tests.integration.threads import Threads

pytestmark = pytest.mark.usefixtures("database", "nothing_owed")


def do(kind: str, handler: object) -> int:
    return tasks.run_until_idle(kind, handler)


def vectors(group: str) -> dict[UUID, np.ndarray]:
    found = rows(
        "SELECT node_id, embedding, embedding_model FROM memory_nodes WHERE group_id = :g AND embedding IS"
        " NOT NULL",
        g=group,
    )
    return {row["node_id"]: row["embedding"].to_numpy() for row in found}


def due_now(kind: str) -> None:
    execute("UPDATE pending_work SET due_at = now() WHERE kind = :k", k=kind)


def buried(group: str) -> UUID:
    """The letter that an embedding became."""
    with unit_of_work() as connection:
        connection.execute(text("UPDATE pending_work SET attempts = 99, due_at = now()"))
        pending_work.dead_letter_exhausted(connection, EMBED, 8)
        (letter,) = dead_letters.letters(connection, group, LettersRequest(kind=EMBED))
    return letter.letter_id


def test_embed_fills_in_the_vectors_of_the_keys(group: str) -> None:
    one = observed(group, "Klaus is reading", embedding_key="reading")
    two = observed(group, "林岚在读书")
    save(one, two)
    assert do(EMBED, embed) >= 2  # with what other tests left in vectors of another size
    filled = vectors(group)
    np.testing.assert_allclose(filled[one.event_id], embedder().passages(["reading"])[0], rtol=1e-6)
    np.testing.assert_allclose(filled[two.event_id], embedder().passages(["林岚在读书"])[0], rtol=1e-6)
    assert not {kind for kind, _ in owed(group)} & {EMBED}


def test_equal_texts_of_a_group_are_embedded_once_and_a_vector_that_came_along_is_kept(group, monkeypatch):
    asked: list[str] = []
    original = embedder().passages
    monkeypatch.setattr(embedder(), "passages", lambda texts: asked.extend(texts) or original(texts))

    def embedded(*texts: str, of: str = group, **fields: Any) -> list[str]:
        """What is asked of the embedder for these memories."""
        asked.clear()
        save(*(observed(of, text, **fields) for text in texts))
        do(EMBED, embed)
        return list(asked)

    own = observed(group, "x", vector=[3.0, 4.0], embedding_model="mine")
    save(own)
    assert embedded("refrigerator is idle", "refrigerator is idle") == ["refrigerator is idle"]
    assert embedded("refrigerator is idle", "something else") == ["something else"]
    assert vectors(group)[own.event_id].tolist() == [3.0, 4.0]
    assert len(vectors(group)) == 5
    assert len({vector.tobytes() for vector in vectors(group).values()}) == 3
    for other in ("Refrigerator is idle", "refrigerator is idle.", "冰箱闲着"):
        assert embedded(other) == [other]
    # No vector comes from another group or model
    assert embedded("something else", of=f"{group}-other") == ["something else"]
    rows("UPDATE memory_nodes SET embedding_model = 'other' WHERE group_id = :g RETURNING node_id", g=group)
    assert embedded("something else", agent_id="another") == ["something else"]


def test_strengthen_counts_lower_cased_keywords_by_type(group: str) -> None:
    save(
        observed(group, "a", keywords=["Klaus", "Book"]),
        observed(group, "b", keywords=["klaus"]),
        observed(group, "c", node_type="thought", keywords=["KLAUS"]),
        observed(group, "d", node_type="chat", keywords=["klaus"]),
        observed(group, "bed is idle", subject="bed", predicate="is", object="idle"),
    )
    do(STRENGTHEN, strengthen)
    found = rows("SELECT memory_type, keyword, strength FROM kw_strength WHERE group_id = :g", g=group)
    assert {(row["memory_type"], row["keyword"]): row["strength"] for row in found} == {
        ("event", "klaus"): 2,
        ("event", "book"): 1,
        ("thought", "klaus"): 1,
    }


def test_accumulate_takes_poignancy_off_the_trigger_and_owes_a_reflection_once(group: str) -> None:
    save(*(observed(group, f"event {i}", poignancy=10) for i in range(14)))
    do(ACCUMULATE, accumulate)
    (agent,) = rows("SELECT * FROM agents WHERE group_id = :g", g=group)
    assert (agent["importance_trigger_curr"], agent["importance_ele_n"]) == (10, 14)
    assert not [kind for kind, _ in owed(group) if kind == "reflect"]
    save(observed(group, "the last straw", poignancy=10), observed(group, "and one more", poignancy=1))
    do(ACCUMULATE, accumulate)
    (agent,) = rows("SELECT * FROM agents WHERE group_id = :g", g=group)
    assert (agent["importance_trigger_curr"], agent["importance_ele_n"]) == (-1, 16)
    save(observed(group, "later", poignancy=3))
    do(ACCUMULATE, accumulate)
    assert [subject for kind, subject in owed(group) if kind == "reflect"] == [agent["agent_key"]]


def test_a_handler_that_fails_is_tried_again_alone_and_buried_in_the_end(group: str) -> None:
    good, bad = observed(group, "good"), observed(group, "bad")
    save(good, bad)
    seen: list[list[UUID]] = []

    def handler(batch: tasks.Batch) -> None:
        seen.append(list(batch.subject_ids))
        if bad.event_id in batch.subject_ids:
            raise RuntimeError("poison")
        with batch.finish():
            pass

    kind = tasks.KINDS[EMBED]
    tasks.run_due(kind, handler)
    assert {kind for kind, subject in owed(group) if subject == good.event_id} >= {EMBED}
    for _ in range(MAX_ATTEMPTS - 1):
        due_now(EMBED)
        tasks.run_due(kind, handler)
    assert sorted(map(len, seen)) == [1] * (len(seen) - 1) + [2]
    assert {subject for kind, subject in owed(group) if kind == EMBED} == set()
    with unit_of_work() as connection:
        (letter,) = dead_letters.letters(connection, group, LettersRequest(kind=EMBED))
    assert letter.subject_id == bad.event_id
    assert letter.attempts == MAX_ATTEMPTS
    assert letter.reason == "RuntimeError: poison"
    assert "Traceback" in letter.traceback


def test_a_worker_that_dies_each_time_is_counted_and_its_subject_buried(group: str) -> None:
    event = observed(group)
    save(event)
    for _ in range(MAX_ATTEMPTS):  # claimed, never settled: the process was killed
        due_now(EMBED)
        with unit_of_work() as connection:
            assert pending_work.claim(connection, EMBED, 10, 60)
    due_now(EMBED)
    with unit_of_work() as connection:
        assert pending_work.dead_letter_exhausted(connection, EMBED, MAX_ATTEMPTS) == {group: 1}
        (letter,) = dead_letters.letters(connection, group, LettersRequest(kind=EMBED))
    assert "died" in letter.reason


def test_a_provider_that_is_down_costs_no_attempt(group: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def down(_texts: object) -> None:
        raise EmbeddingUnavailable("the provider is down")

    event = observed(group)
    save(event)
    with monkeypatch.context() as patch:
        patch.setattr(embedder(), "passages", down)
        for _ in range(MAX_ATTEMPTS + 3):
            due_now(EMBED)
            tasks.run_due(tasks.KINDS[EMBED], embed)
    (row,) = rows("SELECT * FROM pending_work WHERE kind = 'embed' AND subject_id = :id", id=event.event_id)
    assert (row["attempts"], row["last_error"]) == (0, "the provider is down")
    due_now(EMBED)
    assert do(EMBED, embed) == 1
    assert event.event_id in vectors(group)


def test_two_workers_never_get_the_same_subject(group: str) -> None:
    save(*(observed(group, f"event {i}") for i in range(20)))
    with unit_of_work() as one, unit_of_work() as other:
        first, second = (
            pending_work.claim(connection, EMBED, 15, 60)[0].subject_ids for connection in (one, other)
        )
    assert (len(first), len(second), set(first) & set(second)) == (15, 5, set())


def test_a_failure_in_finish_leaves_neither_effect_nor_receipt_and_no_effect_is_written_twice(group):
    event = observed(group, keywords=["half"])
    save(event)

    def half(batch: tasks.Batch) -> None:
        with batch.finish() as (connection, subjects):
            nodes_model.strengthen(connection, subjects)
            raise RuntimeError("power cut")

    tasks.run_due(tasks.KINDS[STRENGTHEN], half)
    assert rows("SELECT * FROM kw_strength WHERE group_id = :g", g=group) == []
    assert (STRENGTHEN, event.event_id) in owed(group)
    quick, slow = (tasks.Batch(STRENGTHEN, [event.event_id]) for _ in range(2))
    strengthen(quick)
    strengthen(slow)  # whose lease has run out
    assert rows("SELECT strength FROM kw_strength WHERE group_id = :g", g=group) == [{"strength": 1}]


def test_replay_owes_the_work_anew_and_discard_does_not(group: str) -> None:
    event = observed(group)
    save(event)
    letters = []
    for action in ("replay", "discard"):
        letters.append(buried(group))
        wanted = ResolveBody(action=action, letter_ids=letters[-1:])
        assert actions.resolve_letters.perform(Actor(group, "test"), wanted) == Resolved(resolved=1)
        assert ((EMBED, event.event_id) in owed(group)) is (action == "replay")
    with pytest.raises(NotFound):
        actions.resolve_letters.perform(Actor(group), wanted)  # closed already
    noted = rows(
        "SELECT action, actor, details FROM audit_log WHERE group_id = :g ORDER BY audit_id", g=group
    )
    assert [(row["action"], row["actor"]) for row in noted] == [("dead_letters.resolve", "test")] * 2
    assert [row["details"] for row in noted] == [
        {"resolution": state, "kind": None, "count": 1, "letters": [str(letter)], "refused_again": 0}
        for state, letter in zip(("replayed", "discarded"), letters, strict=True)
    ]


def test_a_resolution_that_fails_leaves_neither_effect_nor_audit_row(group, monkeypatch):
    def away(*_: object) -> None:
        raise ConnectionError("the database is away")

    with unit_of_work() as connection:
        dead_letters.add_message(connection, "{}", "why", None, group)
        # the newest; those of no known group are everybody's
        letter, *_ = dead_letters.letters(connection, group, LettersRequest(limit=1))
    # before the audit row, and after
    for step in ("models.queue.actions.replay_events", "models.db.actions.Context.after_commit"):
        with monkeypatch.context() as patch, pytest.raises(ConnectionError):
            patch.setattr(step, away)
            actions.resolve_letters.perform(
                Actor(group), ResolveBody(action="replay", letter_ids=[letter.letter_id])
            )
    assert rows("SELECT state FROM dead_letters WHERE group_id = :g", g=group) == [{"state": "open"}]
    assert rows("SELECT action FROM audit_log WHERE group_id = :g", g=group) == []


def test_an_event_that_the_database_refuses_again_does_not_stop_the_others(group, monkeypatch):
    good, bad = observed(group, "good"), observed(group, "bad")
    with unit_of_work() as connection:
        for event in (good, bad):
            dead_letters.add_message(
                connection, encode([event]).decode(), "a mistake of ours", event.event_id, group
            )
    store = inbox.store

    def refusing(connection: Connection, events: Sequence[Event]) -> inbox.StoreResult:
        if bad in events:
            connection.execute(text("SELECT 'x'::int"))
        return store(connection, events)

    monkeypatch.setattr(inbox, "store", refusing)
    done = actions.resolve_letters.perform(Actor(group), ResolveBody(action="replay", kind="intake"))
    assert done == Resolved(resolved=2, refused_again=1)
    assert [row["description"] for row in nodes(group)] == ["good"]
    (again,) = actions.list_letters.perform(Actor(group), LettersRequest()).rows
    assert (again.subject_id, "invalid input syntax" in again.reason) == (bad.event_id, True)


def test_work_is_retried_for_the_group_alone_unless_an_operator_says_otherwise(group: str) -> None:
    other = f"{group}-other"
    for whose in (group, other):
        save(observed(whose))
    execute("UPDATE pending_work SET attempts = 3, due_at = now() + interval '1 hour'")

    def waiting(whose: str) -> int:
        return len(
            rows(
                "SELECT FROM pending_work WHERE group_id = :g AND kind = 'embed' AND due_at > now()", g=whose
            )
        )

    retry = actions.retry_work.perform
    assert retry(Actor(group), RetryWork(kind=EMBED, all_groups=True)).count == 1
    assert (waiting(group), waiting(other)) == (0, 1)
    assert retry(Actor(group, operator=True), RetryWork(kind=EMBED, all_groups=True)).count == 2
    assert waiting(other) == 0
    assert retry(Actor(group), RetryWork(kind="no such kind")).count == 0


def test_a_thought_that_came_before_its_evidence_gets_its_depth_when_that_arrives(group: str) -> None:
    event = observed(group)
    low = observed(group, "low", node_type="thought", evidence=[event.event_id])
    high = observed(group, "high", node_type="thought", evidence=[low.event_id])
    save(high)
    save(low)
    assert {subject for kind, subject in owed(group) if kind == DEPTH} == {high.event_id, low.event_id}
    do(DEPTH, settle_depth)
    assert {row["description"]: row["depth"] for row in nodes(group)} == {"high": 2, "low": 1}
    # its event is still missing
    assert {subject for kind, subject in owed(group) if kind == DEPTH} == {low.event_id}
    save(event)
    for _ in range(3):
        due_now(DEPTH)
        do(DEPTH, settle_depth)
    assert {subject for kind, subject in owed(group) if kind == DEPTH} == set()


def test_a_depth_that_changes_while_what_rests_on_it_is_settled_is_not_missed(group, monkeypatch):
    """Between a worker's look and its receipt another settles the evidence: it must owe it again."""
    event = observed(group)
    deep = observed(group, "deep", node_type="thought", evidence=[event.event_id])
    low = observed(group, "low", node_type="thought", evidence=[deep.event_id])
    high = observed(group, "high", node_type="thought", evidence=[low.event_id])
    for one in (high, low, event, deep):
        save(one)
    real, others = nodes_model.settle_depth, []
    with Threads(1) as pool:

        def overtaken(connection: Connection, node_id: UUID) -> nodes_model.SettledDepths:
            settled = real(connection, node_id)
            if node_id == high.event_id and not others:
                others.append(pool.submit(tasks.run_due, tasks.KINDS[DEPTH], settle_depth))
                wait(others, timeout=1)  # it waits for us, or is done before we are
            return settled

        monkeypatch.setattr(nodes_model, "settle_depth", overtaken)
        tasks.run_due(tasks.KINDS[DEPTH], settle_depth)
        assert others[0].result(60) == 1
    do(DEPTH, settle_depth)
    assert {row["description"]: row["depth"] for row in nodes(group) if row["type"] == "thought"} == {
        "deep": 1,
        "low": 2,
        "high": 3,
    }


def test_evidence_that_never_comes_ends_as_a_dead_letter_and_what_was_erased_is_owed_no_more(group):
    thought, gone = (
        observed(group, text, node_type="thought", evidence=[uuid4()]) for text in ("of nothing", "gone")
    )
    save(thought, gone)
    execute("DELETE FROM memory_nodes WHERE node_id = :id", id=gone.event_id)
    for _ in range(MAX_ATTEMPTS + 1):  # one of them takes what is gone
        due_now(DEPTH)
        tasks.run_due(tasks.KINDS[DEPTH], settle_depth)
    assert (DEPTH, gone.event_id) not in owed(group)
    with unit_of_work() as connection:
        (letter,) = dead_letters.letters(connection, group, LettersRequest(kind=DEPTH))
    assert letter.subject_id == thought.event_id
    assert "evidence" in letter.reason
    assert [row["depth"] for row in nodes(group)] == [1]


def test_a_long_chain_that_came_in_disorder_is_settled_in_as_many_runs_as_it_has_thoughts(group: str) -> None:
    """A run follows what has changed by one level; all in turns would be the chain's square."""
    length = 15
    ids = [uuid4() for _ in range(length + 1)]
    chain = [
        observed(group, f"thought {n}", event_id=ids[n], node_type="thought", evidence=[ids[n - 1]])
        for n in range(1, length + 1)
    ]
    for thought in reversed(chain):
        save(thought)
    save(observed(group, event_id=ids[0]))
    assert do(DEPTH, settle_depth) <= 2 * length
    depths = {row["description"]: row["depth"] for row in nodes(group) if row["type"] == "thought"}
    assert depths == {f"thought {n}": n for n in range(1, length + 1)}


def test_thoughts_that_rest_on_each_other_end_somewhere(group: str) -> None:
    ids = [uuid4() for _ in range(3)]
    for number, event_id in enumerate(ids):
        save(
            observed(
                group, f"thought {number}", event_id=event_id, node_type="thought", evidence=[ids[number - 1]]
            )
        )
    assert do(DEPTH, settle_depth) < 50
    assert {subject for kind, subject in owed(group) if kind == DEPTH} == set()
    assert {row["depth"] for row in nodes(group)} == {3}
