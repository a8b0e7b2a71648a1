"""Addresses of memories: ``agent://{agent}/{kind}/{category}``."""

from __future__ import annotations

import re
from typing import NamedTuple, get_args
from urllib.parse import unquote

from jiyi.protocol.conversations.types import Kind

SCHEME = "agent://"
#: Characters: two names, escaped, and some words.
MAX_URI_CHARS = 1_000
#: What would end a segment, or could not be seen: escaped.
_SPECIAL = re.compile(r"[%/?#\\\s\x00-\x1f\x7f]")
_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


class MemoryUri(NamedTuple):
    """The parts of an address; ``kind`` is None for all of an agent's."""

    agent_id: str
    kind: Kind | None
    path: tuple[str, ...]


def uri_of(agent_id: str, kind: str | None = None, *path: str) -> str:
    """The address of an agent's memories, of those of a kind, or of those under a path."""
    segments = [agent_id, *([] if kind is None else [kind]), *path]
    return SCHEME + "/".join(map(_escaped, segments))


def parse_uri(uri: str) -> MemoryUri:
    """The parts of an address.

    Raises:
        ValueError: it is none: says what is wrong, and how it should look.
    """
    if not uri.startswith(SCHEME) or len(uri) > MAX_URI_CHARS:
        raise ValueError(f"{uri[:80]!r} is no address: it begins with {SCHEME} and has at most {MAX_URI_CHARS:,} characters")
    segments = uri.removeprefix(SCHEME).removesuffix("/").split("/")
    if any(segment in ("", ".", "..") or re.search(r"[?#\\\s\x00-\x1f\x7f]", segment) or _ESCAPE.search(segment) for segment in segments):
        raise ValueError(f"{uri[:80]!r} is no address: use {SCHEME}agent/kind/category; escape / as %2F, no segment may be empty, . or ..")
    agent_id, *rest = map(unquote, segments)
    if not agent_id.strip():
        raise ValueError(f"{uri[:80]!r} is no address: the agent is blank")
    if rest and rest[0] not in get_args(Kind):
        raise ValueError(f"{uri[:80]!r}: the kind {rest[0]!r} is none of {', '.join(get_args(Kind))}")
    return MemoryUri(agent_id, rest[0] if rest else None, tuple(rest[1:]))  # type: ignore[arg-type]


def _escaped(segment: str) -> str:
    if segment in (".", ".."):
        return segment.replace(".", "%2E")
    return _SPECIAL.sub(lambda match: "".join(f"%{byte:02X}" for byte in match.group().encode()), segment)
