"""Quarantine and working memory: every output kept, the filters, the fifty, the expiry, what Valkey loses."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import text

from engine.providers.questions import Checked
from jiyi.errors import EmbeddingUnavailable, LLMUnavailable
from jiyi.protocol.knowledge import DeleteEntries, ListKnowledge
from models.db import valkey_keys
from models.db.actions import Actor
from models.db.connection import unit_of_work
from models.db.scope import for_groups
from models.db.valkey import valkey
from models.operations.numbers import delete_old
from models.queue import stream
from models.tiers import actions, quarantine, quarantine_reads, questions, working
from tests.integration.memory.test_inbox import execute, rows, save
from tests.integration.tiers.outputs import TEXTS, ask, entry, hot, job, output, run, say, screen, tasks, tier
from workers.ephemeral import environment

pytestmark = pytest.mark.usefixtures("database", "nothing_owed")

DAY = timedelta(hours=24)


def numbered(number: int) -> str:
    """Texts that no filter takes for each other."""
    trees = ["ash", "oak", "elm", "fir", "yew", "ivy"] * 2
    return " ".join(f"{tree}{number * 7919 % 1009}{place}" for place, tree in enumerate(trees))


# Quarantine


def test_every_output_is_kept_with_its_node_and_all_that_came_with_it(group: str) -> None:
    kept = {
        "node_id": "opponent-2",
        "node_type": "vote",
        "node_name": "Opponent",
        "confidence": 0.9,
        "depth": 3,
    }
    kept |= {"metadata": {"round": 2}, "provenance": {"run": 7}, "session_id": "s1", "agent_id": "Harriet"}
    at = datetime(2026, 3, 2, 10, 5, tzinfo=UTC)
    (short,) = say(group, "ok", node_id="tool")
    (full,) = say(group, TEXTS[0], occurred_at=at, **kept)
    assert entry(short)["content"] == "ok"
    assert (
        rows("SELECT kind FROM pending_work WHERE subject_id = :id", id=full) == []
    )  # no LLM is asked unless that is set
    kept |= {"kind": "verdict", "created_at": at, "group_id": group}
    assert {name: entry(full)[name] for name in kept} == kept
    # Quarantine is no memory, and its nodes are no agents; what was refused is not found.
    assert rows("SELECT agent_id FROM agents WHERE group_id = :g", g=group) == []
    assert rows("SELECT node_id FROM memory_nodes WHERE group_id = :g", g=group) == []
    assert [item.content for item in ask(group, "ok", relevance_threshold=-1, max_results=100).results] == [
        TEXTS[0]
    ]


def test_an_event_that_comes_twice_or_after_its_record_was_pruned_is_stored_once(group: str) -> None:
    event = output(group, TEXTS[0])
    save(event)
    save(event)
    screen()
    with unit_of_work() as connection:
        connection.execute(
            text("UPDATE events SET received_at = '2020-01-01' WHERE event_id = :id"), {"id": event.event_id}
        )
        delete_old(connection, "events", datetime(2021, 1, 1, tzinfo=UTC), 1_000)
    assert rows("SELECT 1 FROM events WHERE event_id = :id", id=event.event_id) == []
    save(event)
    assert screen() == 0
    assert len(rows("SELECT 1 FROM quarantine_logs WHERE group_id = :g", g=group)) == 1


def test_a_batch_of_outputs_and_memories_keeps_its_order_and_waits_for_no_agent(group: str) -> None:
    from tests.integration.memory.test_inbox import observed

    save(output(group, TEXTS[0]), observed(group), output(group, TEXTS[1], agent_id="klaus"))
    found = rows("SELECT type FROM events WHERE group_id = :g ORDER BY position", g=group)
    assert [row["type"] for row in found] == ["node.executed", "memory.observed", "node.executed"]
    assert rows("SELECT node_count FROM agents WHERE group_id = :g", g=group) == [{"node_count": 1}]


# The filters


def test_what_was_said_already_stays_out_whatever_its_capitals(group: str) -> None:
    first, same, alike, other = say(
        group, TEXTS[0], TEXTS[0].upper() + " ", TEXTS[0].replace("forty", "fifty"), TEXTS[1]
    )
    reasons = [entry(one)["rejected_reason"] for one in (first, same, alike, other)]
    assert reasons == [None, "duplicate", "near_duplicate", None]
    assert entry(alike)["rejected_details"]["entry"] == str(first)
    assert [found.entry_id for found in hot(group)] == [other, first]
    (elsewhere,) = say(f"{group}-other", TEXTS[0])
    assert entry(elsewhere)["rejected_reason"] is None  # what another group says is no repetition


def test_without_an_embedder_outputs_are_let_in_and_only_repetitions_kept_out(
    group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(_connection: object) -> None:
        raise EmbeddingUnavailable("the provider is away")

    monkeypatch.setattr(tasks("tiers"), "in_use", away)
    first, same, alike = say(group, TEXTS[0], TEXTS[0], TEXTS[0].replace("forty", "fifty"))
    assert [entry(one)["rejected_reason"] for one in (first, same, alike)] == [None, "duplicate", None]
    assert hot(group)[0].vector is None


def test_refusals_are_counted_told_and_can_be_audited(group: str) -> None:
    say(group, "ok", "no", TEXTS[0], TEXTS[0])
    assert working.stats(group) == {
        "accepted": 1,
        "rejected": 3,
        "rejected_too_short": 2,
        "rejected_duplicate": 1,
    }
    told = {one.kind: one.data for one in stream.read(group, "0")}
    assert '"reasons":{"too_short":2,"duplicate":1}' in told["wm.rejected"]
    assert TEXTS[0] not in told["wm.accepted"]
    with unit_of_work() as connection:
        decided = quarantine_reads.outcomes(connection, group)
        assert decided == {"too_short": 2, "accepted": 1, "duplicate": 1}
        page = questions.entries(connection, group, ListKnowledge(rejected="too_short"))
        assert {row.content for row in page.rows} == {"ok", "no"}
        assert page.counts == {"quarantine": 2, "working": 0, "longterm": 0}
        short = rows_ids(group, "ok")
        refused = quarantine.outcomes(connection, group, [short])[short]
    assert (refused.accepted, refused.reason) == (False, "too_short")
    assert refused.message == "It is worth 2 characters, fewer than 50."


def rows_ids(group: str, content: str) -> Any:
    return rows(
        "SELECT entry_id FROM quarantine_logs WHERE group_id = :g AND content = :c", g=group, c=content
    )[0]["entry_id"]


# The list


def test_the_newest_fifty_newest_first_of_which_ten_are_shown(group: str) -> None:
    at = datetime(2026, 3, 2, 10, tzinfo=UTC)
    events = [
        output(group, numbered(place), occurred_at=at + timedelta(seconds=place)) for place in range(53)
    ]
    ids = [event.event_id for event in events]
    for batch in (events[:50], events[50:]):
        save(*batch)
        screen()
    assert [found.entry_id for found in hot(group)] == ids[:2:-1]
    assert len(hot(group)) == 50
    # What has fallen out is noted, and still in quarantine.
    assert [entry(one)["expired_at"] is not None for one in ids[:4]] == [True, True, True, False]
    assert working.stats(group)["fallen_out"] == 3
    found = ask(group, "anything")
    assert [item.item_id for item in found.results] == [
        str(one) for one in ids[:42:-1]
    ]  # the original has eleven
    assert tier(found, "working").model_dump(include={"found", "shown", "state"}) == {
        "found": 50,
        "shown": 10,
        "state": "ok",
    }


def test_outputs_that_arrive_late_take_the_place_of_their_time_and_each_has_a_day_of_its_own(
    group: str,
) -> None:
    at = datetime.now(UTC)
    (second,) = say(group, TEXTS[0], occurred_at=at)
    (first,) = say(group, TEXTS[1], occurred_at=at - timedelta(seconds=5))
    assert [found.entry_id for found in hot(group)] == [second, first]
    ends = [entry(one)["working_until"] for one in (first, second)]
    assert all(timedelta(0) < end - datetime.now(UTC) <= DAY for end in ends)
    found = working.read(group, now=ends[1])  # the original's list lives on as long as anybody adds to it
    assert found is not None
    assert [one.entry_id for one in found] == [first]


def test_expired_entries_are_noted_before_they_go_and_the_keys_outlive_them(group: str) -> None:
    old, new = say(group, *TEXTS[:2])
    execute("UPDATE quarantine_logs SET working_until = now() WHERE entry_id = :id", id=old)
    assert job("expire_working_memory", group) == {"groups": 1, "entries": 1}
    assert job("expire_working_memory", group) == {}
    assert entry(old)["expired_at"] is not None
    assert entry(old)["content"] == TEXTS[0]
    assert [found.entry_id for found in hot(group)] == [new]
    for key in valkey_keys.working(group):
        assert valkey().ttl(key) > DAY.total_seconds()


def test_a_working_memory_that_valkey_lost_is_made_anew_by_the_next_reader(group: str) -> None:
    ids = say(group, *TEXTS[:3])
    before = hot(group)
    order, entries, whole = valkey_keys.working(group)
    for lost in (
        [order, entries, whole],
        [entries],
        [order],
        [whole],
    ):  # all of it, or what Valkey has evicted
        valkey().delete(*lost)
        assert working.read(group) is None
        found = ask(group, "anything", relevance_threshold=-1)
        assert {item.item_id for item in found.results} == {str(one) for one in ids}
        assert [(one.entry_id, one.content, one.flags, one.expires_at) for one in hot(group)] == [
            (one.entry_id, one.content, one.flags, one.expires_at) for one in before
        ]
        assert all((one.vector == other.vector).all() for one, other in zip(hot(group), before, strict=True))  # type: ignore[union-attr]
    valkey().delete(order, entries, whole)
    (again,) = say(group, TEXTS[0])  # a screening that finds it lost knows what was there
    assert entry(again)["rejected_reason"] == "duplicate"


def test_an_empty_working_memory_is_asked_for_in_the_database_once(
    group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ask(group, "anything").status == "ok"
    monkeypatch.setattr(quarantine, "stored_working_memory", None)
    assert ask(group, "anything").results == []


def test_deleted_entries_are_out_of_sight_and_out_of_working_memory(group: str) -> None:
    one, two = say(group, *TEXTS[:2])
    for expected in ([one], []):
        assert actions.delete.perform(Actor(group, "test"), DeleteEntries(entry_ids=[one])).rows == expected
    assert [found.entry_id for found in hot(group)] == [two]
    with unit_of_work() as connection:
        assert [row.entry_id for row in questions.entries(connection, group, ListKnowledge()).rows] == [
            str(two)
        ]
    audited = rows("SELECT action FROM audit_log WHERE group_id = :g", g=group)
    assert [row["action"] for row in audited] == ["quarantine.delete"]


# At once, again, in the middle


def test_two_screenings_at_once_let_the_same_text_in_once(group: str) -> None:
    events = [output(group, TEXTS[0]) for _ in range(2)]
    for event in events:
        save(event)
    work, tiers_tasks = tasks("framework.work"), tasks("tiers")
    start, errors = threading.Barrier(2), list[BaseException]()

    def one(event: Any) -> None:
        try:
            with for_groups(group):
                start.wait(60)
                tiers_tasks.ingress(work.Batch("ingress", [event.event_id]))
        except BaseException as error:  # noqa: BLE001 – whatever it is, the caller goes on
            errors.append(error)

    threads = [threading.Thread(target=one, args=(event,)) for event in events]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert errors == []
    assert len(hot(group)) == 1
    assert sorted(str(entry(event.event_id)["rejected_reason"]) for event in events) == ["None", "duplicate"]


def test_a_screening_that_dies_before_its_commit_is_done_again_without_a_trace(
    group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list had the entry already; the second attempt does not take it for a duplicate of itself."""
    event = output(group, TEXTS[0])
    save(event)
    with monkeypatch.context() as patched:
        patched.setattr(quarantine, "reject", _fails)
        assert (
            tasks("framework.work").run_due(tasks("framework.work").KINDS["ingress"], tasks("tiers").ingress)
            == 0
        )
    assert [one.entry_id for one in hot(group)] == [event.event_id]
    assert entry(event.event_id)["screened_at"] is None
    execute("UPDATE pending_work SET due_at = now() WHERE subject_id = :id", id=event.event_id)
    assert screen() == 1
    assert [one.entry_id for one in hot(group)] == [event.event_id]
    assert entry(event.event_id)["rejected_reason"] is None
    assert working.stats(group) == {"accepted": 1}


