"""What is seen again is not stored again: decided where the memories are, also between two intakes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

import pytest

from bench.support import traces_perceive
from jiyi import Client
from jiyi.client.perceive import Seen
from jiyi.protocol.events import Event
from models.db.connection import unit_of_work
from models.memory.inbox import store
from tests.integration.memory.test_inbox import configured, nodes, observed, rows, save
from tests.integration.retrieval.test_parity import STANFORD
from tests.integration.waiting import until

LAMP = {"subject": "town:lamp", "predicate": "is", "object": "on"}


def seen(group: str, number: int = 0, retention: int | None = 5, **fields: object) -> Event:
    triple = LAMP if not number else {**LAMP, "subject": f"town:{number}"}
    return observed(group, f"lamp {number} is on", **{**triple, "retention": retention, **fields})


def outcome(event: Event) -> tuple[str, UUID | None]:
    (row,) = rows("SELECT outcome, node_id FROM events WHERE event_id = :id", id=event.event_id)
    return row["outcome"], row["node_id"]


@pytest.mark.usefixtures("database")
class TestRetention:
    def test_what_is_among_the_latest_events_is_a_duplicate_and_says_of_which(self, group: str) -> None:
        others = (
            seen(group, node_type="thought", retention=None),
            seen(group, agent_id="maria"),
            seen(group, object="On"),
        )
        first, again = seen(group), seen(group)
        save(*others, first)  # neither of another agent, nor with another triple
        assert outcome(first)[0] == "stored"
        save(again)
        assert outcome(again) == ("duplicate", first.event_id)
        later = seen(group, retention=2)
        # What was left out is not one of the latest.
        save(seen(group, 1, 1), seen(group, 1, 1), seen(group, 1, 1), later)
        assert outcome(later)[0] == "duplicate"

    @pytest.mark.parametrize("batches", [1, 3])
    def test_after_so_many_others_it_is_stored_again(self, group: str, batches: int) -> None:
        """Within one batch as over several, and with others that do not ask for it."""
        events = [
            seen(group),
            seen(group, 1, None),
            seen(group, 2),
            seen(group, retention=3),
            seen(group, retention=2),
        ]
        size = -(-len(events) // batches)
        for start in range(0, len(events), size):
            save(*events[start : start + size])
        assert [outcome(event)[0] for event in events] == [
            "stored",
            "stored",
            "stored",
            "duplicate",
            "stored",
        ]
        assert [node["node_count"] for node in nodes(group)] == [1, 2, 3, 4]

    def test_a_duplicate_of_one_rule_is_not_known_to_the_other(self, group: str) -> None:
        """``dedupe = exact`` beside ``retention``: a text that was left out has no node to point to."""
        save(configured(group, dedupe="exact"))
        first, left_out = seen(group), observed(group, "another text", **LAMP, retention=5)
        other = observed(group, "another text")
        save(first, left_out, other)
        assert [outcome(event)[0] for event in (first, left_out, other)] == ["stored", "duplicate", "stored"]

    def test_an_intake_waits_for_the_other_ones_commit(self, group: str) -> None:
        save(observed(group, "the agent exists"))
        first, second = seen(group), seen(group)
        with unit_of_work() as connection, ThreadPoolExecutor(1) as pool:
            store(connection, [first])
            other = pool.submit(save, second)
            until(lambda: rows("SELECT FROM pg_locks WHERE NOT granted"))
            connection.commit()
            other.result(60)
        assert outcome(second) == ("duplicate", first.event_id)


@pytest.mark.usefixtures("database", "nothing_owed")  # which would be appraised with the recording
@pytest.mark.skipif(
    not (STANFORD / traces_perceive.TRACE).is_file(), reason=f"no recording in {STANFORD} (JIYI_SHARED_DATA)"
)
def test_the_recorded_ticks_come_out_as_in_the_original() -> None:
    scenarios = traces_perceive.replay(STANFORD)
    assert [name for name, matched, reason in scenarios if not matched and reason is None] == []
    assert [name for name, matched, _ in scenarios if not matched and "stanford" in name] == [
        "perceive, tick 6 (stanford)"
    ]


def test_the_client_returns_what_was_new(client: Client) -> None:
    sight = [
        ("town:home:lamp", "is", "on", "on", 2.0),
        Seen("klaus", "chat with", "Maria", "talking about maps"),
        ("town:home:bed", None, None, None, 1.0),
        ("town:home:far", "is", "lit", "lit", 9.0),
    ]
    ids = client.perceive("klaus", sight, utterances=[("klaus", "Hello")], wait=True, timeout=30)
    assert len(ids) == 3
    found = {row["description"]: row for row in nodes(client.group)}
    assert set(found) == {"talking about maps", "klaus is talking about maps", "bed is idle", "lamp is on"}
    assert found["klaus is talking about maps"]["filling"] == [str(found["talking about maps"]["node_id"])]
    assert client.perceive("klaus", sight, wait=True, timeout=30) == []
    assert client.perceive("klaus", [], wait=True) == []
    later = client.perceive(
        "klaus", [*sight, ("书店:灯", "是", "亮着", "亮着", 0.5)], att_bandwidth=4, wait=True, timeout=30
    )
    assert [row["description"] for row in nodes(client.group) if row["node_id"] in later] == ["灯亮着"]
