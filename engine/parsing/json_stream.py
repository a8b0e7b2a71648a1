"""JSON read value by value from a file that may be larger than memory."""

from __future__ import annotations

import json
from codecs import getincrementaldecoder
from collections.abc import Iterator
from typing import Any, BinaryIO

from engine.parsing.limits import Refused

#: Bytes that are read at once.
_READ = 1 << 20
#: Characters of one value, at most: as much as a store's largest items, their attachments included, and some more.
MAX_VALUE_CHARS = 32_000_000
#: What values end with inside of lists and objects.
_WHITE_SPACE = " \t\r\n"
_decode = json.JSONDecoder().raw_decode


class JsonStream:
    """The text of a file, and how far it was read.

    All methods raise :class:`Refused` with the state ``malformed`` where the text is no JSON, or no UTF-8.
    """

    def __init__(self, source: BinaryIO) -> None:
        self._source = source
        self._decoder = getincrementaldecoder("utf-8")()
        self._text = ""
        self._at = 0
        self._ended = False

    def peek(self) -> str:
        """The next character that is no white space; "" at the end. It is not taken."""
        while True:
            while self._at < len(self._text):
                if self._text[self._at] not in _WHITE_SPACE:
                    return self._text[self._at]
                self._at += 1
            if self._ended:
                return ""
            self._fill()

    def take(self, wanted: str) -> bool:
        """Whether the next character is this one, which is then taken."""
        if self.peek() != wanted:
            return False
        self._at += 1
        return True

    def expect(self, wanted: str) -> None:
        """Take this character."""
        if not self.take(wanted):
            raise malformed(f"{wanted!r} is missing before {self._text[self._at : self._at + 20]!r}")

    def value(self) -> Any:
        """The next value, as a whole."""
        self.peek()
        while True:
            try:
                value, end = _decode(self._text, self._at)
            except RecursionError:
                raise malformed("it is nested too deeply") from None
            except ValueError as error:
                if self._ended:
                    raise malformed(str(error)[:200]) from None
            else:
                if end - self._at <= MAX_VALUE_CHARS and (end < len(self._text) or self._ended):  # else a number may go on
                    self._at = end
                    return value
            if len(self._text) - self._at > MAX_VALUE_CHARS:
                raise malformed(f"a value has more than {MAX_VALUE_CHARS:,} characters")
            # Twice as much as there is: what a value was tried in vain adds up to no more than its length.
            self._fill(max(_READ, len(self._text) - self._at))

    def elements(self) -> Iterator[Any]:
        """The values of the list that comes next."""
        self.expect("[")
        if self.take("]"):
            return
        yield self.value()
        while not self.take("]"):
            self.expect(",")
            yield self.value()

    def names(self) -> Iterator[str]:
        """The keys of the object that comes next; whoever asks takes each one's value before the next key."""
        self.expect("{")
        first = True
        while not self.take("}"):
            if not first:
                self.expect(",")
            first = False
            if self.peek() != '"':
                raise malformed("a key of an object is missing")
            key: str = self.value()
            self.expect(":")
            yield key

    def end(self) -> None:
        """There is nothing more."""
        if self.peek():
            raise malformed(f"something follows: {self._text[self._at : self._at + 20]!r}")

    def _fill(self, count: int = _READ) -> None:
        read = self._source.read(count)
        self._ended = not read
        try:
            more = self._decoder.decode(read, final=self._ended)
        except UnicodeDecodeError:
            raise malformed("it is no UTF-8") from None
        self._text = self._text[self._at :] + more
        self._at = 0


def malformed(reason: str) -> Refused:
    """The error for text that is no JSON."""
    return Refused("malformed", f"no JSON: {reason}")
