"""The connection to PostgreSQL: one engine a process, and the unit of work.

Connections run as the role ``jiyi_service``, which row-level security lets see the rows of the current scope
alone (``models.db.scope``). The scope is set in PostgreSQL at the start of every transaction.

Behind a PgBouncer that pools transactions (``JIYI_DATABASE_DIRECT_URL`` is set) nothing may belong to the
session, which is somebody else's after the transaction: role, scope and time-outs are set at the beginning
of each. What needs a session of its own has :func:`session_engine`.
"""

from __future__ import annotations

import logging
import select
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from threading import BoundedSemaphore
from typing import Any, TypeVar, cast
from uuid import uuid4

import psycopg
from pgvector.psycopg import register_vector
from psycopg.types.json import set_json_loads
from pydantic_core import from_json
from sqlalchemy import Connection, Engine, create_engine, event, make_url, text
from sqlalchemy.exc import InvalidatePoolError
from sqlalchemy.pool import ConnectionPoolEntry

from jiyi import tracing
from jiyi.errors import SettingsError
from jiyi.once import once
from jiyi.settings import get_settings
from models.db import spans
from models.db.scope import ROLE, Scope, confine, current, is_secured

T = TypeVar("T")
log = logging.getLogger(__name__)

#: A process runs at most this many threads that touch the database at once (see ``*_threads``).
POOL_SIZE = 8
POOL_OVERFLOW = 8
#: Connections of a process that read beside another one, for the same question: of more no processor is left.
MOST_BESIDE = 2
_BESIDE = BoundedSemaphore(MOST_BESIDE)
#: Seconds to wait for a free connection before the pool raises its time-out: longer than short questions of
#: the web take (``models.db.bounded_reads``), which has more threads than connections.
POOL_TIMEOUT = 5
CONNECT_TIMEOUT = 5
#: Seconds after which a connection that nobody used is tried before it is used again, which takes a trip to
#: the server. Before that its socket shows it: a server that ends a session, or dies, closes it. Only a lost
#: host or network does not.
TRIED_AFTER = 10.0
#: A server that has gone without a word (its host died, the network is cut) is noticed within half a minute,
#: even while its answer is awaited. Seconds and, the last, milliseconds; libpq ignores them for Unix sockets.
KEEPALIVES = {
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 25_000,
}
#: Tries to detect shared sessions: with other clients at work one may miss the session with the setting.
SHARED_TRIES = 20
#: No statement of ours takes minutes; one that does is stuck and must let its locks go.
STATEMENT_TIMEOUT_MS = 60_000
LOCK_TIMEOUT_MS = 10_000
IDLE_IN_TRANSACTION_MS = 60_000
#: What is noted with each connection: that its role is the service's; the scope that its session has;
#: when it was last used; what follows its latest unit of work.
_CONFINED, _SCOPE_SET, _USED_AT, _FOLLOWING = "jiyi_confined", "jiyi_scope", "jiyi_used_at", "jiyi_following"
#: What was noted further ahead than this was noted while the clock was wrong. Programs' clocks may differ by
#: less.
CLOCK_AHEAD = timedelta(minutes=2)


@once
def engine() -> Engine:
    """This process's engine. Created on first use, so always after a fork."""
    return _pooled_engine() if is_pooled() else _transactions(get_settings().need("database_url"))


@once
def session_engine() -> Engine:
    """For what needs its own session: locks outside transactions, concurrent indexes, migrations."""
    return _transactions(get_settings().database_direct_url) if is_pooled() else engine()


@once
def reading_engine() -> Engine:
    """:func:`engine` without transactions: to switch a connection back and forth takes time."""
    # Nor is there anything to roll back when a connection comes back to the pool.
    connections = _engine(
        get_settings().need("database_url"), _READING, isolation_level="AUTOCOMMIT", pool_reset_on_return=None
    )
    event.listen(connections, "checkout", _confine)
    event.listen(connections, "engine_connect", _apply_session_scope)
    return connections


def is_pooled() -> bool:
    """Whether sessions of PostgreSQL are shared by a PgBouncer that pools transactions."""
    return bool(get_settings().database_direct_url)


