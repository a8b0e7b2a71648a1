"""Files that are no exports, or want to be too much: one sentence, and memory that stays bounded."""

from __future__ import annotations

import io
import json
import tracemalloc
import zipfile

import pytest

from jiyi.errors import InvalidRequest
from jiyi.imports import files
from jiyi.imports.drafts import Draft, LeftOut
from jiyi.imports.files import Unreadable, conversations, lines, objects, pieces, whole, workspace
from jiyi.imports.import_run import read_questions


def read(content):
    return [piece.value for piece in pieces(io.BytesIO(content), "f.json")]


def test_a_list_and_the_lists_of_an_object_come_piece_by_piece():
    assert read(b'\xef\xbb\xbf [1, {"a": "\\u4e00"}, [2]] \n') == [1, {"a": "一"}, [2]]
    assert read(b"[]") == []
    found = list(pieces(io.BytesIO(b'{"a": [1, 2], "b": {}, "c": []}'), "f"))
    assert found == [(1, "a", True), (2, "a", True), ({}, "b", False)]


@pytest.mark.parametrize("before", [1, 4, 8, 9])
def test_pieces_longer_than_a_chunk_and_numbers_at_its_end_are_whole(before):
    values = [12345678, "一二三四五六七八九十" * (files.CHUNK // 20), {"k": [1.5, None, True]}]
    text = " " * (files.CHUNK - before) + json.dumps(values, ensure_ascii=False)
    assert read(text.encode()) == values


def test_what_is_no_export_is_refused_in_one_sentence():
    for content, sentence in {
        b"": "is empty",
        b"   ": "is empty",
        b"hello": "is no JSON: it begins with 'h'",
        b"PK\x03\x04\x00\x00": "is no text but binary",
        '["é"]'.encode("latin-1"): "is no UTF-8",
        '["一"]'.encode("utf-16"): "is UTF-16",
        b'[{"a": 1}, {"b"': "no whole JSON",
        b'[{"a": 1} {"b": 2}]': "no whole JSON: '{' stands where",
        b"[1] [2]": "something follows its end",
        b"[" * 200_000: "nested too deep",
        b"{1: 2}": "no whole JSON",
    }.items():
        with pytest.raises(Unreadable, match=r"^f\.json: ") as error:
            read(content)
        assert sentence in str(error.value)
        assert "\n" not in str(error.value)


def test_a_piece_without_an_end_takes_bounded_memory(monkeypatch):
    monkeypatch.setattr(files, "MAX_PIECE_CHARS", 4 * 1024 * 1024)
    content = io.BytesIO(b'["' + b"a" * 80_000_000)
    assert traced(pieces(content, "f.json"), "a piece of it has more than") < 50_000_000


def traced(content, sentence):
    """The most bytes of memory that reading takes until it is refused."""
    tracemalloc.start()
    with pytest.raises(Unreadable, match=sentence):
        list(content)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return most


def archive(path, **members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(name.replace("__", "/").replace("_json", ".json"), content)
    return path


def test_conversations_are_read_from_the_zip_its_folder_or_the_file(tmp_path):
    content = json.dumps([{"id": 1}, {"id": 2}])
    path = archive(tmp_path / "export.zip", chat_html="<html>", export__conversations_json=content)
    assert list(conversations(path)) == [{"id": 1}, {"id": 2}]
    (tmp_path / "conversations-000.json").write_text(content)
    (tmp_path / "conversations-001.json").write_text('{"conversations": [{"id": 3}]}')
    assert [each["id"] for each in conversations(tmp_path)] == [1, 2, 3]


def test_an_archive_that_would_grow_a_hundredfold_is_refused_before_it_is_unpacked(tmp_path):
    path = tmp_path / "bomb.zip"
    archive(path, conversations_json=b" " * 2**26)
    assert path.stat().st_size < 2_000_000
    assert traced(conversations(path), "would grow more than 100 times") < 5_000_000


def test_archives_without_conversations_cut_ones_and_empty_folders_are_refused(tmp_path):
    with pytest.raises(Unreadable, match=r"has no conversations\.json in it"):
        list(conversations(archive(tmp_path / "other.zip", a="b")))
    whole_one = archive(
        tmp_path / "cut.zip", conversations_json=json.dumps([{"id": number} for number in range(9_999)])
    )
    content = bytearray(whole_one.read_bytes())
    content[len(content) // 2 : len(content) // 2 + 40] = b"\xff" * 40
    whole_one.write_bytes(content)
    with pytest.raises(Unreadable, match="cannot be unpacked"):
        list(conversations(whole_one))
    with pytest.raises(Unreadable, match=r"has no conversations\.json;"):
        list(conversations(tmp_path))
    with pytest.raises(FileNotFoundError):
        list(conversations(tmp_path / "gone.json"))


def test_objects_are_those_of_a_list_of_a_field_of_lines_or_the_one_there_is(tmp_path):
    def of(content, name="f.json"):
        file = tmp_path / name
        file.write_text(content)
        return list(objects(file, "results"))

    for content, name in (
        ('[{"a": 1}]', "f.json"),
        ('{"count": 1, "results": [{"a": 1}]}', "f.json"),
        ('\n{"a": 1}\n', "f.jsonl"),
    ):
        assert of(content, name) == [{"a": 1}]
    assert of('{"a": 1, "messages": [{"b": 2}], "facts": []}') == [{"a": 1, "messages": [{"b": 2}]}]
    (bad,) = of("{", "g.jsonl")
    assert (bad.where, bad.reason) == ("line 1", "malformed")


def test_a_line_without_an_end_is_refused():
    with pytest.raises(Unreadable, match="line 2 has more than 16,777,216 bytes"):
        list(lines(io.BytesIO(b"{}\n" + b"x" * 2**25), "f"))
    assert whole(io.BytesIO(b'{"a": 1}'), "f") == {"a": 1}


def test_a_workspace_gives_its_notes_and_sessions_and_nothing_from_outside(tmp_path):
    root, outside = tmp_path / "openclaw", tmp_path / "secret.md"
    (root / "workspace" / "memory").mkdir(parents=True)
    (root / "agents" / "main" / "sessions").mkdir(parents=True)
    outside.write_text("- a secret")
    (root / "workspace" / "MEMORY.md").write_text("- likes tea")
    (root / "workspace" / "memory" / "2026-03-02.md").write_bytes(b"\xff\xfe")
    (root / "workspace" / "memory" / "2026-03-03.md").symlink_to(outside)
    said = {"type": "message", "id": "1", "message": {"role": "user", "content": "Hi"}}
    session = root / "agents" / "main" / "sessions" / "a.jsonl"
    session.write_text("\n".join(map(json.dumps, ({"type": "session", "id": "s1"}, said))) + "\n{broken\n")
    parsed = list(workspace(root))
    taken = [(item.text, item.session) for item in parsed if isinstance(item, Draft)]
    assert taken == [("likes tea", None), ("Hi", "s1")]
    assert [item.reason for item in parsed if isinstance(item, LeftOut)] == ["malformed", "malformed"]
    (tmp_path / "empty").mkdir()
    for nothing in (outside, tmp_path / "empty"):
        with pytest.raises(Unreadable, match=r"is no folder|has neither"):
            list(workspace(nothing))


def test_questions_are_lines_and_a_wrong_one_shows_what_a_line_is():
    good = b'{"question": "What does Mia eat?", "expected": ["noodles", "\xe9\x9d\xa2"], "user_id": "mia"}\n'
    (question,) = read_questions(io.BytesIO(good), "q.jsonl")
    assert question.words == ["noodles", "面"]
    for bad in (b'{"question": ""}', b"[1]", b"{", b""):
        with pytest.raises(InvalidRequest, match=r"q\.jsonl: "):
            read_questions(io.BytesIO(bad), "q.jsonl")
