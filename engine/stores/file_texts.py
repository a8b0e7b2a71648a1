"""The text of a store's file, by its suffix: text in any encoding, HTML, JSON, CSV, PDF; and why a file has
none.

PDF and HTML libraries are imported when a file needs them: most processes only look at states and suffixes.
"""

from __future__ import annotations

import codecs
import csv
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from itertools import chain
from pathlib import PurePath
from typing import Any, Literal, get_args

from pydantic_core import from_json

from engine.stores.limits import RefusedDocument
from jiyi.stores.types import known_encoding
from jiyi.text.words import storable

#: ``pending``: to be read. ``indexed``: its text is found, though vectors may still be pending. All others:
#: nothing of it is found.
FileState = Literal[
    "pending",
    "indexed",
    "empty",
    "too_large",
    "encrypted",
    "undecodable",
    "binary",
    "malformed",
    "outside",
    "unreadable",
    "unstable",
]
FILE_STATES: tuple[FileState, ...] = get_args(FileState)


class UnindexableFile(RefusedDocument):
    """A file that cannot be indexed: ``state`` is stored with it, the message says why."""

    state: FileState

    def __init__(self, state: FileState, reason: str) -> None:
        super().__init__(state, reason)

    @classmethod
    def of(cls, refused: RefusedDocument) -> UnindexableFile:
        """The same, reported by a parsing process."""
        assert refused.state in FILE_STATES
        return cls(refused.state, refused.reason)


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
#: Share of a text's characters beyond ASCII that are common Chinese ones if it is in that encoding. Few are
#: of Latin-1 or Shift-JIS that happens to be readable as it.
LEAST_COMMON = 0.8
#: First bytes of GB2312's punctuation, and of its 3,755 most common characters.
_COMMON_LEADS = frozenset((*range(0xA1, 0xA4), *range(0xB0, 0xD8)))
#: Characters that are looked at: enough to decide.
_LOOKED_AT = 20_000


@dataclass(frozen=True, slots=True)
class DecodedText:
    text: str
    #: The one it was read by, as Python names it.
    encoding: str


def decode(data: bytes, encoding: str = "utf-8") -> DecodedText:
    """The text of a file, its lines ended by a line feed.

    A byte order mark counts more than ``encoding``. What is not in the encoding that was named is tried as
    GB18030, and taken if that gives Chinese text.

    Raises:
        UnindexableFile: ``undecodable`` if it is in neither, ``binary`` if the text has NUL characters.
    """
    expected = next((name for mark, name in _MARKS if data.startswith(mark)), encoding)
    text, used = _decoded(data, expected), expected
    if text is None:
        text, used = _chinese(data), CHINESE
    if text is None and b"\0" not in data:
        raise UnindexableFile(
            "undecodable",
            f"the file is not in {expected}: name its encoding in `encoding` of the source, or save it as"
            " UTF-8",
        )
    if text is None or "\0" in text:
        raise UnindexableFile(
            "binary",
            "the file has NUL characters: it is no text, or in an encoding that `encoding` of the source must"
            " name",
        )
    return DecodedText(text.replace("\r\n", "\n").replace("\r", "\n"), codecs.lookup(used).name)


def _decoded(data: bytes, encoding: str) -> str | None:
    codec = known_encoding(encoding)
    if codec is None:
        raise UnindexableFile(
            "undecodable",
            f"encoding: {encoding[:60]!r} is none that files are read in, such as utf-8, gb18030 or big5",
        )
    try:
        return data.decode(codec)
    except UnicodeError:
        return None


def _chinese(data: bytes) -> str | None:
    """The text in GB18030, if most of it is punctuation and common characters of GB2312."""
    text = _decoded(data, CHINESE)
    beyond = [char for char in (text or "")[:_LOOKED_AT] if not char.isascii()]
    coded = [char.encode("gb2312", "ignore") for char in beyond]
    common = sum(len(code) == 2 and code[0] in _COMMON_LEADS for code in coded)
    return text if beyond and common >= LEAST_COMMON * len(beyond) else None


#: Characters of one file's text: some 2,000 pages. A book in one file is better split into its chapters.
MAX_TEXT_CHARS = 10_000_000


