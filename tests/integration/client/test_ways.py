"""The client over both of its ways in: the same methods, answers and errors through the broker and over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from uuid import uuid4

import httpx2
import pytest
from flask import Flask

from jiyi import Client
from jiyi.accounts.api_keys import KeyScope
from jiyi.client.transports.http import HttpTransport
from jiyi.errors import BrokerUnavailable, InvalidEvent, InvalidRequest, JiyiError, NoAnswer, NotAllowed, NotFound, ServiceError
from jiyi.settings import get_settings

KeyMaker = Callable[..., str]
WAYS = ("broker", "http")


def over_http(web_app: Flask, key: str, group: str | None = None) -> Client:
    settings = get_settings()
    http = httpx2.Client(transport=httpx2.WSGITransport(app=web_app.wsgi_app))
    return Client(group, settings=settings, transport=HttpTransport("http://localhost", settings, group, key, http))


def client_of(way: str, web_app: Flask, api_key: KeyMaker, group: str, *scopes: KeyScope) -> Client:
    """A client with a key of the group, by either way."""
    key = api_key(group, *scopes)
    return Client(group, key=key) if way == "broker" else over_http(web_app, key)


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def either(way: str, service: str, web_app: Flask, api_key: KeyMaker) -> Iterator[Client]:
    with client_of(way, web_app, api_key, service, "publish", "read", "admin") as made:
        yield made


def test_observe_and_retrieve(either: Client) -> None:
    told = either.observe("klaus", "Klaus is reading a book on gentrification", poignancy=4, wait=True)
    many = either.observe_many([{"agent_id": "klaus", "description": f"克劳斯第{number}天"} for number in range(3)], wait=True)
    assert len(set(many)) == 3
    answer = either.retrieve("klaus", "What does Klaus read?", top_k=2)
    assert answer.status == "ok"
    assert answer.retrieved_nodes[0].node_id == told
    assert answer.retrieved_nodes[0].relevance.raw > 0


def test_namespaces_ask_and_do(either: Client) -> None:
    told = either.observe("anna", "Anna is allergic to nuts", poignancy=7, wait=True)
    assert [row["agent_id"] for row in either.agents.list().rows] == ["anna"]
    assert [row["node_id"] for row in either.memory.nodes("anna").rows] == [str(told)]
    assert [state.state for state in either.memory.event_states([told])] == ["retrievable"]
    assert either.why(told).node_id == told


def test_an_agent_is_configured(either: Client) -> None:
    either.configure("bob", recency_w=0.5, wait=True)
    either.observe("bob", "Bob sings", wait=True)
    assert either.retrieve("bob", "singing").status == "ok"


def test_wrong_fields_are_the_same_errors(either: Client) -> None:
    with pytest.raises(InvalidEvent, match="poignancy"):
        either.observe("klaus", "x", poignancy=99)
    with pytest.raises(InvalidRequest, match="top_k"):
        either.retrieve("klaus", "x", top_k=0)
    with pytest.raises(NotFound):
        either.why(uuid4())


def test_what_the_service_refuses_has_the_same_name(either: Client) -> None:
    with pytest.raises(NotFound):
        either.reflect("nobody-of-this-name")
    answer = either.retrieve("nobody-of-this-name", "anything")
    assert answer.status == "unknown_agent"


def test_an_id_used_again_is_refused_by_either_way(either: Client) -> None:
    event_id = uuid4()
    either.observe("klaus", "the first", event_id=event_id, wait=True)
    either.observe("klaus", "the first", event_id=event_id, wait=True)  # the same again is the same
    assert either.memory.event_states([event_id])[0].event_id == event_id


def test_rights_count_by_either_way(way: str, service: str, web_app: Flask, api_key: KeyMaker) -> None:
    with client_of(way, web_app, api_key, service, "publish", "read") as modest, pytest.raises(NotAllowed, match="operator"):
        modest.jobs.run("prune")
    with client_of(way, web_app, api_key, service, "publish") as mute, pytest.raises(NotAllowed):
        mute.retrieve("klaus", "x")


def test_another_group_stays_apart(way: str, service: str, web_app: Flask, api_key: KeyMaker) -> None:
    told = uuid4()
    with client_of(way, web_app, api_key, service, "publish", "read") as own:
        own.observe("klaus", "a secret", event_id=told, wait=True)
    with client_of(way, web_app, api_key, f"{service}-other", "publish", "read") as other:
        assert other.retrieve("klaus", "a secret").status == "unknown_agent"
        with pytest.raises(NotFound):
            other.why(told)


# What only HTTP has


def test_a_key_over_http_knows_its_group(service: str, web_app: Flask, api_key: KeyMaker) -> None:
    with over_http(web_app, api_key(service, "publish", "read")) as client:
        client.observe("klaus", "Klaus has a group that the client was not told", wait=True)
        assert [row["agent_id"] for row in client.agents.list().rows] == ["klaus"]


def test_an_operators_key_names_the_group(service: str, web_app: Flask, api_key: KeyMaker) -> None:
    with over_http(web_app, api_key(None, "publish", "read", "operator"), group=service) as client:
        client.observe("klaus", "told by an operator", wait=True)
    with over_http(web_app, api_key(service, "read")) as own:
        assert [row["agent_id"] for row in own.agents.list().rows] == ["klaus"]


@pytest.mark.parametrize("key", ["", "jiyi_abcdefghijkl_0123456789012345678901234567890123456789012"])
def test_without_a_good_key(web_app: Flask, key: str) -> None:
    with over_http(web_app, key) as client, pytest.raises(NotAllowed):
        client.agents.list()


def test_an_address_that_nobody_answers() -> None:
    with Client(url="http://127.0.0.1:9") as client, pytest.raises(BrokerUnavailable, match=r"cannot reach http://127\.0\.0\.1:9"):
        client.agents.list()


@pytest.mark.parametrize(
    ("status", "error"), [(401, NotAllowed), (404, NotFound), (429, JiyiError), (500, ServiceError), (502, ServiceError), (504, NoAnswer)]
)
def test_answers_that_are_no_problem_details(status: int, error: type[JiyiError]) -> None:
    settings = get_settings()
    for content in (b"<html>a proxy's page</html>", b'{"detail": "why", "title": "t"}', b""):
        http = httpx2.Client(transport=httpx2.MockTransport(lambda _request, content=content: httpx2.Response(status, content=content)))
        expected = error if b"detail" in content else ServiceError
        with Client(transport=HttpTransport("http://service", settings, None, "", http)) as client, pytest.raises(expected):
            client.agents.list()


def test_no_redirect_takes_the_key_elsewhere() -> None:
    asked: list[str] = []

    def redirect(request: httpx2.Request) -> httpx2.Response:
        asked.append(str(request.url))
        return httpx2.Response(307, headers={"Location": "http://elsewhere/"})

    http = httpx2.Client(transport=httpx2.MockTransport(redirect), follow_redirects=False)
    with Client(transport=HttpTransport("http://service", get_settings(), None, "", http)) as client, pytest.raises(ServiceError):
        client.agents.list()
    assert asked == ["http://service/api/v1/actions/agents.list"]


def test_an_unknown_action_is_not_found(service: str, web_app: Flask, api_key: KeyMaker) -> None:
    answer = web_app.test_client().post(
        "/api/v1/actions/agents.nothing", json={}, headers={"Authorization": f"Bearer {api_key(service, 'read')}"}
    )
    assert (answer.status_code, answer.json["detail"]) == (404, "There is no action 'agents.nothing'.")