def check_sessions() -> None:
    """Check at start that :func:`session_engine`'s sessions are nobody else's.

    PgBouncer reports no server's process id; it pools transactions if another session sees a setting of one.

    Raises:
        SettingsError: they are shared; says which address to give.
        psycopg.Error: the database is away, or refuses.
    """
    settings = get_settings()
    name = "database_direct_url" if is_pooled() else "database_url"
    address = settings.database_direct_url or settings.need("database_url")
    server = make_url(address).set(drivername="postgresql").render_as_string(hide_password=False)
    # Nothing is prepared: a session that pools transactions would not know it.
    connect = partial(
        psycopg.connect, server, autocommit=True, prepare_threshold=None, connect_timeout=CONNECT_TIMEOUT
    )
    with connect() as one:
        (process,) = one.execute("SELECT pg_backend_pid()").fetchone() or (0,)
        if process == one.info.backend_pid:
            return
        token = uuid4().hex
        with connect() as other:
            for _ in range(SHARED_TRIES):
                one.execute("SELECT set_config('jiyi.session', %s, false)", [token])
                (setting,) = other.execute("SELECT current_setting('jiyi.session', true)").fetchone() or (
                    None,
                )
                if setting == token:
                    other.execute("SELECT set_config('jiyi.session', '', false)")
                    raise SettingsError(
                        f"JIYI_{name.upper()}: what answers there is a PgBouncer that pools transactions, and"
                        " its sessions are shared: one tenant's scope would serve another. Set"
                        " JIYI_DATABASE_DIRECT_URL to PostgreSQL's own address, or pool_mode = session"
                        " (docs/deployment.md#pgbouncer)"
                    )


def _transactions(address: str) -> Engine:
    connections = _engine(address, _SESSION)
    event.listen(connections, "checkout", _confine)
    event.listen(connections, "begin", apply_scope)
    return connections


def _pooled_engine() -> Engine:
    # Statements that are prepared in one session are unknown in the next.
    connections = _engine(get_settings().need("database_url"), {"prepare_threshold": None})
    event.listen(connections, "begin", _apply_all_settings)
    return connections


def _engine(address: str, session: dict[str, Any], **options: Any) -> Engine:
    connections = create_engine(
        address,
        pool_size=POOL_SIZE,
        max_overflow=POOL_OVERFLOW,
        pool_timeout=POOL_TIMEOUT,
        # the one used last: its session has the statements prepared, and its server process is in the caches
        pool_use_lifo=True,
        hide_parameters=True,  # values of users have no place in tracebacks, which end up in logs
        connect_args={"connect_timeout": CONNECT_TIMEOUT, **KEEPALIVES, **session},
        **options,
    )
    if tracing.is_loaded():
        spans.watch(connections)
    event.listen(connections, "connect", _prepare)
    event.listen(connections, "checkin", _note_use)
    event.listen(connections, "checkout", _check_alive)
    return connections


def _prepare(connection: psycopg.Connection, record: ConnectionPoolEntry) -> None:
    _note_use(connection, record)
    if psycopg.types.TypeInfo.fetch(connection, "vector") is not None:  # absent before the first migration
        register_vector(connection)
    set_json_loads(_json, connection)
    connection.rollback()


def _json(text: str | bytes) -> Any:
    """Faster than json.loads: all JSON that we store is shallow. Caches names of fields only."""
    return from_json(text, cache_strings="keys")


def _note_use(_connection: psycopg.Connection | None, record: ConnectionPoolEntry) -> None:
    record.info[_USED_AT] = time.monotonic()


def _check_alive(connection: psycopg.Connection, record: ConnectionPoolEntry, _proxy: object) -> None:
    """Have the pool replace a connection whose server is gone, and all that are as old."""
    if time.monotonic() - record.info[_USED_AT] < TRIED_AFTER and not _has_unread_data(connection):
        return
    try:
        connection.execute("SELECT 1")
        if not connection.autocommit:
            connection.rollback()
    except psycopg.Error as error:
        raise InvalidatePoolError(str(error)) from error


def _has_unread_data(connection: psycopg.Connection) -> bool:
    """Whether the server has sent data on its own: in nearly all cases, that it ends the session."""
    if connection.closed:
        return True
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))


def _confine(connection: psycopg.Connection, record: ConnectionPoolEntry, _proxy: object) -> None:
    """Once a connection; again for one from before the migration that made row-level security."""
    if not record.info.get(_CONFINED):
        record.info[_CONFINED] = confine(connection)


def apply_scope(connection: Connection) -> None:
    """Set the current scope in PostgreSQL for the rest of the transaction."""
    scope = current()
    connection.exec_driver_sql(_SET_SCOPE, {**_settings_of(scope), "local": True})


def _apply_all_settings(connection: Connection) -> None:
    """Set role, limits and scope for this transaction alone: the session was another's a moment ago."""
    settings = dict(_LIMITS)
    if connection.info.get(_CONFINED) is None:
        connection.info[_CONFINED] = is_secured(driver(connection)) or None  # checked again until it is
    if connection.info[_CONFINED]:
        settings["role"] = ROLE
    connection.exec_driver_sql(_SET_SETTINGS, {"names": list(settings), "values": list(settings.values())})
    apply_scope(connection)


def _apply_session_scope(connection: Connection) -> None:
    """Outside of transactions a scope holds until another is set: the same one again costs no round trip."""
    scope = current()
    if connection.info.get(_SCOPE_SET) == scope:
        return
    connection.info.pop(_SCOPE_SET, None)  # if the next line fails, nobody knows
    driver(connection).execute(_SET_SCOPE, {**_settings_of(scope), "local": False})
    connection.info[_SCOPE_SET] = scope


