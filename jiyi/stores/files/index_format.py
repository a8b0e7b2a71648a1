"""The index of a store of files as a ``.json`` file, in the original's format with the model's name beside it (DA-42)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from pydantic import BaseModel, Field, ValidationError

from jiyi.errors import problems_of
from jiyi.protocol.stores.items import MemoryItem
from jiyi.stores.formats import CorruptStoreFile


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


class SavedIndex(BaseModel):
    """All of the file."""

    file_metadata: dict[str, IndexedFile] = {}
    contents: list[MemoryItem] = []
    config: IndexConfig


def read_index(text: str) -> SavedIndex | None:
    """The index in a file; None for an empty one.

    Raises:
        CorruptStoreFile: there is none in it; says where.
    """
    if not text.strip():
        return None
    try:
        return SavedIndex.model_validate(json.loads(text))
    except ValidationError as error:
        raise CorruptStoreFile(f"no index of files: {problems_of(error)[0]}") from None
    except (ValueError, RecursionError) as error:
        raise CorruptStoreFile(f"no JSON: {str(error)[:200]}") from None


def written(files: Iterable[tuple[str, IndexedFile]], items: Iterable[MemoryItem], config: IndexConfig) -> Iterator[str]:
    """The text of a file with this index, in parts: an index may be larger than memory."""
    yield '{"config": ' + config.model_dump_json() + ',\n"file_metadata": {'
    for number, (name, file) in enumerate(files):
        yield ("," if number else "") + f"\n{json.dumps(name, ensure_ascii=False)}: {file.model_dump_json()}"
    yield '},\n"contents": ['
    for number, item in enumerate(items):
        yield ("," if number else "") + "\n" + _without_snapshots(item)
    yield "\n]}\n"


def _without_snapshots(item: MemoryItem) -> str:
    """A chunk has no messages."""
    fields: dict[str, Any] = {name: True for name in MemoryItem.model_fields if not name.endswith("_snapshot")}
    return item.model_dump_json(include=set(fields))
