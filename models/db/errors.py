"""What a database, a broker or a Valkey raises: what is away, what is wrong with a value, and what may be
tried again.

PostgreSQL ends transactions because of others: deadlocks and failed serializations. As a whole they can be
tried again. Locks are taken in one order, so that there are no deadlocks among the service's own
transactions:

1. rows of ``pending_work`` that are being settled (``lock_pending``), by subject;
2. ``agents``, by group and name (``lock_agents``);
3. what an agent has one row of: ``self_reflections``, then ``reflections``;
4. ``memory_nodes``, by id; then everything else; counts (``growth_tallies``) last.

A transaction that needs a later one first has to take the earlier ones before it. Retries are for the rest:
rows that an operator's statement or a migration holds, and orders that nobody thought of.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from random import SystemRandom
from typing import TypeVar

import psycopg
import redis
from amqp.exceptions import AMQPError
from kombu.exceptions import OperationalError as BrokerError
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from jiyi.errors import BrokerUnavailable, DatabaseUnavailable, InvalidRequest, JiyiError
from jiyi.protocol.wire.calls import OF_VALKEY, State, state_of_valkey
from jiyi.text.translatable import Translatable

log = logging.getLogger(__name__)
R = TypeVar("R")
#: PostgreSQL's codes for what passes, or for what an operator has to mend.
_CODES: dict[str, State] = {
    "53100": "disk_full",
    "53200": "full",
    "53300": "exhausted",
    "57P03": "starting",
    "25006": "read_only",
}
#: … and classes of codes: 08: the connection, 57: the server was stopped.
_CLASSES: dict[str, State] = {"08": "away", "57": "away"}
OF_DATABASE: dict[State, str] = {
    "away": Translatable("cannot be reached"),
    "starting": Translatable("is starting, or recovering from a crash: it answers in a moment"),
    "full": Translatable("has no memory left"),
    "disk_full": Translatable("cannot write to its disk: nothing is stored until there is room on it"),
    "exhausted": Translatable(
        "has no connection left: raise its max_connections (PgBouncer's default_pool_size), or run fewer"
        " processes"
    ),
    "read_only": Translatable("takes no writes: point JIYI_DATABASE_URL to the primary"),
}
#: What PgBouncer says to who has waited for one of its sessions; its code is that of any breach of the
#: protocol.
PGBOUNCER_FULL = "query_wait_timeout"
#: A statement that took too long, or was ended by hand: the server is there.
_CANCELLED = "57014"
#: PostgreSQL's code → what is wrong with the value. Other codes of the class 22, such as a division by zero,
#: are no fault of a value.
_REFUSED = {
    "22001": "a text is longer than what is stored of it; send a shorter one",
    "22003": "a number is larger than any that is stored; send a smaller one",
    "22007": "a time cannot be read; send it as 2026-03-01T08:00:00Z",
    "22008": "a time is outside of those that are stored; send one between the years 1 and 9999",
    "22021": "a text contains a character that is not stored; send valid Unicode without NUL",
    "22P02": "a value cannot be read as what is stored in its place",
    "22P05": "a text contains a character that is not stored; send valid Unicode without NUL",
    "54000": "a text is too long to be looked up by; send a shorter name or keyword",
}
#: Times that a transaction is tried, the first included.
TRIES = 4
#: Seconds, about, between the first try and the second; twice as long each time. The other transaction of a
#: deadlock is done by then.
PAUSE = 0.02
#: PostgreSQL's codes: ``deadlock_detected``, ``serialization_failure``.
_CONFLICTS = ("40P01", "40001")


def state_of_database(error: BaseException) -> State | None:
    """What an error says of PostgreSQL; None: nothing, the server works and refuses what was asked."""
    if isinstance(error, PoolTimeout):
        return "exhausted"
    invalidated = isinstance(error, DBAPIError) and error.connection_invalidated
    if isinstance(error, DBAPIError) and isinstance(error.orig, Exception):
        error = error.orig
    if not isinstance(error, psycopg.Error) or error.sqlstate == _CANCELLED:
        return "away" if invalidated else None
    if PGBOUNCER_FULL in str(error):
        return "exhausted"
    if error.sqlstate is not None:
        state = _CODES.get(error.sqlstate) or _CLASSES.get(error.sqlstate[:2])
        return state or ("away" if invalidated else None)
    if not isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return None
    # While connecting there is only a text.
    starting = any(word in str(error) for word in ("starting up", "recovery"))
    return "exhausted" if "too many clients" in str(error) else "starting" if starting else "away"


def outage(error: BaseException) -> JiyiError | None:
    """The error as what is away, or None. Its sentence quotes no statement, value or address."""
    sentence = sentence_of(error)
    if sentence is None:
        return None
    if isinstance(error, redis.RedisError):
        return BrokerUnavailable(f"Valkey {sentence}")
    if isinstance(error, BrokerError | AMQPError):
        return BrokerUnavailable(f"the broker {sentence}")
    return DatabaseUnavailable(f"the database {sentence}")


def sentence_of(error: BaseException) -> str | None:
    """What is the matter with the database, the broker or Valkey; None if the error says that it works."""
    if isinstance(error, redis.RedisError | BrokerError | AMQPError):
        state = state_of_valkey(error)
        answered = isinstance(error, redis.ResponseError) and state == "away"  # the command was wrong
        return None if answered else OF_VALKEY[state]
    database_state = state_of_database(error)
    return None if database_state is None else OF_DATABASE[database_state]


def refused_value(error: BaseException | None) -> InvalidRequest | None:
    """The error as what is wrong with the request's value, or None; quotes no statement and no value.

    For what a request's model cannot check: a number too large for a column, a text too long for an index.
    """
    if isinstance(error, DBAPIError):
        error = error.orig
    if isinstance(error, UnicodeEncodeError):  # the driver's: half of a surrogate pair
        reason: str | None = _REFUSED["22021"]
    elif isinstance(error, psycopg.Error) and error.sqlstate is not None:
        reason = _REFUSED.get(error.sqlstate)
    elif isinstance(error, psycopg.DataError):
        # the driver's own: a NUL character, or a number or time that it cannot write
        reason = "a value cannot be stored; send valid Unicode without NUL, and smaller numbers"
    else:
        reason = None
    return None if reason is None else InvalidRequest([f"value: {reason}"])


def is_conflict(error: BaseException) -> bool:
    """Whether the transaction was ended in favour of another, and may succeed when tried again."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    return isinstance(cause, psycopg.Error) and cause.sqlstate in _CONFLICTS


def tried_again(transaction: Callable[[], R]) -> R:
    """Call ``transaction`` (one transaction, nothing else), again after conflicts. Raises the last error."""
    for attempt in range(1, TRIES):
        try:
            return transaction()
        except DBAPIError as error:
            if not is_conflict(error):
                raise
            kind = type(error.orig).__name__
            log.info("transaction aborted by a conflict (%s): attempt %d", kind, attempt + 1)
            # So that two do not meet again.
            time.sleep(PAUSE * 2 ** (attempt - 1) * SystemRandom().uniform(0.5, 1.5))
    return transaction()
