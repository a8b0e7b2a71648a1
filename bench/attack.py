"""What one caller can do to the others: another group's retrievals while somebody attacks the web or the
proxy.

    python -m bench.attack [--json] [--seconds N] [--only NAME]

A service of its own with all its processes and the embedder that it has by default, and a proxy before an
upstream that answers at once. A program of one group asks over HTTP, one retrieval after the other, first
alone, then during an attack of
:mod:`bench.support.attacks`, which another group's key makes (or nobody's); so for each attack, when the work
that the one before has left is done. Meanwhile ``/healthz`` of web and proxy are asked ten times a second.

* **p50, p95**: milliseconds of the retrievals that were answered, and how often that of the quiet service
  just before the p95 is.
* **failed**: retrievals that were not answered with status 200.
* **healthz**: the longest that ``/healthz`` of either took, in seconds.
* **MiB**: the most memory that the web's process had, the proxy's, and that the largest of the others had.
* **attacker**: how many of its requests came back with each status.

Exit code 1 if any attack exceeds the bounds (``BOUNDS``).
"""

from __future__ import annotations

import argparse
import gc
import http.client
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit

import psutil
from rich.console import Console
from rich.table import Table

from bench.support.attacks import AGENT, AT_PROXY, ATTACKS, BEGUN, GROUP
from bench.support.proxies import PROXY, proxy, upstream
from bench.support.ranking import quantile
from bench.support.service import key_of, machine, running
from jiyi import Client
from workers import ephemeral
from workers.procfile import commands

#: What must hold during each attack: p95 in multiples of the quiet one, seconds of ``/healthz``, MiB of each
#: process.
BOUNDS = {"times": 5.0, "healthz": 0.2, "resident": 700.0}
ASKER, KLAUS = "asker", "klaus"
MEMORIES = 200
#: Seconds that their vectors may take on a busy machine.
EMBEDDING_SECONDS = 600.0
#: Retrievals of the quiet service before each attack, and seconds between two: a person's, not a flood.
QUIET, PAUSE = 100, 0.05
#: Seconds between two looks at ``/healthz`` and at memory, and of one attack before anything is measured.
LOOK, AHEAD = 0.1, 3.0
#: Seconds that an answer may take.
PATIENCE = 60.0


class Program:
    """A program of the group that is not to notice anything."""

    def __init__(self, port: int, key: str) -> None:
        self._port, self._headers = (
            port,
            {"Authorization": f"Bearer {key}", "Content-Type": "application/json"},
        )
        self._asked = 0

    def ask(self) -> tuple[int, float]:
        """The status of one retrieval, and its milliseconds. Every second question was not asked before."""
        self._asked += 1
        number = self._asked if self._asked % 2 else self._asked % 20
        body = json.dumps({"agent_id": KLAUS, "query": f"What did Klaus do with parcel {number}?"})
        began = time.perf_counter()
        with closing(http.client.HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE)) as connection:
            try:
                connection.request("POST", "/api/v1/retrieve", body, self._headers)
                response = connection.getresponse()
                response.read()
                status = response.status
            except (OSError, http.client.HTTPException):
                status = 0
        return status, (time.perf_counter() - began) * 1_000


class Watch(threading.Thread):
    """Asks ``/healthz`` on these ports and looks at the memory of all processes until told to end."""

    def __init__(self, *ports: int) -> None:
        super().__init__(daemon=True)
        self._ports, self._end = ports, threading.Event()
        self._processes = _processes()
        self.healthz = 0.0
        #: By name, bytes: the most that each had.
        self.resident = dict.fromkeys(self._processes, 0)

    def run(self) -> None:
        while not self._end.wait(LOOK):
            self.healthz = max([self.healthz, *map(_healthz, self._ports)])
            for name, process in self._processes.items():
                with suppress(psutil.NoSuchProcess):
                    self.resident[name] = max(self.resident[name], process.memory_info().rss)

    def finish(self) -> None:
        self._end.set()
        self.join()


def _healthz(port: int) -> float:
    """Seconds that it takes to say that all is well."""
    began = time.perf_counter()
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)) as connection:
        try:
            connection.request("GET", "/healthz")
            alive = connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            alive = False
    return time.perf_counter() - began if alive else PATIENCE


def _processes() -> dict[str, psutil.Process]:
    """Those of the service and the proxy, by name."""
    names = {tuple(command): name for name, command in commands().items()}
    lines = {tuple(one.cmdline()): one for one in psutil.Process().children(recursive=True)}
    found = {"proxy" if line[1:4] == PROXY else names.get(line): one for line, one in lines.items()}
    return {name: one for name, one in found.items() if name is not None}


@contextmanager
def attacked(name: str | None, port: int, seconds: float, key: str) -> Iterator[dict[str, int]]:
    """While the attack goes on; afterwards the statuses that it got."""
    statuses: dict[str, int] = {}
    if name is None:
        yield statuses
        return
    command = [sys.executable, "-m", "bench.support.attacks", name, str(port), str(seconds + AHEAD)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, env={**os.environ, "JIYI_KEY": key}, start_new_session=True
    ) as attack:
        try:
            assert attack.stdout is not None
            assert attack.stdout.readline().decode().strip() == BEGUN
            time.sleep(AHEAD)
            yield statuses
            out, _ = attack.communicate(timeout=seconds + 2 * PATIENCE)
        finally:
            attack.kill()  # where the run is ended, the attack is, too
    statuses.update(json.loads(out))


