"""Changes of a JSON text that leave all else as it was written: numbers, keys that come twice, escapes."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

#: Where something is put into: members of others are not looked for.
_ENTERED = frozenset({"messages", "input", "system", "content"})
#: Keys and indexes down to the parts of a message.
_DEPTH = 4
#: The value that begins at a place, and where it ends; numbers may be of any length and size.
_SCAN = json.JSONDecoder(strict=False, parse_int=str, parse_float=str).raw_decode
_SPACE = re.compile(r"[ \t\n\r]*")

#: Keys and indexes down to a value.
Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a value stands in the text, and the members of an object or array by their keys or indexes."""

    start: int
    end: int
    members: dict[str | int, _Place]


class JsonText:
    """A JSON text, and what is to be put into it. Places are those of the text as it came."""

    def __init__(self, content: bytes) -> None:
        self._text = content.decode()
        self._root = _placed(self._text, _after_space(self._text, 0))
        self._added: list[tuple[int, int, str]] = []

    def prepend(self, path: Path, text: str) -> None:
        """Put text at the beginning of a string."""
        start = self._at(path).start + 1
        self._added.append((start, start, _written(text)[1:-1]))

    def append(self, path: Path, text: str) -> None:
        """Put text at the end of a string."""
        end = self._at(path).end - 1
        self._added.append((end, end, _written(text)[1:-1]))

    def insert(self, path: Path, index: int, value: Any) -> None:
        """Put a value into an array before that which is at ``index``, or at its end."""
        place = self._at(path)
        members = place.members
        if index < len(members):
            at, added = members[index].start, f"{_written(value)},"
        elif members:
            at, added = members[len(members) - 1].end, f",{_written(value)}"
        else:
            at, added = place.start + 1, _written(value)
        self._added.append((at, at, added))

    def put(self, path: Path, key: str, value: Any) -> None:
        """Give an object's key another value, or the object another key."""
        place = self._at(path)
        members = place.members
        if key in members:
            self._added.append((members[key].start, members[key].end, _written(value)))
        else:
            comma = "," if members else ""
            start = place.start + 1
            self._added.append((start, start, f"{_written(key)}:{_written(value)}{comma}"))

    def wrap(self, path: Path, before: str, after: str) -> None:
        """Put JSON before a value and behind it."""
        place = self._at(path)
        self._added += [(place.start, place.start, before), (place.end, place.end, after)]

    def content(self) -> bytes:
        """The text with all that was put into it."""
        parts, at = [], 0
        for start, end, added in sorted(self._added, key=lambda change: change[0]):
            parts += [self._text[at:start], added]
            at = end
        return "".join([*parts, self._text[at:]]).encode(errors="replace")

    def _at(self, path: Path) -> _Place:
        place = self._root
        for key in path:
            place = place.members[key]
        return place


def _placed(text: str, start: int, depth: int = 0) -> _Place:
    """The value that begins at ``start``, with its members where something is put in.

    Of keys that come twice it is the last.
    """
    members: dict[str | int, _Place] = {}
    if depth == _DEPTH or text[start] not in "{[":
        return _Place(start, _SCAN(text, start)[1], members)
    keyed, at = text[start] == "{", _after_space(text, start + 1)
    while text[at] not in "}]":
        key: str | int = len(members)
        if keyed:
            key, at = _SCAN(text, at)
            at = _after_space(text, _after_space(text, at) + 1)  # the colon
        members[key] = _placed(text, at, depth + 1 if not keyed or key in _ENTERED else _DEPTH)
        at = _after_space(text, members[key].end)
        if text[at] == ",":
            at = _after_space(text, at + 1)
    return _Place(start, at + 1, members)


def _after_space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    assert match is not None
    return match.end()


def _written(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
