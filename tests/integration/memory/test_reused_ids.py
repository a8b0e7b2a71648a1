"""Item 16: an event id used again with other content is refused at every door, and the same content again
changes nothing.
"""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID, uuid4

import pytest

from jiyi import Client
from jiyi.errors import EventRejected, IdReused
from jiyi.protocol.event_requests import EventState
from jiyi.protocol.events import Event, build
from jiyi.protocol.operations import ResolveBody, Resolved
from models.db.actions import Actor
from models.db.connection import unit_of_work
from models.memory import events as stored_events
from models.memory.inbox import StoreResult
from models.memory.ingest import EventBatch, Ingestor
from models.queue import actions
from tests.integration.memory.test_inbox import nodes, observed, rows, save
from tests.integration.programs import Program

pytestmark = pytest.mark.usefixtures("database")

FIRST, OTHER = "Klaus is reading a book", "Klaus sells the book"


def stored(*events: Event) -> StoreResult:
    done = save(*events)
    assert isinstance(done, StoreResult)
    return done


def from_broker(*events: Event) -> StoreResult:
    return Ingestor(redelivers=True).ingest([EventBatch([event]) for event in events])


def state(group: str, event_id: UUID) -> EventState:
    with unit_of_work() as connection:
        return stored_events.states(connection, group, [event_id])[0]


def letters(group: str) -> list[dict[str, Any]]:
    return rows(
        "SELECT subject_id, reason, body, state FROM dead_letters WHERE group_id = :g ORDER BY letter_id",
        g=group,
    )  # type: ignore[return-value]


def pair(group: str) -> tuple[Event, Event]:
    first = observed(group, FIRST)
    return first, observed(group, OTHER, event_id=first.event_id)


def test_16_other_content_is_not_stored_and_told(group: str) -> None:
    """Within one batch, where the first counts, as over several."""
    first, other = pair(group)
    done = stored(first, other, first)
    assert (done.events, done.repeated, done.reused) == (1, 1, [other])
    done = stored(other, observed(group, "new"), first)
    assert (done.events, done.repeated, done.reused) == (1, 1, [other])
    assert [node["description"] for node in nodes(group)] == [FIRST, "new"]


def test_16_the_same_again_at_another_time_and_with_the_llms_answers_of_an_export_is_the_same(
    group: str,
) -> None:
    fields = {"event_id": uuid4(), "provenance": {"size": 1e22, "n": 0.1}, "poignancy": None}
    stored(observed(group, FIRST, occurred_at="2026-03-02T09:00:00Z", **fields))
    assert stored(observed(group, FIRST, occurred_at="2026-03-03T09:00:00Z", **fields)).repeated == 1
    appraised = {**fields["provenance"], "appraised": {"poignancy": "p"}}  # type: ignore[dict-item]
    answered = {**fields, "poignancy": 7, "keywords": ["book"], "subject": "Klaus", "provenance": appraised}
    assert stored(observed(group, FIRST, **answered)).repeated == 1
    assert len(stored(observed(group, OTHER, **answered)).reused) == 1


def test_16_every_type_of_event_counts(group: str) -> None:
    ids = [uuid4() for _ in range(3)]

    def some(n: int) -> list[Event]:
        common = {"group_id": group, "agent_id": "klaus", "session_id": "s"}
        return [
            build({"type": "agent.configured", "event_id": ids[0], **common, "payload": {"recency_w": n}}),
            build(
                {
                    "type": "node.executed",
                    "event_id": ids[1],
                    **common,
                    "payload": {"node_id": "n", "output": f"say {n}"},
                }
            ),
            build(
                {"type": "session.ended", "event_id": ids[2], **common, "payload": {"partner": f"Maria {n}"}}
            ),
        ]

    assert stored(*some(1)).events == 3
    assert stored(*some(1)).repeated == 3
    assert stored(*some(2)).reused == some(2) or len(stored(*some(2)).reused) == 3


def test_16_an_event_whose_record_was_pruned_is_known_by_what_it_became(group: str) -> None:
    first, other = pair(group)
    output = build(
        {
            "type": "node.executed",
            "group_id": group,
            "agent_id": "n",
            "payload": {"node_id": "n", "output": "one"},
        }
    )
    changed = output.model_copy(update={"payload": output.payload.model_copy(update={"output": "two"})})
    stored(first, output)
    with unit_of_work() as connection:
        connection.exec_driver_sql("DELETE FROM events WHERE group_id = %s", (group,))
    assert stored(first, output).repeated == 2
    assert {event.event_id for event in stored(other, changed).reused} == {first.event_id, output.event_id}


