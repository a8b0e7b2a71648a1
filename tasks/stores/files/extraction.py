"""The chunks of a file's bytes, made in a parsing process: a damaged or hostile file exceeds its limits there, and harms no worker."""

from __future__ import annotations

from dataclasses import dataclass

from engine.parsing.children import parse
from engine.parsing.limits import Refused
from engine.stores.chunks import limits_of
from engine.stores.file_texts import Unusable


@dataclass(frozen=True, slots=True)
class Extracted:
    """What a file says."""

    #: What it was read by, as Python names it; ``pdf`` for a PDF.
    encoding: str
    #: The day that it is about, in ISO 8601.
    day: str | None
    #: Text and tokens, with spaces between them, of each chunk in order.
    chunks: list[tuple[str, str]]


def extract(data: bytes, path: str, encoding: str, size: int, overlap: int) -> Extracted:
    """Arguments and result as of :func:`engine.stores.chunks.parse`.

    Raises:
        Unusable: there is no text in it, or it costs more than its limits allow.
    """
    try:
        about, *chunks = parse("document", data, limits_of(path), path=path, encoding=encoding, size=size, overlap=overlap)
    except Refused as refused:
        raise Unusable.of(refused) from None
    return Extracted(about["encoding"], about["day"], [(text, words) for text, words in chunks])
