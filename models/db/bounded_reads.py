"""Asking what may be dead or hang: every question has a time limit, and the reason is kept.

PostgreSQL has time limits of its own, so it is asked in the request's thread, others in threads of theirs.
"""

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

from sqlalchemy import Connection, text
from sqlalchemy.exc import SQLAlchemyError

from jiyi.errors import JiyiError
from jiyi.protocol.wire.broker import BROKER_ERRORS
from models.db import connection as base

T = TypeVar("T")
log = logging.getLogger(__name__)

#: Seconds that a page waits for one source; a healthy one answers in milliseconds.
PATIENCE = 3.0
#: Seconds after which PostgreSQL itself ends a statement for a page or an API request.
STATEMENT_TIMEOUT = 2.5
#: Questions that one source is asked at a time; more of them wait, and give up after the same time.
CONCURRENCY = 4
MAX_REASON_CHARS = 300

FAILURES: tuple[type[Exception], ...] = (SQLAlchemyError, *BROKER_ERRORS, JiyiError)


class SourceUnavailable(Exception):  # noqa: N818 – named like the client's BrokerUnavailable
    """A source gave no answer; ``reason`` is one line for people."""

    def __init__(self, source: str, reason: str) -> None:
        self.source, self.reason = source, reason
        super().__init__(f"{source}: {reason}")


@dataclass(frozen=True, slots=True)
class SourceReading(Generic[T]):
    """What a source answered, or None and why not."""

    value: T | None
    reason: str = ""


class BoundedSource:
    """Something outside without a time limit. It has its own threads, so a hanging one delays no other."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._threads = ThreadPoolExecutor(CONCURRENCY, thread_name_prefix=f"ask-{name}")

    def begin(self, question: Callable[[], T], patience: float | None = None) -> Callable[[], T]:
        """Ask now; the result, when called, returns the answer or raises :class:`SourceUnavailable`."""
        patience = PATIENCE if patience is None else patience
        future = self._threads.submit(copy_context().run, question)  # with the caller and its scope
        deadline = time.monotonic() + patience

        def fetch() -> T:
            try:
                return future.result(max(0.0, deadline - time.monotonic()))
            except Late as error:
                if future.done() and not future.cancelled():  # not our time-out, but the source's own
                    raise SourceUnavailable(self.name, one_line(error)) from error
                future.cancel()
                raise SourceUnavailable(self.name, f"no answer within {patience:g} s") from None

        return lambda: ask(self.name, fetch)

    def ask(self, question: Callable[[], T]) -> T:
        return self.begin(question)()


def ask(name: str, question: Callable[[], T]) -> T:
    """The answer to a question with its own time limit. Raises :class:`SourceUnavailable` if it fails."""
    try:
        return question()
    except FAILURES as error:
        log.warning("%s did not answer: %s", name, error)
        raise SourceUnavailable(name, one_line(error)) from error


def attempt(answer: Callable[[], T]) -> SourceReading[T]:
    try:
        return SourceReading(answer())
    except SourceUnavailable as error:
        return SourceReading(None, error.reason)


@lru_cache(maxsize=8)
def source(name: str) -> BoundedSource:
    """This process's source of that name; made on first use, so always after a fork."""
    return BoundedSource(name)


def reading(question: Callable[[Connection], T], timeout: float | None = None) -> Callable[[], T]:
    """The question in a read-only transaction of its own; ``timeout``: seconds for each statement."""

    def read() -> T:
        with base.engine().connect() as connection, connection.begin():
            seconds = STATEMENT_TIMEOUT if timeout is None else timeout
            connection.execute(_SHORT_AND_READ_ONLY, {"timeout": f"{seconds:g}s"})
            return question(connection)

    return read


def from_database(question: Callable[[Connection], T], timeout: float | None = None) -> T:
    """The answer to a short question. Raises :class:`SourceUnavailable`."""
    return ask("database", reading(question, timeout))


def one_line(error: BaseException) -> str:
    """The first line of the underlying error, without SQLAlchemy's statement and without a path."""
    cause = getattr(error, "orig", None) or error
    if isinstance(cause, OSError) and cause.filename is not None:
        return cause.strerror or type(cause).__name__
    lines = str(cause).strip().splitlines() or [type(cause).__name__]
    return lines[0][:MAX_REASON_CHARS]


# Planned for the values that are asked with: a plan for any group and agent is a hundred times slower for one
# that has most of the rows.
_SHORT_AND_READ_ONLY = text("""
    SELECT set_config('statement_timeout', :timeout, true), set_config('transaction_read_only', 'on', true),
        set_config('plan_cache_mode', 'force_custom_plan', true)
""")
