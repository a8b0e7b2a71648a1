"""The translations of the pages: ``python -m tools.translations``.

Collects every message of ``web`` and ``web/words.toml``, and every ``Translatable`` of ``jiyi``, ``engine``
and ``models``, into ``web/translations/zh/LC_MESSAGES/messages.po``, keeps what is translated, drops what is
no longer used, compiles ``messages.mo`` beside it (which git does not keep), and names what has no
translation yet. ``--compile`` only compiles; ``--check`` writes nothing and fails if there is anything to do;
a unit test does the same.
"""

from __future__ import annotations

import io
import re
import sys
import tomllib
from itertools import chain
from pathlib import Path

from babel.messages.catalog import Catalog, Message
from babel.messages.extract import extract_from_dir
from babel.messages.frontend import parse_mapping_cfg
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po

#: A value that is put into a message.
VALUE = re.compile(r"%\(\w+\)[sd]")
CHECKOUT = Path(__file__).resolve().parents[1]
LANGUAGES = ("zh",)
KEYWORDS: dict[str, tuple[int, ...] | None] = {
    "_": None,
    "gettext": None,
    "lazy_gettext": None,
    "ngettext": (1, 2),
    "lazy_ngettext": (1, 2),
}
#: Where sentences for people are made besides in the pages, and how they are marked there
#: (``jiyi.text.translatable``).
JUDGED = ("jiyi", "engine", "models")
MARKED: dict[str, tuple[int, ...] | None] = {"Translatable": None}


class Pages(Catalog):
    """Without dates, versions and names in its header: the same messages make the same files, whenever and by
    whatever.
    """

    @property
    def mime_headers(self) -> list[tuple[str, str]]:
        said = ("Language", "Plural-Forms", "MIME-Version", "Content-Type", "Content-Transfer-Encoding")
        return [(name, value) for name, value in super().mime_headers if name in said]


def files(language: str) -> tuple[Path, Path]:
    folder = CHECKOUT / "web" / "translations" / language / "LC_MESSAGES"
    return folder / "messages.po", folder / "messages.mo"


def messages() -> Catalog:
    """Every message of the code and the templates, in the order of its text."""
    with (CHECKOUT / "babel.cfg").open(encoding="utf-8") as file:
        methods, options = parse_mapping_cfg(file)  # type: ignore[no-untyped-call]
    found = Catalog(charset="utf-8")
    pages = extract_from_dir(CHECKOUT / "web", methods, options, KEYWORDS | MARKED)
    judged = (extract_from_dir(CHECKOUT / layer, [("**.py", "python")], {}, MARKED) for layer in JUDGED)
    for _name, _line, message, _comments, context in chain(pages, *judged):
        found.add(message, context=context)
    with (CHECKOUT / "web" / "words.toml").open("rb") as file:
        for words in tomllib.load(file).values():
            for message in words.values() if isinstance(words, dict) else words:
                found.add(message)
    return found


def current(language: str) -> Pages:
    """What is translated, with everything that is in the code now and nothing else."""
    path = files(language)[0]
    known = read_po(io.BytesIO(path.read_bytes()) if path.exists() else io.BytesIO(), locale=language)
    made = Pages(locale=language, charset="utf-8", fuzzy=False, header_comment="# See tools/translations.py.")
    for message in messages():
        if message.id:
            old = known.get(message.id, message.context)
            made.add(message.id, None if old is None else old.string)
    return made


def missing(catalog: Catalog) -> list[Message]:
    """Messages without a translation, or with one that lacks a value that belongs into it."""
    return [message for message in catalog if message.id and not _whole(message)]


def as_po(catalog: Catalog) -> bytes:
    written = io.BytesIO()
    write_po(written, catalog, width=0, sort_output=True, omit_header=False)
    return written.getvalue()


def as_mo(catalog: Catalog) -> bytes:
    written = io.BytesIO()
    write_mo(written, catalog)
    return written.getvalue()


def compile_all() -> None:
    """Write ``messages.mo`` of every language from its ``messages.po``."""
    for language in LANGUAGES:
        source, compiled = files(language)
        compiled.write_bytes(as_mo(read_po(io.BytesIO(source.read_bytes()), locale=language)))


def main() -> int:
    if "--compile" in sys.argv:
        compile_all()
        return 0
    check, failed = "--check" in sys.argv, False
    for language in LANGUAGES:
        catalog = current(language)
        source = files(language)[0]
        if check:
            failed |= not source.exists() or source.read_bytes() != as_po(catalog)
        else:
            source.parent.mkdir(parents=True, exist_ok=True)
            source.write_bytes(as_po(catalog))
            compile_all()
        for message in missing(catalog):
            print(f"{language}: not translated: {message.id!r}", file=sys.stderr)
            failed = True
    return int(failed)


def _whole(message: Message) -> bool:
    """Of a message with a plural the plural counts: ``a minute`` has no number in it."""
    wanted = message.id[-1] if isinstance(message.id, list | tuple) else message.id
    strings = message.string if isinstance(message.string, list | tuple) else [message.string]
    return all(each and set(VALUE.findall(each)) == set(VALUE.findall(wanted)) for each in strings)


if __name__ == "__main__":
    sys.exit(main())