def _settings_of(scope: Scope) -> dict[str, Any]:
    whole = "on" if scope.whole_service else "off"
    return {"groups": list(scope.groups), "whole": whole, "user": scope.user or ""}


@dataclass(slots=True)
class Following:
    """What follows a commit: functions, each called once with all arguments that were added for it."""

    callbacks: dict[Callable[..., object], list[Any]] = field(default_factory=dict)
    #: After the live events: what workers then do causes later ones.
    wakes: dict[Callable[..., object], list[Any]] = field(default_factory=dict)

    def add(self, other: Following) -> None:
        for mine, more in ((self.callbacks, other.callbacks), (self.wakes, other.wakes)):
            for function, arguments in more.items():
                mine.setdefault(function, []).extend(arguments)

    def __call__(self) -> None:
        """Never raises: it is committed."""
        for function, arguments in (*self.callbacks.items(), *self.wakes.items()):
            try:
                function(*arguments)
            except Exception:
                log.exception("committed, but not all follow-up work was done")


@contextmanager
def unit_of_work(follow: Callable[[Following], object] = Following.__call__) -> Iterator[Connection]:
    """One transaction, rolled back if the block raises; after the commit ``follow`` does what follows it."""
    following = Following()
    with engine().begin() as connection:
        connection.info[_FOLLOWING] = following
        yield connection
    if following.callbacks or following.wakes:
        follow(following)


def after_commit(
    connection: Connection, function: Callable[..., object], *arguments: object, last: bool = False
) -> None:
    """Have a function called after the unit of work's commit, once, with all arguments that were added.

    What it raises is logged. ``last``: behind all that is not. Nothing happens in other transactions.
    """
    following: Following | None = connection.info.get(_FOLLOWING)
    if following is not None:
        (following.wakes if last else following.callbacks).setdefault(function, []).extend(arguments)


@contextmanager
def snapshot() -> Iterator[Connection]:
    """For several statements that must see the same state; as cheap as :func:`unit_of_work`. Do not write."""
    repeatable = engine().connect().execution_options(isolation_level="REPEATABLE READ")
    with repeatable as connection, connection.begin():
        yield connection


@contextmanager
def reading() -> Iterator[Connection]:
    """For single statements: saves BEGIN and COMMIT, two trips to the server (read committed anyway). A write
    is committed automatically.
    """
    if is_pooled():  # a session's settings would be gone, or another's, with the next statement
        with unit_of_work() as connection:
            yield connection
        return
    with reading_engine().connect() as connection:
        yield connection


def read_beside(read: Callable[[Connection], T], connection: Connection) -> Callable[[], T]:
    """Read on another connection while the caller reads on this one; call the result to wait for it.

    If all threads are busy it is read on the caller's, then: nobody waits for a connection while holding one.
    """
    if not _BESIDE.acquire(blocking=False):
        return lambda: read(connection)

    def on_another() -> T:
        try:
            with reading() as another:
                return read(another)
        finally:
            _BESIDE.release()

    return _threads_beside().submit(copy_context().run, on_another).result


@once
def _threads_beside() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(MOST_BESIDE, "reading")


def driver(connection: Connection) -> psycopg.Connection:
    """The psycopg connection beneath, for COPY and binary results, inside the same transaction."""
    raw = connection.connection.driver_connection
    assert isinstance(raw, psycopg.Connection)
    return raw


def database_time(connection: Connection) -> datetime:
    """The time by the database, at this statement."""
    return cast("datetime", connection.execute(_DATABASE_TIME).scalar_one())


_LIMITS = {
    "statement_timeout": str(STATEMENT_TIMEOUT_MS),
    "lock_timeout": str(LOCK_TIMEOUT_MS),
    "idle_in_transaction_session_timeout": str(IDLE_IN_TRANSACTION_MS),
    "timezone": "UTC",
}
#: Sets them in a session of our own, when it begins.
_SESSION = {"options": " ".join(f"-c {name}={value}" for name, value in _LIMITS.items())}
#: Of sessions that only read, a few rows of one agent at a time, from memory or a disk without a head that
#: moves: by its defaults PostgreSQL rather reads all of a table, in two processes, than a thousand rows by an
#: index. Both are costs, not orders.
_READING = {"options": f"{_SESSION['options']} -c random_page_cost=1.1 -c max_parallel_workers_per_gather=0"}
_SET_SCOPE = """
    SELECT set_config('jiyi.groups', %(groups)s::text[]::text, %(local)s),
        set_config('jiyi.whole_service', %(whole)s, %(local)s), set_config('jiyi.user', %(user)s, %(local)s)
"""
_SET_SETTINGS = """
    SELECT set_config(name, value, true) FROM unnest(%(names)s::text[], %(values)s::text[]) AS s(name, value)
"""
_DATABASE_TIME = text("SELECT clock_timestamp()")
