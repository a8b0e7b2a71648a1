"""The home and its logs are their owner's alone, also where they were there before."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from workers.embedded.folders import make_traversable, private_home
from workers.supervision.processes import open_log


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("before", [None, 0o755, 0o777, 0o700])
def test_others_do_not_look_into_the_home(tmp_path: Path, before: int | None) -> None:
    home = tmp_path / "home"
    if before is not None:
        home.mkdir()
        home.chmod(before)
    private_home(home)
    assert mode(home) & 0o066 == 0
    assert mode(home) & 0o077 == make_traversable() & 0o077


def test_a_folder_that_is_shared_is_left_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shared, own = tmp_path / "tmp", tmp_path / "me"
    for folder, bits in ((shared, 0o1777), (own, 0o755)):
        folder.mkdir()
        folder.chmod(bits)
    monkeypatch.setenv("HOME", str(own))
    private_home(shared)
    private_home(own)
    assert (mode(shared), mode(own)) == (0o1777, 0o755)


def test_logs_are_their_owner_s(tmp_path: Path) -> None:
    old, new = tmp_path / "old.log", tmp_path / "new.log"
    old.write_text("before\n", encoding="utf-8")
    old.chmod(0o644)
    umask = os.umask(0)
    try:
        for path in (old, new):
            with open_log(path) as log:
                log.write(b"now\n")
    finally:
        os.umask(umask)
    assert (mode(old), mode(new)) == (0o600, 0o600)
    assert old.read_text(encoding="utf-8") == "before\nnow\n"
