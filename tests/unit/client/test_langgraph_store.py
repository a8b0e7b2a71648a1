"""``AsyncJiyiStore``: its operations send and give what the blocking ones do, and take no thread."""

from __future__ import annotations

import asyncio
import json
import re
from datetime import UTC, date, datetime
from typing import Any

import httpx2
import pytest

pytest.importorskip("langgraph.store.base", reason="needs the extra `langgraph`")

from langgraph.store.base import BaseStore, GetOp, MatchCondition, Op, PutOp, SearchOp
from langgraph.store.base import ListNamespacesOp as ListOp

from jiyi import AsyncClient, Client
from jiyi.client.http import AsyncHttpTransport, HttpTransport
from jiyi.errors import InvalidRequest
from jiyi.integrations.langgraph import AsyncJiyiStore, JiyiStore
from jiyi.settings import Settings

AT = "2026-03-02T09:00:00Z"
OOLONG = {"text": "oolong", "n": 3}
PLACE = ("users", "米娅")
TEA = {"namespace": [*PLACE], "key": "tea", "value": OOLONG, "created_at": AT, "updated_at": AT}
ANSWERS = {
    "items.put": {"stored": 1, "deleted": 0},
    "items.get": {"rows": [TEA, None]},
    "items.search": {"rows": [TEA | {"score": 0.75}]},
    "items.namespaces": {"rows": [["users", "米娅"]]},
}
BATCHES: dict[str, list[Op]] = {
    "get": [GetOp(PLACE, "tea"), GetOp(PLACE, "not there", refresh_ttl=False)],
    "put and delete": [PutOp(PLACE, "tea", OOLONG, ttl=5.0), PutOp(PLACE, "milk", {"n": 1}, index=False)],
    "search by meaning": [SearchOp(("users",), filter={"n": {"$gte": 2}}, limit=4, offset=2, query="茶")],
    "search for nothing": [SearchOp((), limit=0)],
    "namespaces": [
        ListOp(match_conditions=(MatchCondition("prefix", ("users", "*")),), max_depth=2, limit=7, offset=1)
    ],
    "reads before writes": [
        *(PutOp(PLACE, "tea", {"n": 4}), GetOp(PLACE, "tea"), GetOp(PLACE, "not there")),
        *(SearchOp(PLACE), ListOp()),
    ],
    "of two writes the last": [PutOp(PLACE, "tea", {"n": 1}), PutOp(PLACE, "tea", None)],
    "nothing": [],
}


class Service:
    """Gives each action its answer, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Any]] = []

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        name = request.url.path.rpartition("/")[2]
        self.asked.append((name, json.loads(request.content)))
        return httpx2.Response(200, json=ANSWERS[name])


def blocking(service: Service) -> Client:
    http = httpx2.Client(transport=httpx2.MockTransport(service))
    return Client(transport=HttpTransport("http://service", Settings(), None, "", http))


def awaiting(service: Service) -> AsyncClient:
    http = httpx2.AsyncClient(transport=httpx2.MockTransport(service))
    return AsyncClient(transport=AsyncHttpTransport("http://service", Settings(), None, "", http))


def in_asyncio(service: Service, ops: list[Op], monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    async def ask() -> list[Any]:
        async with awaiting(service) as client:
            store = AsyncJiyiStore(client, fields=["text"])
            with monkeypatch.context() as patch:
                patch.setattr(asyncio, "to_thread", None)  # what took a thread would fail
                return list(await store.abatch(ops))

    return asyncio.run(ask())


@pytest.mark.parametrize("name", BATCHES)
def test_what_is_awaited_sends_and_gives_what_is_blocking(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = Service(), Service()
    with blocking(first) as client:
        expected = JiyiStore(client, fields=["text"]).batch(BATCHES[name])
    assert in_asyncio(second, BATCHES[name], monkeypatch) == expected
    assert second.asked == first.asked
    assert bool(first.asked) == (name not in {"search for nothing", "nothing"})


def test_what_json_does_not_have_is_refused_not_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    service = Service()
    isoformat = "at: JSON has no datetime; give a datetime as its isoformat()"
    values: list[tuple[dict[str, Any], str]] = [
        ({"at": datetime(2026, 3, 2, tzinfo=UTC)}, isoformat),
        ({"deep": [{"day": date(2026, 3, 2)}]}, "deep.0.day: JSON has no date"),
        ({"tags": {"a", "b"}}, "tags: JSON has no set"),
        ({"of": {1: "one"}}, "of.1: names must be strings"),
    ]
    unknown: dict[str, Any] = {"n": {"$regex": "x"}}
    refused: list[tuple[Op, str]] = [
        *((PutOp(("users",), "mia", value), problem) for value, problem in values),
        *((SearchOp((), filter=value), problem) for value, problem in values),
        (SearchOp((), filter=unknown), "filter: n: unknown operator '$regex'"),
    ]
    for operation, problem in refused:
        with pytest.raises(InvalidRequest, match=re.escape(problem)):
            in_asyncio(service, [operation], monkeypatch)
    assert service.asked == []


@pytest.mark.parametrize("in_threads", [False, True])
def test_the_methods_of_a_store_are_awaited_with_either(in_threads: bool) -> None:
    async def talk() -> list[Any]:
        service = Service()
        with blocking(service) as client:
            async with awaiting(service) as other:
                blocks, awaits = JiyiStore(client, fields=["text"]), AsyncJiyiStore(other, fields=["text"])
                store: BaseStore = blocks if in_threads else awaits
                await store.aput(PLACE, "tea", {"text": "oolong"}, ttl=5)
                found = await store.asearch(PLACE, query="tea")
                places = await store.alist_namespaces(prefix=("users",))
                await store.aput(PLACE, "tea", None)  # type: ignore[arg-type] # as LangGraph's own stores: a deletion
        return [found[0].value, found[0].score, places, [name for name, _ in service.asked]]

    names = ["items.put", "items.search", "items.namespaces", "items.put"]
    assert asyncio.run(talk()) == [TEA["value"], 0.75, [PLACE], names]


def test_what_is_asked_in_one_turn_of_the_loop_goes_together_and_what_is_refused_fails_alone() -> None:
    async def talk() -> tuple[list[Any], Service]:
        service = Service()
        async with awaiting(service) as client:
            store = AsyncJiyiStore(client)
            puts = [store.aput(PLACE, f"k{number}", {"n": number}) for number in range(100)]
            wrong = [
                store.aput(PLACE, "wrong", {"tags": {"a"}}),
                store.asearch(PLACE, filter={"n": {"$regex": "x"}}),
            ]
            return await asyncio.gather(*puts, *wrong, return_exceptions=True), service

    answers, service = asyncio.run(talk())
    assert answers[:100] == [None] * 100
    assert [type(answer) for answer in answers[100:]] == [InvalidRequest] * 2
    assert [(name, len(body["items"])) for name, body in service.asked] == [("items.put", 100)]


def test_programs_may_set_a_store_up_and_sweep_it() -> None:
    async def awaited() -> bool:
        async with awaiting(Service()) as client:
            store = AsyncJiyiStore(client)
            await store.setup()
            await (await store.start_ttl_sweeper())
            with pytest.raises(asyncio.InvalidStateError):
                store.get(PLACE, "tea")  # would hold up the loop
            return await store.stop_ttl_sweeper()

    with blocking(Service()) as client:
        store = JiyiStore(client)
        store.setup()
        assert store.start_ttl_sweeper().result() is None
        assert store.stop_ttl_sweeper()
    assert asyncio.run(awaited())
