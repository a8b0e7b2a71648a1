"""How far a store's files are, told over the action: states, reasons, vectors."""

from __future__ import annotations

from jiyi.protocol.base import Rows
from jiyi.protocol.stores import FilesQuery, ListedFile, StoreName
from models.db.actions import Actor
from models.stores import actions
from tasks.framework.work import run_until_idle
from tasks.stores.index_files import index_file
from tests.integration.stores.folders import Folder, MakeFolder


def listed(docs: Folder, **query: object) -> Rows[ListedFile]:
    return actions.files.perform(
        Actor(docs.group, "test"), FilesQuery.model_validate({"name": "notes", **query})
    )


def test_progress_is_told_file_by_file(folder: MakeFolder) -> None:
    docs = folder()
    docs.write("a.md", "The kiln reached 1,240 degrees.")
    docs.write("b.md", b"\0")
    docs.write("c.md", "橘子树 " * 300)
    docs.scan_only()
    assert [(one.path, one.state) for one in listed(docs).rows] == [
        ("a.md", "pending"),
        ("b.md", "pending"),
        ("c.md", "pending"),
    ]
    run_until_idle("index_file", index_file)
    assert [(one.chunks_count, one.embedded) for one in listed(docs, state="indexed").rows] == [
        (1, 0),
        (3, 0),
    ]
    shown = actions.show.perform(Actor(docs.group, "test"), StoreName(name="notes"))
    assert (shown.files, shown.items, shown.pending) == ({"indexed": 2, "binary": 1}, 4, 4)
    docs.scan()
    assert [(one.chunks_count, one.embedded) for one in listed(docs, state="indexed").rows] == [
        (1, 1),
        (3, 3),
    ]
    (bad,) = listed(docs, state="binary").rows
    assert "encoding" in bad.state_reason


def test_pages_of_files_follow_each_other(folder: MakeFolder) -> None:
    docs = folder()
    for name in "abc":
        docs.write(f"{name}.md", name)
    docs.scan()
    first = listed(docs, limit=2)
    assert [one.path for one in first.rows] == ["a.md", "b.md"]
    assert [one.path for one in listed(docs, limit=2, cursor=first.next).rows] == ["c.md"]
    assert listed(docs, limit=3).next is None
