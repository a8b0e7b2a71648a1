"""The encodings that files of a store may be written in."""

from __future__ import annotations

import codecs

#: What `encoding` of a source may name, as Python calls them: the encodings that texts are written in. Python knows more, some of which
#: take time that grows with the square of the text (punycode, idna), unfold it, or are no encodings of text at all.
ENCODINGS = frozenset(
    (
        *"ascii utf-8 utf-8-sig utf-16 utf-16-le utf-16-be utf-32 utf-32-le utf-32-be".split(),
        *"gb18030 gbk gb2312 big5 big5hkscs cp950 shift_jis cp932 euc_jp iso2022_jp euc_kr cp949".split(),
        *(f"iso8859-{part}" for part in range(1, 17) if part != 12),
        *(f"cp{page}" for page in (437, 850, 852, 866, 874, *range(1250, 1259))),
        *("koi8-r", "koi8-u", "mac-roman", "tis-620"),
    )
)


def known_encoding(given: str) -> str | None:
    """An encoding of :data:`ENCODINGS`, by the name that Python has for it; None for any other."""
    try:
        name = codecs.lookup(given).name
    except (LookupError, ValueError):  # ValueError: a NUL in it
        return None
    return name if name in ENCODINGS else None
