"""Folders that stores may read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from engine.providers.embedders import HashingEmbedder
from jiyi.protocol.wire.vectors import Float32
from tests.integration.stores.folders import Folder, MakeFolder
from workers.embedded.stack import Stack
from workers.ephemeral import environment


@pytest.fixture
def roots(tmp_path: Path) -> Iterator[Path]:
    """The only folder that stores may read, and a file beside it that they may not."""
    folder = tmp_path / "roots"
    folder.mkdir()
    (tmp_path / "secret.md").write_text("The password is swordfish.")
    with environment(store_roots=str(folder)):
        yield folder


@pytest.fixture
def folder(database: Stack, nothing_owed: None, roots: Path, group: str) -> MakeFolder:
    """``folder(chunk_size=…)``: a store of the files in ``docs``."""

    def make(**config: Any) -> Folder:
        path = roots / "docs"
        path.mkdir(exist_ok=True)
        return Folder(group, path, **config)

    return make


@pytest.fixture
def embedded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that are embedded from here on."""
    texts: list[str] = []
    real = HashingEmbedder.passages

    def noted(self: HashingEmbedder, some: Sequence[str]) -> Float32:
        texts.extend(some)
        return real(self, some)

    monkeypatch.setattr(HashingEmbedder, "passages", noted)
    return texts
