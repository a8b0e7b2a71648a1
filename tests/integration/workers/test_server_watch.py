"""Embedded servers that are killed come back with their data, or the service ends with a sentence."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from pathlib import Path

import psutil
import psycopg
import pytest
import redis

from tests.integration.waiting import until
from tests.integration.workers.test_stack import _no_disk, home, kept, processes_in, put
from workers.embedded.stack import Stack
from workers.supervision import restarts
from workers.supervision.supervise import run

__all__ = ["_no_disk", "home"]
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
    with contextlib.suppress(psycopg.Error, redis.RedisError):
        return kept(stack.urls, value)
    return False


@pytest.fixture
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restarts, "BACKOFF_FIRST_SECONDS", 0.01)


@pytest.mark.usefixtures("_quick")
def test_a_killed_server_is_reaped_and_started_again_with_its_data(home: Path) -> None:
    said: list[str] = []
    given_up: list[str] = []
    with Stack(home) as stack:
        put(stack.urls, "记忆")
        written_down(stack)
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
    given_up: list[str] = []
    with Stack(home) as stack:
        put(stack.urls, "x")
        written_down(stack)
        for name in SERVERS:
            server(home, name).kill()
        pid_file = home / "postgres" / "postmaster.pid"
        lines = pid_file.read_text().splitlines()
        pid_file.write_text("\n".join([str(os.getpid()), *lines[1:]]) + "\n")
        stack.watch(lambda _: None, given_up.append)
        until(lambda: works(stack, "x"))
        assert not given_up
        # a data folder that is gone is not replaced by an empty one
        (home / "postgres").rename(home / "elsewhere")
        server(home, "postgres").kill()
        until(lambda: bool(given_up))
        assert "is gone" in given_up[0]
        assert not (home / "postgres").exists()
    assert not processes_in(home)


def written_down(stack: Stack) -> None:
    """Wait for Valkey, which writes what was put to its disk every second."""
    with redis.Redis.from_url(stack.urls.redis_url) as client:
        client.set("later", "x")
        client.execute_command("WAITAOF", 1, 0, 10_000)


@pytest.mark.usefixtures("_quick")
def test_a_server_that_cannot_live_ends_the_processes_with_one_sentence(home, capsys):
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


def replaced(folder: Path, name: str, victim: psutil.Process) -> bool:
    try:
        return server(folder, name).pid != victim.pid
    except (ValueError, psutil.Error):  # none yet, or the helpers of the old one
        return False
