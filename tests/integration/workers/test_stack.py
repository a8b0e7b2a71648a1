"""The embedded stack and its supervision with real servers: starts, crashes, obstacles, leftovers."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest
import redis
from kombu.connection import Connection

from tests.integration.waiting import PATIENCE_SECONDS, until
from tests.shared import without_fsync
from workers import ephemeral
from workers.embedded import postgres
from workers.embedded.stack import HomeInUse, Stack, StackError, Urls
from workers.supervision.processes import is_alive, session_members
from workers.supervision.supervise import Supervisor, run

#: What PostgreSQL is started with, before a test's servers wait for no disk.
FSYNC = postgres.SETTINGS["fsync"]
ROOT = Path(__file__).resolve().parents[3]
ENVIRONMENT = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}


@pytest.fixture(scope="module", autouse=True)
def _no_disk() -> Iterator[None]:
    with without_fsync():
        yield


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "home"
    yield folder
    left = processes_in(folder)
    for process in left:
        process.kill()
    assert not left, f"left running: {left}"


def test_the_database_has_a_share_of_the_memory_for_its_cache() -> None:
    shares = [postgres.shared_megabytes(int(gibibytes * 2**30)) for gibibytes in (0.5, 24, 256)]
    assert shares == [128, 3_072, 4_096]


def processes_in(folder: Path) -> list[psutil.Process]:
    """Every live process that works in a folder or below it."""
    found = []
    for process in psutil.process_iter():
        try:
            if is_alive(process) and Path(process.cwd()).is_relative_to(folder):
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found


def sql(urls: Urls, statement: str) -> list[tuple[object, ...]]:
    with psycopg.connect(urls.database_url.replace("+psycopg", ""), autocommit=True) as connection:
        cursor = connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


def put(urls: Urls, value: str) -> None:
    sql(urls, "CREATE TABLE IF NOT EXISTS notes (note text)")
    sql(urls, f"INSERT INTO notes VALUES ('{value}')")
    with redis.Redis.from_url(urls.redis_url) as client:
        client.set("note", value)


def kept(urls: Urls, value: str) -> bool:
    with redis.Redis.from_url(urls.redis_url) as client:
        return sql(urls, "SELECT note FROM notes") == [(value,)] and client.get("note") == value.encode()


def broker(urls: Urls) -> Any:
    connection: Callable[[str], Any] = Connection
    return connection(urls.broker_url)


def sockets(urls: Urls) -> Path:
    """The folder of the sockets: below the home, or elsewhere when the test's folder has a long name."""
    return Path(urls.redis_url.removeprefix("unix://").partition("?")[0]).parent


def listening_ports(folder: Path) -> list[int]:
    return [c.laddr.port for p in processes_in(folder) for c in p.net_connections("inet") if c.laddr]


def test_it_starts_from_nothing_and_keeps_its_data(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(postgres.SETTINGS, "fsync", FSYNC)
    for policy in ("everysec", "always"):
        with ephemeral.environment(valkey_appendfsync=policy), Stack(home) as stack:
            urls = stack.urls
            if policy == "everysec":
                put(urls, "记忆")
                sql(urls, "CREATE EXTENSION vector")
            assert kept(urls, "记忆")
            sorted_ = "SELECT lower('ÄÖ記') COLLATE pg_c_utf8, current_setting('fsync')"
            assert sql(urls, sorted_) == [("äö記", "on")]
            # on the disk within a second, or before it is accepted
            with redis.Redis.from_url(urls.redis_url) as client:
                told = client.config_get("append*")
            assert told.items() >= {"appendonly": "yes", "appendfsync": policy}.items()
            with broker(urls) as connection, connection.SimpleQueue("q") as queue:
                queue.put({"event": 1})
                assert queue.get(timeout=60).payload == {"event": 1}
            assert listening_ports(home) == []
            assert home.stat().st_mode & 0o077 in (0, 0o011)
            assert (sockets(urls) / "postgres").stat().st_mode & 0o077 == 0
        stack.stop()  # once more, harmless
        with pytest.raises(StackError, match="not started"):
            assert stack.urls
        assert not processes_in(home)


def test_two_homes_run_side_by_side_but_one_home_only_once(home: Path, tmp_path: Path) -> None:
    with Stack(home) as first, Stack(tmp_path / "other") as second:
        assert first.urls != second.urls
        first.announce("http://127.0.0.1:5000/admin")
        with pytest.raises(HomeInUse, match="JIYI_HOME") as caught:
            Stack(home).start()
        assert caught.value.pid == os.getpid()
        assert caught.value.admin_url == "http://127.0.0.1:5000/admin"
        put(first.urls, "still there")
    assert not processes_in(tmp_path)


OWNER = """
import subprocess, sys, time
from pathlib import Path
from workers.embedded.stack import Stack
stack = Stack(Path(sys.argv[1]))
urls = stack.start()
stubborn = "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(240)"
leader = "import subprocess, sys, time; "
leader += f"subprocess.Popen([sys.executable, '-c', {stubborn!r}]); time.sleep(240)"
worker = subprocess.Popen([sys.executable, "-c", leader], start_new_session=True, stdout=subprocess.DEVNULL)
stack.track(worker.pid, "worker")
print(urls.database_url, urls.redis_url, urls.broker_url, worker.pid, flush=True)
time.sleep(240)
"""


def start_owner(home: Path) -> tuple[subprocess.Popen[str], Urls, int]:
    """A stack in a process of its own, with a worker that has a child which ignores SIGTERM."""
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(home)], env=ENVIRONMENT, stdout=subprocess.PIPE, text=True
    )
    assert owner.stdout is not None
    *urls, worker = owner.stdout.readline().split()
    owner.stdout.close()
    until(lambda: len(session_members(int(worker))) == 2)
    return owner, Urls(*urls), int(worker)


