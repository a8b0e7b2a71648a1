"""jiyi.client.client: what is checked before anything is sent, and what happens when nobody is there."""

from __future__ import annotations

import inspect
import keyword
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unittest.mock import create_autospec
from uuid import UUID

import pytest
from pydantic_core import to_json

from jiyi import Client
from jiyi.client.steps import Transport
from jiyi.errors import BrokerUnavailable, InvalidEvent, InvalidRequest, SettingsError
from jiyi.protocol import event_bodies, limits
from jiyi.protocol import events as wire
from jiyi.protocol.actions import TABLE
from jiyi.settings import Settings
from tools import client as made_client

NOBODY = "redis://127.0.0.1:1/0"


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    settings = Settings(broker_url=NOBODY, redis_url=NOBODY, request_timeout=0.6)
    monkeypatch.setattr(limits, "MAX_EVENTS_PER_MESSAGE", 3)
    with Client("group", settings=settings) as made:
        yield made


@pytest.fixture
def sent(client: Client, monkeypatch: pytest.MonkeyPatch) -> list[list[wire.Event]]:
    """Messages that would have been published."""
    messages: list[list[wire.Event]] = []
    monkeypatch.setattr(
        client.transport,
        "publish",
        lambda body, _routing_key: messages.append(event_bodies.decode(body).events),
    )
    return messages


def test_observe_makes_one_event_of_the_clients_group_or_of_the_one_that_is_named(
    client: Client, sent: list[list[wire.Event]]
) -> None:
    event_id = client.observe(
        "klaus", "Klaus reads", poignancy=4, session_id="s", subject="Klaus", occurred_at="2026-03-02T07:15Z"
    )
    (((event,)),) = sent
    assert isinstance(event, wire.MemoryObserved)
    assert event.event_id == event_id
    assert (event.group_id, event.agent_id, event.session_id) == ("group", "klaus", "s")
    assert event.occurred_at.isoformat() == "2026-03-02T07:15:00+00:00"
    assert (event.payload.description, event.payload.poignancy, event.payload.subject) == (
        "Klaus reads",
        4,
        "Klaus",
    )
    assert client.observe("klaus", "x", event_id=str(UUID(int=5)), group_id="other") == UUID(int=5)
    assert (sent[1][0].event_id, sent[1][0].group_id) == (UUID(int=5), "other")


