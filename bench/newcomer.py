"""What somebody waits for who tries Jiyi for the first time: from the clone to the first answer, memory and
HTTP call of their own.

    python -m bench.newcomer [--json] [--python python3.12]

Done as README has it: the commits of this checkout are cloned, ``make setup`` installs them, ``make run``
starts the service in a home of its own. Then the lines that it prints are run as they are, and a program that
tells a memory and asks for it. What pip has in its cache is not downloaded, so ``installed`` depends on the
network and on the cache most of all.

Seconds, each since the one before was done:

* **cloned**, **installed** (``make setup``);
* **answered**: ``make run`` has started the servers and workers, played the sample diary and printed its
  first answer;
* **ready**: it has printed where the admin is, and what to paste into another shell;
* **command**: the command line that it printed has answered; **http**: so has the request for curl;
* **own**: a new Python process has told a memory, and found it by a question in other words;
* **ended**: Ctrl-C until the last process is gone; **again**: a second ``make run`` has printed its first
  answer.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.support.service import machine
from workers import ephemeral

CHECKOUT = Path(__file__).parent.parent
#: Seconds for anything: an installation over a slow network is the longest.
PATIENCE = 900.0
#: What ``make run`` prints above its first answer, and as the last line.
ANSWERED, READY = "▸", "Ctrl-C ends it."
OWN = """
from jiyi import Client

with Client("newcomer") as jiyi:
    jiyi.observe("mia", "Mia's daughter starts school on Monday", wait=True)
    print(jiyi.retrieve("mia", "When is the child's first day in class?").retrieved_nodes[0].description)
"""


class Run:
    """A ``make run`` whose output is read line by line."""

    def __init__(self, clone: Path, environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            ["make", "run"],
            cwd=clone,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._watch = time.monotonic() + PATIENCE

    def until(self, sign: str) -> list[str]:
        """The lines up to the first that has the sign in it."""
        lines: list[str] = []
        for line in self._lines():
            lines.append(line.rstrip())
            if sign in line:
                return lines
        sys.exit("bench.newcomer: make run ended before it was ready:\n" + "\n".join(lines[-20:]))

    def interrupt(self) -> None:
        """Ctrl-C, and wait."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGINT)
        self._process.communicate(timeout=PATIENCE)

    def _lines(self) -> Iterator[str]:
        assert self._process.stdout is not None  # a pipe
        for line in self._process.stdout:
            yield line
            if time.monotonic() > self._watch:
                return


@contextmanager
def running(clone: Path, environment: dict[str, str]) -> Iterator[Run]:
    run = Run(clone, environment)
    try:
        yield run
    finally:
        run.interrupt()


def measure(python: str, tell: Callable[[str], None]) -> dict[str, float]:
    """The seconds by name; each is told as soon as it is known."""
    seconds: dict[str, float] = {}
    began = time.monotonic()

    def done(name: str) -> None:
        nonlocal began
        now = time.monotonic()
        seconds[name], began = round(now - began, 1), now
        tell(f"{name}: {seconds[name]} s")

    with ephemeral.folder("jiyi-newcomer-") as folder:
        clone = folder / "jiyi"
        environment = _environment(folder / "home", python)
        _output(["git", "clone", "--quiet", str(CHECKOUT), str(clone)], environment)
        done("cloned")
        _output(["make", "setup"], environment, clone)
        done("installed")
        with running(clone, environment) as run:
            run.until(ANSWERED)
            done("answered")
            command, request = (
                line for line in run.until(READY) if "JIYI_HOME=" in line or line.startswith("curl ")
            )
            done("ready")
            _output(["sh", "-c", command], environment, clone)
            done("command")
            _output(["sh", "-c", f"{request} --silent --show-error --fail"], environment, clone)
            done("http")
            found = _output([str(clone / ".venv/bin/python"), "-c", OWN], environment, clone)
            if "school" not in found:
                sys.exit(f"bench.newcomer: asked for the memory that was told, it answered {found!r}")
            done("own")
        done("ended")
        with running(clone, environment) as run:
            run.until(ANSWERED)
            done("again")
    return seconds


def _environment(home: Path, python: str) -> dict[str, str]:
    """That of a shell in which nothing of this checkout is set."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("JIYI_", "PYTHON", "VIRTUAL_ENV", "MAKE"))
    }
    return kept | {"JIYI_HOME": str(home), "PYTHON": python, "PYTHONUNBUFFERED": "1"}


def _output(command: list[str], environment: dict[str, str], folder: Path | None = None) -> str:
    ran = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    if ran.returncode:
        sys.exit(f"bench.newcomer: {' '.join(command)} failed: {ran.stderr or ran.stdout}")
    return ran.stdout


def run(python: str, console: Console) -> dict[str, Any]:
    with console.status("cloning"):
        seconds = measure(python, console.print)
    return {"seconds": seconds, "machine": machine()}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--python", default=sys.executable, help="which Python the clone is installed with")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    result = run(arguments.python, Console(stderr=True))
    if arguments.json:
        print(json.dumps(result))
        return
    table = Table(title=f"A newcomer's path, seconds · {result['machine']}")
    table.add_column("done")
    table.add_column("seconds", justify="right")
    for name, spent in result["seconds"].items():
        table.add_row(name, f"{spent:.1f}")
    Console().print(table)


if __name__ == "__main__":
    main()
