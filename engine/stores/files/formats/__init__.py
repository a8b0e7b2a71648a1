"""The text of a file, by its suffix."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePath

from engine.stores.files.decoding import Decoded, decode
from engine.stores.files.formats.limited import joined
from engine.stores.files.states import Unusable
from jiyi.text.words import storable


def suffix_of(name: str) -> str:
    """A file name's suffix in lower case, with its dot; "" without one."""
    return PurePath(name).suffix.lower()


def text_of(data: bytes, name: str, encoding: str = "utf-8") -> Decoded:
    """The text in a file's bytes; ``name`` has the suffix that says how it is read, any other than the known ones as text.

    Raises:
        Unusable: with the state that says why not; ``empty`` if there is no text in it.
    """
    suffix = suffix_of(name)
    if suffix == ".pdf":
        from engine.stores.files.formats.pdf import pdf_text

        return _checked(Decoded(storable(pdf_text(data)), "pdf"))
    found = decode(data, encoding)
    read = _readers().get(suffix)
    return _checked(Decoded(storable(joined([found.text]) if read is None else read(found.text)), found.encoding))


def _checked(found: Decoded) -> Decoded:
    """The same, if there is text in it. Raises :class:`Unusable`."""
    if not found.text.strip():
        raise Unusable("empty", "there is no text in it; a PDF of scanned pages has to go through text recognition (OCR) first")
    return found


def _readers() -> dict[str, Callable[[str], str]]:
    from engine.stores.files.formats.html import html_text
    from engine.stores.files.formats.json_lines import json_text
    from engine.stores.files.formats.tables import csv_text

    return {".html": html_text, ".htm": html_text, ".csv": csv_text, ".json": json_text}
