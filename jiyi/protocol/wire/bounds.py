"""JSON that would become too much in memory, known from its bytes before any of it is parsed.

A number takes two bytes to send and thirty in memory, an empty object a hundred, a validator's error a
thousand and more. Counting takes a hundredth of a second for a megabyte.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

from jiyi.protocol.limits import BYTES_A_VALUE, MAX_DEPTH, MAX_MESSAGE_BYTES, MAX_VALUES

#: Bytes looked at in one go: another thread may have its turn in between.
_CHUNK = 256 * 1024
#: All bytes but those that make the structure of a JSON text.
_OTHERS = bytes(set(range(256)) - set(b'"[]{},:'))
#: By bracket: how many levels deeper what follows is.
_STEPS = [(byte in b"[{") - (byte in b"]}") for byte in range(256)]


class TooMuchError(ValueError):
    """What a text has too much of, to be read after "it has": ``more than 1,048,576 bytes``. ``deep``: it is
    nested too deeply.
    """

    def __init__(self, message: str, *, deep: bool = False) -> None:
        super().__init__(message)
        self.deep = deep


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a JSON text may have.

    Attributes:
        size: bytes.
        values: members of all lists and objects together; so many lists and objects, so many names of
        members, and so many texts.
        density: there may be a member for each so many bytes, where that is more:
        vectors are many numbers. 0: not so.
        depth: lists and objects within one another.
    """

    size: int
    values: int = MAX_VALUES
    density: int = 0
    depth: int = MAX_DEPTH

    def check(self, text: bytes) -> None:
        """Look at a text's bytes, up to its first error if it is no JSON. Raises TooMuchError."""
        if len(text) > self.size:
            raise TooMuchError(f"more than {self.size:,} bytes")
        if len(text) <= self.values and text.count(b"[") + text.count(b"{") <= self.depth:
            return  # whatever its bytes are: nearly every message is so short
        most = max(self.values, len(text) // self.density if self.density else 0)
        values = containers = names = quotes = level = 0
        for structure, more in _structure(text):
            brackets = structure.translate(None, b",:")
            levels = [*accumulate(map(_STEPS.__getitem__, brackets), initial=level)]
            if max(levels) > self.depth:
                raise TooMuchError(f"lists and objects nested more than {self.depth:,} deep", deep=True)
            level = levels[-1]
            values += structure.count(b",")
            containers += brackets.count(b"[") + brackets.count(b"{")
            names += structure.count(b":")
            quotes += more
            counted = {
                "lists and objects": containers,
                "names of values": names,
                "texts": quotes // 2 - names,
            }
            for what, count in counted.items():
                if count > self.values:
                    raise TooMuchError(f"more than {self.values:,} {what}")
            if values + containers > most:
                raise TooMuchError(f"more than {most:,} values in its lists and objects")


#: What a message, and the body of any request, may have.
MESSAGE = Bounds(MAX_MESSAGE_BYTES, density=BYTES_A_VALUE)


def most_names(text: bytes) -> int:
    """At least as many as a JSON text has lists, objects and names: those within strings count, too."""
    return text.count(b"[") + text.count(b"{") + text.count(b":")


def names_in(text: bytes) -> int:
    """How many members the objects of a JSON text have, those that are given again as well."""
    return sum(structure.count(b":") for structure, _ in _structure(text))


def _structure(text: bytes) -> Iterator[tuple[bytes, int]]:
    """The commas, colons and brackets outside strings, piece by piece, each with its count of quotes."""
    within = start = 0
    while start < len(text):
        piece = text[start : start + _CHUNK]
        start += _CHUNK
        if b"\\" in piece:
            if (len(piece) - len(piece.rstrip(b"\\"))) % 2:  # the last one escapes what comes next
                piece, start = piece + text[start : start + 1], start + 1
            piece = piece.replace(rb"\\", b"").replace(
                rb"\"", b""
            )  # what remains of a backslash cannot hide a quote
        parts = piece.translate(None, _OTHERS).split(b'"')
        yield b"".join(parts[within::2]), len(parts) - 1
        within = (within + len(parts) - 1) % 2
