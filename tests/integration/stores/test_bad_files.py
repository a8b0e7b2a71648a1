"""What can be the matter with a file: each has a named state, and the others are indexed all the same."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from jiyi.errors import ConfigError
from jiyi.stores.types import FileMemoryConfig
from models.stores.backends import BACKENDS
from tasks.stores import disk
from tests.integration.stores.folders import Folder, MakeFolder
from tests.unit.stores.test_chunks import pdf
from workers.ephemeral import environment

KILN = "The kiln reached 1,240 degrees on Monday."


def indexed(docs: Folder, name: str, content: str | bytes) -> str:
    """The state of a file beside a good one, which is indexed."""
    docs.write("good.md", KILN)
    docs.write(name, content)
    docs.scan()
    states = docs.states()
    assert states["good.md"] == "indexed"
    assert docs.first("kiln") == KILN
    return states[name]


def test_each_has_its_state(folder: MakeFolder) -> None:
    files = {
        "nul.md": (b"kiln\0log", "binary"),
        "latin.txt": ("café naïve résumé".encode("latin-1"), "undecodable"),
        "empty.md": (b" \n", "empty"),
        "locked.pdf": (pdf("secret", password="word"), "encrypted"),
        "broken.pdf": (b"%PDF-1.7 nothing", "malformed"),
        "broken.json": (b"{", "malformed"),
        "gbk.txt": ("窑温到了一千二百四十度。".encode("gbk"), "indexed"),
        "good.pdf": (pdf("A page about feldspar"), "indexed"),
    }
    docs = folder()
    docs.write("large.txt", b"kiln")
    os.truncate(docs.path / "large.txt", 1 << 30)
    os.mkfifo(docs.path / "pipe.md")  # is not waited for
    for name, (content, _) in files.items():
        docs.write(name, content)
    assert indexed(docs, "a.md", "x") == "indexed"
    assert docs.states() == {name: state for name, (_, state) in files.items()} | {
        "good.md": "indexed",
        "a.md": "indexed",
        "large.txt": "too_large",
    }
    reasons = docs.reasons()
    assert {name for name, reason in reasons.items() if reason} == {
        name for name, state in docs.states().items() if state != "indexed"
    }
    assert "more than 20,971,520" in reasons["large.txt"]


def test_what_was_indexed_of_a_file_goes_when_it_becomes_unusable(folder: MakeFolder) -> None:
    docs = folder()
    assert indexed(docs, "a.md", "A page about feldspar") == "indexed"
    assert indexed(docs, "a.md", b"feldspar\0") == "binary"
    assert docs.first("feldspar") == KILN


def test_a_file_that_grows_while_it_is_read_is_read_with_the_next_scan(
    folder: MakeFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    docs = folder()
    assert indexed(docs, "log.txt", "A page about feldspar") == "indexed"
    real, path = os.read, docs.path / "log.txt"

    def read_slowly(handle: int, count: int) -> bytes:
        if os.path.samestat(os.fstat(handle), path.stat()):
            with path.open("ab") as file:
                file.write(b"more\n")
        return real(handle, count)

    docs.write("log.txt", "A page about ash")
    with monkeypatch.context() as patch:
        patch.setattr(os, "read", read_slowly)
        docs.scan()
    assert docs.states()["log.txt"] == "unstable"
    assert docs.first("feldspar") == "A page about feldspar"  # what was found is found until then
    docs.write("log.txt", "A page about ash")
    docs.scan()
    assert docs.states()["log.txt"] == "indexed"
    assert docs.first("ash") == "A page about ash"


def test_a_file_that_goes_before_it_is_read_is_forgotten(
    folder: MakeFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    docs = folder()
    docs.write("a.md", KILN)
    real = disk.read

    def gone(path: Path, *rest: Any) -> Any:
        path.unlink(missing_ok=True)
        return real(path, *rest)

    monkeypatch.setattr(disk, "read", gone)
    docs.scan()
    assert docs.states() == {}


def test_links_lead_nowhere_outside(folder: MakeFolder, roots: Path) -> None:
    docs = folder()
    (docs.path / "secret.md").symlink_to(roots.parent / "secret.md")
    (docs.path / "process.md").symlink_to("/proc/self/environ")
    (docs.path / "loop.md").symlink_to(docs.path / "loop.md")
    (docs.path / "dangling.md").symlink_to(docs.path / "nothing.md")
    (docs.path / "outside").symlink_to(roots.parent, target_is_directory=True)
    (docs.path / "inside.md").symlink_to(docs.write("real.txt", "A page about feldspar"))
    assert indexed(docs, "a.md", "x") == "indexed"
    assert docs.states() == {
        "a.md": "indexed",
        "good.md": "indexed",
        "inside.md": "indexed",
        "real.txt": "indexed",
        "secret.md": "outside",
        "process.md": "outside",
    }
    assert "swordfish" not in str(docs.chunks())


def test_a_link_that_is_changed_while_it_is_opened_leads_nowhere(
    folder: MakeFolder, roots: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    docs = folder()
    path = docs.write("a.md", KILN)
    real = os.open

    def swapped(target: Any, *rest: Any) -> int:
        if Path(target) == path:
            path.unlink()
            path.symlink_to(roots.parent / "secret.md")
        return real(target, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", swapped)
        docs.scan()
    assert docs.states() == {"a.md": "outside"}
    assert docs.chunks() == []


def test_a_source_outside_the_folders_is_refused(roots: Path, group: str) -> None:
    """Processes and devices are no files even where everything may be read."""

    def declare(path: str) -> None:
        config = FileMemoryConfig.model_validate({"file_sources": [{"path": path}]})
        BACKENDS["file"].check(group, config, "memory[0].config")

    for path in (
        f"{roots}/..",
        f"{roots}/../secret.md",
        "/etc",
        "/proc",
        "/proc/self/root",
        "/",
        f"{roots}/\0",
    ):
        with pytest.raises(ConfigError, match=r"memory\[0\]\.config\.file_sources\[0\]\.path"):
            declare(path)
    with environment(store_roots="/"):
        declare(str(roots))
        for path in ("/proc/self", "/dev", "/sys/class"):
            with pytest.raises(ConfigError):
                declare(path)


def test_names_that_cannot_be_stored_are_told(folder: MakeFolder) -> None:
    docs = folder()
    Path(os.fsdecode(os.fsencode(docs.path) + b"/\xff\xfe.md")).write_text("x")
    assert indexed(docs, "窑.md", "窑温") == "indexed"
    assert "not in UTF-8" in docs.reason
    assert docs.store.state == "ready"
