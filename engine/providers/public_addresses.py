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
#: IPv6 addresses that stand for IPv4 ones behind a translator or a tunnel: NAT64 (RFC 6052, RFC 8215), 6to4, Teredo, IPv4-mapped and
#: the deprecated IPv4-compatible form. Python calls most of them global, and a gateway may lead from them into the private network.
TRANSLATED = tuple(
    map(ipaddress.IPv6Network, ("64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32", "::ffff:0:0/96", "::ffff:0:0:0/96", "::/96"))
)


class PrivateAddress(httpx2.ConnectError):
    """A name leads to an address that is not public."""


def is_public(address: str) -> bool:
    """Whether an IP address, with or without a scope (``fe80::1%eth0``), is reached over the public Internet and by no translation."""
    parsed = ipaddress.ip_address(address.partition("%")[0])
    if parsed.version == 6 and any(parsed in network for network in TRANSLATED):
        return False
    return parsed.is_global and not parsed.is_multicast


def public_address(host: str, port: int) -> str:
    """A public address of the host.

    Raises:
        PrivateAddress: one of its addresses is not public.
        OSError: it cannot be looked up.
    """
    addresses = [str(info[4][0]) for info in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
    if not addresses or not all(map(is_public, addresses)):
        raise PrivateAddress(f"{host} is not a public address here ({', '.join(addresses)[:MAX_QUOTE]})")
    return addresses[0]


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
