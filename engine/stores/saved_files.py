"""Stores as ``.json`` files in the original's formats, read value by value, as they may be larger than
memory: a list of items, and the index of a store of files, which names the model of its vectors as the
original's does not.
"""

from __future__ import annotations

import json
from array import array
from base64 import b64encode
from codecs import getincrementaldecoder
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, BinaryIO, TypeVar

from pydantic import BaseModel, Field, ValidationError

from engine.stores.limits import ParseLimits, RefusedDocument
from jiyi.errors import JiyiError, problems_of
from jiyi.protocol.stores import MemoryItem
from jiyi.text.words import storable

#: Largest file that is read, in bytes: 100,000 items with vectors.
MAX_FILE = 1024 * 1024 * 1024
#: Of such a file, which is read item by item: minutes of the processor.
LIMITS = ParseLimits(
    memory_bytes=1 << 30, cpu_seconds=300, wall_seconds=600.0, output_bytes=MAX_FILE + (MAX_FILE >> 2)
)
#: Keys of an object that stand for its list of items.
_LISTS = ("contents", "items")


class CorruptStoreFile(JiyiError, ValueError):  # noqa: N818 – named after what it is about
    """A file that is to hold a store does not: it is set aside, and the store starts empty."""

    code = "corrupt_store_file"


def parse_items(source: BinaryIO) -> Iterator[dict[str, Any]]:
    """The items of a file, without their vectors, which nothing says the model of: a list of them, or an
    object with ``contents``.

    Raises:
        RefusedDocument: it is neither, or an item is wrong; says where.
    """
    stream = JsonStream(source)
    begins, has_list = stream.peek(), False
    if not begins:
        return
    if begins == "[":
        has_list = True
        yield from _items(stream)
    elif begins == "{":
        for key in stream.names():
            if key in _LISTS and not has_list and stream.peek() == "[":
                has_list = True
                yield from _items(stream)
            else:
                stream.value()
    else:
        stream.value()
    if not has_list:
        raise RefusedDocument("malformed", "no list of items")
    stream.end()


def written_items(items: Iterable[MemoryItem]) -> Iterator[str]:
    """The text of a file with these items, in parts: a store may be larger than memory."""
    yield "["
    for number, item in enumerate(items):
        yield ("," if number else "") + "\n" + item.model_dump_json()
    yield "\n]\n"


def checked_item(values: Any, number: int) -> MemoryItem:
    """The item of this number in a list. Raises :class:`RefusedDocument`."""
    try:
        item = MemoryItem.model_validate(values)
        datetime.fromtimestamp(item.timestamp, UTC)
    except ValidationError as error:
        raise RefusedDocument("malformed", f"item {number}: {problems_of(error)[0]}") from None
    except (ValueError, OverflowError, OSError):
        raise RefusedDocument(
            "malformed", f"item {number}: timestamp: {item.timestamp:g} is no time, in seconds since 1970"
        ) from None
    return item


def _items(stream: JsonStream) -> Iterator[dict[str, Any]]:
    for number, values in enumerate(stream.elements()):
        item = checked_item(values, number)
        if "\\u0000" in item.model_dump_json(exclude={"embedding"}):
            raise RefusedDocument(
                "malformed", f"item {number}: has a NUL character, which the database cannot hold"
            )
        yield item.model_dump(mode="json", exclude={"embedding"})


M = TypeVar("M", bound=BaseModel)


class IndexedFile(BaseModel):
    """A file of the index; the original has no ``source`` and ``path``, and half an MD5 for the hash."""

    hash: str
    size: int = Field(ge=0)
    chunks_count: int = Field(ge=0)
    #: Seconds since 1970.
    indexed_at: float | str = 0.0
    source: str | None = None
    path: str | None = None
    encoding: str = "utf-8"


class IndexConfig(BaseModel):
    """How the files were cut, and which model made the vectors; the original does not say that."""

    chunk_size: int
    chunk_overlap: int
    embedding_model: str | None = None


