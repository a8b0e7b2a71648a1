"""OpenClaw's memory: Markdown that the agent writes (``MEMORY.md``, ``memory/2026-03-02.md``), and its sessions as JSON lines."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

from jiyi.imports.conversations import turn
from jiyi.imports.drafts import Draft, Drafts, LeftOut, listing, mapping, text_or_none
from jiyi.protocol.base import JsonObject

_DATE = re.compile(r"(?:^|/)(\d{4}-\d{2}-\d{2})[^/]*\.md$")
_HEADING = re.compile(r"#{1,6}\s+(.*?)\s*#*\s*$")
_ITEM = re.compile(r"(?:[-*+]|\d{1,9}[.)])\s+(?:\[[ xX]\]\s+)?")
MAX_HEADING_CHARS = 200


def markdown(path: str, text: str, changed_at: datetime) -> Drafts:
    """The entries of one file: each item of a list with what is below it, each paragraph.

    Args:
        path: within the workspace, with slashes. A day in its name is the time of its entries.
        text: what stands in it.
        changed_at: the file's own time, for a file without a day.
    """
    named = _DATE.search(path)
    try:
        at = datetime.strptime(named[1], "%Y-%m-%d").replace(tzinfo=UTC) if named else changed_at
    except ValueError as error:
        yield LeftOut(path, "bad time", str(error))
        return
    seen: Counter[str] = Counter()
    for heading, entry in entries(text):
        digest = sha256(f"{heading}\n{entry}".encode(errors="surrogatepass")).hexdigest()[:32]
        seen[digest] += 1
        # Entries have no ids: their words are, and how often they stood there before.
        key = (path, digest if seen[digest] == 1 else f"{digest} {seen[digest]}")
        about: JsonObject = {"file": path, "heading": heading[:MAX_HEADING_CHARS]} if heading else {"file": path}
        yield Draft(key=key, text=entry, at=at, found_by=f"{heading}: {entry}" if heading else None, provenance=about)


def entries(text: str) -> Iterator[tuple[str, str]]:
    """The heading that each entry stands below (empty: none), and its words."""
    heading, lines, fenced = "", list[str](), False

    def taken() -> Iterator[tuple[str, str]]:
        entry = "\n".join(lines).strip()
        lines.clear()
        if entry:
            yield heading, entry

    for line in text.splitlines():
        fenced ^= line.lstrip().startswith("```")
        if fenced:
            lines.append(line)
        elif match := _HEADING.match(line):
            yield from taken()
            heading = match[1]
        elif not line.strip():
            yield from taken()
        elif match := _ITEM.match(line):
            yield from taken()
            lines.append(line[match.end() :])
        else:
            lines.append(line)
    yield from taken()


def session_line(session: str, number: int, value: Any) -> Drafts:
    """A line of a session's file; only its messages are told."""
    line = mapping(value)
    if line.get("type") != "message":
        return
    message = mapping(line.get("message"))
    key = (session, text_or_none(line.get("id")) or f"line {number}")
    content = message.get("content")
    parts = [content] if isinstance(content, str) else [mapping(part).get("text") for part in listing(content) if _is_text(part)]
    text = "\n".join(part for part in parts if isinstance(part, str))
    if not text.strip():
        yield LeftOut(" ".join(key), "no text", "a call of a tool, or thoughts")
        return
    yield turn(key, message.get("role"), text, line.get("timestamp") or message.get("timestamp"), session=session)


def _is_text(part: Any) -> bool:
    return mapping(part).get("type") == "text"


def session_start(value: Any) -> str | None:
    """The session's own id, if this is its first line."""
    line = mapping(value)
    return text_or_none(line.get("id")) if line.get("type") == "session" else None
