"""Bytes become text: in the encoding that was named, and nothing is dropped in silence."""

from __future__ import annotations

import codecs
from dataclasses import dataclass

from engine.stores.files.states import Unusable
from jiyi.stores.config.encodings import known_encoding

#: What a file may begin with, longest first: it says its encoding better than anybody's configuration.
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
#: The encoding of Chinese texts that are not in UTF-8; GBK and GB2312 are parts of it.
CHINESE = "gb18030"
#: Share of a text's characters beyond ASCII that are common Chinese ones if it is in that encoding. Of other encodings that
#: happen to be readable as it (Latin-1, Shift-JIS), few are.
LEAST_COMMON = 0.8
#: First bytes of GB2312's punctuation, and of its 3,755 most common characters.
_COMMON_LEADS = frozenset((*range(0xA1, 0xA4), *range(0xB0, 0xD8)))
#: Characters that are looked at: enough to tell.
_LOOKED_AT = 20_000


@dataclass(frozen=True, slots=True)
class Decoded:
    text: str
    #: The one it was read by, as Python names it.
    encoding: str


def decode(data: bytes, encoding: str = "utf-8") -> Decoded:
    """The text of a file, its lines ended by a line feed.

    A byte order mark counts more than ``encoding``. What is not in the encoding that was named is tried as GB18030, and
    taken if that gives Chinese text.

    Raises:
        Unusable: ``undecodable`` if it is in neither, ``binary`` if the text has NUL characters.
    """
    marked = next((name for mark, name in _MARKS if data.startswith(mark)), None)
    found = _decoded(data, marked or encoding)
    used = marked or encoding
    if found is None:
        found, used = _chinese(data), CHINESE
    if found is None and b"\0" not in data:
        raise Unusable(
            "undecodable", f"the file is not in {marked or encoding}: name its encoding in `encoding` of the source, or save it as UTF-8"
        )
    if found is None or "\0" in found:
        raise Unusable("binary", "the file has NUL characters: it is no text, or in an encoding that `encoding` of the source must name")
    return Decoded(found.replace("\r\n", "\n").replace("\r", "\n"), codecs.lookup(used).name)


def _decoded(data: bytes, encoding: str) -> str | None:
    known = known_encoding(encoding)
    if known is None:
        raise Unusable("undecodable", f"encoding: {encoding[:60]!r} is none that files are read in, such as utf-8, gb18030 or big5")
    try:
        return data.decode(known)
    except UnicodeError:
        return None


def _chinese(data: bytes) -> str | None:
    found = _decoded(data, CHINESE)
    if found is None:
        return None
    beyond = [char for char in found[:_LOOKED_AT] if not char.isascii()]
    common = sum(_is_common(char) for char in beyond)
    return found if beyond and common >= LEAST_COMMON * len(beyond) else None


def _is_common(char: str) -> bool:
    """Whether a character is Chinese punctuation, or one of the common Chinese characters."""
    coded = char.encode("gb2312", "ignore")
    return len(coded) == 2 and coded[0] in _COMMON_LEADS
