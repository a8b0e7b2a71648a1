"""A connection that is cut after the service has taken what was sent: the client sends it again, and it
counts once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid4

import httpx2
import kombu
import pytest
from flask import Flask

from jiyi import AsyncClient, Client
from jiyi.client.http import AsyncHttpTransport, HttpTransport
from jiyi.client.publishing import EventPublisher
from jiyi.protocol.knowledge import IngestState
from jiyi.settings import get_settings
from tests.integration.client.test_ways import Served
from tests.integration.memory.test_inbox import rows

OUTPUT = "The kiln has reached twelve hundred degrees"


class Cut(httpx2.BaseTransport):
    """The web, whose answer to the first request of each address is lost on its way back."""

    def __init__(self, app: Flask) -> None:
        self._wsgi, self.lost = httpx2.WSGITransport(app=app.wsgi_app), list[str]()

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        answer = self._wsgi.handle_request(request)
        if request.url.path not in self.lost:
            answer.read()
            self.lost.append(request.url.path)
            raise httpx2.ReadError("the connection was cut", request=request)
        return answer


class CutAsync(httpx2.AsyncBaseTransport):
    """The same in asyncio."""

    def __init__(self, app: Flask) -> None:
        self._served, self.lost = Served(app), list[str]()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        answer = await self._served.handle_async_request(request)
        if request.url.path not in self.lost:
            self.lost.append(request.url.path)
            raise httpx2.ReadError("the connection was cut", request=request)
        return answer


def entries(group: str) -> list[str]:
    return [
        str(row["content"])
        for row in rows("SELECT content FROM quarantine_logs WHERE group_id = :g", g=group)
    ]


def memories(group: str) -> list[str]:
    return [
        str(row["description"])
        for row in rows("SELECT description FROM memory_nodes WHERE group_id = :g", g=group)
    ]


def tell_all(client: Client) -> None:
    client.ingest(OUTPUT, session_id="s", wait=True)
    client.observe("klaus", "Klaus fires the kiln")
    client.observe_many([{"agent_id": "klaus", "description": "Klaus opens the kiln"}])
    client.add_turn("klaus", "user", "How hot is it?", "s")


def check_each_once(group: str) -> None:
    assert entries(group) == [OUTPUT]
    assert sorted(memories(group)) == sorted({*memories(group)})
    assert len(memories(group)) == 3


@pytest.mark.usefixtures("_workers")
def test_over_http(web_app: Flask, api_key: Callable[..., str], group: str) -> None:
    settings, cut = get_settings(), Cut(web_app)
    key = api_key(group, "publish", "read")
    http = httpx2.Client(transport=cut)
    with Client(
        group, settings=settings, transport=HttpTransport("http://localhost", settings, group, key, http)
    ) as client:
        tell_all(client)
    assert "/api/v1/events" in cut.lost
    check_each_once(group)


@pytest.mark.usefixtures("_workers")
def test_over_http_in_asyncio(web_app: Flask, api_key: Callable[..., str], group: str) -> None:
    settings, cut = get_settings(), CutAsync(web_app)
    key = api_key(group, "publish", "read")

    async def run() -> None:
        http = httpx2.AsyncClient(transport=cut)
        transport = AsyncHttpTransport("http://localhost", settings, group, key, http)
        async with AsyncClient(group, settings=settings, transport=transport) as client:
            await client.ingest(OUTPUT, session_id="s", wait=True)

    asyncio.run(run())
    assert "/api/v1/events" in cut.lost
    assert entries(group) == [OUTPUT]


def test_over_the_broker(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    publish_once, cut = EventPublisher.publish_once, list[str]()

    def publish(publisher: EventPublisher, producer: kombu.Producer, body: bytes, routing_key: str) -> None:
        publish_once(publisher, producer, body, routing_key)
        if body.decode() not in cut:
            cut.append(body.decode())
            raise ConnectionResetError("the connection was cut")

    monkeypatch.setattr(EventPublisher, "publish_once", publish)
    tell_all(client)
    client.observe("klaus", "and goes", wait=True)  # so the intake has met all before it
    assert len(cut) == 5
    assert entries(client.group) == [OUTPUT]
    assert len(memories(client.group)) == 4


@pytest.mark.parametrize("way", ["broker", "http"])
def test_a_text_with_an_id_may_be_told_again_by_whoever_is_not_sure(
    client: Client, web_app: Flask, api_key: Callable[..., str], way: str
) -> None:
    event_id, headers = uuid4(), {"Authorization": f"Bearer {api_key(client.group, 'publish', 'read')}"}
    told = []
    for _ in range(2):
        if way == "broker":
            state = client.ingest(OUTPUT, event_id=event_id)
            assert isinstance(state, IngestState)
            told.append(state.entry_id)
        else:
            body: dict[str, Any] = {"content": OUTPUT, "event_id": str(event_id)}
            answer = web_app.test_client().post("/api/v1/memory/ingest", json=body, headers=headers)
            assert answer.status_code == 202, answer.text
            assert answer.json is not None
            told.append(UUID(answer.json["entry_id"]))
    assert told == [event_id] * 2
    assert entries(client.group) == [OUTPUT]
