"""The client over both of its ways in, blocking and in asyncio: the same methods, answers and errors."""

from __future__ import annotations

import asyncio
import inspect
import itertools
import os
import platform
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import httpx2
import pytest
from flask import Flask

from jiyi import AsyncClient, Client
from jiyi.client.http import AsyncHttpTransport, HttpTransport
from jiyi.errors import (
    BrokerUnavailable,
    InvalidEvent,
    InvalidRequest,
    JiyiError,
    NoAnswer,
    NotAllowed,
    NotFound,
    ServiceError,
)
from jiyi.protocol.wire.signatures import KeyScope
from jiyi.settings import get_settings
from jiyi.text.prompting import PREFACE
from models.db import valkey_keys
from models.db.valkey import valkey
from tests.integration.programs import Program

KeyMaker = Callable[..., str]
#: Until an erasure is done, on a busy machine.
PATIENCE_SECONDS = 100.0
WAYS = ("broker", "http", "broker, async", "http, async")


def over_http(web_app: Flask, key: str, group: str | None = None) -> Client:
    settings = get_settings()
    http = httpx2.Client(transport=httpx2.WSGITransport(app=web_app.wsgi_app))
    return Client(
        group, settings=settings, transport=HttpTransport("http://localhost", settings, group, key, http)
    )


class Served(httpx2.AsyncBaseTransport):
    """The web as it is served, for a client in asyncio."""

    def __init__(self, app: Flask) -> None:
        self._wsgi = httpx2.WSGITransport(app=app.wsgi_app)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        sent = httpx2.Request(
            request.method, request.url, headers=request.headers, content=await request.aread()
        )
        answer = await asyncio.to_thread(self._wsgi.handle_request, sent)
        return httpx2.Response(answer.status_code, headers=answer.headers, content=answer.read())


def over_http_async(web_app: Flask, key: str, group: str | None = None) -> AsyncClient:
    settings = get_settings()
    http = httpx2.AsyncClient(transport=Served(web_app))
    return AsyncClient(
        group, settings=settings, transport=AsyncHttpTransport("http://localhost", settings, group, key, http)
    )


class Awaited:
    """A client in asyncio, or one of its namespaces, as if it were blocking: every verb is awaited, every
    list gathered.
    """

    def __init__(self, of: Any, runner: asyncio.Runner) -> None:
        self._of, self._runner = of, runner

    def __enter__(self) -> Awaited:
        return self

    def __exit__(self, *_error: object) -> None:
        self._runner.run(self._of.close())
        self._runner.close()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._of, name)
        return self._awaited(found) if callable(found) else Awaited(found, self._runner)

    def _awaited(self, verb: Callable[..., Any]) -> Callable[..., Any]:
        def perform(*args: Any, **kwargs: Any) -> Any:
            made = verb(*args, **kwargs)
            return self._runner.run(made if inspect.iscoroutine(made) else gathered(made))

        return perform


async def gathered(rows: AsyncIterator[Any]) -> list[Any]:
    return [row async for row in rows]


async def made(make: Callable[[], AsyncClient]) -> AsyncClient:
    return make()


def client_of(way: str, web_app: Flask, api_key: KeyMaker, group: str, *scopes: KeyScope) -> Any:
    """A client with a key of the group, by either way."""
    key = api_key(group, *scopes)
    if not way.endswith("async"):
        return Client(group, key=key) if way == "broker" else over_http(web_app, key)
    runner = asyncio.Runner()
    over = (
        (lambda: AsyncClient(group, key=key))
        if way.startswith("broker")
        else (lambda: over_http_async(web_app, key))
    )
    return Awaited(runner.run(made(over)), runner)


@pytest.fixture(params=["broker", "http, async"])
def way(request: pytest.FixtureRequest) -> str:
    """Each way in, each kind of client; that both kinds send the same is shown in ``unit/client``."""
    return str(request.param)


@pytest.fixture
def either(way: str, service: str, web_app: Flask, api_key: KeyMaker) -> Iterator[Client]:
    with client_of(way, web_app, api_key, service, "publish", "read", "admin") as made:
        yield made


