"""HTTP as a client's transport: the service's REST API, for programs outside of its own network."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import httpx2

from jiyi.client.requests import CONNECT_RETRIES, FAILURES, RETRIES, NewsReader, Requests, Sent, opened, problem
from jiyi.protocol.wire.json_values import JsonMapping
from jiyi.protocol.wire.stream import News
from jiyi.settings import Settings


class HttpTransport:
    """A :class:`jiyi.client.transport.Transport` over the REST API; ``http`` is a client to use instead of a new one."""

    retries: tuple[float, ...] = RETRIES

    def __init__(self, url: str, settings: Settings, group: str | None, key: str, http: httpx2.Client | None = None) -> None:
        self.requests, self.patience = Requests(url, settings, group, key), settings.patience_seconds
        self._http = http or httpx2.Client(transport=httpx2.HTTPTransport(retries=CONNECT_RETRIES), follow_redirects=False)

    def publish(self, body: bytes, routing_key: str) -> None:  # noqa: ARG002 – the events say what they are
        self._post(self.requests.events(body))

    def call(self, name: str, queue: str, request: JsonMapping, timeout: float | None) -> bytes:  # noqa: ARG002 – Celery's
        return self._post(self.requests.call(name, request, timeout))

    def watch(self, after: str | None) -> Iterator[News]:
        url, headers, timeout = self.requests.stream(after)
        try:
            with self._http.stream("GET", url, headers=headers, timeout=timeout) as response:
                if not response.is_success:
                    response.read()
                    raise problem(response)
                yield from NewsReader().read_all(response.iter_lines())
        except FAILURES as error:
            raise self.requests.failure(error, timeout.read or 0) from error

    def close(self) -> None:
        self._http.close()

    def _post(self, sent: Sent) -> bytes:
        try:
            response = self._http.post(sent.url, content=sent.body, headers=self.requests.headers, timeout=sent.seconds)
        except FAILURES as error:
            raise self.requests.failure(error, sent.seconds) from error
        return opened(response)


class AsyncHttpTransport:
    """A :class:`jiyi.client.transport.AsyncTransport` over the REST API."""

    retries: tuple[float, ...] = RETRIES

    def __init__(self, url: str, settings: Settings, group: str | None, key: str, http: httpx2.AsyncClient | None = None) -> None:
        self.requests, self.patience = Requests(url, settings, group, key), settings.patience_seconds
        self._http = http or httpx2.AsyncClient(transport=httpx2.AsyncHTTPTransport(retries=CONNECT_RETRIES), follow_redirects=False)

    async def publish(self, body: bytes, routing_key: str) -> None:  # noqa: ARG002 – the events say what they are
        await self._post(self.requests.events(body))

    async def call(self, name: str, queue: str, request: JsonMapping, timeout: float | None) -> bytes:  # noqa: ARG002 – Celery's
        return await self._post(self.requests.call(name, request, timeout))

    async def watch(self, after: str | None) -> AsyncIterator[News]:
        url, headers, timeout = self.requests.stream(after)
        reader = NewsReader()
        try:
            async with self._http.stream("GET", url, headers=headers, timeout=timeout) as response:
                if not response.is_success:
                    await response.aread()
                    raise problem(response)
                async for line in response.aiter_lines():
                    for news in reader.read(line):
                        yield news
        except FAILURES as error:
            raise self.requests.failure(error, timeout.read or 0) from error

    async def close(self) -> None:
        await self._http.aclose()

    async def _post(self, sent: Sent) -> bytes:
        try:
            response = await self._http.post(sent.url, content=sent.body, headers=self.requests.headers, timeout=sent.seconds)
        except FAILURES as error:
            raise self.requests.failure(error, sent.seconds) from error
        return opened(response)
