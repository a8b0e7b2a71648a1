"""What only the client in asyncio has to keep: no thread a call, calls that are cancelled; and the live
stream of both clients.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from uuid import uuid4

import pytest
from flask import Flask
from werkzeug.serving import make_server

from jiyi import AsyncClient, Client
from jiyi.client.http import AsyncHttpTransport
from jiyi.errors import InvalidRequest
from jiyi.protocol.wire.calls import LiveEvent

KeyMaker = Callable[..., str]
#: Calls that are under way at a time.
MANY = 40
PATIENCE_SECONDS = 60.0


@pytest.fixture
def address(web_app: Flask) -> Iterator[str]:
    """Of the web, over a real socket."""
    server = make_server("127.0.0.1", 0, web_app, threaded=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()


@pytest.fixture(params=["broker", "http"])
def make(
    request: pytest.FixtureRequest, service: str, address: str, api_key: KeyMaker
) -> Callable[[], AsyncClient]:
    """Makes a client in asyncio, of either way."""
    key = api_key(service, "publish", "read", "admin")
    return (
        (lambda: AsyncClient(service, key=key))
        if request.param == "broker"
        else (lambda: AsyncClient(url=address, key=key))
    )


def test_many_calls_are_under_way_and_hold_no_threads(make: Callable[[], AsyncClient]) -> None:
    async def ask() -> int:
        async with make() as client:
            told = await client.observe("klaus", "Klaus reads", wait=True)
            before = own_threads()
            calls = [asyncio.create_task(client.get(told)) for _ in range(MANY)]
            await asyncio.sleep(0.05)
            most = own_threads() - before
            assert {memory.node_id for memory in await asyncio.gather(*calls)} == {told}
            return most

    assert asyncio.run(ask()) <= 1


def own_threads() -> int:
    """Threads but for those of the server, which is of this process, too."""
    return sum(
        not thread.name.startswith(("Thread-", "store-", "process_request"))
        for thread in threading.enumerate()
    )


def test_a_cancelled_call_ends_at_once_and_the_client_goes_on(service: str) -> None:
    """Nobody answers on the queue that is asked."""

    async def ask() -> str:
        async with AsyncClient(service) as client:
            request = {"group_id": service, "id": str(uuid4())}
            waiting = asyncio.create_task(client.transport.call("rpc.memory.get", "nobody", request, 600))
            await asyncio.sleep(0.2)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            return (await client.retrieve("nobody", "x")).status

    assert asyncio.run(asyncio.wait_for(ask(), PATIENCE_SECONDS)) == "unknown_agent"


def test_a_cancelled_request_ends_at_once() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(-1)
        writer.close()

    async def ask() -> None:
        async with await asyncio.start_server(silent, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            async with AsyncClient(url=f"http://127.0.0.1:{port}") as client:
                assert isinstance(client.transport, AsyncHttpTransport)
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.2):
                        await client.retrieve("klaus", "x", timeout=600)

    asyncio.run(asyncio.wait_for(ask(), PATIENCE_SECONDS))


def test_wrong_arguments_are_said_when_the_call_is_awaited(service: str) -> None:
    async def ask() -> None:
        async with AsyncClient(service) as client:
            asked = client.retrieve("klaus", "x", top_k=0)
            with pytest.raises(InvalidRequest, match="top_k"):
                await asked

    asyncio.run(ask())


def test_the_live_stream_is_iterated_over(make: Callable[[], AsyncClient]) -> None:
    async def watch() -> list[LiveEvent]:
        async with make() as client:
            beginning = await first(client)
            told = await client.observe("klaus", "Klaus reads", wait=True)
            news = []
            async for one_piece in client.stream(after=beginning):
                news.append(one_piece)
                if one_piece.kind == "node.retrievable":
                    assert one_piece.data["ids"] == [str(told)]
                    return news
        return news

    async def first(client: AsyncClient) -> str:
        await client.observe("anna", "Anna was here before", wait=True)
        async for news in client.stream(after="0"):
            if news.kind == "node.retrievable":
                return news.id
        raise AssertionError("the stream has ended")

    kinds = [news.kind for news in asyncio.run(asyncio.wait_for(watch(), PATIENCE_SECONDS))]
    assert "node.stored" in kinds


@pytest.mark.parametrize("way", ["broker", "http"])
def test_the_live_stream_of_the_blocking_client(
    way: str, service: str, address: str, api_key: KeyMaker
) -> None:
    key = api_key(service, "publish", "read")
    with Client(service, key=key) if way == "broker" else Client(url=address, key=key) as client:
        client.observe("klaus", "Klaus reads", wait=True)
        for news in client.stream(after="0"):
            if news.kind == "node.stored":
                assert news.data["agents"] == {"klaus": 1}
                break