@pytest.mark.parametrize("way", WAYS)
def test_what_is_told_is_retrieved_listed_page_by_page_and_got(either: Client) -> None:
    either.configure("klaus", mode="elapsed", wait=True)
    told = either.observe("klaus", "Klaus is reading a book on gentrification", poignancy=4, wait=True)
    days = either.observe_many(
        [{"agent_id": "klaus", "description": f"克劳斯第{number}天"} for number in range(6)], wait=True
    )
    either.observe("anna", "Anna is allergic to nuts", wait=True)
    answer = either.retrieve("klaus", "What does Klaus read?", top_k=2)
    assert (answer.status, answer.debug.mode) == ("ok", "elapsed")
    assert answer.retrieved_nodes[0].node_id == told
    assert answer.retrieved_nodes[0].relevance.raw > 0
    assert either.retrieve("klaus", "第四天", top_k=1).retrieved_nodes[0].node_id in days
    assert [memory.node_id for memory in either.list("klaus", page_size=3)] == [*days[::-1], told]
    assert [memory.description for memory in either.list("klaus", words="gentrification")] == [
        "Klaus is reading a book on gentrification"
    ]
    assert len(list(either.list(page_size=3))) == 8
    one = either.get(told)
    assert (one.poignancy, one.agent_id, one.superseded_at) == (4, "klaus", None)
    assert [row.agent_id for row in either.agents.list().rows] == ["anna", "klaus"]
    assert [row.node_id for row in either.memory.list(agent_id="klaus", limit=1).rows] == days[-1:]
    assert [state.state for state in either.events.states(ids=[told]).rows] == ["retrievable"]
    assert either.memory.why(id=told).node_id == told
    again = either.observe(
        "klaus", "Klaus is reading a book on gentrification", poignancy=4, event_id=told, wait=True
    )
    assert again == told  # the same again is the same


def test_an_update_is_found_instead_of_what_it_replaces(either: Client) -> None:
    first = either.observe("klaus", "Klaus lives in Kyoto", poignancy=6, keywords=["home"], wait=True)
    since, event_id = datetime(2026, 3, 2, 7, 15, tzinfo=UTC), uuid4()
    move = {"occurred_at": since, "event_id": event_id}
    second = either.update(first, "Klaus lives in Osaka", **move, wait=True)
    assert second == either.update(first, "Klaus lives in Osaka", **move) == event_id
    old, new = either.get(first), either.get(second)
    assert (old.superseded_by, old.superseded_at) == (second, since)
    assert (new.description, new.created_at, new.poignancy) == ("Klaus lives in Osaka", since, 6)
    assert (new.superseded_at, new.provenance["replaces"]) == (None, str(first))

    def found(**options: Any) -> set[UUID]:
        answer = either.retrieve("klaus", "Where does Klaus live?", **options)
        return {node.node_id for node in answer.retrieved_nodes}

    assert (found(), found(filters={"superseded": True})) == ({second}, {first, second})
    assert [memory.node_id for memory in either.list("klaus")] == [second]
    assert len(list(either.list("klaus", superseded=True))) == 2
    with pytest.raises(InvalidRequest, match="superseded by"):
        either.update(first, "Klaus lives in Nara")
    third = either.update(second, importance=9, wait=True)
    assert (either.get(third).description, either.get(third).poignancy) == ("Klaus lives in Osaka", 9)
    said = either.add_turn("klaus", "user", "I moved to Osaka, my password is hunter2", "s1", wait=True)
    assert "hunter2" not in either.get(said).description
    assert either.get(said).kind == "session"
    with pytest.raises(InvalidRequest, match="said in a conversation"):
        either.update(said, "I moved to Nara")


def test_a_context_keeps_to_its_budget_and_a_deleted_memory_is_gone(either: Client) -> None:
    told = either.observe("klaus", "Klaus promised to bring the book back on Friday", importance=7, wait=True)
    either.observe("klaus", "克劳斯在读一本关于城市的书", wait=True)
    made = either.context("klaus", "What did Klaus promise?")
    assert "promised to bring the book back" in made.text
    assert made.text.splitlines()[0] == PREFACE["en"]
    assert len(made.memories) == len(made.text.splitlines()[1:]) == 2
    assert 0 < made.tokens <= 2_000
    short = either.context("klaus", "What did Klaus promise?", max_tokens=45)
    assert (len(short.memories), short.tokens <= 45) == (1, True)
    assert either.context("nobody", "What did Klaus promise?").text == ""
    # Tests that retrieve in this process have reported its indexes, and an erasure would wait for its answer.
    valkey().delete(valkey_keys.indexes(f"{platform.node()}:{os.getpid()}"))
    erasure_id = either.delete(told)
    assert either.erasure.wait_for(erasure_id, PATIENCE_SECONDS).state == "done"
    for gone in (either.get, either.delete):
        with pytest.raises(NotFound):
            gone(told)


def test_what_is_refused_is_the_same_error_with_the_same_words(either: Client) -> None:
    unknown = r"^unknown option '{}': did you mean {}\?$".format
    told, asked = (
        (lambda **o: either.observe("klaus", "x", **o)),
        (lambda **o: either.retrieve("klaus", "x", **o)),
    )
    refused: list[tuple[type[JiyiError], str, Callable[[], Any]]] = [
        (InvalidRequest, unknown("topk", "top_k"), lambda: asked(topk=3)),
        (
            InvalidRequest,
            unknown("filters.sesion_id", "session_id"),
            lambda: asked(filters={"sesion_id": "s"}),
        ),
        (InvalidEvent, unknown("poignency", "poignancy"), lambda: told(poignency=3)),
        (
            InvalidEvent,
            unknown("recency_weight", "recency_w"),
            lambda: either.configure("klaus", recency_weight=3),
        ),
        (InvalidEvent, "give one of them", lambda: told(poignancy=3, importance=4)),
        (InvalidEvent, "poignancy", lambda: told(poignancy=99)),
        (InvalidRequest, "top_k", lambda: asked(top_k=0)),
        (NotFound, "no memory", lambda: either.get(uuid4())),
        (NotFound, "nobody", lambda: list(either.list("nobody"))),
        (NotFound, ".", lambda: either.memory.why(id=uuid4())),
        (NotFound, ".", lambda: either.update(uuid4(), "nothing")),
        (NotFound, ".", lambda: either.reflect("nobody")),
    ]
    for error, words, ask in refused:
        with pytest.raises(error, match=words):
            ask()
    assert either.retrieve("nobody", "anything").status == "unknown_agent"


