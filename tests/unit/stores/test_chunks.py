"""Files in stores: what a scan makes of what it found, bytes that become text, and chunks of texts."""

from __future__ import annotations

from hashlib import sha256
from io import BytesIO
from itertools import product
from uuid import UUID

import pytest
from pypdf import PdfWriter
from pypdf.generic import DictionaryObject, NameObject, StreamObject

from engine.stores import chunks
from engine.stores.file_texts import MAX_TEXT_CHARS, UnindexableFile, decode, suffix_of, text_of
from jiyi.stores.types import FILE_TYPES, FileSource
from tests.unit.text.labelled import labelled

STORE = UUID(int=7)


def test_an_id_is_its_source_path_number_and_text() -> None:
    """A row keeps its text for life: else the vector of an old text could be stored beside the new one."""
    places = product((STORE, UUID(int=8)), map(chunks.FilePlace, "abab", "ccdd"), (0, 1), (b"x", b"y"))
    assert len({chunks.chunk_id(*of_chunk) for of_chunk in places}) == 32
    text = "窑温到了一千二百四十度。"
    one, again, other = (
        chunks.chunk_of(STORE, chunks.FilePlace("docs", f"{name}.md"), 1, text) for name in "aab"
    )
    assert one == again
    assert (one.key, other.key) == ("docs:a.md#1", "docs:b.md#1")
    assert one.item_id != other.item_id
    assert one.content_hash == other.content_hash, "they share their vectors"


@labelled
def test_the_day_of_a_file(name: str, text: str, day: str | None) -> None:
    found = chunks.day_of(name, text)
    assert (None if found is None else found.date().isoformat()) == day


READ = 10 * chunks.TRUSTED_AFTER_NS


def found(path: str, size: int = 3, modified_ns: int = 5) -> chunks.ScannedFile:
    return chunks.ScannedFile(chunks.FilePlace("docs", path), size, modified_ns)


def known(path: str, number: int, *, read_ns: int = READ, current: bool = True) -> chunks.KnownFile:
    """Its text is ``abc``."""
    place, digest = chunks.FilePlace("docs", path), sha256(b"abc").digest()
    return chunks.KnownFile(UUID(int=number), place, 3, 5, digest, read_ns, current)


def never(_: chunks.ScannedFile) -> bytes | None:
    raise AssertionError("nothing has to be read for this")


def test_added_changed_and_removed() -> None:
    assert chunks.changes([found("a.md")], [known("a.md", 1)], never) == chunks.Changes()
    there = [found("a.md", modified_ns=6), found("b.md", 9)]
    made = chunks.changes(there, [known("a.md", 1), known("c.md", 2)], never)
    assert made == chunks.Changes(added=[found("b.md", 9)], changed=[UUID(int=1)], removed=[UUID(int=2)])
    # Of another chunk size; or read right after it changed: it may have changed once more within the same
    # tick of the file system's clock.
    for file in (known("a.md", 1, current=False), known("a.md", 1, read_ns=6)):
        assert chunks.changes([found("a.md")], [file], never).changed == [UUID(int=1)]
    unseen = chunks.changes([], [known("a.md", 1)], never, lambda place: place.path == "a.md")
    assert unseen == chunks.Changes(), "it could not be looked at"


def test_a_renamed_file_is_the_same_file_and_each_old_one_is_taken_once() -> None:
    olds = [known("x.md", 1), known("y.md", 2)]
    news = [found(f"{name}.md", modified_ns=9) for name in "abc"]
    made = chunks.changes(news, olds, lambda _: sha256(b"abc").digest())
    renamed = [(old.place.path, new.place.path) for old, new in made.renamed]
    assert renamed == [("x.md", "a.md"), ("y.md", "b.md")]
    assert (made.added, made.removed) == ([found("c.md", modified_ns=9)], [])
    # A new file of the same size is another, unless it says the same.
    made = chunks.changes([found("new.md")], [known("old.md", 1)], lambda _: sha256(b"xyz").digest())
    assert made == chunks.Changes(added=[found("new.md")], removed=[UUID(int=1)])
    assert chunks.changes([found("new.md")], [known("old.md", 1)], lambda _: None) == made


CHINESE = "窑温到了一千二百四十度。托马斯担心釉面会裂，林岚并不同意！"


def pdf(text: str, password: str | None = None) -> bytes:
    """A PDF of one page that says this."""
    writer = PdfWriter()
    page = writer.add_blank_page(300, 300)
    font = {"/Type": "/Font", "/Subtype": "/Type1", "/BaseFont": "/Helvetica"}
    described = DictionaryObject({NameObject(key): NameObject(value) for key, value in font.items()})
    fonts = DictionaryObject({NameObject("/F1"): described})
    page[NameObject("/Resources")] = DictionaryObject({NameObject("/Font"): fonts})
    content = StreamObject()
    content.set_data(f"BT /F1 12 Tf 20 200 Td ({text}) Tj ET".encode())
    page[NameObject("/Contents")] = writer._add_object(content)
    if password is not None:
        writer.encrypt(user_password=password, owner_password="owner", algorithm="RC4-128")
    written = BytesIO()
    writer.write(written)
    return written.getvalue()