def test_many_go_in_messages_of_limited_size_and_keep_their_order(
    client: Client, sent: list[list[wire.Event]], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert client.observe_many([]) == client.observe_many([], wait=True) == []
    assert sent == []
    ids = client.observe_many({"agent_id": "klaus", "description": str(i)} for i in range(7))
    assert [len(message) for message in sent] == [3, 3, 1]
    assert [event.event_id for message in sent for event in message] == ids
    assert [event.payload.description for message in sent for event in message] == [str(i) for i in range(7)]
    long = [
        wire.build(
            {
                "type": "memory.observed",
                "group_id": "g",
                "agent_id": "a",
                "payload": {"description": "x" * 500},
            }
        )
    ] * 5
    monkeypatch.setattr(limits, "MAX_MESSAGE_BYTES", 2_100)
    by_bytes = [events for events, _ in event_bodies.messages(long)]
    assert [len(message) for message in by_bytes] == [2, 2, 1]


def test_an_event_goes_as_it_is_and_a_whole_event_as_data_too(
    client: Client, sent: list[list[wire.Event]]
) -> None:
    event = wire.build(
        {"type": "memory.observed", "group_id": "theirs", "agent_id": "a", "payload": {"description": "x"}}
    )
    data = {"type": "agent.configured", "agent_id": "a", "payload": {"mode": "elapsed"}}
    client.observe_many([event, data])
    assert sent[0][0] == event
    assert isinstance(sent[0][1], wire.AgentConfigured)
    assert sent[0][1].group_id == "group"


def test_configure_sends_the_settings_that_are_given_and_those_taken_back(
    client: Client, sent: list[list[wire.Event]]
) -> None:
    client.configure("klaus", mode=None, recency_w=0)
    (received,) = event_bodies.decode(event_bodies.encode(sent[0])).events
    assert isinstance(received, wire.AgentConfigured)
    assert received.payload.model_dump(exclude_unset=True) == {"mode": None, "recency_w": 0}
    with pytest.raises(InvalidEvent, match=r"^payload.recency_decay: "):
        client.configure("klaus", recency_decay=2)
    assert len(sent) == 1


@pytest.mark.parametrize(
    ("fields", "problems"),
    [
        ({"colour": "red", "a": 1}, ["unknown option 'a': ", "unknown option 'colour': "]),
        ({"poignency": 3}, ["unknown option 'poignency': did you mean poignancy?"]),
        ({"session_id": ""}, ["session_id: "]),
        ({"occurred_at": "2026-03-02T07:15"}, ["occurred_at: "]),
        ({"group_id": ""}, ["group_id: "]),
        ({"vector": [1]}, ["payload: "]),
        ({"description": "a\0"}, ["payload.description: "]),
        ({"agent_id": " "}, ["agent_id: "]),
    ],
)
def test_a_wrong_observation_is_refused_by_its_fields(
    client: Client, sent: Any, fields: dict[str, Any], problems: list[str]
) -> None:
    with pytest.raises(InvalidEvent) as caught:
        client.observe(**({"agent_id": "klaus", "description": "x"} | fields))
    for problem, expected in zip(caught.value.problems, problems, strict=True):
        assert problem.startswith(expected)
    assert sent == []


@pytest.mark.parametrize("position", [0, 4])
@pytest.mark.parametrize(
    ("bad", "problem"), [({"description": ""}, "payload.description: "), ({"x": 1}, "unknown option 'x': ")]
)
def test_in_a_list_the_position_is_named_and_nothing_is_sent(
    client: Client, sent: Any, position: int, bad, problem: str
) -> None:
    observations = [{"agent_id": "klaus", "description": str(i)} for i in range(5)]
    observations[position] |= bad
    with pytest.raises(InvalidEvent) as caught:
        client.observe_many(observations)
    assert caught.value.problems[0].startswith(f"{position}.{problem}")
    assert sent == []


@pytest.mark.parametrize("what", ["just a text", None])
def test_what_is_no_observation_at_all_is_refused(client: Client, sent: Any, what: Any) -> None:
    with pytest.raises(InvalidEvent, match=r"^1\b"):
        client.observe_many([{"agent_id": "klaus", "description": "x"}, what])
    assert sent == []


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"top_k": 0}, "top_k: "),
        ({"focal": []}, "queries: "),
        ({"agent_id": ""}, "agent_id: "),
        ({"k": 1}, "unknown option 'k': "),
    ],
)
def test_a_wrong_question_is_refused_before_it_is_asked(
    client: Client, fields: dict[str, Any], problem: str
) -> None:
    with pytest.raises(InvalidRequest, match=f"^{problem}"):
        client.retrieve(**({"agent_id": "klaus", "focal": "tea"} | fields))
    with pytest.raises(InvalidRequest, match=r"^limit: .*501"):
        client.memory.list(agent_id="klaus", limit=501)


ACTS: dict[str, Callable[[Client], Any]] = {
    "observe": lambda client: client.observe("klaus", "x"),
    "observe and wait": lambda client: client.observe("klaus", "x", wait=True),
    "configure": lambda client: client.configure("klaus", mode="recent"),
    "retrieve": lambda client: client.retrieve("klaus", "tea"),
    "event_states": lambda client: client.events.states(ids=[UUID(int=1)]),
    "related": lambda client: client.memory.related(agent_id="klaus", subject="tea"),
}