@pytest.mark.parametrize("worker_too", [False, True])
def test_after_a_kill_the_next_start_ends_the_leftovers_and_loses_nothing(home, worker_too, monkeypatch):
    monkeypatch.setattr("workers.embedded.server.APPLICATION_STOP_SECONDS", 0.5)
    owner, urls, worker = start_owner(home)
    put(urls, "kept")
    left = processes_in(home)
    owner.kill()
    owner.wait()
    if worker_too:  # its child is then an orphan that only its session betrays
        os.kill(worker, signal.SIGKILL)
    with Stack(home) as stack:
        assert kept(stack.urls, "kept")
        assert not any(map(is_alive, left))
        assert not any(map(is_alive, session_members(worker)))


def test_a_power_cut_is_recovered_from(home: Path) -> None:
    """Everything dies at once; the pid files then name an unrelated live process."""
    with Stack(home) as stack:
        put(stack.urls, "kept")
        lock = sockets(stack.urls) / "postgres" / ".s.PGSQL.5432.lock"
        for process in processes_in(home):
            with contextlib.suppress(psutil.NoSuchProcess):  # PostgreSQL's helpers end with their parent
                process.kill()
        until(lambda: not processes_in(home))
    unrelated = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        lock.parent.parent.mkdir(exist_ok=True)
        lock.parent.mkdir(exist_ok=True)
        for path in (home / "postgres" / "postmaster.pid", lock):
            path.write_text(f"{unrelated.pid}\n{home / 'postgres'}\n1\n5432\n", encoding="utf-8")
        records = [{"pid": unrelated.pid, "create_time": 1.0, "boot": "", "role": "worker"}]
        (home / "run" / "processes.json").write_text(json.dumps(records), encoding="utf-8")
        with Stack(home) as again:
            assert kept(again.urls, "kept")
        assert unrelated.poll() is None
    finally:
        unrelated.kill()
        unrelated.wait()
    (home / "postgres" / "postmaster.pid").write_bytes(b"")  # the file system lost its content
    (home / "run" / "processes.json").write_text('[{"pid"', encoding="utf-8")
    with Stack(home):
        pass


def test_a_half_made_cluster_is_made_again_and_set_aside(home: Path) -> None:
    (home / "postgres" / "base").mkdir(parents=True)
    (home / "postgres.new" / "base").mkdir(parents=True)
    (home / "postgres.new" / "PG_VERSION").write_text("18\n", encoding="utf-8")
    with Stack(home) as stack:
        assert sql(stack.urls, "SELECT 1") == [(1,)]
    assert not (home / "postgres.new").exists()
    assert len(list(home.glob("postgres.unfinished-*"))) == 1


def test_a_failed_start_shows_the_log_and_leaves_nothing(home: Path) -> None:
    with Stack(home):
        pass
    (home / "postgres" / "postgresql.conf").write_text("shared_bufers = 1\n", encoding="utf-8")
    stack = Stack(home)
    with pytest.raises(StackError, match='unrecognized configuration parameter "shared_bufers"'):
        stack.start()
    assert not processes_in(home)
    (home / "postgres" / "postgresql.conf").write_text("", encoding="utf-8")
    stack.start()  # the lock was released
    stack.stop()
    (home / "postgres" / "PG_VERSION").write_text("16\n", encoding="utf-8")
    with pytest.raises(StackError, match="was made by PostgreSQL 16"):
        stack.start()


