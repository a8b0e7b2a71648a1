"""What errors of Valkey and PostgreSQL say is the matter, as the drivers raise them."""

from __future__ import annotations

import kombu.exceptions
import psycopg
import pytest
import redis
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from jiyi.errors import BrokerUnavailable, DatabaseUnavailable
from jiyi.protocol.wire.calls import State, sentence_of_valkey, state_of_valkey
from models.db.errors import outage, state_of_database


def wrapped(error: Exception) -> Exception:
    """As kombu wraps what redis-py raises."""
    found = kombu.exceptions.OperationalError("no")
    found.__cause__ = error
    return found


MEMORY = "command not allowed when used memory > 'maxmemory'."
SAVING = "Command # 1 (SADD k v) of pipeline caused error: MISCONF Valkey is configured to save"
WRONG_TYPE = redis.ResponseError("WRONGTYPE Operation against a key holding the wrong kind of value")
OF_VALKEY: list[tuple[Exception, State]] = [
    (redis.OutOfMemoryError(MEMORY), "full"),
    (redis.ResponseError(f"OOM {MEMORY} script: 1"), "full"),
    (redis.ResponseError(SAVING), "disk_full"),
    (redis.BusyLoadingError("Valkey is loading the dataset in memory"), "starting"),
    (redis.ConnectionError("max number of clients reached"), "exhausted"),
    (redis.ConnectionError("Error 111 connecting to localhost:1. Connection refused."), "away"),
    (TimeoutError("timed out"), "away"),
]


@pytest.mark.parametrize(("error", "state"), OF_VALKEY)
def test_valkey(error: Exception, state: State) -> None:
    for found in (error, wrapped(error)):
        assert state_of_valkey(found) == state
        assert isinstance(outage(error), BrokerUnavailable) is (not isinstance(error, TimeoutError))
    assert sentence_of_valkey(error)


def of(error: Exception, *, invalidated: bool = False) -> DBAPIError:
    return OperationalError("SELECT 'secret'", {"x": "secret"}, error, connection_invalidated=invalidated)


def refused(words: str) -> DBAPIError:
    return of(psycopg.OperationalError(f"connection failed: {words}"))


CLOSED = psycopg.OperationalError("server closed the connection unexpectedly")
OF_POSTGRESQL: list[tuple[Exception, State | None]] = [
    (refused("No such file or directory"), "away"),
    (refused("FATAL:  sorry, too many clients already"), "exhausted"),
    (refused("FATAL:  the database system is starting up"), "starting"),
    (of(CLOSED, invalidated=True), "away"),
    (of(psycopg.errors.DiskFull("could not extend file")), "disk_full"),
    (of(psycopg.errors.ReadOnlySqlTransaction("no")), "read_only"),
    (of(psycopg.errors.QueryCanceled("canceling statement due to statement timeout")), None),
    (psycopg.OperationalError("connection is bad"), "away"),
    (PoolTimeout("QueuePool limit reached"), "exhausted"),
    (WRONG_TYPE, None),
    (ValueError("no"), None),
]


@pytest.mark.parametrize(("error", "state"), OF_POSTGRESQL)
def test_postgresql(error: Exception, state: State | None) -> None:
    assert state_of_database(error) == state
    found = outage(error)
    assert isinstance(found, DatabaseUnavailable) is (state is not None)
    assert "secret" not in str(found)
