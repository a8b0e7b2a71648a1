"""HTTP as a client's transport: the service's REST API, for programs outside of its own network."""

from __future__ import annotations

import platform
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache
from importlib.metadata import version
from math import inf

import httpx2
from pydantic_core import from_json, to_json

from jiyi import tracing
from jiyi.client.steps import PATIENCE_SECONDS
from jiyi.errors import (
    BY_CODE,
    BrokerUnavailable,
    InvalidRequest,
    JiyiError,
    NoAnswer,
    NotAllowed,
    NotFound,
    ServiceError,
    TooManyQuestions,
    words_of,
)
from jiyi.protocol.base import JsonMapping
from jiyi.protocol.wire.calls import LiveEvent
from jiyi.settings import Settings

API = "/api/v1"
GROUP_HEADER = "Jiyi-Group"
#: Tries to connect; what was sent is not sent twice.
CONNECT_RETRIES = 2
#: Seconds before each further try of what reads, and of events, whose ids make it harmless.
RETRIES = (0.1, 0.5)
#: Seconds beyond the time that the service has for an answer, for the way there and back.
NETWORK_SECONDS = 5.0
#: Seconds without a byte after which a stream is taken for dead: the service sends a comment every 15.
STREAM_SECONDS = 40.0
#: Questions that have an address of their own; everything else is an action.
ADDRESSES = {"retrieval.retrieve": "/retrieve", "retrieval.memory": "/memory/query"}
#: Where a problem has no code of its own: what its status means.
BY_STATUS: Mapping[int, type[JiyiError]] = {
    401: NotAllowed,
    403: NotAllowed,
    404: NotFound,
    503: BrokerUnavailable,
    504: NoAnswer,
}
TOO_MANY = 429
#: What httpx2 raises for a service that cannot be reached.
FAILURES = (httpx2.HTTPError, httpx2.InvalidURL, OSError)
#: Of these, what it raises before anything is sent.
NOT_SENT = (
    *(httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.ProxyError),
    *(httpx2.UnsupportedProtocol, httpx2.InvalidURL),
)


def was_sent(error: Exception) -> bool:
    """Whether the service may have got the request, and have done what it says."""
    return isinstance(error, httpx2.HTTPError) and not isinstance(error, NOT_SENT)


@dataclass(frozen=True, slots=True)
class Sent:
    """A request: its address, its body, and how many seconds it may take."""

    url: str
    body: bytes
    seconds: float


@cache
def user_agent() -> str:
    """Which program, of which version, asks."""
    return f"jiyi-python/{version('jiyi')} Python/{platform.python_version()}"


class Requests:
    """Requests to one service with one key.

    Args:
        url: of the service, as ``https://memory.example.org``.
        settings: time-outs.
        group: only for an operator's key, which has no group of its own; every other key says which group it
        is.
        key: an API key.
    """

    def __init__(self, url: str, settings: Settings, group: str | None, key: str) -> None:
        self.url, self._settings, self._group = url.rstrip("/"), settings, group
        headers = {"Content-Type": "application/json", "User-Agent": user_agent()}
        if key:
            headers["Authorization"] = f"Bearer {key}"
        if group is not None:
            headers[GROUP_HEADER] = group
        self._headers = httpx2.Headers(headers, encoding="utf-8")

    @property
    def headers(self) -> httpx2.Headers:
        """Of a request that is sent now."""
        headers = self._headers.copy()
        headers.update(tracing.headers())
        return headers

    def events(self, body: bytes) -> Sent:
        """A message of events, which say what they are."""
        body = body if self._group is not None else _without_group(body, self._settings.group)
        return self._sent("/events", body, self._settings.publish_timeout)

    def call(self, name: str, request: JsonMapping, timeout: float | None) -> Sent:
        """An action or question by its name."""
        body = {field: value for field, value in request.items() if field != "group_id"}
        wait = self._settings.request_timeout if timeout is None else timeout
        if name in ADDRESSES:
            path = ADDRESSES[name]
            if name == "retrieval.retrieve":
                body["timeout"] = wait
        elif name.startswith("rpc."):
            path = f"/actions/{name.removeprefix('rpc.')}"
        else:
            raise InvalidRequest([f"{name}: is available over the broker only"])
        return self._sent(path, to_json(body), wait)

    def stream(self, after: str | None) -> tuple[str, httpx2.Headers, httpx2.Timeout]:
        """Address, headers and time-outs of the live stream."""
        headers = self.headers
        if after is not None:
            headers["Last-Event-ID"] = after
        return (
            f"{self.url}{API}/stream",
            headers,
            httpx2.Timeout(self._settings.publish_timeout + NETWORK_SECONDS, read=STREAM_SECONDS),
        )

    def _sent(self, path: str, body: bytes, wait: float) -> Sent:
        return Sent(f"{self.url}{API}{path}", body, wait + NETWORK_SECONDS)


