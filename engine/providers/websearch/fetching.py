"""One HTTP request to the one address that is configured: bounded in time and size, and to nowhere else.

What a question or an answer says never decides where a request goes. Redirects are followed on the same host only. The
vendor's own address must be a public one, and the connection goes to the very address that was looked at, so that a name
cannot mean another machine a moment later; an address that the operator has set is taken as it is, whatever network it is in.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx2

from engine.providers.public_addresses import is_public
from jiyi.errors import SearchUnavailable

#: Largest answer, in bytes: twenty results with two thousand characters each are a tenth of it.
MAX_BODY_BYTES = 2 * 1024 * 1024
MAX_REDIRECTS = 3
#: Characters of an engine's own words in a message.
MAX_QUOTE = 200

# Compressed, two megabytes may be as many gigabytes.
_HEADERS = {"Accept": "application/json", "Accept-Encoding": "identity"}
_REDIRECTS = frozenset({301, 302, 303, 307, 308})


@dataclass(frozen=True, slots=True)
class Address:
    """Where a search engine is; ``trusted``: set by the operator, who may mean a machine of their own network."""

    base_url: str
    trusted: bool
    #: For messages: which setting changes it.
    setting: str

    def __post_init__(self) -> None:
        parts = urlsplit(self.base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise SearchUnavailable(f"{self.setting} is no http:// or https:// address")

    @property
    def shown(self) -> str:
        """Without what it may hold beside the address."""
        parts = urlsplit(self.base_url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def fetch_json(
    address: Address,
    method: str,
    path: str,
    *,
    seconds: float,
    params: Mapping[str, str] | None = None,
    body: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
) -> tuple[int, Any]:
    """The status, and the JSON of the answer (None if it has none, which only a status of success makes an error).

    Raises:
        SearchUnavailable: it cannot be reached, is too slow, answers too much or no JSON, or wants to send us elsewhere.
    """
    until = time.monotonic() + seconds
    url = httpx2.URL(address.base_url.rstrip("/") + path, params=dict(params or {}))
    try:
        # A client for each search: searches are seconds apart, and nothing is shared between groups.
        with httpx2.Client(follow_redirects=False, headers=_HEADERS | dict(headers or {})) as client:
            for _ in range(MAX_REDIRECTS + 1):
                status, content, target = _once(client, address, method, url, body, until)
                if target is None:
                    return status, _json(content, status, address)
                url = _same_host(url, target, address)
                if status == 303:
                    method, body = "GET", None
    except httpx2.TimeoutException:
        raise SearchUnavailable(f"{address.shown} did not answer within {seconds:g} s") from None
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
        raise SearchUnavailable(f"{address.shown} cannot be reached: {str(error)[:MAX_QUOTE] or type(error).__name__}") from None
    raise SearchUnavailable(f"{address.shown} redirects more than {MAX_REDIRECTS} times")


def _once(
    client: httpx2.Client, address: Address, method: str, url: httpx2.URL, body: Mapping[str, Any] | None, until: float
) -> tuple[int, bytes, str | None]:
    """Status, body, and where it redirects to."""
    target, headers, extensions = _pinned(address, url)
    left = until - time.monotonic()
    if left <= 0:
        raise httpx2.ReadTimeout("the time is up")
    with client.stream(method, target, json=body, headers=headers, extensions=extensions, timeout=left) as response:
        if response.status_code in _REDIRECTS and "location" in response.headers:
            return response.status_code, b"", response.headers["location"]
        if response.headers.get("content-encoding", "identity") != "identity":
            raise SearchUnavailable(f"{address.shown} answered compressed, which was not asked for")
        content = bytearray()
        for chunk in response.iter_raw():
            content += chunk
            if len(content) > MAX_BODY_BYTES:
                raise SearchUnavailable(f"{address.shown} answered more than {MAX_BODY_BYTES:,} bytes")
            if time.monotonic() > until:  # the client's time-out is between two pieces, which may be small
                raise httpx2.ReadTimeout("the time is up")
        return response.status_code, bytes(content), None


def _pinned(address: Address, url: httpx2.URL) -> tuple[httpx2.URL, dict[str, str], dict[str, object]]:
    """The URL with the network address that was looked at in place of the name, which goes into the headers."""
    if address.trusted or _by_proxy(url):
        return url, {}, {}
    port = url.port or (443 if url.scheme == "https" else 80)
    found = [str(info[4][0]) for info in socket.getaddrinfo(url.host, port, type=socket.SOCK_STREAM)]
    if not found or not all(map(is_public, found)):
        seen = ", ".join(found)[:MAX_QUOTE]
        raise SearchUnavailable(f"{address.shown} is not a public address here ({seen}): set {address.setting} if it is meant")
    # Certificates are checked against the name, not the number.
    return url.copy_with(host=found[0]), {"Host": url.netloc.decode("ascii")}, {"sni_hostname": url.host}


def _by_proxy(url: httpx2.URL) -> bool:
    """Whether a proxy makes the connection: then its rules hold, and it looks the name up."""
    proxies = getproxies()
    return bool((proxies.get(url.scheme) or proxies.get("all")) and not proxy_bypass(url.host))


def _same_host(url: httpx2.URL, target: str, address: Address) -> httpx2.URL:
    new = url.join(target)
    if (new.scheme, new.host, new.port) != (url.scheme, url.host, url.port):
        raise SearchUnavailable(f"{address.shown} redirects to another host, {new.host[:MAX_QUOTE]}: it is not followed")
    return new


def _json(content: bytes, status: int, address: Address) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        if status >= 400:
            return None
        raise SearchUnavailable(f"{address.shown} answered no JSON: check {address.setting}") from None