def measure(
    name: str | None, program: Program, web: int, proxied: int, seconds: float, key: str
) -> dict[str, Any]:
    """The figures while one attack, or none, goes on. ``web``, ``proxied``: ports of the two."""
    watch = Watch(web, proxied)
    watch.start()
    took: list[float] = []
    failed = 0
    with attacked(name, proxied if name in AT_PROXY else web, seconds, key) as statuses:
        end = time.monotonic() + seconds
        while time.monotonic() < end or (name is None and len(took) < QUIET):
            status, milliseconds = program.ask()
            took.append(milliseconds)
            failed += status != 200
            time.sleep(PAUSE)
        watch.finish()
    return {
        "retrievals": len(took),
        "failed": failed,
        "p50_ms": quantile(took, 0.5),
        "p95_ms": quantile(took, 0.95),
        "healthz_max_s": watch.healthz,
        "resident_mib": {name: most / 2**20 for name, most in watch.resident.items()},
        "attacker": statuses,
    }


def benchmark(seconds: float, only: str | None) -> dict[str, Any]:
    """All figures, by what went on."""
    with (
        running(),
        TemporaryDirectory(prefix="jiyi-bench-web-") as logs,
        ephemeral.served(Path(logs)) as (web, _),
        upstream() as above,
        proxy(f"http://127.0.0.1:{web}", above, AGENT) as address,
    ):
        proxied = urlsplit(address).port
        assert proxied is not None
        for group, agent, count in ((ASKER, KLAUS, MEMORIES), (GROUP, AGENT, MEMORIES)):
            with Client(group) as client:
                client.observe_many(
                    {"agent_id": agent, "description": f"{agent} put parcel {n} on shelf {n % 7}."}
                    for n in range(count)
                )
                client.observe(agent, f"{agent} is ready.", wait=True, timeout=EMBEDDING_SECONDS)
        gc.collect()
        gc.freeze()  # a look for garbage among all modules would count as time of the service
        program, attacker = Program(web, key_of(ASKER, "read")), key_of(GROUP, "read", "publish")
        found = {}
        for name in [only] if only else ATTACKS:
            _settle()
            quiet = measure(None, program, web, proxied, 0.0, attacker)
            found[name] = one = measure(name, program, web, proxied, seconds, attacker)
            one |= {"quiet": quiet, "times_quiet_p95": one["p95_ms"] / quiet["p95_ms"]}
            one["holds"] = (
                not one["failed"]
                and one["times_quiet_p95"] <= BOUNDS["times"]
                and one["healthz_max_s"] <= BOUNDS["healthz"]
                and max(one["resident_mib"].values()) <= BOUNDS["resident"]
            )
        return {"machine": machine(), "attacks": found, "bounds": BOUNDS}


def _settle() -> None:
    """Wait until what the attacker has told is embedded: its next event is, after all before it."""
    with Client(GROUP) as client:
        client.observe(AGENT, f"{AGENT} rests.", wait=True, timeout=EMBEDDING_SECONDS)


def _show(found: dict[str, Any]) -> None:
    table = Table(
        "",
        "retrievals",
        "failed",
        "p50 ms",
        "p95 ms",
        "quiet p95",
        "× quiet",
        "healthz s",
        "web MiB",
        "proxy MiB",
        "largest other MiB",
        "attacker",
        title=found["machine"],
    )
    for name, one in found["attacks"].items():
        statuses = ", ".join(f"{status}: {count}" for status, count in sorted(one["attacker"].items()))
        times = (
            f"{one['p50_ms']:.0f}",
            f"{one['p95_ms']:.0f}",
            f"{one['quiet']['p95_ms']:.0f}",
            f"{one['times_quiet_p95']:.1f}",
        )
        resident = dict(one["resident_mib"])
        doors = [f"{resident.pop(door):.0f}" for door in ("web", "proxy")]
        most, other = max((size, name) for name, size in resident.items())
        figures = (f"{one['healthz_max_s']:.2f}", *doors, f"{most:.0f} ({other})", statuses)
        table.add_row(name, str(one["retrievals"]), str(one["failed"]), *times, *figures)
    Console().print(table)


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Another group's retrievals while somebody attacks the web or the proxy."
    )
    parser.add_argument("--json", action="store_true", help="figures as JSON")
    parser.add_argument("--seconds", type=float, default=30.0, help="of each attack")
    parser.add_argument("--only", choices=list(ATTACKS), help="one attack")
    asked = parser.parse_args()
    found = benchmark(asked.seconds, asked.only)
    print(json.dumps(found, indent=2)) if asked.json else _show(found)
    return 0 if all(one["holds"] for one in found["attacks"].values()) else 1


if __name__ == "__main__":
    sys.exit(main())