def test_when_nobody_listens_it_is_said_soon() -> None:
    """All at once: each takes some seconds, mostly of waiting."""

    def failure(act: Callable[[Client], Any]) -> BaseException | None:
        settings = Settings(broker_url=NOBODY, redis_url=NOBODY, request_timeout=0.6)
        with (
            Client("group", settings=settings) as client,
            pytest.raises(BrokerUnavailable, match="running") as caught,
        ):
            act(client)
        return caught.value

    start = time.perf_counter()
    with ThreadPoolExecutor(len(ACTS)) as pool:
        failures = list(pool.map(failure, ACTS.values()))
    assert time.perf_counter() - start < 60
    assert [type(error) for error in failures] == [BrokerUnavailable] * len(ACTS)


def test_the_group_comes_from_the_settings_unless_given_and_stays() -> None:
    with pytest.raises(SettingsError, match=r"JIYI_REDIS_URL.*jiyi up"):
        Client(settings=Settings(broker_url=NOBODY))
    with pytest.raises(SettingsError, match=r"JIYI_BROKER_URL.*jiyi up"):
        Client(settings=Settings(redis_url=NOBODY))
    settings = Settings(broker_url=NOBODY, redis_url=NOBODY, group="from-settings")
    with Client(settings=settings) as client, Client("own", settings=settings) as other:
        assert (client.group, other.group) == ("from-settings", "own")
        with pytest.raises(AttributeError, match="group"):  # its verbs would not follow
            client.group = "another"  # type: ignore[misc]
        with pytest.raises(AttributeError, match="'Client' object has no attribute 'remember'"):
            client.remember  # noqa: B018


def test_any_transport_will_do_and_actions_are_asked_for_the_clients_group() -> None:
    knowledge_id, transport = UUID(int=7), create_autospec(Transport, instance=True)
    transport.call.return_value = to_json({"rows": [str(knowledge_id)]})
    with Client("g", settings=Settings(), transport=transport) as client:
        assert client.knowledge.demote(knowledge_ids=[knowledge_id], reason="旧").rows == [knowledge_id]
    asked = {"group_id": "g", "knowledge_ids": [str(knowledge_id)], "reason": "旧"}
    transport.call.assert_called_once_with("rpc.knowledge.demote", "actions", asked, None)
    transport.close.assert_called_once_with()


def test_what_is_made_of_the_protocol_is_up_to_date() -> None:
    assert made_client.main(["--check"]) == 0


def test_every_action_has_a_method_that_shows_the_fields_of_its_request(client: Client) -> None:
    for name, declared in TABLE.items():
        subject, verb = name.split(".")
        method = getattr(getattr(client, subject), f"{verb}_" if keyword.iskeyword(verb) else verb)
        shown = inspect.signature(method)
        assert method.__doc__
        if (
            type(method.__self__).__module__ == "jiyi.client.actions"
            and method.__func__.__module__ == "jiyi.client.verbs"
        ):
            assert list(shown.parameters) == list(declared.request.model_fields)


def test_help_shows_the_options_of_a_verb_with_their_defaults() -> None:
    shown = inspect.signature(Client.retrieve).parameters
    assert (shown["top_k"].default, shown["top_k"].annotation, shown["mode"].default) == (30, int, None)
    assert "options" not in shown
    assert {"self", "agent_id", "focal", "timeout"} < set(shown)
    assert "top_k: Most memories of each answer." in (inspect.getdoc(Client.retrieve) or "")
    assert inspect.signature(Client.observe).parameters["occurred_at"].default is ...


def test_within_gives_each_call_of_the_same_connections_so_long() -> None:
    transport = create_autospec(Transport, instance=True)
    transport.call.return_value = to_json({"rows": []})
    with Client("g", settings=Settings(), transport=transport) as client:
        client.within(3).agents.list()
        client.agents.list()
    assert [call.args[3] for call in transport.call.call_args_list] == [3, None]


def test_a_field_without_its_name_or_of_another_request_is_refused(client: Client) -> None:
    with pytest.raises(TypeError, match=r"keys\.revoke: its fields are given by their names"):
        client.keys.revoke("k")  # type: ignore[call-arg]
    with pytest.raises(InvalidRequest, match="unknown option 'key'"):
        client.keys.revoke(key="k")  # type: ignore[call-arg]
