"""Spans of statements and of commands to Valkey: what they do, never with which values."""

from __future__ import annotations

import re
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import Any

import redis
from redis.client import Pipeline
from sqlalchemy import Connection, Engine, event

from jiyi import tracing

#: Characters of a statement in a span. Statements are the service's own words; values are parameters.
MAX_STATEMENT = 500


def watch(connections: Engine) -> None:
    """Record a span for each statement of these connections from now on."""
    event.listen(connections, "before_cursor_execute", _begin)
    event.listen(connections, "after_cursor_execute", _end)
    event.listen(
        connections,
        "handle_error",
        lambda context: _end_failed(context.execution_context, context.original_exception),
    )


def _begin(
    _connection: Connection, _cursor: Any, statement: str, _parameters: Any, context: Any, _many: bool
) -> None:
    if context is not None:
        context.jiyi_span = span = statement_span(statement)
        span.__enter__()


def statement_span(statement: str) -> AbstractContextManager[Any]:
    """Around a statement that goes to the driver itself."""
    name, attributes = _described(statement)
    return tracing.leaf(name, attributes)


@lru_cache(maxsize=1_000)
def _described(statement: str) -> tuple[str, dict[str, Any]]:
    words = " ".join(statement.split())
    verb, table = words.partition(" ")[0].upper(), _TABLE.search(words)
    name = verb if table is None else f"{verb} {table[1]}"
    query = {"db.operation.name": verb, "db.query.text": words[:MAX_STATEMENT]}
    return name, {"db.system.name": "postgresql", **query}


def _end(
    _connection: Connection, _cursor: Any, _statement: str, _parameters: Any, context: Any, _many: bool
) -> None:
    _end_failed(context, None)


def _end_failed(context: Any, error: BaseException | None) -> None:
    span: AbstractContextManager[Any] | None = getattr(context, "jiyi_span", None)
    if span is not None:
        context.jiyi_span = None
        span.__exit__(None if error is None else type(error), error, None)


class TracedValkey(redis.Redis):
    """redis-py's client, with a span for each command."""

    def execute_command(self, *args: Any, **options: Any) -> Any:
        with tracing.leaf(str(args[0]), _VALKEY):
            return super().execute_command(*args, **options)  # type: ignore[no-untyped-call]

    def pipeline(self, transaction: bool = True, shard_hint: Any = None) -> Pipeline:
        return _Pipeline(self.connection_pool, self.response_callbacks, transaction, shard_hint)


class _Pipeline(Pipeline):
    def execute(self, raise_on_error: bool = True) -> list[Any]:
        with tracing.leaf("PIPELINE", _VALKEY):
            return super().execute(raise_on_error)


#: The table that a statement is about, mostly.
_TABLE = re.compile(r"\b(?:FROM|INTO|UPDATE|COPY) (?!(?:unnest|SET)\b)\"?([a-z_]+)", re.IGNORECASE)
_VALKEY: dict[str, Any] = {"db.system.name": "valkey"}