def failure(url: str, error: Exception, seconds: float) -> JiyiError:
    """What it means that there was no answer."""
    if isinstance(error, httpx2.PoolTimeout):
        busy = f"for {seconds:g} s all of this client's connections were busy with other calls"
        return NoAnswer(f"not sent to {url}: {busy}")
    if not was_sent(error):
        running = "is the service running, and this its address?"
        return BrokerUnavailable(f"cannot reach {url}: {words_of(error)}; {running}")
    if isinstance(error, httpx2.TimeoutException):
        return NoAnswer(f"no answer from {url} within {seconds:g} s")
    return BrokerUnavailable(f"the connection to {url} broke before there was an answer ({words_of(error)})")


def opened(response: httpx2.Response) -> bytes:
    """The body of an answer. Raises what the service answered instead."""
    if response.is_success:
        return bytes(response.content)
    raise problem(response)


class LiveEventReader:
    """Server-sent events, line by line."""

    def __init__(self) -> None:
        self._fields: dict[str, str] = {}

    def read(self, line: str) -> Iterator[LiveEvent]:
        """The live event that ends with this line, if any does; a keep-alive is none."""
        if line:
            name, _, value = line.partition(":")
            if name:  # else a comment
                self._fields[name] = value.removeprefix(" ")
            return
        fields, self._fields = self._fields, {}
        if fields.get("event") and fields.get("data"):
            yield LiveEvent(id=fields.get("id", ""), kind=fields["event"], data=from_json(fields["data"]))


def problem(response: httpx2.Response) -> JiyiError:
    """What the service answered instead, as the class that every interface raises for it."""
    if response.status_code == TOO_MANY:
        return TooManyQuestions(_detail(response), _retry_after(response))
    try:
        answer = from_json(response.content)
        detail, code, errors = (
            str(answer["detail"]),
            str(answer.get("code") or ""),
            answer.get("errors") or [],
        )
    except (ValueError, KeyError, TypeError):
        return ServiceError(
            f"{response.url} answered {response.status_code} and no explanation: is this Jiyi's address?"
        )
    if code in ("invalid_event", "invalid_request") or (
        not code and response.status_code in (400, 413, 415, 422)
    ):
        cls = BY_CODE.get(code, InvalidRequest)
        return cls([_sentence(error["field"], error["message"]) for error in errors] or [detail])
    return BY_CODE.get(code, BY_STATUS.get(response.status_code, ServiceError))(detail)


def _detail(response: httpx2.Response) -> str:
    """The words of a refusal, which may be those of a proxy in front of the service."""
    with suppress(ValueError, KeyError, TypeError):
        return str(from_json(response.content)["detail"])
    return f"{response.url.copy_with(query=None)} answered {response.status_code}: too many requests"


def _retry_after(response: httpx2.Response) -> float | None:
    """Seconds after which to ask again: as a number, or a date (RFC 9110)."""
    header = response.headers.get("Retry-After", "").strip()
    with suppress(ValueError):
        seconds = float(header)
        return seconds if 0 <= seconds < inf else None
    with suppress(ValueError, TypeError):
        return max((parsedate_to_datetime(header) - datetime.now(UTC)).total_seconds(), 0.0)
    return None


