"""jiyi.client.http without a service: what is sent, what is tried again, what is not loaded."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any
from uuid import UUID

import httpx2
import pytest

import jiyi
from jiyi import AsyncClient, Client
from jiyi.client.http import AsyncHttpTransport, HttpTransport, LiveEventReader
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


def blocking(service: Service, verb: Callable[[Any], Any], **settings: Any) -> Any:
    http = httpx2.Client(transport=httpx2.MockTransport(service))
    with Client(transport=HttpTransport("http://service", Settings(**settings), None, "", http)) as client:
        return verb(client)


def awaiting(service: Service, verb: Callable[[Any], Any], **settings: Any) -> Any:
    async def ask() -> Any:
        http = httpx2.AsyncClient(transport=httpx2.MockTransport(service))
        async with AsyncClient(
            transport=AsyncHttpTransport("http://service", Settings(**settings), None, "", http)
        ) as client:
            return await verb(client)

    return asyncio.run(ask())


BOTH = pytest.mark.parametrize("by", [blocking, awaiting])


@BOTH
def test_what_only_reads_is_asked_again(by: Callable[..., Any]) -> None:
    service = Service(UNKNOWN, httpx2.ConnectError("refused"), away())
    assert by(service, lambda client: client.retrieve("klaus", "tea")).status == "unknown_agent"
    assert len(service.asked) == 3
    assert service.asked[0].headers["User-Agent"].startswith(f"jiyi-python/{jiyi.__version__} Python/3.")


@BOTH
def test_an_event_is_sent_again_under_its_id(by: Callable[..., Any]) -> None:
    service = Service(ACCEPTED, httpx2.RemoteProtocolError("cut off"), away())
    told = by(service, lambda client: client.observe("klaus", "Klaus reads"))
    assert isinstance(told, UUID)
    assert {json.loads(request.content)["event_id"] for request in service.asked} == {str(told)}
    assert len(service.asked) == 3


@BOTH
def test_a_change_is_not_done_twice(by: Callable[..., Any]) -> None:
    service = Service({}, httpx2.ReadError("cut off"))
    with pytest.raises(BrokerUnavailable):
        by(service, lambda client: client.reflect("klaus"))
    assert len(service.asked) == 1


@BOTH
def test_in_the_end_it_is_given_up(by: Callable[..., Any]) -> None:
    service = Service(UNKNOWN, *[away()] * 9)
    with pytest.raises(BrokerUnavailable):
        by(service, lambda client: client.retrieve("klaus", "tea"))
    assert len(service.asked) == 3
    slow = Service(UNKNOWN, httpx2.ReadTimeout("slow"))
    with pytest.raises(NoAnswer):
        by(slow, lambda client: client.retrieve("klaus", "tea", timeout=1))
    assert len(slow.asked) == 1


def test_over_http_neither_celery_nor_kombu_is_loaded() -> None:
    code = """
import sys
from jiyi import Client, JiyiError
with Client(url="http://127.0.0.1:9", key="") as client:
    try:
        client.observe("klaus", "Klaus reads")
    except JiyiError as error:
        print(error.code)
print([name for name in ("celery", "kombu", "redis", "amqp", "numpy") if name in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=200
    )
    assert done.stdout.splitlines() == ["broker_unavailable", "[]"]


def test_news_is_read_line_by_line() -> None:
    text = (
        'retry: 2000\nevent: stream.opened\ndata: {"kept":1000}\n\n: a comment\n\nid: 1-0\nevent: a\ndata:'
        ' {"b": 1}\n\n'
    )
    reader = LiveEventReader()
    assert [(news.id, news.kind, news.data) for line in text.splitlines() for news in reader.read(line)] == [
        ("", "stream.opened", {"kept": 1000}),
        ("1-0", "a", {"b": 1}),
    ]


# Told that it asks too often


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
    return httpx2.Response(
        429,
        json={"title": "Too many requests", "detail": "Ask again", "status": 429},
        headers={"Retry-After": after},
    )


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long the client would have waited."""
    taken: list[float] = []

    async def sleep(seconds: float) -> None:
        taken.append(seconds)

    monkeypatch.setattr("jiyi.client.steps.time.sleep", taken.append)
    monkeypatch.setattr("jiyi.client.steps.asyncio.sleep", sleep)
    monkeypatch.setattr("jiyi.client.steps.SPREAD", 0.0)
    return taken


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
def test_who_asks_too_often_waits_as_long_as_told_and_is_answered(
    by: Callable[..., Any], verb: Callable[[Any], Any], answer: Any, pauses: list[float]
) -> None:
    date = {"Retry-After": "Mon, 01 Jan 2001 00:00:00 GMT"}  # a proxy's, without words
    service = Service(
        answer, refused("3"), refused("1"), refused("later"), httpx2.Response(429, headers=date)
    )
    by(service, verb)
    assert pauses == [3.0, 2.0, 4.0, 8.0]
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
def test_in_the_end_the_refusal_is_raised_with_the_time_that_was_told(
    by: Callable[..., Any],
    patience: float,
    timeout: float | None,
    after: str,
    tries: int,
    pauses: list[float],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("jiyi.client.http.PATIENCE_SECONDS", patience)
    service = Service(UNKNOWN, *[refused(after)] * 99)
    with pytest.raises(TooManyQuestions, match="Ask again") as raised:
        by(service, lambda client: client.retrieve("klaus", "tea", timeout=timeout))
    assert raised.value.retry_after == float(after)
    assert len(service.asked) == tries == len(pauses) + 1
