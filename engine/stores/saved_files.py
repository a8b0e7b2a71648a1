"""Stores as ``.json`` files in the original's formats: a list of items, and the index of a store of files.

The index names the model of its vectors, which the original's does not.
"""

from __future__ import annotations

import json
from array import array
from base64 import b64encode
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, BinaryIO, TypeVar

from pydantic import BaseModel, Field, ValidationError

from engine.parsing.json_stream import JsonStream
from engine.parsing.limits import Limits, Refused
from jiyi.errors import JiyiError, problems_of
from jiyi.protocol.stores import MemoryItem
from jiyi.text.words import storable

#: Largest file that is read, in bytes: 100,000 items with vectors.
MAX_FILE = 1024 * 1024 * 1024
#: Of such a file, which is read item by item: minutes of the processor.
LIMITS = Limits(memory_bytes=1 << 30, cpu_seconds=300, wall_seconds=600.0, output_bytes=MAX_FILE + (MAX_FILE >> 2))
#: Keys of an object that stand for its list of items.
_LISTS = ("contents", "items")


class CorruptStoreFile(JiyiError, ValueError):  # noqa: N818 – named after what it is about
    """A file that is to hold a store does not: it is set aside, and the store starts empty."""

    code = "corrupt_store_file"


def parse_items(source: BinaryIO) -> Iterator[dict[str, Any]]:
    """The items of a file, without their vectors, which nothing says the model of: a list of them, or an object with ``contents``.

    Raises:
        Refused: it is neither, or an item is wrong; says where.
    """
    stream = JsonStream(source)
    match stream.peek():
        case "":
            return
        case "[":
            yield from _items(stream)
        case "{":
            listed = False
            for key in stream.names():
                if key in _LISTS and not listed and stream.peek() == "[":
                    listed = True
                    yield from _items(stream)
                else:
                    stream.value()
            if not listed:
                raise Refused("malformed", "no list of items")
        case _:
            stream.value()
            raise Refused("malformed", "no list of items")
    stream.end()


def written_items(items: Iterable[MemoryItem]) -> Iterator[str]:
    """The text of a file with these items, in parts: a store may be larger than memory."""
    yield "["
    for number, item in enumerate(items):
        yield ("," if number else "") + "\n" + item.model_dump_json()
    yield "\n]\n"


def checked_item(given: Any, number: int) -> MemoryItem:
    """The item of this number in a list. Raises :class:`Refused`."""
    try:
        item = MemoryItem.model_validate(given)
        datetime.fromtimestamp(item.timestamp, UTC)
    except ValidationError as error:
        raise Refused("malformed", f"item {number}: {problems_of(error)[0]}") from None
    except (ValueError, OverflowError, OSError):
        raise Refused("malformed", f"item {number}: timestamp: {item.timestamp:g} is no time, in seconds since 1970") from None
    return item


def _items(stream: JsonStream) -> Iterator[dict[str, Any]]:
    for number, given in enumerate(stream.elements()):
        item = checked_item(given, number)
        if "\\u0000" in item.model_dump_json(exclude={"embedding"}):
            raise Refused("malformed", f"item {number}: has a NUL character, which the database cannot hold")
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
    """What a file with an index holds: ``{"model"}``, and of each chunk with a place ``{"source", "path", "text", "vector"}``.

    A vector is the base64 of its float64 values; None: it has none. Nothing is yielded of an empty file.

    Raises:
        Refused: there is no index in it; says where.
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
            raise Refused("malformed", f"no index of files: {key}: neither a list nor an object")
        else:
            stream.value()
    stream.end()
    if not configured:
        raise Refused("malformed", "no index of files: config: required, but missing")


def written_index(files: Iterable[tuple[str, IndexedFile]], items: Iterable[MemoryItem], config: IndexConfig) -> Iterator[str]:
    """The text of a file with this index, in parts: an index may be larger than memory."""
    yield '{"config": ' + config.model_dump_json() + ',\n"file_metadata": {'
    for number, (name, file) in enumerate(files):
        yield ("," if number else "") + f"\n{json.dumps(name, ensure_ascii=False)}: {file.model_dump_json()}"
    yield '},\n"contents": ['
    for number, item in enumerate(items):
        yield ("," if number else "") + "\n" + _without_snapshots(item)
    yield "\n]}\n"


def _chunks(stream: JsonStream) -> Iterator[dict[str, Any]]:
    for number, given in enumerate(stream.elements()):
        item = checked_item(given, number)
        source, path = item.metadata.get("source"), item.metadata.get("file_path")
        if not isinstance(source, str) or not isinstance(path, str):
            continue
        vector = None if item.embedding is None else b64encode(array("d", item.embedding).tobytes()).decode("ascii")
        yield {"source": storable(source), "path": storable(path), "text": storable(item.content_summary), "vector": vector}


def _index_part(model: type[M], given: Any, path: str) -> M:
    try:
        return model.model_validate(given)
    except ValidationError as error:
        raise Refused("malformed", f"no index of files: {path}: {problems_of(error)[0]}") from None


def _without_snapshots(item: MemoryItem) -> str:
    """A chunk has no messages."""
    fields: dict[str, Any] = {name: True for name in MemoryItem.model_fields if not name.endswith("_snapshot")}
    return item.model_dump_json(include=set(fields))
