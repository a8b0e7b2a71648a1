"""A client that asks too often waits by itself until it is answered: over HTTP and over the broker, blocking
and in asyncio.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from jiyi import AsyncClient, Client
from jiyi.client.caller import CALLS_AT_ONCE
from jiyi.client.steps import RetryPolicy
from jiyi.errors import TooManyQuestions
from jiyi.settings import get_settings
from tests.integration.memory.test_inbox import rows
from workers import ephemeral

pytestmark = pytest.mark.xdist_group("asking too often")  # one web for all of them

#: How often a key may ask, and requests that a test sends: three times as many.
RATE, REQUESTS = "3/second", 9
#: Clients over the broker, each with as many calls under way as it may have: together more than may wait in a
#: worker.
CLIENTS = 2
#: Until all of them are answered, on a busy machine.
PATIENCE_SECONDS = 300.0


@pytest.fixture(scope="module")
def url(_workers: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Of the web as in production, where a key may ask :data:`RATE`."""
    with ephemeral.served(tmp_path_factory.mktemp("web"), rate_limit=RATE) as (port, _):
        yield f"http://127.0.0.1:{port}"


@pytest.fixture
def refusals(monkeypatch: pytest.MonkeyPatch) -> list[TooManyQuestions]:
    """Those that clients of the test met."""
    met: list[TooManyQuestions] = []
    pause = RetryPolicy.pause

    def noted(patience: RetryPolicy, refusal: TooManyQuestions) -> float:
        met.append(refusal)
        return pause(patience, refusal)

    monkeypatch.setattr(RetryPolicy, "pause", noted)
    return met


def blocking(url: str, key: str, texts: list[str]) -> None:
    with Client(url=url, key=key) as client:
        for text in texts:
            client.observe("klaus", text)


def awaiting(url: str, key: str, texts: list[str]) -> None:
    async def tell() -> None:
        async with AsyncClient(url=url, key=key) as client:
            await asyncio.gather(*(client.observe("klaus", text) for text in texts))

    asyncio.run(tell())


@pytest.mark.parametrize("by", [blocking, awaiting])
def test_over_http_every_event_is_stored_once(
    url: str,
    service: str,
    api_key: Callable[..., str],
    refusals: list[TooManyQuestions],
    by: Callable[..., Any],
) -> None:
    texts = sorted(f"Klaus drinks cup {number}" for number in range(REQUESTS))
    by(url, api_key(service, "publish"), texts)
    stored = rows(
        'SELECT description FROM memory_nodes WHERE group_id = :g ORDER BY description COLLATE "C"', g=service
    )
    assert [row["description"] for row in stored] == texts
    assert refusals
    assert all(refusal.retry_after is not None for refusal in refusals)


def test_over_http_who_has_no_time_is_told_so(
    url: str, service: str, api_key: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jiyi.client.http.PATIENCE_SECONDS", 0.0)
    with (
        Client(url=url, key=api_key(service, "publish")) as client,
        pytest.raises(TooManyQuestions, match="exceeded its rate limit"),
    ):
        for number in range(REQUESTS):
            client.observe("klaus", f"Klaus drinks cup {number}")


def test_over_the_broker_every_question_is_answered(service: str) -> None:
    """How many of them the worker refuses at first depends on how fast it is: none may stay without an
    answer.
    """

    async def ask() -> int:
        patient = get_settings().model_copy(
            update={"request_timeout": 120.0}
        )  # a busy machine opens two hundred connections
        clients = [AsyncClient(service, settings=patient) for _ in range(CLIENTS)]
        await clients[0].observe("klaus", "Klaus drinks tea", wait=True)
        answers = await asyncio.gather(
            *(
                client.retrieve(
                    "klaus", f"What is drunk from cup {number} of {place}?", timeout=PATIENCE_SECONDS
                )
                for place, client in enumerate(clients)
                for number in range(CALLS_AT_ONCE)
            )
        )
        for client in clients:
            await client.close()
        return sum(len(answer.retrieved_nodes) for answer in answers)

    assert asyncio.run(ask()) == CLIENTS * CALLS_AT_ONCE
