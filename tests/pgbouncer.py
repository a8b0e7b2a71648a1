"""Debian's PgBouncer with pooled transactions in front of a PostgreSQL: ``PGBOUNCER=1 python -m pytest
tests/integration``.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy import make_url

from workers.ephemeral import free_port

PROGRAM = shutil.which("pgbouncer") or "/usr/sbin/pgbouncer"
START_SECONDS, STOP_SECONDS, POLL_SECONDS = 20, 10, 0.05
#: Sessions of PostgreSQL for all clients together: fewer than the tests have connections, so that they are
#: really shared.
POOL = 12
#: Longer than a busy machine keeps all of them.
PATIENCE_SECONDS = 120
#: For tests of what no connection has that goes through a PgBouncer that pools transactions.
own_sessions = pytest.mark.skipif(
    "PGBOUNCER" in os.environ,
    reason="is about sessions of a connection's own; PgBouncer gives each transaction any session",
)
CONFIGURATION = """
[databases]
{name} = host={host} port={port} dbname={name} user={user}

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {listen}
unix_socket_dir =
auth_type = any
pool_mode = {mode}
default_pool_size = {pool}
max_client_conn = 1000
query_wait_timeout = {patience}
ignore_startup_parameters = extra_float_digits
logfile = {log}
"""


def why_absent() -> str:
    """Why it cannot be started; empty if it can."""
    return (
        "" if Path(PROGRAM).exists() else "needs PgBouncer: apt-get install --no-install-recommends pgbouncer"
    )


@contextmanager
def in_front_of(
    database_url: str, pool: int = POOL, patience: int = PATIENCE_SECONDS, mode: str = "transaction"
) -> Iterator[str]:
    """The address of a PgBouncer in front of a database, until the end of the block.

    ``pool`` sessions for all; who finds none free is told so after ``patience`` seconds.

    Raises:
        RuntimeError: it does not start; with its log.
    """
    behind = conninfo_to_dict(
        make_url(database_url).set(drivername="postgresql").render_as_string(hide_password=False)
    )
    listen = free_port()
    with tempfile.TemporaryDirectory(prefix="jiyi-pgbouncer-") as name:
        folder = Path(name)
        folder.chmod(0o777)  # it may run as another user than we do
        log = folder / "log"
        known = {
            key: str(behind.get(key) or default)
            for key, default in (("host", ""), ("port", "5432"), ("user", "jiyi"))
        }
        (folder / "ini").write_text(
            CONFIGURATION.format(
                name=behind["dbname"],
                **known,
                listen=listen,
                pool=pool,
                patience=patience,
                mode=mode,
                log=log,
            )
        )
        process = subprocess.Popen(
            [PROGRAM, folder / "ini"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.STDOUT,
            **_user(known["host"]),
        )
        try:
            address = f"postgresql://{known['user']}@127.0.0.1:{listen}/{behind['dbname']}"
            _await(address, process, log)
            yield address
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(STOP_SECONDS)


def _user(sockets: str) -> dict[str, Any]:
    """It refuses to run as root: then as the embedded server's user, whose sockets these are."""
    if os.geteuid() != 0:
        return {}
    owner = Path(sockets).stat()
    return {"user": owner.st_uid, "group": owner.st_gid, "extra_groups": []}


def _await(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            psycopg.connect(address, prepare_threshold=None).close()
        except psycopg.Error as error:
            if process.poll() is not None or time.monotonic() > deadline:
                told = log.read_text(errors="replace") if log.exists() else ""
                raise RuntimeError(f"PgBouncer does not answer: {error}\n{told}") from error
            time.sleep(POLL_SECONDS)
        else:
            return
