"""HTTP as a client's transport: the service's REST API, for programs outside of its own network."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

import httpx2
from pydantic_core import from_json, to_json

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
)
from jiyi.settings import Settings

API = "/api/v1"
GROUP_HEADER = "Jiyi-Group"
#: Tries to connect; what was sent is not sent twice.
CONNECT_RETRIES = 2
#: Seconds beyond the time that the service has for an answer, for the way there and back.
NETWORK_SECONDS = 5.0
#: Questions that have an address of their own; everything else is an action.
ADDRESSES = {"retrieval.retrieve": "/retrieve", "retrieval.memory": "/memory/query"}
#: Where a problem has no code of its own: what its status means.
BY_STATUS: Mapping[int, type[JiyiError]] = {
    401: NotAllowed,
    403: NotAllowed,
    404: NotFound,
    429: TooManyQuestions,
    503: BrokerUnavailable,
    504: NoAnswer,
}


class HttpTransport:
    """A :class:`jiyi.client.transports.Transport` over the REST API.

    Args:
        url: of the service, as ``https://memory.example.org``.
        settings: time-outs.
        group: only for an operator's key, which has no group of its own; every other key says which group it is.
        key: an API key.
        http: a client to use instead of a new one: for tests.
    """

    def __init__(self, url: str, settings: Settings, group: str | None, key: str, http: httpx2.Client | None = None) -> None:
        self.url, self._settings, self._group = url.rstrip("/"), settings, group
        headers = {"Content-Type": "application/json", "User-Agent": f"jiyi-python/{version('jiyi')} Python/{platform.python_version()}"}
        if key:
            headers["Authorization"] = f"Bearer {key}"
        if group is not None:
            headers[GROUP_HEADER] = group
        self._headers = httpx2.Headers(headers, encoding="utf-8")
        self._http = http or httpx2.Client(transport=httpx2.HTTPTransport(retries=CONNECT_RETRIES), follow_redirects=False)

    def publish(self, body: bytes, routing_key: str) -> None:  # noqa: ARG002 – the events say what they are
        self._post("/events", body if self._group is not None else _without_group(body), self._settings.publish_timeout)

    def call(self, name: str, queue: str, request: dict[str, Any], timeout: float | None) -> bytes:  # noqa: ARG002 – Celery's
        body = {field: value for field, value in request.items() if field != "group_id"}
        wait = self._settings.request_timeout if timeout is None else timeout
        if name in ADDRESSES:
            path = ADDRESSES[name]
            if name == "retrieval.retrieve":
                body["timeout"] = wait
        elif name.startswith("rpc."):
            path = f"/actions/{name.removeprefix('rpc.')}"
        else:
            raise InvalidRequest([f"{name}: goes over the broker only"])
        return self._post(path, to_json(body), wait)

    def close(self) -> None:
        self._http.close()

    def _post(self, path: str, body: bytes, wait: float) -> bytes:
        try:
            response = self._http.post(f"{self.url}{API}{path}", content=body, headers=self._headers, timeout=wait + NETWORK_SECONDS)
        except httpx2.TimeoutException:
            raise NoAnswer(f"no answer from {self.url} within {wait + NETWORK_SECONDS:g} s") from None
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            raise BrokerUnavailable(f"cannot reach {self.url}: {error}; is the service running, and this its address?") from error
        if response.is_success:
            return bytes(response.content)
        raise _problem(response)


def _without_group(body: bytes) -> bytes:
    """A message whose events are of the key's group, which the client need not know."""
    message = from_json(body)
    for event in message.get("events", [message]):
        event.pop("group_id", None)
    return bytes(to_json(message))


def _problem(response: httpx2.Response) -> JiyiError:
    """What the service answered instead, as the class that every door raises for it."""
    try:
        told = from_json(response.content)
        detail, code, errors = str(told["detail"]), str(told.get("code") or ""), told.get("errors") or []
    except (ValueError, KeyError, TypeError):
        return ServiceError(f"{response.url} answered {response.status_code} and no explanation: is this Jiyi's address?")
    if code in ("invalid_event", "invalid_request") or (not code and response.status_code in (400, 413, 415, 422)):
        cls = BY_CODE.get(code, InvalidRequest)
        sentences = [": ".join(filter(None, (error["field"], error["message"]))) for error in errors]
        return cls(sentences or [detail])
    return BY_CODE.get(code, BY_STATUS.get(response.status_code, ServiceError))(detail)