def test_rights_count_and_another_group_stays_apart(
    way: str, service: str, web_app: Flask, api_key: KeyMaker
) -> None:
    told = uuid4()
    with client_of(way, web_app, api_key, service, "publish", "read") as own:
        own.observe("klaus", "a secret", event_id=told, wait=True)
        with pytest.raises(NotAllowed, match="operator"):
            own.jobs.run("prune")
    with client_of(way, web_app, api_key, service, "publish") as mute, pytest.raises(NotAllowed):
        mute.retrieve("klaus", "x")
    with client_of(way, web_app, api_key, f"{service}-other", "publish", "read") as other:
        assert other.retrieve("klaus", "a secret").status == "unknown_agent"
        assert [state.state for state in other.events.states(ids=[told]).rows] == ["unknown"]
        for ask in (lambda: other.memory.why(id=told), lambda: other.memory.list(agent_id="klaus")):
            with pytest.raises(NotFound):
                ask()


# What only HTTP has


def test_an_operators_key_names_the_group(service: str, web_app: Flask, api_key: KeyMaker) -> None:
    with over_http(web_app, api_key(None, "publish", "read", "operator"), group=service) as client:
        client.observe("klaus", "told by an operator", wait=True)
    with over_http(web_app, api_key(service, "read")) as own:
        assert [row.agent_id for row in own.agents.list().rows] == ["klaus"]


def test_without_a_good_key(web_app: Flask) -> None:
    for key in ("", f"jiyi_abcdefghijkl_{'0123456789' * 4}012"):
        with over_http(web_app, key) as client, pytest.raises(NotAllowed):
            client.agents.list()


def test_an_address_that_nobody_answers() -> None:
    with (
        Client(url="http://127.0.0.1:9") as client,
        pytest.raises(BrokerUnavailable, match=r"cannot reach http://127\.0\.0\.1:9"),
    ):
        client.agents.list()


def test_answers_that_are_no_problem_details() -> None:
    statuses = {401: NotAllowed, 404: NotFound, 500: ServiceError, 502: ServiceError, 504: NoAnswer}
    contents = (b"<html>a proxy's page</html>", b'{"detail": "why", "title": "t"}', b"")
    for status, content in itertools.product(statuses, contents):
        expected = statuses[status] if b"detail" in content else ServiceError
        answer = httpx2.Response(status, content=content)
        with answered_by(lambda _request, answer=answer: answer) as client, pytest.raises(expected):
            client.agents.list()


def answered_by(answer: Callable[[httpx2.Request], httpx2.Response]) -> Client:
    http = httpx2.Client(transport=httpx2.MockTransport(answer), follow_redirects=False)
    return Client(transport=HttpTransport("http://service", get_settings(), None, "", http))


def test_no_redirect_takes_the_key_elsewhere() -> None:
    asked: list[str] = []

    def redirect(request: httpx2.Request) -> httpx2.Response:
        asked.append(str(request.url))
        return httpx2.Response(307, headers={"Location": "http://elsewhere/"})

    with answered_by(redirect) as client, pytest.raises(ServiceError):
        client.agents.list()
    assert asked == ["http://service/api/v1/actions/agents.list"]


def test_an_unknown_action_is_not_found_and_a_request_may_wait_until_its_events_are_found(
    service: str, program: Callable[..., Program]
) -> None:
    api = program(service)
    gone = api.post("/actions/agents.nothing", {}, 404)
    assert gone["detail"] == "There is no action 'agents.nothing'."
    event = {"agent_id": "klaus", "description": "Klaus reads", "importance": 4}
    told = api.post("/events?wait=30", event)
    assert [state["state"] for state in told["states"]] == ["retrievable"]
    assert "states" not in api.post("/events", event)
    wrong = api.post("/events?wiat=5", event, 422)
    assert wrong["detail"] == "unknown option 'wiat': did you mean wait?"
    assert wrong["errors"][0]["field"] == "wiat"
    wrong = api.post("/events", {**event, "poignency": 4}, 422)
    assert wrong["errors"][0]["message"] == "unknown option 'poignency': did you mean poignancy?"
