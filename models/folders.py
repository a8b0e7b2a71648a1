"""Folders that the service makes are its user's alone."""

from __future__ import annotations

import stat
from pathlib import Path

from jiyi.settings import get_settings

PRIVATE = 0o700


def make_private(folder: Path) -> None:
    """Make a folder and missing ones around it, all private; those below the home are made private again."""
    home = get_settings().home
    for parent in (*reversed(folder.parents), folder):
        parent.mkdir(mode=PRIVATE, exist_ok=True)
        if parent != home and parent.is_relative_to(home) and stat.S_IMODE(parent.stat().st_mode) & ~PRIVATE:
            parent.chmod(PRIVATE)
