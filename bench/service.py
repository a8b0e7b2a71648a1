"""A private service for one run: its own embedded database and broker, its own workers, gone afterwards."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from jiyi import Client
from jiyi.errors import JiyiError
from jiyi.inspection import AgentsQuery
from jiyi.settings import get_settings

CHECKOUT = Path(__file__).parent.parent
START_SECONDS = 60
STOP_SECONDS = 15


@contextmanager
def running(*processes: str, **settings: str) -> Iterator[Client]:
    """A client of a service that runs the named processes of ``workers.procfile`` (all workers unless given).

    ``settings`` are ``JIYI_…`` values, by lower-case name. This process's environment is changed meanwhile.
    """
    from workers.procfile import commands
    from workers.stack import Stack

    names = processes or ("intake", "retrieval", "embedding", "upkeep", "beat")
    before = dict(os.environ)
    with tempfile.TemporaryDirectory(prefix="jiyi-bench-") as home, Stack(Path(home)) as stack:
        urls = stack.urls
        os.environ.update({f"JIYI_{name.upper()}": value for name, value in settings.items()})
        os.environ.update(
            JIYI_HOME=home, JIYI_DATABASE_URL=urls.database_url, JIYI_REDIS_URL=urls.redis_url, JIYI_BROKER_URL=urls.broker_url
        )
        get_settings.cache_clear()
        subprocess.run([sys.executable, "-m", "alembic", "upgrade", "head"], cwd=CHECKOUT, check=True, capture_output=True)
        logs = Path(home) / "log"
        started = [_start(commands()[name], logs / f"{name}.log") for name in names]
        try:
            with Client("bench") as client:
                if "retrieval" in names:
                    _await_answers(client)
                yield client
        finally:
            for process in started:
                process.terminate()
            for process in started:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(STOP_SECONDS)
                process.kill()
            os.environ.clear()
            os.environ.update(before)
            get_settings.cache_clear()


def _start(command: list[str], log: Path) -> subprocess.Popen[bytes]:
    with log.open("ab") as output:
        return subprocess.Popen(command, cwd=CHECKOUT, stdout=output, stderr=subprocess.STDOUT)


def _await_answers(client: Client) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            client.ask("agents", AgentsQuery(group_id=client.group), timeout=1)
            return
        except JiyiError:
            if time.monotonic() > deadline:
                raise


def machine() -> str:
    """What a figure was measured on, in one line."""
    memory = psutil.virtual_memory().total / 2**30
    cpu = _cpu_model()
    return f"{os.cpu_count()} × {cpu}, {memory:.0f} GiB, {platform.system()}, Python {platform.python_version()}"


def _cpu_model() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()
