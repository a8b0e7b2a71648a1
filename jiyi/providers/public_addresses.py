"""Connections that a tenant has asked for go to public addresses only: what they name must not lead into the service's own network.

The name is looked up when the connection is made, and the connection goes to the very address that was looked at, so that a name
cannot mean another machine a moment later.
"""

from __future__ import annotations

import ipaddress
import socket
from urllib.parse import urlsplit

import httpx2

#: Characters of addresses in a message.
MAX_QUOTE = 200


class PrivateAddress(httpx2.ConnectError):
    """A name leads to an address that is not public."""


def public_address(host: str, port: int) -> str:
    """A public address of the host.

    Raises:
        PrivateAddress: one of its addresses is not public.
        OSError: it cannot be looked up.
    """
    found = [str(info[4][0]) for info in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
    if not found or not all(ipaddress.ip_address(name.partition("%")[0]).is_global for name in found):
        raise PrivateAddress(f"{host} is not a public address here ({', '.join(found)[:MAX_QUOTE]})")
    return found[0]


def check_public(url: str) -> str | None:
    """Why a URL may not be called, in a sentence; None if it may, or if nobody knows its name for now."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return "is no http:// or https:// address"
    try:
        public_address(parts.hostname, parts.port or (443 if parts.scheme == "https" else 80))
    except PrivateAddress as error:
        return f"leads into a private network: {error}"
    except (OSError, ValueError):
        return None
    return None


class PublicTransport(httpx2.HTTPTransport):
    """Sends requests to public addresses only."""

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        url = request.url
        try:
            address = public_address(url.host, url.port or (443 if url.scheme == "https" else 80))
        except OSError as error:
            raise httpx2.ConnectError(f"{url.host}: {error}", request=request) from error
        # The header Host has the name already; certificates are checked against it, too.
        request.extensions = {**request.extensions, "sni_hostname": url.host}
        request.url = url.copy_with(host=address)
        return super().handle_request(request)