def state_of(data: bytes, name: str = "a.txt", encoding: str = "utf-8") -> str:
    with pytest.raises(UnindexableFile) as caught:
        text_of(data, name, encoding)
    assert caught.value.reason
    return caught.value.state


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32", "gbk", "gb18030"])
def test_chinese_text_is_read_whatever_it_is_written_in(encoding: str) -> None:
    """Read as UTF-8 with errors ignored, the original's way, GBK loses its Chinese in silence."""
    assert decode(f"Note: {CHINESE}\r\nb\rc".encode(encoding)).text == f"Note: {CHINESE}\nb\nc"


@pytest.mark.parametrize(
    ("size", "data", "state"),
    [
        *((1, b"kiln\0log", "binary"), (4, bytes(range(256)), "binary")),
        *((0, b"x", "empty"), (1, b" \n\t ", "empty"), (MAX_TEXT_CHARS + 1, b"x", "too_large")),
    ],
)
def test_what_is_no_text_or_too_much_has_a_state(size: int, data: bytes, state: str) -> None:
    assert state_of(data * size) == state


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("latin-1", "café naïve résumé Élan"),
        ("shift-jis", "窯の温度は千二百四十度でした。トーマスは心配しました。"),
    ],
)
def test_another_encoding_has_to_be_named(encoding: str, text: str) -> None:
    assert state_of(b"x", encoding="klingon") == "undecodable"
    assert state_of(text.encode(encoding)) == "undecodable"
    assert text_of(text.encode(encoding), "a.txt", encoding).text == text


def test_the_case_of_a_suffix_does_not_matter() -> None:
    """Defect: the original reads ``.MD`` only if it is spelt so."""
    assert suffix_of("docs/README.MD") == ".md"
    assert suffix_of("notes.PDF") in FileSource(path="docs", file_types=["PDF"]).endings
    assert {suffix_of(f"x{one.upper()}") for one in FILE_TYPES} == set(FILE_TYPES)


def test_html_is_what_a_reader_sees() -> None:
    page = b"""<html><head><title>Kiln log</title><style>p{}</style><script>var x = 'secret'</script></head>
        <body><h1>March</h1><p>It reached <b>1,240</b> degrees.<p>Tomas &amp; Harriet
        <table><tr><td>a</td><td>b</td></tr></table></body>"""
    said = ["Kiln log", "March", "It reached 1,240 degrees.", "Tomas & Harriet", "a", "b"]
    assert text_of(page, "a.HTML").text.split("\n") == said


def test_html_that_is_nested_without_end_is_refused() -> None:
    assert state_of(b"<div>" * 100_000, "a.html") == "malformed"
    assert state_of(b"<div></x>" * 100_000, "a.html") == "malformed"
    assert text_of(b"<p>one<p>two" * 2_000, "a.html").text.count("one") == 2_000


def test_a_row_of_csv_is_understood_alone() -> None:
    people = text_of("name;city\nMia;Berlin\n小明;\n".encode(), "a.csv").text
    assert people == "name: Mia; city: Berlin\nname: 小明"
    assert text_of(b'1,2\n"a, b",4\n', "a.csv").text == "1; 2\na, b; 4"
    assert state_of(b'a,b\n"' + b"x" * 200_000, "a.csv") == "malformed"


def test_json_is_read_object_by_object() -> None:
    data = '{"kiln": 1240, "people": [{"name": "小明", "ok": true}, {"name": "Mia", "tags": ["a", null]}]}'
    assert text_of(data.encode(), "a.json").text.split("\n") == [
        "kiln: 1240",
        "people[0]: name: 小明; ok: true",
        "people[1]: name: Mia",
        "people[1].tags: a, null",
    ]
    assert state_of(b"{", "a.json") == state_of(b"[" * 100_000, "a.json") == "malformed"


def test_pdf_is_read_unless_it_has_a_password_or_is_damaged() -> None:
    assert text_of(pdf("The kiln reached 1240 degrees"), "a.pdf").text == "The kiln reached 1240 degrees"
    locked = "Locked against changes only"
    assert text_of(pdf(locked, password=""), "a.pdf").text == locked
    assert state_of(pdf("secret", password="word"), "a.pdf") == "encrypted"
    assert state_of(b"%PDF-1.7 and nothing more", "a.pdf") == "malformed"
    assert state_of(pdf(""), "a.pdf") == "empty"
