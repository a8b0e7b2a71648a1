"""A store of files follows its folder: what is added, changed, renamed or gone, each file in one
transaction.
"""

from __future__ import annotations

import shutil

import pytest
from sqlalchemy import text

from engine.operations import JOBS
from models.db.connection import unit_of_work
from tasks.framework.jobs import perform
from tasks.stores import index_files
from tests.integration.stores.folders import MakeFolder

KILN = "The kiln reached 1,240 degrees on Monday."
ORANGE = "林岚在院子里种了两棵橘子树。"
LONG = "The tomatoes need water every day. " * 40


def test_files_are_found_by_meaning_and_by_words(folder: MakeFolder) -> None:
    docs = folder()
    docs.write("kiln.MD", KILN)
    docs.write("deep/er/garden.txt", ORANGE)
    docs.write("photo.png", b"\x89PNG")
    docs.write(".hidden/notes.md", "not for anybody")
    docs.scan()
    assert docs.states() == {"kiln.MD": "indexed", "deep/er/garden.txt": "indexed"}
    assert docs.first("How hot was the kiln, in degrees?") == KILN
    assert docs.first("橘子树种在哪里？") == ORANGE
    (hit,) = docs.ask("橘子树", top_k=1).hits
    assert hit.item.id == f"{docs.path}:deep/er/garden.txt#0"
    assert (
        hit.item.metadata.items()
        >= {
            "source_type": "file",
            "file_path": "deep/er/garden.txt",
            "file_name": "garden.txt",
            "file_size": len(ORANGE.encode()),
            "chunk_index": 0,
            "total_chunks": 1,
            "encoding": "utf-8",
        }.items()
    )
    assert hit.score is not None
    assert hit.cosine is not None
    assert docs.ask(" \n").hits == []


def test_exactly_what_changed_is_embedded(folder: MakeFolder, embedded: list[str]) -> None:
    docs = folder()
    for number in range(8):
        docs.write(f"{number}.md", f"{KILN} Log {number}.")
    docs.write("long.md", LONG)
    docs.scan()
    before = {row.key: row for row in docs.chunks()}
    assert len(embedded) == len(set(embedded)) == len({row.content_hash for row in before.values()})
    embedded.clear()

    docs.write("1.md", "Another kiln.")
    docs.write("new.md", "A new one.")
    (docs.path / "2.md").unlink()
    (docs.path / "3.md").rename(docs.path / "moved.md")
    (docs.path / "long.md").rename(docs.path / "longer.md")
    docs.scan()
    after = {row.key: row for row in docs.chunks()}
    assert sorted(embedded) == ["A new one.", "Another kiln."]
    paths = {row.metadata["file_path"] for row in after.values()}
    assert (
        paths
        == {"0.md", "1.md", "4.md", "5.md", "6.md", "7.md", "new.md", "moved.md", "longer.md"}
        == set(docs.states())
    )
    assert all(row.embedding is not None for row in after.values())
    assert after[f"{docs.path}:moved.md#0"].embedding == before[f"{docs.path}:3.md#0"].embedding
    assert {row.key: row for row in after.values() if row.metadata["file_path"] == "0.md"} == {
        row.key: row for row in before.values() if row.metadata["file_path"] == "0.md"
    }
    assert docs.first("Log 2") != f"{KILN} Log 2."


def test_the_index_of_a_renamed_file_is_that_of_a_new_one(folder: MakeFolder) -> None:
    docs = folder()
    docs.write("2026-03-02.md", LONG)
    docs.scan()
    (docs.path / "2026-03-02.md").rename(docs.path / "2026-03-05.md")
    docs.scan()
    moved = docs.chunks()
    assert moved[0].metadata["file_day"].startswith("2026-03-05")
    with unit_of_work() as connection:
        connection.execute(text("DELETE FROM store_items WHERE store_id = :id"), {"id": docs.store_id})
        connection.execute(text("DELETE FROM store_files WHERE store_id = :id"), {"id": docs.store_id})
    docs.scan()
    assert docs.chunks() == moved


def test_equal_bytes_are_embedded_once_whatever_their_file_and_time(
    folder: MakeFolder, embedded: list[str]
) -> None:
    docs = folder()
    docs.write("a.md", KILN)
    docs.write("b.md", KILN)
    docs.scan()
    chunks = docs.chunks()
    assert embedded == [KILN]
    (docs.path / "a.md").touch()
    docs.scan()
    assert (embedded, docs.chunks()) == ([KILN], chunks)
    assert {hit.item.metadata["file_path"] for hit in docs.ask("kiln").hits} == {"a.md", "b.md"}
    (docs.path / "a.md").unlink()
    docs.scan()
    assert [hit.item.metadata["file_path"] for hit in docs.ask("kiln").hits] == ["b.md"]


def test_another_chunk_size_indexes_again_and_embeds_only_other_texts(
    folder: MakeFolder, embedded: list[str]
) -> None:
    docs = folder()
    docs.write("long.md", LONG)
    docs.write("short.md", KILN)
    docs.scan()
    embedded.clear()
    docs.declare(chunk_size=200, chunk_overlap=20)
    docs.scan()
    assert all(len(row.content_summary) <= 200 for row in docs.chunks())
    assert embedded
    assert KILN not in embedded


def test_a_source_that_is_no_longer_declared_goes(folder: MakeFolder) -> None:
    docs = folder()
    for name in ("a.md", "b.txt", "deep/c.md"):
        docs.write(name, KILN)
    docs.scan()
    docs.declare(file_sources=[{"path": str(docs.path), "recursive": False, "file_types": ["md"]}])
    docs.scan()
    assert docs.states() == {"a.md": "indexed"}
    other = docs.write("sub/b.md", ORANGE)
    docs.declare(file_sources=[{"path": str(other)}])
    docs.scan()
    assert docs.states() == {"b.md": "indexed"}
    assert [row.content_summary for row in docs.chunks()] == [ORANGE]


def test_a_folder_that_is_away_keeps_its_index(folder: MakeFolder) -> None:
    docs = folder()
    docs.write("a.md", KILN)
    docs.scan()
    docs.path.rename(docs.path.with_name("elsewhere"))
    docs.scan()
    assert docs.states() == {"a.md": "indexed"}
    assert docs.store.state == "unreadable"
    assert "no such file or folder" in docs.reason
    docs.path.with_name("elsewhere").rename(docs.path)
    docs.scan()
    assert docs.store.state == "ready"


def test_the_job_owes_a_look_through_every_store_of_files(folder: MakeFolder) -> None:
    docs = folder()
    docs.write("a.md", KILN)
    perform(JOBS["scan_stores"])
    with unit_of_work() as connection:
        owed = (
            connection.execute(text("SELECT subject_id FROM pending_work WHERE kind = 'scan_files'"))
            .scalars()
            .all()
        )
    assert docs.store_id in owed
    shutil.rmtree(docs.path)


def test_a_run_whose_time_is_up_leaves_the_rest_owed(
    folder: MakeFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        index_files, "RUN_SECONDS", 0.0
    )  # as if each file were one that takes as long as it may
    docs = folder()
    for number in range(3):
        docs.write(f"{number}.md", f"Cup {number} is blue.")
    docs.scan()
    assert sorted(docs.states().values()) == ["indexed", "pending", "pending"]
    with unit_of_work() as connection:
        owed = text(
            "SELECT count(*), max(attempts) FROM pending_work WHERE kind = 'index_file' AND group_id = :g"
        )
        assert tuple(connection.execute(owed, {"g": docs.group}).one()) == (2, 0)
