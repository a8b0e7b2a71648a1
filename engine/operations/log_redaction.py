"""Log lines that hold no memories: what went wrong and where, not with which text.

Messages of errors quote values: a refused field, a row that the database did not take, what a vendor did not like. The
dead letters keep them, where an erasure finds them; a log file nobody goes through. :func:`install` sees to every line
that this process writes, whoever writes it: libraries, too.
"""

from __future__ import annotations

import logging
import re
import traceback
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any

from jiyi.errors import BrokerUnavailable, JiyiError, NoAnswer, ProviderUnavailable, SettingsError

#: Packages whose errors are about connections: what they say is the operator's, and needed.
ABOUT_CONNECTIONS = {"amqp", "kombu", "redis", "socket", "ssl"}
#: Errors that say what is to be done, in words of our own.
OURS = (BrokerUnavailable, NoAnswer, SettingsError)
#: Ids of things: no words of anybody.
_ID = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
_FIELD = re.compile(r"[a-z][a-z0-9_]*(?:\.(?:[a-z][a-z0-9_]*|\d+))*")

#: Celery tells of a task that failed by this name, with the error's words as text.
CELERY_TRACE = "celery.app.trace"
_INSTALLED = "jiyi_is_discreet"


def install() -> None:
    """From now on no line of this process's log quotes the words of an error. May be called again."""
    factory = logging.getLogRecordFactory()
    if getattr(factory, _INSTALLED, False):
        return

    def make(*args: Any, **kwargs: Any) -> logging.LogRecord:
        return _redacted(factory(*args, **kwargs))

    setattr(make, _INSTALLED, True)
    logging.setLogRecordFactory(make)


def _redacted(record: logging.LogRecord) -> logging.LogRecord:
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(record.args, Mapping):
        record.args = {name: _shown(value) for name, value in record.args.items()}
        if error is not None and record.name.startswith(CELERY_TRACE):
            record.args |= {"exc": caller_of(error), "traceback": trace_of(error)}
    elif record.args:
        record.args = tuple(_shown(value) for value in record.args)
    message: object = record.msg  # whatever was logged
    if isinstance(message, BaseException):
        record.msg, record.args = "%s", (caller_of(message),)
    if error is not None:
        record.exc_text = trace_of(error)  # what formatters take before they make their own
    return record


def _shown(value: Any) -> Any:
    return caller_of(value) if isinstance(value, BaseException) else value


def caller_of(error: BaseException) -> str:
    """What may be told of an error: its words where they are nobody's, else what it is, with ids and a code."""
    kind = type(error)
    if isinstance(error, ProviderUnavailable):
        return f"{error.code} ({error.status})" if error.status is not None else str(error)
    if isinstance(error, OURS) or kind.__module__.partition(".")[0] in ABOUT_CONNECTIONS:
        return str(error)
    if isinstance(error, OSError):
        return f"{kind.__name__}: {error.strerror}" if error.strerror else kind.__name__
    original = getattr(error, "orig", None) or error
    if type(original).__name__ == "OperationalError" and getattr(original, "sqlstate", "") is None:
        return str(original).strip().partition("\n")[0]  # psycopg's, of a connection that broke or was not made
    name = error.code if isinstance(error, JiyiError) else kind.__name__
    state = getattr(original, "sqlstate", None)
    ids = list(dict.fromkeys(_ID.findall(str(error))))[:5]
    notes = [*([f"SQLSTATE {state}"] if state else []), *ids]
    return f"{name} ({', '.join(notes)})" if notes else name


def trace_of(error: BaseException) -> str:
    """Where it happened, and what led to it; what each error said only as far as :func:`said_by` tells it."""
    lines: list[str] = []
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        lines = [*_frames(current.__traceback__), f"{type(current).__name__}: {caller_of(current)}", *lines]
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)
        if current is not None:
            lines.insert(0, "which led to:")
    return "\n".join(lines)


def _frames(trace: TracebackType | None) -> Iterable[str]:
    return [f'  File "{frame.filename}", line {frame.lineno}, in {frame.name}' for frame in traceback.extract_tb(trace)]


def fields_in(reason: str, known: Iterable[str]) -> str:
    """The names of wrong fields in the sentences of a refusal, as far as they are names that we gave."""
    names = set(known)
    secrets = []
    for sentence in reason.split("; "):
        field = sentence.partition(":")[0]
        if _FIELD.fullmatch(field) and all(part in names or part.isdigit() for part in field.split(".")):
            secrets.append(field)
    return ", ".join(dict.fromkeys(secrets)) or "the message as a whole"
