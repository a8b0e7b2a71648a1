"""Stores as files, in the original's format: a JSON list of items."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, BinaryIO

from pydantic import ValidationError

from engine.parsing.json_stream import JsonStream
from engine.parsing.limits import Limits, Refused
from jiyi.errors import JiyiError, problems_of
from jiyi.protocol.stores.items import MemoryItem

#: Largest file that is read, in bytes: 100,000 items with vectors.
MAX_FILE = 1024 * 1024 * 1024
#: Of such a file, which is read item by item: minutes of the processor.
LIMITS = Limits(memory_bytes=1 << 30, cpu_seconds=300, wall_seconds=600.0, output_bytes=MAX_FILE + (MAX_FILE >> 2))
#: Keys of an object that stand for its list of items.
_LISTS = ("contents", "items")


class CorruptStoreFile(JiyiError, ValueError):  # noqa: N818 – named after what it is about
    """A file that is to hold a store does not: it is set aside, and the store starts empty."""

    code = "corrupt_store_file"


def parse(source: BinaryIO) -> Iterator[dict[str, Any]]:
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


def written(items: Iterable[MemoryItem]) -> Iterator[str]:
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
