"""Asking things that may be dead or hang: every question has a time limit, and the reason is kept."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as Late
from contextvars import copy_context
from dataclasses import dataclass
from functools import lru_cache
from typing import Generic, TypeVar

import redis
from kombu.exceptions import OperationalError
from sqlalchemy import Connection, text
from sqlalchemy.exc import SQLAlchemyError

from jiyi.errors import JiyiError
from models.db import connection as base

T = TypeVar("T")
log = logging.getLogger("jiyi.web")

#: Seconds that a page waits for one source; a healthy one answers in milliseconds.
PATIENCE = 3.0
#: Below the patience, so that PostgreSQL itself ends what nobody waits for any more.
STATEMENT_TIMEOUT = "2500ms"
#: Questions that one source is asked at a time; more of them wait, and give up after the same time.
CONCURRENCY = 4
MAX_REASON_CHARS = 300

FAILURES = (SQLAlchemyError, redis.RedisError, OperationalError, OSError, JiyiError)


class Unanswered(Exception):
    """A source gave no answer; ``reason`` is one line for people."""

    def __init__(self, source: str, reason: str) -> None:
        self.source, self.reason = source, reason
        super().__init__(f"{source}: {reason}")


@dataclass(frozen=True, slots=True)
class Reading(Generic[T]):
    """What a source answered, or None and why not."""

    value: T | None
    reason: str = ""


class Source:
    """Something outside this process. Its threads are its own, so that a hanging one holds up no other."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._threads = ThreadPoolExecutor(CONCURRENCY, thread_name_prefix=f"ask-{name}")

    def begin(self, question: Callable[[], T], patience: float = PATIENCE) -> Callable[[], T]:
        """Ask now; the answer is fetched by calling what is returned, which raises :class:`Unanswered`."""
        future = self._threads.submit(copy_context().run, question)  # who asks, and for whom, goes along
        deadline = time.monotonic() + patience

        def answer() -> T:
            try:
                return future.result(max(0.0, deadline - time.monotonic()))
            except Late as error:
                if future.done() and not future.cancelled():  # not our time-out, but the source's own
                    raise Unanswered(self.name, one_line(error)) from error
                future.cancel()
                raise Unanswered(self.name, f"no answer within {patience:g} s") from None
            except FAILURES as error:
                log.warning("%s did not answer: %s", self.name, error)
                raise Unanswered(self.name, one_line(error)) from error

        return answer

    def ask(self, question: Callable[[], T]) -> T:
        return self.begin(question)()


def attempt(answer: Callable[[], T]) -> Reading[T]:
    try:
        return Reading(answer())
    except Unanswered as error:
        return Reading(None, error.reason)


@lru_cache(maxsize=8)
def source(name: str) -> Source:
    """This process's source of that name; made on first use, so always after a fork."""
    return Source(name)


def reading(question: Callable[[Connection], T]) -> Callable[[], T]:
    """The question, asked in a short read-only transaction of its own."""

    def ask() -> T:
        with base.engine().connect() as connection, connection.begin():
            connection.execute(_SHORT_AND_READ_ONLY, {"timeout": STATEMENT_TIMEOUT})
            return question(connection)

    return ask


def from_database(question: Callable[[Connection], T]) -> T:
    return source("database").ask(reading(question))


def writing(change: Callable[[Connection], T]) -> Callable[[], T]:
    """The change, made in a transaction of its own."""

    def act() -> T:
        with base.unit_of_work() as connection:
            connection.execute(_SHORT, {"timeout": STATEMENT_TIMEOUT})
            return change(connection)

    return act


def to_database(change: Callable[[Connection], T]) -> T:
    """Let ``change`` write. It may be done even where nobody waited for the end."""
    return source("database").ask(writing(change))


def one_line(error: BaseException) -> str:
    """The first line of the underlying error: without SQLAlchemy's statement, parameters and links."""
    cause = getattr(error, "orig", None) or error
    lines = str(cause).strip().splitlines() or [type(cause).__name__]
    return lines[0][:MAX_REASON_CHARS]


_SHORT = text("SELECT set_config('statement_timeout', :timeout, true)")
_SHORT_AND_READ_ONLY = text("""
    SELECT set_config('statement_timeout', :timeout, true), set_config('transaction_read_only', 'on', true)
""")
