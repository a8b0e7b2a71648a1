"""The whole service through its client: told through the broker, remembered by workers, asked through
queues.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import kombu
import pytest
from sqlalchemy import text
from uuid6 import uuid7

from jiyi import Client
from jiyi.errors import EventRejected, ModelMismatch, NoAnswer
from jiyi.protocol.base import Rows
from jiyi.protocol.memory import Memory
from jiyi.protocol.wire.broker import exchange, intake_queue
from jiyi.settings import get_settings
from models.db.connection import unit_of_work
from models.memory.inbox import store
from tests.integration.memory.test_inbox import observed
from tests.integration.waiting import PATIENCE_SECONDS, until
from tests.services import intake_of_ones_own

T0 = datetime(2026, 3, 1, 8, tzinfo=UTC)


def publish_raw(body: str) -> None:
    """A message past the client's checks, as a careless program would send it."""
    settings = get_settings()
    with kombu.Connection(settings.broker_url) as connection, connection.Producer() as producer:
        producer.publish(
            body.encode(),
            exchange=exchange(),
            routing_key="memory.observed",
            content_type="application/json",
            content_encoding="utf-8",
            declare=[intake_queue(settings)],
        )


def publish_bad(group: str, event_id: UUID) -> None:
    event = {"type": "memory.observed", "event_id": str(event_id), "group_id": group, "agent_id": "klaus"}
    publish_raw(json.dumps(event))


def pages(ask: Callable[..., Rows[Any]], **fields: Any) -> Iterator[Any]:
    """The rows of all pages."""
    page = ask(**fields)
    yield from page.rows
    while page.next is not None:
        page = ask(cursor=page.next, **fields)
        yield from page.rows


def test_twelve_hundred_observations_travel_in_several_messages_and_are_numbered_in_order(
    client: Client,
) -> None:
    client.configure("klaus", importance_trigger_max=1_000_000, wait=True)  # no thoughts in between
    observations = [
        {"agent_id": "klaus", "description": f"observation {i}", "keywords": ["k"]} for i in range(1_200)
    ]
    ids = client.observe_many(observations, wait=True, timeout=60)
    assert len(set(ids)) == 1_200
    found = list(pages(client.memory.list, agent_id="klaus", limit=500))
    assert [node.node_count for node in found] == list(range(1_200, 0, -1))
    # Within a message the order is kept; whole messages may overtake each other.
    of = {node.node_id: node.node_count for node in found}
    for start in range(0, 1_200, 500):
        numbers = [of[event_id] for event_id in ids[start : start + 500]]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))


def test_a_retrieval_is_written_down_as_an_access(client: Client) -> None:
    event_id = client.observe("klaus", "Klaus drinks tea", occurred_at=T0, wait=True)
    client.retrieve("klaus", "tea", now=T0 + timedelta(hours=3))

    def node() -> Memory:
        return client.memory.list(agent_id="klaus").rows[0]

    until(lambda: node().access_count == 1)
    assert node().node_id == event_id
    assert node().last_accessed == T0 + timedelta(hours=3)


def test_what_a_conversations_prompt_shows_is_written_down_as_an_access(client: Client) -> None:
    client.observe("klaus", "Klaus drinks green tea", occurred_at=T0, wait=True)
    asked = T0 + timedelta(hours=3)
    prompt = client.conversations.context(agent_id="klaus", query="What tea does Klaus drink?", now=asked)
    assert "green tea" in prompt.context
    until(lambda: client.memory.list(agent_id="klaus").rows[0].last_accessed == asked)
    client.conversations.context(
        agent_id="klaus", query="What tea does Klaus drink?", now=asked + timedelta(hours=1), note=False
    )
    until(lambda: client.retrieve("klaus", "tea", now=asked + timedelta(minutes=1)).retrieved_nodes != [])
    until(lambda: client.memory.list(agent_id="klaus").rows[0].access_count == 2)
    assert client.memory.list(agent_id="klaus").rows[0].last_accessed == asked + timedelta(minutes=1)


def test_related_finds_keywords_whatever_the_case_in_chinese_and_by_the_end_of_a_path(client: Client) -> None:
    told = (
        {"keywords": ["Klaus", "Book"]},
        {"keywords": ["书店"]},
        {"keywords": ["book"], "node_type": "thought"},
        {"keywords": ["book"], "node_type": "chat"},
        {"keywords": ["book"], "agent_id": "maria"},
        {"subject": "the Ville:Hobbs Cafe:kitchen:Stove", "object": "hot"},
    )
    observations = [{"agent_id": "klaus", "description": f"{n}", **fields} for n, fields in enumerate(told)]
    one, two, three, _, _, six = client.observe_many(observations, wait=True)

    def related(**triple: str) -> tuple[list[UUID], list[UUID]]:
        found = client.memory.related(agent_id="klaus", **triple)
        return [row.node_id for row in found.events], [row.node_id for row in found.thoughts]

    assert related(object="BOOK") == ([one], [three])
    assert related(subject="kLAUS", predicate="reads", object="nothing of it") == ([one], [])
    assert related(subject="书店", object="book") == ([two, one], [three])
    assert related(subject="another place:the stove:STOVE") == ([six], [])
    assert related(subject="the Ville") == related() == ([], [])