def joined(parts: Iterable[str], separator: str = "\n") -> str:
    """The parts as one text, counted while they are made.

    Raises:
        UnindexableFile: ``too_large`` as soon as they are more than ``MAX_TEXT_CHARS`` characters.
    """
    pieces: list[str] = []
    room = MAX_TEXT_CHARS + len(separator)
    for part in parts:
        room -= len(part) + len(separator)
        if room < 0:
            raise UnindexableFile(
                "too_large", f"its text has more than {MAX_TEXT_CHARS:,} characters: split the file"
            )
        pieces.append(part)
    return separator.join(pieces)


#: What is not shown, or is shown beside every text of a site.
HIDDEN = ("script", "style", "noscript", "template", "svg", "head")
#: Elements that begin and end a line.
BLOCKS = (
    *(
        "address article aside blockquote br caption dd details div dl dt fieldset figcaption figure footer"
        " form"
    ).split(),
    *(
        "h1 h2 h3 h4 h5 h6 header hr li main nav ol option p pre section summary table tbody td tfoot th"
        " thead tr ul"
    ).split(),
)
#: A parser looks through all open elements at each new one: pages have some dozens.
MAX_DEPTH = 1_000
#: Never closed, or closed by what follows.
_CLOSED_BY_OTHERS = frozenset(
    "area base br col embed hr img input link meta source track wbr p li dt dd td th tr thead tbody tfoot"
    " option".split()
)
_TAG = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9:-]{0,40})")


def html_text(markup: str) -> str:
    """The text of a page, its title first.

    Raises:
        UnindexableFile: ``malformed`` if elements are nested too deeply.
    """
    from selectolax.lexbor import LexborHTMLParser

    if _depth(markup) > MAX_DEPTH:
        raise UnindexableFile(
            "malformed",
            f"its elements are nested more than {MAX_DEPTH:,} deep: close them, or save the page again",
        )
    page = LexborHTMLParser(markup)
    title = page.css_first("title")
    heading = title.text(strip=True) if title is not None else ""
    for node in page.css(", ".join(HIDDEN)):
        node.decompose()
    if page.body is None:
        return heading
    for node in page.css(", ".join(BLOCKS)):
        node.insert_before("\n")
        node.insert_after("\n")
    lines = (" ".join(line.split()) for line in page.body.text().splitlines())
    return joined(filter(None, (heading, *lines)))


def _depth(markup: str) -> int:
    """At least as many elements as are ever open at once, but for those that others close."""
    opened: Counter[str] = Counter()
    depth = deepest = 0
    for closing, name in _TAG.findall(markup):
        tag = name.lower()
        if tag in _CLOSED_BY_OTHERS:
            continue
        if not closing:
            opened[tag] += 1
            depth += 1
            deepest = max(deepest, depth)
        elif opened[tag]:
            opened[tag] -= 1
            depth -= 1
    return deepest


#: Characters of a name in the path of a value, which is written once for each value.
MAX_NAME_CHARS = 200


def json_text(text: str) -> str:
    """The values of a document, as ``users[0]: name: Mia; city: Berlin``; a list of objects needs no path.

    Raises:
        UnindexableFile: ``malformed`` if it is no JSON, or nested too deeply to be read.
    """
    try:
        document = from_json(text)
    except ValueError as error:
        raise UnindexableFile("malformed", f"it is no JSON: {error}") from None
    return joined(_json_lines(document, ""))


def _json_lines(value: Any, path: str) -> Iterator[str]:
    if not isinstance(value, (dict, list)):
        yield _word(value)
        return
    separator, plain = ("; " if isinstance(value, dict) else ", "), list[str]()
    nested: list[tuple[str, Any]] = []
    for name, inner in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(name, int):
            label, place = "", f"{path}[{name}]" if path else ""
        else:
            short = name[:MAX_NAME_CHARS]
            label, place = f"{name}: ", f"{path}.{short}" if path else short
        if isinstance(inner, (dict, list)):
            nested.append((place, inner))
        else:
            plain.append(f"{label}{_word(inner)}")
    if line := separator.join(plain):
        yield f"{path}: {line}" if path else line
    for place, inner in nested:
        yield from _json_lines(inner, place)


