"""The index in the file of ``index_path``: its format, vectors that it spares, and a corrupt one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from sqlalchemy import text

from jiyi.protocol.stores import UpdateStore
from models.db.connection import unit_of_work
from models.stores.backends import BACKENDS
from tests.integration.memory.test_inbox import execute
from tests.integration.stores.folders import Folder, MakeFolder

FILES = BACKENDS["file"]

KILN = "The kiln reached 1,240 degrees on Monday."
ORANGE = "林岚在院子里种了两棵橘子树。"


@pytest.fixture
def saved(folder: MakeFolder, roots: Path) -> Folder:
    """A store whose index was written to ``index.json``."""
    docs = folder(index_path=str(roots / "index.json"))
    docs.write("kiln.md", KILN)
    docs.write("garden/tree.txt", ORANGE)
    docs.perform(FILES.load)
    docs.scan()
    assert docs.save().items == 2
    return docs


def forgotten(docs: Folder) -> None:
    """The store as if it had never been."""
    execute("DELETE FROM stores WHERE store_id = :id", id=docs.store_id)


def test_an_index_needs_no_file_to_be_kept(folder: MakeFolder, embedded: list[str]) -> None:
    """Defect: without a path the original makes the whole index anew with every load."""
    docs = folder()
    docs.write("kiln.md", KILN)
    for _ in range(2):
        docs.perform(FILES.load)
        docs.scan()
    assert embedded == [KILN]
    assert docs.save().path is None


def test_the_format_is_the_original_s(saved: Folder, roots: Path) -> None:
    found = json.loads((roots / "index.json").read_text(encoding="utf-8"))
    assert found["config"].items() >= {"chunk_size": 500, "chunk_overlap": 50}.items()
    (kiln,) = [one for name, one in found["file_metadata"].items() if name.endswith("docs/kiln.md")]
    assert kiln.keys() >= {"hash", "size", "chunks_count", "indexed_at"}
    assert {one["content_summary"] for one in found["contents"]} == {KILN, ORANGE}
    assert all(len(one["embedding"]) == 256 for one in found["contents"])


def test_an_index_that_was_built_elsewhere_spares_its_vectors(
    saved: Folder, roots: Path, embedded: list[str]
) -> None:
    forgotten(saved)
    saved.write("kiln.md", "Another kiln.")
    embedded.clear()
    saved.declare(index_path=str(roots / "index.json"))
    saved.perform(FILES.load)
    assert saved.ask("kiln").hits == []  # nothing counts that was not read
    saved.scan()
    assert embedded == ["Another kiln."]
    assert saved.first("橘子树") == ORANGE
    assert {row.content_summary for row in saved.chunks()} == {"Another kiln.", ORANGE}


@pytest.mark.parametrize("content", ["{", '{"contents": [{}], "config": {}}'])
def test_a_corrupt_index_is_set_aside_and_said(saved: Folder, roots: Path, content: str) -> None:
    forgotten(saved)
    (roots / "index.json").write_text(content)
    saved.declare(index_path=str(roots / "index.json"))
    saved.perform(FILES.load)
    saved.scan()
    assert (saved.store.state, set(saved.states().values())) == ("corrupt", {"indexed"})
    assert [path.read_text() for path in roots.glob("index.json.corrupt-*")] == [content]
    saved.save()
    assert saved.store.state == "ready"


@pytest.mark.parametrize("vector", [[0.0] * 256, [1.0, 0.0, 0.0]])
def test_vectors_that_cannot_be_compared_are_not_taken_over(
    saved: Folder, roots: Path, embedded: list[str], vector: list[float]
) -> None:
    forgotten(saved)
    index = json.loads((roots / "index.json").read_text(encoding="utf-8"))
    for item in index["contents"]:
        item["embedding"] = vector
    (roots / "index.json").write_text(json.dumps(index), encoding="utf-8")
    embedded.clear()
    saved.declare(index_path=str(roots / "index.json"))
    saved.perform(FILES.load)
    saved.scan()
    assert sorted(embedded) == sorted([KILN, ORANGE])
    assert all(hit.cosine is not None for hit in saved.ask(KILN).hits)
    assert saved.ask(KILN, similarity_threshold=0.9).hits[0].item.content_summary == KILN


def test_most_vectors_of_a_wrong_size_hide_none_of_the_right_one(saved: Folder) -> None:
    with unit_of_work() as connection:  # as versions before stored them
        wrong = (
            "UPDATE store_items SET embedding = '[1,0,0]' WHERE store_id = :id AND content_summary = :text"
        )
        connection.execute(text(wrong), {"id": saved.store_id, "text": ORANGE})
        copy = (
            "UPDATE store_items SET embedding = NULL, embedding_model = NULL WHERE store_id = :id AND"
            " content_summary <> :text"
        )
        connection.execute(text(copy), {"id": saved.store_id, "text": KILN})
    assert [hit.cosine for hit in saved.ask(KILN, top_k=1).hits] == [pytest.approx(1)]


def test_a_saved_index_has_the_vectors_of_the_model_that_it_names(saved: Folder, roots: Path) -> None:
    with unit_of_work() as connection:
        other = (
            "UPDATE store_items SET embedding_model = 'another' WHERE store_id = :id AND content_summary ="
            " :text"
        )
        connection.execute(text(other), {"id": saved.store_id, "text": ORANGE})
    assert saved.save().path == str(roots / "index.json")  # as it was declared
    found = json.loads((roots / "index.json").read_text(encoding="utf-8"))
    assert {one["content_summary"] for one in found["contents"] if one["embedding"]} == {KILN}


def test_an_update_does_nothing_and_reindexing_owes_every_file_and_changes_nothing(saved: Folder) -> None:
    before = saved.chunks()
    said = UpdateStore(name="notes", role="writer", inputs_text=KILN)
    done = saved.perform(lambda context, store: FILES.update(context, store, said))
    assert (done.item_id, done.reason) == (None, "a store of files is only read")
    assert saved.perform(FILES.reindex) == 2
    saved.scan()
    assert saved.chunks() == before
