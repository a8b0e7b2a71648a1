"""Folders that the service makes are its user's alone."""

from __future__ import annotations

import stat
from pathlib import Path

from jiyi.settings import get_settings

PRIVATE = 0o700


def make_private(folder: Path) -> None:
    """Make a folder and those around it that are missing, each for its owner alone: :meth:`Path.mkdir` gives
    the mode to the last only.

    Of those below the home, what others may do in a folder that is there is taken away.
    """
    home = get_settings().home
    for parent in (*reversed(folder.parents), folder):
        parent.mkdir(mode=PRIVATE, exist_ok=True)
        if parent != home and parent.is_relative_to(home) and stat.S_IMODE(parent.stat().st_mode) & ~PRIVATE:
            parent.chmod(PRIVATE)