def parse_index(source: BinaryIO) -> Iterator[dict[str, Any]]:
    """What a file with an index holds: ``{"model"}``, and of each chunk with a place ``{"source", "path",
    "text", "vector"}``.

    A vector is the base64 of its float64 values; None: it has none. Nothing is yielded of an empty file.

    Raises:
        RefusedDocument: there is no index in it; says where.
    """
    stream = JsonStream(source)
    if not stream.peek():
        return
    configured = False
    for key in stream.names():
        if key == "config":
            configured = True
            yield {"model": _index_part(IndexConfig, stream.value(), key).embedding_model}
        elif key == "file_metadata" and stream.peek() == "{":
            for name in stream.names():
                _index_part(IndexedFile, stream.value(), f"{key}.{name[:100]}")
        elif key == "contents" and stream.peek() == "[":
            yield from _chunks(stream)
        elif key in ("file_metadata", "contents"):
            raise RefusedDocument("malformed", f"no index of files: {key}: neither a list nor an object")
        else:
            stream.value()
    stream.end()
    if not configured:
        raise RefusedDocument("malformed", "no index of files: config: required, but missing")


def written_index(
    files: Iterable[tuple[str, IndexedFile]], items: Iterable[MemoryItem], config: IndexConfig
) -> Iterator[str]:
    """The text of a file with this index, in parts: an index may be larger than memory."""
    yield '{"config": ' + config.model_dump_json() + ',\n"file_metadata": {'
    for number, (name, file) in enumerate(files):
        yield ("," if number else "") + f"\n{json.dumps(name, ensure_ascii=False)}: {file.model_dump_json()}"
    yield '},\n"contents": ['
    for number, item in enumerate(items):
        yield ("," if number else "") + "\n" + _without_snapshots(item)
    yield "\n]}\n"


def _chunks(stream: JsonStream) -> Iterator[dict[str, Any]]:
    for number, values in enumerate(stream.elements()):
        item = checked_item(values, number)
        place = {"source": item.metadata.get("source"), "path": item.metadata.get("file_path")}
        if all(isinstance(part, str) for part in place.values()):
            numbers = item.embedding
            vector = b64encode(array("d", numbers).tobytes()).decode("ascii") if numbers else None
            fields = {**place, "text": item.content_summary}
            yield {**{name: storable(str(value)) for name, value in fields.items()}, "vector": vector}


def _index_part(model: type[M], values: Any, path: str) -> M:
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise RefusedDocument("malformed", f"no index of files: {path}: {problems_of(error)[0]}") from None


def _without_snapshots(item: MemoryItem) -> str:
    """A chunk has no messages."""
    return item.model_dump_json(exclude={"input_snapshot", "output_snapshot"})


#: Bytes that are read at once.
_READ = 1 << 20
#: Characters of one value, at most: as much as a store's largest items, their attachments included, and some
#: more.
MAX_VALUE_CHARS = 32_000_000
#: What values end with inside of lists and objects.
_WHITE_SPACE = " \t\r\n"
_decode = json.JSONDecoder().raw_decode


#: Characters behind what reads as a number that may still be of it, until more is there: "e+".
NUMBER_GOES_ON = 2


class JsonStream:
    """The text of a file, and how far it was read.

    All methods raise :class:`RefusedDocument` with the state ``malformed`` where the text is no JSON, or no
    UTF-8.
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

    def take(self, char: str) -> bool:
        """Whether the next character is this one, which is then taken."""
        if self.peek() != char:
            return False
        self._at += 1
        return True

    def expect(self, char: str) -> None:
        """Take this character."""
        if not self.take(char):
            raise malformed(f"{char!r} is missing before {self._text[self._at : self._at + 20]!r}")

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
                is_whole = len(self._text) - end > NUMBER_GOES_ON or self._ended
                if is_whole and end - self._at <= MAX_VALUE_CHARS:
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
        """The keys of the object that comes next; the caller takes each one's value before the next key."""
        self.expect("{")
        if self.take("}"):
            return
        while True:
            if self.peek() != '"':
                raise malformed("a key of an object is missing")
            key: str = self.value()
            self.expect(":")
            yield key
            if self.take("}"):
                return
            self.expect(",")

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


def malformed(reason: str) -> RefusedDocument:
    """The error for text that is no JSON."""
    return RefusedDocument("malformed", f"no JSON: {reason}")
