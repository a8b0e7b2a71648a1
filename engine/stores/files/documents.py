"""A file's bytes become the chunks that are indexed: what the parsing process does of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO

from engine.parsing.limits import Limits
from engine.stores.files.days import day_of
from engine.stores.files.formats import suffix_of, text_of
from jiyi.text.splitting import split
from jiyi.text.tokens import tokens

#: Of one file, whatever its size: as much text as a file may have takes some seconds.
LIMITS = Limits(memory_bytes=1 << 30, cpu_seconds=30, wall_seconds=60.0, output_bytes=128 << 20)
#: Of a PDF: some thousand ordinary pages.
PDF_LIMITS = Limits(memory_bytes=1 << 30, cpu_seconds=60, wall_seconds=120.0, output_bytes=128 << 20)


def limits_of(path: str) -> Limits:
    """What a file may cost, by its ending."""
    return PDF_LIMITS if suffix_of(path) == ".pdf" else LIMITS


def parse(source: BinaryIO, *, path: str, encoding: str, size: int, overlap: int) -> Iterator[Any]:
    """First ``{"encoding", "day"}`` (a day in ISO 8601, or None), then ``[text, tokens]`` of each chunk in order.

    Args:
        source: the file.
        path: its path within its store's source; its ending says how it is read.
        encoding: what its source says that it is written in.
        size: characters of a chunk, at most.
        overlap: characters that a chunk repeats of the one before, at most.

    Raises:
        Unusable: with the state that says why there is no text.
    """
    decoded = text_of(source.read(), path, encoding)
    day = day_of(path.rpartition("/")[2], decoded.text)
    yield {"encoding": decoded.encoding, "day": None if day is None else day.isoformat()}
    for piece in split(decoded.text, size, overlap):
        yield [piece.text, " ".join(tokens(piece.text))]