def test_16_what_was_erased_cannot_be_compared_and_stays_erased(group: str) -> None:
    first, other = pair(group)
    stored(first)
    with unit_of_work() as connection:
        connection.exec_driver_sql(
            "UPDATE events SET outcome = 'erased', payload = '{}', agent_id = '' WHERE group_id = %s",
            (group,),
        )
    assert (stored(other).repeated, stored(first).repeated) == (1, 1)


# From the broker


def test_16_the_intake_keeps_it_as_one_dead_letter_and_event_states_says_so(group: str) -> None:
    first, other = pair(group)
    from_broker(first)
    assert state(group, first.event_id).state == "stored"
    for _ in range(2):  # it may be delivered twice
        done = from_broker(other, observed(group, "new"))
    assert (done.events, done.repeated, len(nodes(group))) == (1, 0, 3)
    (letter,) = letters(group)
    assert letter["reason"].startswith(f"id_reused: {first.event_id} is another event's id")
    assert json.loads(letter["body"])["payload"]["description"] == OTHER
    told = state(group, first.event_id)
    assert (told.state, told.node_id, told.final) == ("id_reused", first.event_id, True)
    assert told.reason == letter["reason"]


def test_16_replayed_it_is_refused_again_and_discarded_the_first_is_what_the_id_stands_for(
    group: str,
) -> None:
    first, other = pair(group)
    from_broker(first, other)

    def resolve(action: str) -> Resolved:
        open_ones = rows("SELECT letter_id FROM dead_letters WHERE group_id = :g AND state = 'open'", g=group)
        wanted = ResolveBody(action=action, letter_ids=[row["letter_id"] for row in open_ones])  # type: ignore[arg-type]
        return actions.resolve_letters.perform(Actor(group, operator=True), wanted)

    assert resolve("replay") == Resolved(resolved=1, refused_again=1)
    assert [letter["state"] for letter in letters(group)] == ["replayed", "open"]
    resolve("discard")
    assert state(group, first.event_id).state == "stored"
    (node,) = nodes(group)
    assert node["description"] == FIRST
    assert "sell" not in node["tokens"]  # what is derived is its own, too


def test_16_a_client_that_waits_is_told(client: Client) -> None:
    event_id = uuid4()
    client.observe("klaus", FIRST, event_id=event_id, wait=True)
    client.observe("klaus", FIRST, event_id=event_id, wait=True)
    with pytest.raises(IdReused, match=f"{event_id}: id_reused: ") as caught:
        client.observe("klaus", OTHER, event_id=event_id, wait=True)
    assert isinstance(caught.value, EventRejected)
    assert caught.value.code == "id_reused"
    client.observe("klaus", "after it", wait=True)  # so the intake has met it
    assert [state.state for state in client.events.states(ids=[event_id]).rows] == ["id_reused"]
    client.observe("klaus", FIRST, event_id=event_id, wait=True)  # the first sender is not told of the other
    assert [row.description for row in client.memory.list(agent_id="klaus").rows] == ["after it", FIRST]


# Over HTTP


def test_16_a_request_with_a_reused_id_is_refused_as_a_whole(api: Program, group: str) -> None:
    one = {"event_id": str(uuid4()), "agent_id": "klaus", "description": FIRST}
    assert api.post("/events", {"events": [one]})["accepted"] == 1
    again = api.post("/events", {"events": [one, one]})
    assert (again["event_ids"], again["accepted"], again["repeated"]) == ([one["event_id"]] * 2, 0, 2)
    problem = api.post(
        "/events",
        {"events": [{"agent_id": "klaus", "description": "new"}, {**one, "description": OTHER}]},
        status=409,
    )
    assert problem["code"] == "id_reused"
    assert one["event_id"] in problem["detail"]
    assert [(error["field"], error["message"].partition(":")[0]) for error in problem["errors"]] == [
        ("event_id", "id_reused")
    ]
    assert [node["description"] for node in nodes(group)] == [FIRST]
    (told,) = api.get("/events/status", ids=one["event_id"])["rows"]
    assert (told["state"], told["node_id"]) == ("id_reused", one["event_id"])
    assert len(letters(group)) == 1


def test_16_a_request_that_reuses_an_id_costs_others_nothing(group: str) -> None:
    first, other = pair(group)
    parts = [EventBatch([first]), EventBatch([other]), EventBatch([observed(group, "new")])]
    done = Ingestor(redelivers=False).ingest(parts)
    assert done.events == 2
    assert [type(part.error).__name__ for part in parts] == ["NoneType", "ReusedIds", "NoneType"]
