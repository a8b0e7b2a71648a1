"""Transactions that PostgreSQL ends because of others: deadlocks and failed serializations. As a whole they can be tried again.

Locks are taken in one order, so that there are no deadlocks among the service's own transactions:

1. rows of ``pending_work`` that are being settled (``lock_owed``), by subject;
2. ``agents``, by group and name (``lock_agents``);
3. what an agent has one row of: ``self_reflections``, then ``reflections``;
4. ``memory_nodes``, by id; then everything else; counts (``growth_tallies``) last.

Whoever needs a later one first has to take the earlier ones before it. What is tried again is for the rest: rows that an operator's
statement or a migration holds, and orders that nobody thought of.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from typing import TypeVar

import psycopg
from sqlalchemy.exc import DBAPIError

log = logging.getLogger(__name__)

R = TypeVar("R")

#: Times that a transaction is tried, the first included.
TRIES = 4
#: Seconds, about, between the first try and the second; twice as long each time. The other transaction of a deadlock is done by then.
PAUSE = 0.02
#: PostgreSQL's codes: ``deadlock_detected``, ``serialization_failure``.
_CODES = ("40P01", "40001")


def is_conflict(error: BaseException) -> bool:
    """Whether the transaction was ended in favour of another, and may succeed when it is tried again as a whole."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    return isinstance(cause, psycopg.Error) and cause.sqlstate in _CODES


def tried_again(transaction: Callable[[], R]) -> R:
    """What ``transaction`` gives, a function that begins and ends one and does nothing besides; after conflicts it is called again.

    Raises what the last of :data:`TRIES` calls raised.
    """
    for attempt in range(1, TRIES):
        try:
            return transaction()
        except DBAPIError as error:
            if not is_conflict(error):
                raise
            log.info("a transaction was ended in favour of another (%s): attempt %d", type(error.orig).__name__, attempt + 1)
            time.sleep(PAUSE * 2 ** (attempt - 1) * random.uniform(0.5, 1.5))  # noqa: S311 – so that two do not meet again
    return transaction()