def _sentence(field: str, message: str) -> str:
    """A problem as the other interfaces say it: a message that names its field is whole."""
    return message if not field or f"'{field}'" in message else f"{field}: {message}"


def _without_group(body: bytes, unknown: str) -> bytes:
    """A message without the group that the client does not know: the key says it."""
    message = from_json(body)
    for event in message.get("events", [message]):
        if event.get("group_id") == unknown:
            del event["group_id"]
    return bytes(to_json(message))


class HttpTransport:
    """A :class:`jiyi.client.steps.Transport` over the REST API; ``http``: instead of a new client."""

    retries: tuple[float, ...] = RETRIES
    #: The group that the last answer was for: the key's, which the service knows.
    answered_for: str | None = None

    def __init__(
        self, url: str, settings: Settings, group: str | None, key: str, http: httpx2.Client | None = None
    ) -> None:
        self.requests, self.patience = Requests(url, settings, group, key), PATIENCE_SECONDS
        self._http = http or httpx2.Client(
            transport=httpx2.HTTPTransport(retries=CONNECT_RETRIES), follow_redirects=False
        )

    def publish(self, body: bytes, routing_key: str) -> None:  # noqa: ARG002 – the events say what they are
        self._post(self.requests.events(body))

    # Celery's.
    def call(self, name: str, queue: str, request: JsonMapping, timeout: float | None) -> bytes:
        del queue
        return self._post(self.requests.call(name, request, timeout))

    def watch(self, after: str | None) -> Iterator[LiveEvent]:
        url, headers, timeout = self.requests.stream(after)
        reader = LiveEventReader()
        try:
            with self._http.stream("GET", url, headers=headers, timeout=timeout) as response:
                if not response.is_success:
                    response.read()
                    raise problem(response)
                for line in response.iter_lines():
                    yield from reader.read(line)
        except FAILURES as error:
            raise failure(self.requests.url, error, timeout.read or 0) from error

    def close(self) -> None:
        self._http.close()

    def _post(self, sent: Sent) -> bytes:
        try:
            response = self._http.post(
                sent.url, content=sent.body, headers=self.requests.headers, timeout=sent.seconds
            )
        except FAILURES as error:
            raise failure(self.requests.url, error, sent.seconds) from error
        self.answered_for = response.headers.get(GROUP_HEADER, self.answered_for)
        return opened(response)


class AsyncHttpTransport:
    """A :class:`jiyi.client.steps.AsyncTransport` over the REST API."""

    retries: tuple[float, ...] = RETRIES

    def __init__(
        self,
        url: str,
        settings: Settings,
        group: str | None,
        key: str,
        http: httpx2.AsyncClient | None = None,
    ) -> None:
        self.requests, self.patience = Requests(url, settings, group, key), PATIENCE_SECONDS
        self._http = http or httpx2.AsyncClient(
            transport=httpx2.AsyncHTTPTransport(retries=CONNECT_RETRIES), follow_redirects=False
        )

    # The events say what they are.
    async def publish(self, body: bytes, routing_key: str) -> None:  # noqa: ARG002
        await self._post(self.requests.events(body))

    # Celery's.
    async def call(self, name: str, queue: str, request: JsonMapping, timeout: float | None) -> bytes:
        del queue
        return await self._post(self.requests.call(name, request, timeout))

    async def watch(self, after: str | None) -> AsyncIterator[LiveEvent]:
        url, headers, timeout = self.requests.stream(after)
        reader = LiveEventReader()
        try:
            async with self._http.stream("GET", url, headers=headers, timeout=timeout) as response:
                if not response.is_success:
                    await response.aread()
                    raise problem(response)
                async for line in response.aiter_lines():
                    for event in reader.read(line):
                        yield event
        except FAILURES as error:
            raise failure(self.requests.url, error, timeout.read or 0) from error

    async def close(self) -> None:
        await self._http.aclose()

    async def _post(self, sent: Sent) -> bytes:
        try:
            response = await self._http.post(
                sent.url, content=sent.body, headers=self.requests.headers, timeout=sent.seconds
            )
        except FAILURES as error:
            raise failure(self.requests.url, error, sent.seconds) from error
        return opened(response)
