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


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (redis.OutOfMemoryError("command not allowed when used memory > 'maxmemory'."), "full"),
        (redis.ResponseError("OOM command not allowed when used memory > 'maxmemory'. script: 1"), "full"),
        (
            redis.ResponseError(
                "Command # 1 (SADD k v) of pipeline caused error: MISCONF Valkey is configured to save"
            ),
            "disk_full",
        ),
        (redis.BusyLoadingError("Valkey is loading the dataset in memory"), "starting"),
        (redis.ConnectionError("max number of clients reached"), "exhausted"),
        (redis.ConnectionError("Error 111 connecting to localhost:1. Connection refused."), "away"),
        (TimeoutError("timed out"), "away"),
    ],
)
def test_valkey(error: Exception, state: State) -> None:
    for found in (error, wrapped(error)):
        assert state_of_valkey(found) == state
        assert isinstance(outage(error), BrokerUnavailable) is (not isinstance(error, TimeoutError))
    assert sentence_of_valkey(error)


def of(error: Exception, *, invalidated: bool = False) -> DBAPIError:
    return OperationalError("SELECT 'secret'", {"x": "secret"}, error, connection_invalidated=invalidated)


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (of(psycopg.OperationalError("connection failed: No such file or directory")), "away"),
        (of(psycopg.OperationalError("server closed the connection unexpectedly"), invalidated=True), "away"),
        (redis.ResponseError("WRONGTYPE Operation against a key holding the wrong kind of value"), None),
        (
            of(psycopg.OperationalError("connection failed: FATAL:  sorry, too many clients already")),
            "exhausted",
        ),
        (
            of(psycopg.OperationalError("connection failed: FATAL:  the database system is starting up")),
            "starting",
        ),
        (of(psycopg.errors.DiskFull("could not extend file")), "disk_full"),
        (of(psycopg.errors.ReadOnlySqlTransaction("no")), "read_only"),
        (PoolTimeout("QueuePool limit reached"), "exhausted"),
        (psycopg.OperationalError("connection is bad"), "away"),
        (of(psycopg.errors.QueryCanceled("canceling statement due to statement timeout")), None),
        (ValueError("no"), None),
    ],
)
def test_postgresql(error: Exception, state: State | None) -> None:
    assert state_of_database(error) == state
    found = outage(error)
    assert isinstance(found, DatabaseUnavailable) is (state is not None)
    assert "secret" not in str(found)
