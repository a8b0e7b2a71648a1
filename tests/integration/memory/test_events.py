"""What became of an event: told alike by the states, the list and the event's own page."""

from __future__ import annotations

from uuid import UUID, uuid4

import pytest
from sqlalchemy import text

from jiyi.protocol.recall import AddMemory
from models.db.actions import Actor
from models.db.connection import unit_of_work
from models.db.scope import for_groups, whole_service
from models.memory import archive, events
from models.memory.ingest import EventBatch, Ingestor
from models.memory.work import EMBED
from models.queue import stream
from tasks.framework.work import run_until_idle
from tasks.memory import embed
from tests.integration.memory.test_inbox import observed, save

pytestmark = pytest.mark.usefixtures("database")


def execute(group: str, statement: str, event_id: UUID) -> None:
    with for_groups(group), unit_of_work() as connection:
        connection.execute(text(statement), {"id": event_id})


def test_an_events_state_is_the_same_wherever_it_is_told(group: str) -> None:
    stored, retrievable, gone = observed(group, "one"), observed(group, "two"), observed(group, "three")
    first = observed(group, "said", retention=1, subject="a", predicate="b", object="c")
    again = observed(group, "said again", retention=1, subject="a", predicate="b", object="c")
    save(stored, retrievable, gone, first, again)
    execute(
        group,
        "UPDATE memory_nodes SET embedding = '[1]', embedding_model = 'm' WHERE node_id = :id",
        retrievable.event_id,
    )
    execute(group, "DELETE FROM memory_nodes WHERE node_id = :id", gone.event_id)
    expected = {
        stored.event_id: "stored",
        retrievable.event_id: "retrievable",
        gone.event_id: "erased",
        first.event_id: "stored",
        again.event_id: "duplicate",
    }
    with for_groups(group), unit_of_work() as connection:
        assert {
            one.event_id: one.state for one in events.states(connection, group, list(expected))
        } == expected
        assert {
            one.event_id: one.state
            for one in events.events(connection, group, None, before=None, after=None, limit=9)
        } == expected
        for event_id, state in expected.items():
            found = events.event(connection, events.EventRecord, group, event_id)
            assert found is not None
            assert (found.state, found.node_exists) == (state, state != "erased")


def test_a_refused_event_is_dead_and_one_that_never_came_is_unknown(group: str) -> None:
    refused, of_nobody, never = uuid4(), uuid4(), uuid4()
    insert = text("""
        INSERT INTO dead_letters (letter_id, kind, subject_id, group_id, reason)
        VALUES (gen_random_uuid(), 'intake', :id, :group, 'too long')
    """)
    with whole_service(), unit_of_work() as connection:
        connection.execute(insert, [{"id": refused, "group": group}, {"id": of_nobody, "group": None}])
        told = events.states(connection, group, [never, of_nobody, refused])
        assert [(one.event_id, one.state, one.reason) for one in told] == [
            (never, "unknown", ""),
            (of_nobody, "dead", "too long"),
            (refused, "dead", "too long"),
        ]
    # What names no group is shown to whoever sees all of them.
    with for_groups(group), unit_of_work() as connection:
        assert [one.state for one in events.states(connection, group, [of_nobody, refused])] == [
            "unknown",
            "dead",
        ]
    with whole_service(), unit_of_work() as connection:
        connection.execute(text("DELETE FROM dead_letters WHERE subject_id = :id"), {"id": of_nobody})


@pytest.mark.usefixtures("nothing_owed")
@pytest.mark.parametrize("door", ["the intake", "an action"])
def test_that_a_memory_is_stored_is_news_before_what_workers_make_of_it(
    group: str, door: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However quick they are: here they have done their work when they are woken."""

    def done_at_once(*kinds: str) -> None:
        assert EMBED in kinds
        assert run_until_idle(EMBED, embed) == 1

    monkeypatch.setattr("models.queue.wakeups.wake", done_at_once)
    if door == "the intake":
        Ingestor(redelivers=True).ingest([EventBatch([observed(group)])])
    else:
        archive.add_memory.perform(Actor(group), AddMemory(agent_id="klaus", description="Klaus reads"))
    told = [entry.kind for entry in stream.read(group, "0")]
    assert [kind for kind in told if kind.startswith("node.")] == ["node.stored", "node.retrievable"]
