"""jiyi.client.client: what is checked before anything is sent, and what happens when nobody is there."""

from __future__ import annotations

import inspect
import keyword
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

NOBODY = "redis://127.0.0.1:1/0"


SETTINGS = Settings(broker_url=NOBODY, redis_url=NOBODY, request_timeout=0.6)
MOST = limits.MAX_EVENTS_PER_MESSAGE
EVENT = {"type": "memory.observed", "group_id": "theirs", "agent_id": "a", "payload": {"description": "x"}}
Sent = list[list[wire.Event]]


@pytest.fixture
def transport() -> Any:
    return create_autospec(Transport, instance=True)


@pytest.fixture
def client(transport: Any) -> Iterator[Client]:
    with Client("group", settings=SETTINGS, transport=transport) as made:
        yield made


@pytest.fixture
def sent(transport: Any) -> Sent:
    """The events of each message that was published."""
    messages: Sent = []
    transport.publish.side_effect = lambda body, _key: messages.append(event_bodies.decode(body).events)
    return messages


def test_observe_makes_one_event_of_the_clients_group_or_of_the_one_that_is_named(
    client: Client, sent: Sent
) -> None:
    fields = {"poignancy": 4, "session_id": "s", "subject": "Klaus", "occurred_at": "2026-03-02T07:15Z"}
    event_id = client.observe("klaus", "Klaus reads", **fields)
    (((event,)),) = sent
    assert isinstance(event, wire.MemoryObserved)
    assert event.event_id == event_id
    assert (event.group_id, event.agent_id, event.session_id) == ("group", "klaus", "s")
    assert event.occurred_at.isoformat() == "2026-03-02T07:15:00+00:00"
    said = event.payload
    assert (said.description, said.poignancy, said.subject) == ("Klaus reads", 4, "Klaus")
    assert client.observe("klaus", "x", event_id=str(UUID(int=5)), group_id="other") == UUID(int=5)
    assert (sent[1][0].event_id, sent[1][0].group_id) == (UUID(int=5), "other")


def test_many_go_in_messages_of_limited_size_and_keep_their_order(client: Client, sent: Sent) -> None:
    assert client.observe_many([]) == client.observe_many([], wait=True) == []
    assert sent == []
    ids = client.observe_many({"agent_id": "klaus", "description": str(i)} for i in range(2 * MOST + 1))
    assert [len(message) for message in sent] == [MOST, MOST, 1]
    assert [event.event_id for message in sent for event in message] == ids
    assert [event.payload.description for event in sent[1]] == [str(i) for i in range(MOST, 2 * MOST)]
    long = wire.build({**EVENT, "payload": {"description": "记" * 20_000}})
    (first, body), (rest, _) = event_bodies.messages([long] * 300)
    assert len(first) + len(rest) == 300
    assert len(body) <= limits.MAX_MESSAGE_BYTES < len(body) + 60_000


def test_an_event_goes_as_it_is_and_a_whole_event_as_data_too(client: Client, sent: Sent) -> None:
    event = wire.build(EVENT)
    data = {"type": "agent.configured", "agent_id": "a", "payload": {"mode": "elapsed"}}
    client.observe_many([event, data])
    assert sent[0][0] == event
    assert isinstance(sent[0][1], wire.AgentConfigured)
    assert sent[0][1].group_id == "group"


def test_configure_sends_the_settings_that_are_given_and_those_taken_back(client: Client, sent: Sent) -> None:
    client.configure("klaus", mode=None, recency_w=0)
    (received,) = event_bodies.decode(event_bodies.encode(sent[0])).events
    assert isinstance(received, wire.AgentConfigured)
    assert received.payload.model_dump(exclude_unset=True) == {"mode": None, "recency_w": 0}
    with pytest.raises(InvalidEvent, match=r"^payload.recency_decay: "):
        client.configure("klaus", recency_decay=2)
    assert len(sent) == 1


