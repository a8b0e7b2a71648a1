"""A call over the broker as a worker gets it, in this process: headers and all."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any
from uuid import uuid4

from celery import current_app
from sqlalchemy import text

from jiyi.protocol.wire.calls import reply_key
from jiyi.protocol.wire.signatures import CallSigner, signer_of
from jiyi.settings import get_settings
from models.db.connection import unit_of_work
from models.db.scope import Scope, within
from models.db.valkey import valkey
from models.erasure import traces


def register_tasks() -> None:
    """Import every module of tasks that workers import; they read the settings, so not before those are
    there.
    """
    for module in import_module("workers.app").app.conf.include:
        import_module(module)


def headers_of(
    signer: CallSigner | None, task: str, args: list[Any], options: dict[str, Any]
) -> dict[str, str]:
    return {} if signer is None else signer.headers(task, args, options)


def service() -> CallSigner | None:
    """Signs as the service: what ``Client()`` of this deployment does."""
    return signer_of(get_settings())


def deliver(
    task: str, args: list[Any], headers: Mapping[str, str], options: dict[str, Any] | None = None
) -> bytes:
    """Run the task as if the message had come just now; the reply that it left."""
    register_tasks()
    found, options = current_app.tasks[task], options or {}
    found.push_request(args=args, kwargs=options, **headers)
    try:
        with within(Scope()):
            found.run(*args, **options)
    finally:
        found.pop_request()
    reply = valkey().lpop(reply_key(args[0]))
    assert isinstance(reply, bytes)
    return reply


def called(task: str, request: dict[str, Any], signer: CallSigner | None, **options: Any) -> bytes:
    """Sign and deliver a call."""
    args = [str(uuid4()), request]
    return deliver(task, args, headers_of(signer, task, args, options), options)


def stored_of(group: str) -> dict[str, str]:
    """A fingerprint of every table's rows of a group, and of people, but for what is on record."""
    with unit_of_work() as connection:
        tables = [
            name
            for name, columns in traces.tables(connection).items()
            if "group_id" in {column for column, _ in columns} and name != "audit_log"
        ]
        each = [f"SELECT '{name}' AS name, {_ROWS.format(name)}" for name in tables]
        each.append("SELECT 'people' AS name, md5(string_agg(u::text, '' ORDER BY u::text)) FROM users u")
        found = connection.execute(text(" UNION ALL ".join(each)), {"group": group})
        return {row.name: row.md5 for row in found}


_ROWS = "md5(coalesce(string_agg(t::text, '|' ORDER BY t::text), '')) FROM {} t WHERE group_id = :group"
