"""The service on one host, clients and a second set of workers on another; the link between them is cut, and
healed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from sqlalchemy import text

from jiyi.polling import poll
from models.db.connection import unit_of_work
from models.db.scope import whole_service
from tests.shared import without_fsync
from tests.smoke.conftest import PROMPTS, SETTINGS
from tests.smoke.hosts import POSTGRES_PORT, SERVICE, VALKEY_PORT, Hosts, NoNamespacesError, two_hosts
from tests.smoke.producer import event_id
from workers import ephemeral
from workers.embedded.stack import Stack
from workers.migrate import CHECKOUT
from workers.procfile import commands

pytestmark = [pytest.mark.smoke, pytest.mark.timeout(600)]

START_SECONDS, PATIENCE_SECONDS = 180, 180
#: The link is away for so long: more than a socket's time-out of 5 s, and than the lease of work.
CUT_SECONDS = 8
#: Workers that have something to do, on each host.
WORKERS = ("retrieval", "embedding", "upkeep")


class Host:
    """Processes of one host."""

    def __init__(self, hosts: Hosts, name: str, logs: Path, settings: dict[str, str]) -> None:
        self._hosts, self._name, self._logs = hosts, name, logs
        self._environment = dict(os.environ) | {
            f"JIYI_{key.upper()}": value for key, value in settings.items()
        }
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        logs.mkdir(parents=True)

    def begin(self, name: str, command: list[str]) -> None:
        with self._log(name).open("wb") as output:
            self.running[name] = subprocess.Popen(
                self._hosts.within(self._name, command),
                cwd=CHECKOUT,
                env=self._environment,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def ready(self, name: str, prompt: str) -> None:
        log = self._log(name)
        poll(
            lambda: prompt in log.read_text(errors="replace"),
            bool,
            START_SECONDS,
            lambda _: f"{name}: {log.read_text()}",
        )

    def _log(self, name: str) -> Path:
        return self._logs / f"{name}.log"

    def run(self, *arguments: str) -> subprocess.Popen[str]:
        command = self._hosts.within(self._name, [sys.executable, "-m", *arguments])
        return subprocess.Popen(
            command, cwd=CHECKOUT, env=self._environment, stdout=subprocess.PIPE, text=True
        )

    def stop(self, *names: str) -> None:
        for name in names or tuple(self.running):
            process = self.running.pop(name)
            process.terminate()
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    try:
        with two_hosts() as made:
            yield made
    except NoNamespacesError as error:
        pytest.skip(str(error))


@pytest.fixture
def both(hosts: Hosts, tmp_path: Path) -> Iterator[tuple[Host, Host]]:
    """Host and other host, with all their processes."""
    with without_fsync(), ephemeral.database(tmp_path / "stack", **SETTINGS) as stack:
        service = Host(hosts, hosts.service, tmp_path / "service", {})
        other = Host(hosts, hosts.other, tmp_path / "other", _addresses())
        try:
            service.begin("forward", [sys.executable, "-m", "tests.smoke.hosts", *_sockets(stack)])
            service.ready("forward", "forwarding")
            for name in ("intake", *WORKERS, "beat"):
                service.begin(name, commands()[name])
            for name in WORKERS:
                other.begin(name, [argument.replace("@%h", "-elsewhere@%h") for argument in commands()[name]])
            for host in (service, other):
                for name in host.running.keys() & PROMPTS:
                    host.ready(name, PROMPTS[name])
            yield service, other
        finally:
            hosts.heal()
            other.stop()
            service.stop()


def _sockets(stack: Stack) -> list[str]:
    postgres = parse_qs(urlsplit(stack.urls.database_url).query)
    return [
        f"{unquote(postgres['host'][0])}/.s.PGSQL.{postgres['port'][0]}",
        unquote(urlsplit(stack.urls.redis_url).path),
    ]


def _addresses() -> dict[str, str]:
    from workers.embedded.postgres import SUPERUSER

    valkey = f"redis://{SERVICE}:{VALKEY_PORT}/0"
    database = f"postgresql+psycopg://{SUPERUSER}@{SERVICE}:{POSTGRES_PORT}/jiyi"
    return {"database_url": database, "broker_url": valkey, "redis_url": valkey}


def _undone(group: str, events: int) -> dict[str, int]:
    """What is missing of so many events, and what is owed for them."""
    with whole_service(), unit_of_work() as connection:
        stored = connection.execute(
            text("SELECT count(*) FROM memory_nodes WHERE group_id = :g"), {"g": group}
        ).scalar_one()
        owed = connection.execute(
            text("SELECT count(*) FROM pending_work WHERE group_id = :g"), {"g": group}
        ).scalar_one()
    return {"missing": events - int(stored), "owed": int(owed)}


@pytest.mark.long
def test_a_link_that_is_cut_and_healed_loses_nothing_and_leaves_nobody_deaf(
    both: tuple[Host, Host], hosts: Hosts
) -> None:
    service, other = both
    group = "two-hosts"
    teller = other.run("tests.smoke.producer", group, "tell", str(CUT_SECONDS + 12))
    time.sleep(4)
    hosts.cut()
    time.sleep(CUT_SECONDS)
    hosts.heal()
    told, _ = teller.communicate(timeout=PATIENCE_SECONDS)
    events = int(told)
    assert events > 50
    left = poll(lambda: _undone(group, events), lambda found: not any(found.values()), PATIENCE_SECONDS)
    assert left == {"missing": 0, "owed": 0}
    with whole_service(), unit_of_work() as connection:
        rows = connection.execute(
            text("SELECT node_id FROM memory_nodes WHERE group_id = :g ORDER BY node_count"), {"g": group}
        ).scalars()
        assert sorted(rows) == sorted(event_id(group, number) for number in range(events))
        counted = connection.execute(
            text("SELECT importance_ele_n FROM agents WHERE group_id = :g"), {"g": group}
        ).scalar_one()
    assert counted == events  # each once, whoever did it
    # Those on the other host alone: whoever went deaf does not answer.
    service.stop(*WORKERS)
    asker = other.run("tests.smoke.producer", group, "ask")
    found, _ = asker.communicate(timeout=2 * PATIENCE_SECONDS)
    assert asker.returncode == 0
    assert int(found) > 0
    assert all(process.poll() is None for process in other.running.values())