def test_a_home_below_a_file_or_that_may_not_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    for home in (tmp_path / "file", tmp_path / "file" / "home"):
        with pytest.raises(StackError, match="JIYI_HOME"):
            Stack(home).start()
    if os.geteuid() == 0:  # root may write everywhere
        return
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(StackError, match=r"Permission denied.*JIYI_HOME"):
            Stack(tmp_path / "home").start()
    finally:
        tmp_path.chmod(0o700)


def test_a_long_or_unusual_home_has_its_sockets_elsewhere(tmp_path: Path) -> None:
    home = tmp_path / ("long " * 20) / "記憶, 'home' %20"
    with Stack(home) as stack:
        put(stack.urls, "kept")
        elsewhere = sockets(stack.urls)
        assert not elsewhere.is_relative_to(tmp_path)
        assert elsewhere.stat().st_mode & 0o066 == 0
        with broker(stack.urls) as connection:
            connection.ensure_connection(max_retries=1)
    assert not elsewhere.exists()
    elsewhere.symlink_to(tmp_path)  # somebody else's doing
    try:
        with pytest.raises(StackError, match="not a folder of yours"):
            Stack(home).start()
    finally:
        elsewhere.unlink()
    assert not processes_in(tmp_path)


def program(code: str) -> list[str]:
    return [sys.executable, "-c", code]


WAIT = "import time; print('here I am'); time.sleep(60)"
STUBBORN = "import signal, time\nsignal.signal(15, signal.SIG_IGN); print('ready')\ntime.sleep(60)"


def test_supervised_processes_end_together_and_their_output_is_kept(home, capsys):
    """A demo in the foreground: it sees the processes run, and its number ends everything."""
    with Stack(home) as stack:
        (home / "log" / "one.log").write_bytes(b"x" * (11 * 1024 * 1024))

        def demo() -> int:
            until(lambda: all(b"here" in (home / "log" / f"{n}.log").read_bytes() for n in ("one", "two")))
            assert len(json.loads((home / "run" / "processes.json").read_text())) == 2
            return 5

        commands = {"one": program(WAIT), "two": program(WAIT)}
        assert run(commands, dict(os.environ), quiet=False, on_started=demo, stack=stack) == 5
        records = json.loads((home / "run" / "processes.json").read_text())
        roles = {record["role"]: record["pid"] for record in records}
        assert not session_members(roles["one"])
        assert not session_members(roles["two"])
    assert (home / "log" / "one.log.1").stat().st_size > 10 * 1024 * 1024
    printed = capsys.readouterr().out
    assert "one    | here I am" in printed
    assert "two    | here I am" in printed


def test_a_process_that_gives_up_ends_all_and_interrupts_the_foreground(tmp_path, capsys):
    commands = {"good": program(WAIT), "bad": ["/no/such/program"]}
    environment = dict(os.environ)
    supervisor = Supervisor(commands, environment, quiet=True, log_dir=tmp_path)
    began = time.monotonic()
    supervisor.start()
    assert supervisor.foreground(lambda: time.sleep(60)) is None
    assert supervisor.wait() == 127
    assert time.monotonic() - began < PATIENCE_SECONDS
    assert "giving up" in (tmp_path / "bad.log").read_text()
    (line,) = capsys.readouterr().out.splitlines()  # printed even when the processes' output is not
    assert "bad has given up (exit code 127)" in line
    assert str(tmp_path / "bad.log") in line
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_all_and_a_second_one_kills(tmp_path: Path, number: int, code: int) -> None:
    usual = signal.getsignal(number)

    def press(supervisor: Supervisor, times: int) -> None:
        until(lambda: signal.getsignal(number) != usual)  # before, it would end the tests
        for _ in range(times):
            os.kill(os.getpid(), number)
            until(lambda: supervisor.ending)  # two signals that nobody has taken yet are one

    for command, times in ((WAIT, 1), (STUBBORN, 2)):
        log = tmp_path / str(times)
        log.mkdir()
        supervisor = Supervisor({"p": program(command)}, dict(os.environ), quiet=True, log_dir=log)
        supervisor.start()
        until(lambda log=log: (log / "p.log").stat().st_size > 0)  # type: ignore[misc]
        pressing = threading.Thread(target=press, args=(supervisor, times))
        pressing.start()
        assert supervisor.wait() == code
        assert "has not ended within" not in (log / "p.log").read_text()  # nobody has waited for it
        pressing.join()