def test_a_wrong_observation_is_refused_by_its_fields(client: Client, sent: Sent) -> None:
    wrong: list[tuple[dict[str, Any], list[str]]] = [
        ({"colour": "red", "a": 1}, ["unknown option 'a': ", "unknown option 'colour': "]),
        ({"poignency": 3}, ["unknown option 'poignency': did you mean poignancy?"]),
        ({"session_id": "", "group_id": ""}, ["group_id: ", "session_id: "]),
        ({"vector": [1]}, ["payload: "]),
    ]
    for fields, problems in wrong:
        with pytest.raises(InvalidEvent) as caught:
            client.observe(**{"agent_id": "klaus", "description": "x", **fields})
        for problem, expected in zip(sorted(caught.value.problems), problems, strict=True):
            assert problem.startswith(expected)
    assert sent == []


@pytest.mark.parametrize("position", [0, 4])
def test_in_a_list_the_position_is_named_and_nothing_is_sent(
    client: Client, sent: Sent, position: int
) -> None:
    good: list[Any] = [{"agent_id": "klaus", "description": str(i)} for i in range(5)]
    for bad, problem in (
        ({**good[0], "description": ""}, ".payload.description: "),
        ({**good[0], "x": 1}, ".unknown option 'x': "),
        ("just a text", ""),
        (None, ""),
    ):
        with pytest.raises(InvalidEvent, match=rf"^{position}\b") as caught:
            client.observe_many([*good[:position], bad, *good[position + 1 :]])
        assert caught.value.problems[0].startswith(f"{position}{problem}")
    assert sent == []


def test_a_wrong_question_is_refused_before_it_is_asked(client: Client, transport: Any) -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"top_k": 0}, "top_k: "),
        ({"focal": []}, "queries: "),
        ({"agent_id": ""}, "agent_id: "),
        ({"k": 1}, "unknown option 'k': "),
    ]
    for fields, problem in wrong:
        with pytest.raises(InvalidRequest, match=f"^{problem}"):
            client.retrieve(**{"agent_id": "klaus", "focal": "tea", **fields})
    with pytest.raises(InvalidRequest, match=r"^limit: .*501"):
        client.memory.list(agent_id="klaus", limit=501)
    transport.call.assert_not_called()


ACTS: dict[str, Callable[[Client], Any]] = {
    "observe": lambda client: client.observe("klaus", "x"),
    "observe and wait": lambda client: client.observe("klaus", "x", wait=True),
    "configure": lambda client: client.configure("klaus", mode="recent"),
    "retrieve": lambda client: client.retrieve("klaus", "tea"),
    "event_states": lambda client: client.events.states(ids=[UUID(int=1)]),
    "related": lambda client: client.memory.related(agent_id="klaus", subject="tea"),
}


def test_when_nobody_listens_it_is_said() -> None:
    """All at once: each takes some seconds, mostly of waiting."""

    def failure(act: Callable[[Client], Any]) -> BaseException | None:
        with (
            Client("group", settings=SETTINGS) as client,
            pytest.raises(BrokerUnavailable, match="running") as caught,
        ):
            act(client)
        return caught.value

    with ThreadPoolExecutor(len(ACTS)) as pool:
        failures = list(pool.map(failure, ACTS.values()))
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


def test_actions_are_asked_for_the_clients_group_and_for_as_long_as_within_says(
    client: Client, transport: Any
) -> None:
    transport.call.return_value = to_json({"rows": [str(UUID(int=7))]})
    assert client.knowledge.demote(knowledge_ids=[UUID(int=7)], reason="旧").rows == [UUID(int=7)]
    asked = {"group_id": "group", "knowledge_ids": [str(UUID(int=7))], "reason": "旧"}
    transport.call.assert_called_once_with("rpc.knowledge.demote", "actions", asked, None)
    transport.call.return_value = to_json({"rows": []})
    client.within(3).agents.list()
    client.agents.list()
    assert [call.args[3] for call in transport.call.call_args_list] == [None, 3, None]
    client.close()
    transport.close.assert_called_once_with()


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


def test_a_field_without_its_name_or_of_another_request_is_refused(client: Client) -> None:
    with pytest.raises(TypeError, match=r"keys\.revoke: its fields are given by their names"):
        client.keys.revoke("k")  # type: ignore[call-arg]
    with pytest.raises(InvalidRequest, match="unknown option 'key'"):
        client.keys.revoke(key="k")  # type: ignore[call-arg]