def test_configuring_an_agent_changes_its_ranking(client: Client) -> None:
    old = client.observe("klaus", "the lost key", occurred_at=T0, poignancy=9, wait=True)
    new = client.observe("klaus", "weather", occurred_at=T0 + timedelta(hours=9), poignancy=1, wait=True)
    options: dict[str, Any] = {"now": T0 + timedelta(hours=10), "touch": False}
    assert client.retrieve("klaus", "the lost key", **options).accessed_ids == [old, new]
    client.configure("klaus", relevance_w=0, importance_w=0, mode="elapsed", wait=True)
    answer = client.retrieve("klaus", "the lost key", **options)
    assert answer.accessed_ids == [new, old]
    assert answer.debug.mode == "elapsed"
    assert answer.retrieved_nodes[0].relevance.weight == 0
    client.configure("klaus", relevance_w=None, importance_w=None, mode=None, wait=True)
    assert client.retrieve("klaus", "the lost key", **options).accessed_ids == [old, new]


def test_every_state_of_an_event_is_told_in_the_order_asked(client: Client) -> None:
    applied = client.configure("klaus", dedupe="exact", wait=True)
    retrievable = client.observe("klaus", "Klaus reads", wait=True)
    duplicate = client.observe("klaus", "KLAUS  reads", wait=True)
    held = observed(client.group, "not embedded yet")
    with unit_of_work() as connection:  # in one transaction, so that no worker gets at it in between
        store(connection, [held])
        connection.execute(
            text("UPDATE pending_work SET due_at = 'infinity' WHERE subject_id = :id"), {"id": held.event_id}
        )
    dead, unknown = uuid7(), uuid4()
    publish_bad(client.group, dead)
    until(lambda: client.events.states(ids=[dead]).rows[0].final)
    states = client.events.states(ids=[unknown, dead, duplicate, held.event_id, retrievable, applied]).rows
    assert [(state.event_id, state.state, state.node_id) for state in states] == [
        (unknown, "unknown", None),
        (dead, "dead", None),
        (duplicate, "duplicate", retrievable),
        (held.event_id, "stored", held.event_id),
        (retrievable, "retrievable", retrievable),
        (applied, "applied", None),
    ]
    assert states[1].reason.startswith("payload:")
    assert [state.final for state in states] == [False, True, True, False, True, True]


def test_what_nobody_reads_is_not_answered_in_time_but_no_event_is_lost(service: str) -> None:
    name = f"unread-{uuid4().hex[:8]}"
    settings = get_settings()
    with intake_of_ones_own(name), Client(service) as client:
        with pytest.raises(NoAnswer, match="1 of 1 events"):
            client.observe("klaus", "Klaus waits", wait=True, timeout=0.3)
        with pytest.raises(NoAnswer, match="nobody"):
            client.transport.call("retrieval.retrieve", "nobody", {"group_id": service}, 0.3)
        with (
            kombu.Connection(settings.broker_url) as connection,
            connection.SimpleQueue(intake_queue(settings)) as queue,
        ):
            assert queue.qsize() == 1
            queue.clear()


def test_errors_of_the_service_arrive_as_their_own_classes(client: Client) -> None:
    client.observe("klaus", "Klaus reads", vector=[1.0, 2.0], embedding_model="mine", wait=True)
    with pytest.raises(ModelMismatch, match="mine"):
        client.retrieve("klaus", "Klaus reads")
    event_id = uuid7()
    publish_bad(client.group, event_id)
    with pytest.raises(EventRejected, match=f"{event_id}: payload: required"):
        client.wait_for([event_id], PATIENCE_SECONDS)


def test_sixteen_threads_use_one_client_and_each_gets_its_own_answer(client: Client) -> None:
    def work(number: int) -> None:
        agent = f"agent-{number}"
        for round_ in range(2):
            description = f"agent {number} in round {round_}"
            event_id = client.observe(agent, description, wait=True, timeout=PATIENCE_SECONDS)
            answer = client.retrieve(agent, description, timeout=PATIENCE_SECONDS)
            assert {node.agent_id for node in answer.retrieved_nodes} == {agent}
            assert len(answer.retrieved_nodes) == round_ + 1
            assert event_id in answer.accessed_ids

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(work, range(16)))
    found = list(pages(client.agents.list, limit=7))
    assert sorted(row.agent_id for row in found) == sorted(f"agent-{i}" for i in range(16))
    assert {row.node_count for row in found} == {2}
