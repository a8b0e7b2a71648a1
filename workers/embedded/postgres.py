"""The embedded PostgreSQL with pgvector on a unix socket; its data folder is made whole, and checked."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import signal
import stat
import subprocess
import time
from pathlib import Path
from pwd import struct_passwd
from urllib.parse import quote

import psutil
import psycopg
from psycopg.conninfo import make_conninfo

from workers.embedded.folders import StackError, private_folder
from workers.embedded.server import CLIENT_SECONDS, POSTGRES_VERSION, Server, pgserver, postgres_program

log = logging.getLogger(__name__)
DATABASE = "jiyi"
PORT = 5432  # no port is opened: the number is only part of the socket's file name.
LONGEST_SOCKET = f".s.PGSQL.{PORT}.lock"  # the longest file name among its sockets and what belongs to them.
#: Of the machine's memory PostgreSQL's own cache may take this share, in megabytes from a laptop's to all of
#: a large agent's indexes. It is taken page by page, as data are read.
CACHE_SHARE, CACHE_MEGABYTES = 8, (128, 4_096)


def shared_megabytes(memory: int) -> int:
    """Megabytes of PostgreSQL's cache, on a machine with so many bytes of memory."""
    least, most = CACHE_MEGABYTES
    return min(max(memory // CACHE_SHARE // 2**20, least), most)


SETTINGS = {
    "listen_addresses": "",  # unix socket only: copies never collide and no other user can connect.
    "port": str(PORT),  # stated, so that a port in postgresql.conf changes nothing.
    "cluster_name": "jiyi",  # recognisable in ps.
    "max_connections": "100",  # all processes with their pools stay well below it.
    # a large agent is asked twice as fast from its own cache.
    "shared_buffers": f"{shared_megabytes(psutil.virtual_memory().total)}MB",
    "maintenance_work_mem": "256MB",  # an HNSW build slows down sharply once its graph spills.
    "fsync": "on",  # an accepted event survives a power cut.
    "synchronous_commit": "on",  # the same.
    "checkpoint_timeout": "15min",  # fewer full-page writes; recovery stays within seconds.
    "max_wal_size": "2GB",  # time, not size, sets off checkpoints under a heavy import.
    "jit": "off",  # compiling costs more than our short queries take.
    "timezone": "UTC",  # storage is UTC everywhere.
    "log_timezone": "UTC",
    # The log is shown to people when a start fails, and holds nobody's words: errors of statements quote
    # values.
    # starts, stops, crashes, what is fatal; no errors of statements (these rank below).
    "log_min_messages": "log",
    "log_min_error_statement": "panic",  # no text of a statement that failed.
    "log_error_verbosity": "terse",  # no DETAIL, which quotes rows, and no CONTEXT.
    "log_parameter_max_length": "0",  # no values of parameters, whatever else is switched on.
    "log_parameter_max_length_on_error": "0",  # the same.
    "log_statement": "none",  # an administrator may switch it on, and knows what that means.
    "log_min_duration_statement": "-1",  # the same.
}
SYSTEM_USER = "pgserver"
SUPERUSER = "postgres"  # the database role that owns everything.
INITDB_SECONDS = 120.0  # takes a second on a solid-state disk; slow network disks need more.
INITDB_OPTIONS = [
    f"--username={SUPERUSER}",
    "--auth-local=trust",
    "--auth-host=reject",
    "--encoding=UTF8",
    "--locale=C",
    "--locale-provider=builtin",
    "--builtin-locale=C.UTF-8",
    "--no-instructions",
]


class Postgres(Server):
    """PostgreSQL on a unix socket in the folder ``sockets``."""

    name = "postgres"
    start_seconds = 120.0  # recovery after a crash may replay up to max_wal_size.
    stop_signal = signal.SIGINT  # fast shutdown.

    def __init__(self, data: Path, log_dir: Path, sockets: Path) -> None:
        super().__init__(data, log_dir)
        self._sockets = sockets

    @property
    def url(self) -> str:
        folder = quote(str(self._sockets), safe="")
        return f"postgresql+psycopg://{SUPERUSER}@/{DATABASE}?host={folder}&port={PORT}"

    def start(self) -> None:
        # Clients of the socket are trusted without a password: the folder is the server's user's alone.
        private_folder(self._sockets, check_owner=False)
        for stale in self._sockets.glob(".s.PGSQL.*"):
            stale.unlink()  # its lock file may name a process id that is somebody else's by now
        user = server_user(self.data, self._sockets)
        make_cluster(self, user)
        command = [str(postgres_program("postgres")), "-D", str(self.data)]
        for name, value in (SETTINGS | {"unix_socket_directories": str(self._sockets)}).items():
            command += ["-c", f"{name}={value}"]
        self.run(command, self.data, user)

    def restart(self) -> None:
        if not (self.data / "PG_VERSION").is_file():  # start() would make a new, empty database in its place
            raise StackError(f"The embedded {self.name} cannot run: its data folder {self.data} is gone")
        super().restart()

    def answers(self) -> bool:
        with contextlib.suppress(FileNotFoundError):
            # The status line is cheaper than connecting, and fills no log with refusals during recovery.
            lines = (self.data / "postmaster.pid").read_text(encoding="utf-8").splitlines()
            assert self.child is not None
            return lines[:1] == [str(self.child.pid)] and lines[-1].strip() == "ready"
        return False

    def create_database(self) -> None:
        """Create the service's database, unless it exists. Raises :class:`StackError`."""
        try:
            address = make_conninfo(host=str(self._sockets), port=PORT, user=SUPERUSER, dbname="postgres")
            with psycopg.connect(address, autocommit=True, connect_timeout=CLIENT_SECONDS) as connection:
                existing = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (DATABASE,))
                if existing.fetchone() is None:
                    connection.execute(f"CREATE DATABASE {DATABASE}")
        except psycopg.Error as error:
            raise self.failure(f"database {DATABASE!r} cannot be opened ({error})") from error


def server_user(data: Path, sockets: Path) -> struct_passwd | None:
    """Under root: make PostgreSQL's user, and let it reach programs, data and sockets; else None.

    Raises :class:`StackError`: the data belongs to somebody else, or the user cannot be made or let in.
    """
    if os.geteuid() != 0:
        _check_owner(data, os.geteuid())
        return None
    user = _make_user()
    install = postgres_program("postgres").parent.parent
    for folder in (install.parent.resolve(), data.parent, sockets.parent):
        for each in (folder, *folder.parents):
            _allow(each, stat.S_IXOTH)
    for path in (install, *install.rglob("*")):
        _allow(path, stat.S_IROTH | (stat.S_IXOTH if path.stat().st_mode & stat.S_IXUSR else 0))
    os.chown(sockets, user.pw_uid, user.pw_gid)
    if data.exists() and data.stat().st_uid == 0:
        os.chown(data, user.pw_uid, user.pw_gid)
    _check_owner(data, user.pw_uid)
    return user


def _make_user() -> struct_passwd:
    try:
        user: struct_passwd | None = pgserver().ensure_user_exists(SYSTEM_USER)
    except (subprocess.CalledProcessError, OSError) as error:
        user = None
        log.debug("useradd failed: %s", error)
    if user is None:
        raise StackError(
            f"PostgreSQL refuses to run as root and the system user {SYSTEM_USER!r} cannot be created: "
            f"create it (useradd --system {SYSTEM_USER}), or run Jiyi as an ordinary user."
        )
    return user


def _check_owner(path: Path, user: int) -> None:
    if path.exists() and path.stat().st_uid != user:
        raise StackError(
            f"{path} belongs to user id {path.stat().st_uid}, but PostgreSQL would run as user id {user}: "
            f"start Jiyi as the user who made it, give it away (chown -R {user} {path}), "
            "or set JIYI_HOME to another folder."
        )


def _allow(path: Path, bits: int) -> None:
    """Add the permission bits that a path lacks, and no more."""
    mode = path.stat().st_mode
    if mode & bits == bits:
        return
    try:
        path.chmod(stat.S_IMODE(mode) | bits)
    except OSError as error:
        raise StackError(
            f"{path} is closed to the system user {SYSTEM_USER!r}, as whom PostgreSQL runs under "
            f"root, and cannot be opened ({error.strerror}): chmod o+x {path}, set JIYI_HOME to "
            "a folder outside it, or run Jiyi as an ordinary user."
        ) from error


def unfinished_folder(data: Path) -> Path:
    """Where a cluster is made before it is moved to ``data``."""
    return data.with_name(f"{data.name}.new")


def make_cluster(server: Server, user: struct_passwd | None) -> None:
    """Create the server's cluster beside its place, and move it there whole, unless there is one.

    ``user``: as whom it runs. Raises :class:`StackError`: another version's, or it cannot be made.
    """
    data = server.data
    if (data / "PG_VERSION").is_file():
        _check_version(data)
        _remove_stale_pid_file(data)
        return
    if data.exists():  # not a cluster; never delete what may be somebody's data
        aside = data.with_name(f"{data.name}.unfinished-{time.time_ns()}")
        data.rename(aside)
        log.warning("%s holds no finished database: moved to %s", data, aside)
    new = unfinished_folder(data)
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(mode=0o700)
    if user:
        os.chown(new, user.pw_uid, user.pw_gid)
    child = server.run([str(postgres_program("initdb")), f"--pgdata={new}", *INITDB_OPTIONS], new, user)
    try:
        failed = child.wait(INITDB_SECONDS) != 0
    except subprocess.TimeoutExpired:
        failed = True
    if failed:
        raise server.failure("its data folder could not be created")
    new.rename(data)


def _check_version(data: Path) -> None:
    version = (data / "PG_VERSION").read_text(encoding="ascii", errors="replace").strip()
    if version != str(POSTGRES_VERSION):
        raise StackError(
            f"{data} was made by PostgreSQL {version or '(unknown)'}, and this is PostgreSQL"
            f" {POSTGRES_VERSION}: dump it with the old version, or set JIYI_HOME to a new folder."
        )


def _remove_stale_pid_file(data: Path) -> None:
    """Remove a ``postmaster.pid`` that PostgreSQL itself would mistake for a running server's."""
    path = data / "postmaster.pid"
    with contextlib.suppress(FileNotFoundError):
        first = path.read_bytes().split(b"\n")[0].strip()
        # A dead process's file stays: from it PostgreSQL learns which shared memory to look after.
        if not first.isdigit() or psutil.pid_exists(int(first)):
            path.unlink()  # no PostgreSQL works in our folder: workers.embedded.server has seen to it