def _word(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


#: Pages of one file that are read; what is longer is a collection, and better split.
MAX_PAGES = 5_000


def pdf_text(data: bytes) -> str:
    """The pages' texts, a blank line between them.

    Raises:
        UnindexableFile: ``encrypted`` if it needs a password, ``malformed`` if it cannot be read,
            ``too_large`` if it has too much to read.
    """
    from pypdf.errors import DependencyError, FileNotDecryptedError

    try:
        return _pdf_pages(data)
    except (UnindexableFile, MemoryError):
        raise
    except (DependencyError, FileNotDecryptedError):
        raise UnindexableFile("encrypted", "the PDF is encrypted: save it without a password") from None
    except Exception as error:  # noqa: BLE001 – a damaged file makes the reader raise nearly anything
        raise UnindexableFile(
            "malformed", f"it cannot be read as PDF ({type(error).__name__}): save it again"
        ) from None


def _pdf_pages(data: bytes) -> str:
    from pypdf import PdfReader

    reader = PdfReader(BytesIO(data))
    # many are locked against changes only, with an empty password
    if reader.is_encrypted and not reader.decrypt(""):
        raise UnindexableFile("encrypted", "the PDF needs a password: save it without one")
    if (count := len(reader.pages)) > MAX_PAGES:
        raise UnindexableFile("too_large", f"the PDF has {count:,} pages, more than {MAX_PAGES:,}: split it")
    texts = (page.extract_text() for page in reader.pages)
    return joined((text for text in texts if text.strip()), "\n\n")


DELIMITERS = ",;\t|"


def csv_text(text: str) -> str:
    """The rows of a table, as ``name: Mia; city: Berlin``. Empty values are left out.

    The delimiter is the one of ``,;|`` and tab that the first line has most of. The first row names the
    columns, unless a value of it is empty, a number, or there twice.

    Raises:
        UnindexableFile: ``malformed`` if it cannot be read as a table.
    """
    first = text.split("\n", 1)[0]
    delimiter = max(DELIMITERS, key=first.count)
    read = csv.reader(text.splitlines(keepends=True), delimiter=delimiter)
    rows = ([" ".join(value.split()) for value in row] for row in read)
    try:
        return joined(_csv_lines(rows))
    except csv.Error as error:
        raise UnindexableFile("malformed", f"it cannot be read as CSV: {error}") from None


def _csv_lines(rows: Iterator[list[str]]) -> Iterator[str]:
    names = next(rows, [])
    first = next(rows, None)
    if first is None or not _are_names(names):
        yield "; ".join(filter(None, names))
        names = []
    for row in [] if first is None else chain([first], rows):
        fields = [f"{name}: {value}" for name, value in zip(names, row, strict=False) if value]
        yield "; ".join([*fields, *filter(None, row[len(names) :])])


def _are_names(row: Sequence[str]) -> bool:
    numbers = [value.replace(".", "", 1).replace("-", "", 1).isdecimal() for value in row]
    return all(row) and not any(numbers) and len(set(row)) == len(row) > 1


def suffix_of(name: str) -> str:
    """A file name's suffix in lower case, with its dot; "" without one."""
    return PurePath(name).suffix.lower()


def text_of(data: bytes, name: str, encoding: str = "utf-8") -> DecodedText:
    """The text in a file's bytes, read as its name's suffix says; a suffix that is not known, as plain text.

    Raises:
        UnindexableFile: with the state that says why not; ``empty`` if there is no text in it.
    """
    suffix = suffix_of(name)
    if suffix == ".pdf":
        text, used = pdf_text(data), "pdf"
    else:
        plain = decode(data, encoding)
        read = _READERS.get(suffix)
        text, used = joined([plain.text]) if read is None else read(plain.text), plain.encoding
    text = storable(text)
    if not text.strip():
        raise UnindexableFile(
            "empty",
            "there is no text in it; a PDF of scanned pages has to go through text recognition (OCR) first",
        )
    return DecodedText(text, used)


_READERS: dict[str, Callable[[str], str]] = {
    ".html": html_text,
    ".htm": html_text,
    ".csv": csv_text,
    ".json": json_text,
}
