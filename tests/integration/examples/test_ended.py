"""A benchmark or example that is ended in the middle leaves nothing behind: no server, no process, no
folder.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil
import pytest

from jiyi.polling import poll
from workers import ephemeral
from workers.migrate import CHECKOUT

START_SECONDS = 2 * ephemeral.START_SECONDS
END_SECONDS = 120


def of_folder(folder: Path) -> set[str]:
    """Names of the processes that were begun for what is in the folder."""
    found = set()
    for process in psutil.process_iter():
        try:
            told = [*process.cmdline(), process.cwd(), process.environ().get("TMPDIR", "")]
        except (psutil.Error, OSError):
            continue
        if any(str(folder) in one for one in told):
            found.add(process.name())
    return found


@pytest.mark.timeout(START_SECONDS + END_SECONDS + 30)
@pytest.mark.parametrize(
    ("number", "command"),
    [
        pytest.param(signal.SIGTERM, ["bench.due", "--agents", "3"], id="bench-SIGTERM"),
        pytest.param(signal.SIGINT, ["examples.debate"], id="example-SIGINT", marks=pytest.mark.long),
    ],
)
def test_ended_in_the_middle_it_leaves_nothing(number: signal.Signals, command: list[str]) -> None:
    with tempfile.TemporaryDirectory(prefix="je-", dir="/tmp") as made:  # short, for unix sockets
        folder = Path(made)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("JIYI_")}
        environment |= {"JIYI_HOME": f"{folder}/none", "TMPDIR": str(folder), "JIYI_EMBEDDER": "hashing"}
        run = subprocess.Popen(
            [sys.executable, "-m", *command],
            cwd=CHECKOUT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            begun = poll(
                lambda: of_folder(folder),
                lambda names: {"postgres", "valkey-server"} <= names or run.poll() is not None,
                START_SECONDS,
            )
            assert run.poll() is None, run.communicate()[0]
            assert {"postgres", "valkey-server"} <= begun
            assert list(folder.glob("jiyi-*"))
            run.send_signal(number)
            said, _ = run.communicate(timeout=END_SECONDS)
        finally:
            run.kill()
        assert run.returncode != 0, said
        assert of_folder(folder) == set()
        assert list(folder.iterdir()) == []
