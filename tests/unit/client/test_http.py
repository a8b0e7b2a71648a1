"""jiyi.client.http without a service: what is sent, what is tried again, what is not loaded."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any
from uuid import UUID

import httpx2
import pytest

import jiyi
from jiyi import AsyncClient, Client
from jiyi.client.http import AsyncHttpTransport, HttpTransport, LiveEventReader
from jiyi.client.steps import PATIENCE_SECONDS
from jiyi.errors import BrokerUnavailable, NoAnswer, TooManyQuestions
from jiyi.settings import Settings

UNKNOWN = {"groups": [], "status": "unknown_agent"}
ACCEPTED = {"event_ids": [], "accepted": 1, "repeated": 0, "status_url": ""}


class Service:
    """Answers after so many failures, and keeps what it was asked."""

    def __init__(self, answer: Any, *failures: httpx2.Response | Exception) -> None:
        self.answer, self.failures, self.asked = answer, list(failures), list[httpx2.Request]()

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.asked.append(request)
        if not self.failures:
            return httpx2.Response(200, json=self.answer)
        failure = self.failures.pop(0)
        if isinstance(failure, Exception):
            raise failure
        return failure


def away() -> httpx2.Response:
    return httpx2.Response(
        503, json={"title": "Service unavailable", "detail": "The database did not answer", "status": 503}
    )


Verb = Callable[[Any], Any]
By = Callable[..., Any]


def blocking(service: Service, verb: Verb, patience: float = PATIENCE_SECONDS) -> Any:
    http = httpx2.Client(transport=httpx2.MockTransport(service))
    transport = HttpTransport("http://service", Settings(), None, "", http)
    transport.patience = patience
    with Client(transport=transport) as client:
        return verb(client)


def awaiting(service: Service, verb: Verb, patience: float = PATIENCE_SECONDS) -> Any:
    async def ask() -> Any:
        http = httpx2.AsyncClient(transport=httpx2.MockTransport(service))
        transport = AsyncHttpTransport("http://service", Settings(), None, "", http)
        transport.patience = patience
        async with AsyncClient(transport=transport) as client:
            return await verb(client)

    return asyncio.run(ask())


BOTH = pytest.mark.parametrize("by", [blocking, awaiting])


@BOTH
@pytest.mark.parametrize(
    ("verb", "answer"),
    [
        (lambda client: client.retrieve("klaus", "tea"), UNKNOWN),
        (lambda client: client.observe("klaus", "Klaus reads"), ACCEPTED),
    ],
    ids=["question", "event"],
)
def test_what_only_reads_or_has_an_id_is_sent_again(by: By, verb: Verb, answer: Any) -> None:
    service = Service(answer, httpx2.ConnectError("refused"), away())
    by(service, verb)
    assert len(service.asked) == 3
    assert len({request.content for request in service.asked}) == 1
    assert service.asked[0].headers["User-Agent"].startswith(f"jiyi-python/{jiyi.__version__} Python/3.")


@BOTH
def test_a_change_is_not_done_twice_and_in_the_end_it_is_given_up(by: By) -> None:
    for verb, failures, error, tries in (
        (lambda client: client.reflect("klaus"), [httpx2.ReadError("cut off")], BrokerUnavailable, 1),
        (lambda client: client.retrieve("klaus", "tea"), [away()] * 9, BrokerUnavailable, 3),
        (lambda client: client.retrieve("a", "x", timeout=1), [httpx2.ReadTimeout("slow")], NoAnswer, 1),
    ):
        service = Service(UNKNOWN, *failures)
        with pytest.raises(error):
            by(service, verb)
        assert len(service.asked) == tries


def test_news_is_read_line_by_line() -> None:
    opened = 'retry: 2000\nevent: stream.opened\ndata: {"kept":1000}\n\n: a comment\n\n'
    text = opened + 'id: 1-0\nevent: a\ndata: {"b": 1}\n\n'
    reader = LiveEventReader()
    assert [(news.id, news.kind, news.data) for line in text.splitlines() for news in reader.read(line)] == [
        ("", "stream.opened", {"kept": 1000}),
        ("1-0", "a", {"b": 1}),
    ]


ERASURE = {
    "erasure_id": str(UUID(int=2)),
    "group_id": "g",
    "kind": "nodes",
    "state": "owed",
    "step": "wait",
    "requested_by": "operator",
    "created_at": "2026-03-02T09:00:00Z",
}


def refused(after: str = "0") -> httpx2.Response:
    said = {"title": "Too many requests", "detail": "Ask again", "status": 429}
    return httpx2.Response(429, json=said, headers={"Retry-After": after})


@BOTH
@pytest.mark.parametrize(
    ("verb", "answer"),
    [
        (lambda client: client.retrieve("klaus", "tea"), UNKNOWN),
        (lambda client: client.observe("klaus", "Klaus reads"), ACCEPTED),
        (lambda client: client.delete(UUID(int=1)), ERASURE),
    ],
    ids=["question", "event", "change"],
)
def test_a_client_that_asks_too_often_waits_as_long_as_the_service_says_and_is_answered(
    by: By, verb: Verb, answer: Any, pauses: list[float]
) -> None:
    date = {"Retry-After": "Mon, 01 Jan 2001 00:00:00 GMT"}  # a proxy's, without words
    service = Service(
        answer, refused("3"), refused("1"), refused("later"), httpx2.Response(429, headers=date)
    )
    by(service, verb)
    assert [int(pause) for pause in pauses] == [3, 2, 4, 8]  # and less than a second at random
    assert len({request.content for request in service.asked}) == 1
    assert len(service.asked) == 5


@BOTH
@pytest.mark.parametrize(
    ("patience", "timeout", "after", "tries"),
    [
        (70, None, "71", 1),  # longer than the client has patience
        (70, 5.0, "6", 1),  # longer than the caller has time
        (3_600, None, "1", 17),
    ],
)
def test_in_the_end_the_refusal_is_raised_with_the_time_that_the_service_named(
    by: By, patience: float, timeout: float | None, after: str, tries: int, pauses: list[float]
) -> None:
    service = Service(UNKNOWN, *[refused(after)] * 99)
    with pytest.raises(TooManyQuestions, match="Ask again") as raised:
        by(service, lambda client: client.retrieve("klaus", "tea", timeout=timeout), patience)
    assert raised.value.retry_after == float(after)
    assert len(service.asked) == tries == len(pauses) + 1
