"""Stores as files, in the original's format: a JSON list of items (DA-22, DA-26, DA-51)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from pydantic import ValidationError

from jiyi.errors import JiyiError, problems_of
from jiyi.protocol.stores.items import MemoryItem

#: Largest file that is read, in bytes: 100,000 items with vectors.
MAX_FILE = 1024 * 1024 * 1024


class CorruptStoreFile(JiyiError, ValueError):  # noqa: N818 – named after what it is about
    """A file that is to hold a store does not: it is set aside, and the store starts empty (DA-51)."""

    code = "corrupt_store_file"


def read_items(text: str) -> list[MemoryItem]:
    """The items of a file: a list of them, or an object with ``contents``.

    Raises:
        CorruptStoreFile: it is neither, or an item is wrong; says where.
    """
    try:
        found: Any = json.loads(text) if text.strip() else []
    except (ValueError, RecursionError) as error:
        raise CorruptStoreFile(f"no JSON: {str(error)[:200]}") from None
    if isinstance(found, dict):
        found = found.get("contents", found.get("items"))
    if not isinstance(found, list):
        raise CorruptStoreFile("no list of items")
    return [_item(one, number) for number, one in enumerate(found)]


def written(items: Iterable[MemoryItem]) -> Iterator[str]:
    """The text of a file with these items, in parts: a store may be larger than memory."""
    yield "["
    for number, item in enumerate(items):
        yield ("," if number else "") + "\n" + item.model_dump_json()
    yield "\n]\n"


def _item(given: Any, number: int) -> MemoryItem:
    try:
        return MemoryItem.model_validate(given)
    except ValidationError as error:
        raise CorruptStoreFile(f"item {number}: {problems_of(error)[0]}") from None