def _fails(*_: object) -> None:
    raise RuntimeError("the worker dies here")


# The LLM's word


class Judge:
    """An LLM that has made up its mind."""

    model = "judge"

    def __init__(self, verdict: str) -> None:
        self.verdict = verdict

    def ask(self, _question: object) -> Checked:
        if self.verdict == "away":
            raise LLMUnavailable("nobody answers")
        return Checked(verdict=self.verdict, why="")  # type: ignore[arg-type]


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    with environment(agent_defaults="check_outputs=llm"):
        yield monkeypatch


@pytest.mark.parametrize(
    ("verdict", "reason", "flag"),
    [
        ("consistent", None, "consistent"),
        ("inconsistent", "inconsistent", None),
        ("unknown", None, "unverified"),
        ("away", None, "unverified"),
    ],
)
def test_the_llm_is_asked_afterwards_and_what_contradicts_itself_leaves(
    group: str, checked: pytest.MonkeyPatch, verdict: str, reason: str | None, flag: str | None
) -> None:
    (one,) = say(group, TEXTS[0])
    assert "unverified" in hot(group)[0].flags  # it is in before anybody has answered
    checked.setattr(tasks("tiers"), "llm", lambda: Judge(verdict))
    assert run("consistency", "tiers", "consistency") == (0 if verdict == "away" else 1)
    row = entry(one)
    assert row["rejected_reason"] == reason
    assert (row["expired_at"] is not None) == (reason is not None)
    assert [flag in found.flags for found in hot(group)] == ([True] if flag else [])
    if flag:
        assert flag in row["flags"]
    owed = rows("SELECT kind FROM pending_work WHERE subject_id = :id", id=one)
    assert [work["kind"] for work in owed] == (["consistency"] if verdict == "away" else [])
