"""Embedded servers that are killed come back by themselves, with their data; one that cannot live ends the service in one sentence."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import psycopg
import pytest
import redis

from tests.integration.workers.test_stack import home, kept, processes_in, put, until
from tests.integration.workers.test_up import READY_SECONDS, Up, answers, mentioning, place, start
from workers.embedded.stack import Stack
from workers.supervision import respawn
from workers.supervision.supervise import Supervisor, run

__all__ = ["home", "place", "start"]
pytestmark = pytest.mark.timeout(600)
SERVERS = ("postgres", "valkey-server")
#: At most, until a server is given up.
SPOILT_SECONDS = 240


def server(folder: Path, name: str) -> psutil.Process:
    """The main process of a server that works in the folder: the parent of the others."""
    found = {}
    for process in processes_in(folder):
        with contextlib.suppress(psutil.NoSuchProcess):
            if process.name() == name:
                found[process.pid] = (process, process.ppid())
    (main,) = [process for process, parent in found.values() if parent not in found]
    return main


def works(stack: Stack, value: str) -> bool:
    try:
        return kept(stack.urls, value)
    except (psycopg.Error, redis.RedisError):
        return False


@pytest.fixture
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(respawn, "BACKOFF_FIRST_SECONDS", 0.01)


@pytest.mark.usefixtures("_quick")
def test_a_killed_server_is_reaped_and_started_again_with_its_data(home: Path) -> None:
    said: list[str] = []
    given_up: list[str] = []
    with Stack(home) as stack:
        put(stack.urls, "记忆")
        time.sleep(1.1)  # Valkey writes to its disk every second
        stack.watch(said.append, given_up.append)
        for place, name in enumerate(SERVERS, start=1):
            victim = server(home, name)
            victim.kill()
            until(lambda name=name, victim=victim: replaced(home, name, victim) and works(stack, "记忆"))  # type: ignore[misc]
            until(lambda place=place: len(said) == 2 * place)  # type: ignore[misc]  # each server has a thread that says it
        for server_said, name in zip((said[:2], said[2:]), ("postgres", "valkey"), strict=True):
            assert "killed by signal 9" in server_said[0]
            assert server_said[1] == f"the embedded {name} is back"
    assert not given_up
    assert not processes_in(home)


@pytest.mark.usefixtures("_quick")
def test_both_killed_at_once_with_a_pid_file_that_names_a_living_process(home: Path) -> None:
    """PostgreSQL itself would take the process for a running server and refuse to start."""
    with Stack(home) as stack:
        put(stack.urls, "x")
        time.sleep(1.1)
        for name in SERVERS:
            server(home, name).kill()
        pid_file = home / "postgres" / "postmaster.pid"
        lines = pid_file.read_text().splitlines()
        pid_file.write_text("\n".join([str(os.getpid()), *lines[1:]]) + "\n")
        stack.watch(lambda _: None, lambda _: None)
        until(lambda: works(stack, "x"))
    assert not processes_in(home)


@pytest.mark.usefixtures("_quick")
def test_a_server_that_cannot_live_ends_the_processes_with_one_sentence(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Stack(home) as stack:

        def spoil() -> int | None:
            (home / "postgres" / "postgresql.conf").write_text("shared_bufers = 1\n", encoding="utf-8")
            server(home, "postgres").kill()
            return time.sleep(SPOILT_SECONDS)

        commands = {"p": [sys.executable, "-c", f"import time; time.sleep({SPOILT_SECONDS})"]}
        assert run(commands, dict(os.environ), quiet=True, on_started=spoil, stack=stack) == 1
    lines = capsys.readouterr().out.splitlines()
    (sentence,) = [line for line in lines if "cannot live" in line]
    assert "postgres" in sentence
    assert str(home / "log" / "postgres.log") in sentence
    assert "ending all processes" in sentence
    assert not processes_in(home)


@pytest.mark.usefixtures("_quick")
def test_a_data_folder_that_is_gone_is_not_replaced_by_an_empty_one(home: Path) -> None:
    given_up: list[str] = []
    with Stack(home) as stack:
        stack.watch(lambda _: None, given_up.append)
        (home / "postgres").rename(home / "elsewhere")
        server(home, "postgres").kill()
        until(lambda: bool(given_up))
        assert "is gone" in given_up[0]
        assert not (home / "postgres").exists()


def test_giving_up_is_printed_even_when_the_processes_output_is_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    supervisor = Supervisor({"bad": ["/no/such/program"]}, dict(os.environ), quiet=True, log_dir=tmp_path)
    supervisor.start()
    assert supervisor.wait() == 127
    (line,) = capsys.readouterr().out.splitlines()
    assert "bad has given up (exit code 127)" in line
    assert str(tmp_path / "bad.log") in line


def test_the_whole_service_survives_the_death_of_its_servers(start: Callable[..., Up], place: Path) -> None:
    up = start(JIYI_HOME=place / "h")
    up.ready()
    for name in SERVERS:
        victim = server(place, name)
        os.kill(victim.pid, signal.SIGKILL)
        until_long(lambda victim=victim, name=name: up.process.poll() is None and replaced(place, name, victim) and ready(up))  # type: ignore[misc]
    assert up.output.count("starting it again") == len(SERVERS)
    assert up.interrupt() == 130
    assert not mentioning(place)


def replaced(folder: Path, name: str, victim: psutil.Process) -> bool:
    try:
        return server(folder, name).pid != victim.pid
    except (ValueError, psutil.Error):  # none yet, or the helpers of the old one
        return False


def ready(up: Up) -> bool:
    return answers(up.admin, "readyz")


def until_long(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.1)
