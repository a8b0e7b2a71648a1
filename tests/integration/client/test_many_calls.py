"""Many calls of one client at the same time: more than there are connections, and none is refused."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

from jiyi import AsyncClient, Client
from jiyi.client.caller import CALLS_AT_ONCE
from jiyi.errors import BrokerUnavailable, NoAnswer
from models.db.valkey import valkey

#: Until all of them are answered, on a busy machine.
PATIENCE_SECONDS = 300.0
CALLS, THREADS = 2 * CALLS_AT_ONCE, 2 * CALLS_AT_ONCE


def test_hundreds_of_calls_of_one_async_client_are_all_answered(service: str) -> None:
    async def run() -> tuple[list[int], int]:
        async with AsyncClient(service) as client:
            await client.observe("klaus", "Klaus drinks tea", wait=True)
            calls = [client.retrieve("klaus", "tea", timeout=PATIENCE_SECONDS) for _ in range(CALLS)]
            answers = await asyncio.gather(*calls)
            return [len(answer.retrieved_nodes) for answer in answers], len(valkey().client_list())

    found, connections = asyncio.run(run())
    assert found == [1] * CALLS
    assert connections < 2 * CALLS_AT_ONCE


@pytest.mark.long
def test_hundreds_of_threads_of_one_client_are_all_answered(client: Client) -> None:
    client.observe("klaus", "Klaus drinks tea", wait=True)

    def ask(_: int) -> int:
        return len(client.retrieve("klaus", "tea", timeout=PATIENCE_SECONDS).retrieved_nodes)

    with ThreadPoolExecutor(THREADS) as threads:
        assert list(threads.map(ask, range(THREADS))) == [1] * THREADS


def test_hundreds_of_threads_publish_with_one_client(client: Client) -> None:
    with ThreadPoolExecutor(THREADS) as threads:
        ids = list(
            threads.map(lambda number: client.observe("klaus", f"Klaus counts to {number}"), range(THREADS))
        )
    assert len(set(ids)) == THREADS
    client.observe("klaus", "and stops", wait=True)
    states = client.events.states(ids=ids).rows
    assert not [state for state in states if state.state in ("unknown", "dead")]


def test_who_gets_no_turn_is_told_so_and_not_that_the_broker_is_away(service: str) -> None:
    async def run() -> list[BaseException | None]:
        async with AsyncClient(service) as client:
            await client.observe("klaus", "Klaus drinks tea", wait=True)
            return await asyncio.gather(*(_error(client) for _ in range(2 * CALLS_AT_ONCE)))

    async def _error(client: AsyncClient) -> BaseException | None:
        try:
            await client.retrieve("klaus", "tea", timeout=0.05)
        except (NoAnswer, BrokerUnavailable) as error:
            return error
        return None

    errors = [error for error in asyncio.run(run()) if error is not None]
    assert not [error for error in errors if isinstance(error, BrokerUnavailable)]
    assert [error for error in errors if f"all {CALLS_AT_ONCE} concurrent calls" in str(error)]


def test_a_store_of_langgraph_takes_many_puts_at_a_time(service: str) -> None:
    pytest.importorskip("langgraph.store.base")
    from jiyi.integrations.langgraph import AsyncJiyiStore

    async def run() -> list[object]:
        async with AsyncClient(service) as async_client:
            store = AsyncJiyiStore(async_client)
            await asyncio.gather(
                *(store.aput(("many",), f"k{number}", {"n": number}) for number in range(CALLS))
            )
            return [(await store.aget(("many",), f"k{number}")).value["n"] for number in range(0, CALLS, 50)]  # type: ignore[union-attr]

    assert asyncio.run(run()) == list(range(0, CALLS, 50))
