"""The web's way to the actions and to the workers."""

from __future__ import annotations

from typing import TypeVar

from flask import abort
from pydantic import BaseModel, TypeAdapter
from sqlalchemy.exc import SQLAlchemyError

from jiyi.client.caller import Caller
from jiyi.errors import NotAllowed
from jiyi.once import once
from jiyi.protocol.wire.broker import BROKER_ERRORS
from jiyi.settings import get_settings
from models.db.actions import Action, Actor
from models.db.bounded_reads import STATEMENT_TIMEOUT, SourceUnavailable, one_line
from web.accounts.identity import need


@once
def caller() -> Caller:
    """This process's connections to the workers; made on first use, so always after a fork."""
    return Caller(get_settings())


Q = TypeVar("Q", bound=BaseModel)
R = TypeVar("R")

#: Milliseconds that one statement of a change may take: a user who waits for a page gives up soon after.
STATEMENT_TIMEOUT_MS = 8_000
#: … and of a read that a page of a list, or one thing, is asked with.
READ_TIMEOUT_MS = round(STATEMENT_TIMEOUT * 1_000)
#: Seconds that a worker may take where only workers can do it.
WORKER_SECONDS = 8.0


def perform(
    action: Action[Q, R],
    group_id: str,
    request: Q,
    *,
    timeout: float = WORKER_SECONDS,
    statement_ms: int = STATEMENT_TIMEOUT_MS,
) -> R:
    """Perform an action for a group as the caller; 403 without its scope. ``timeout``: seconds for a worker.

    Raises:
        JiyiError: it is refused, or (where a worker has to do it) no worker answered.
        SourceUnavailable: the database or Valkey is away; nothing was changed.
    """
    identity = need(action.scope)
    if action.function is None:
        value = caller().act(action.name, action.queue, group_id, request, timeout, actor=identity.actor)
        result: R = TypeAdapter(action.result).validate_python(value)
        return result
    try:
        actor = Actor(group_id, identity.actor, identity.may("operator"), identity.may("admin"))
        return action.perform(actor, request, timeout_ms=statement_ms)
    except NotAllowed as error:
        abort(403, str(error))
    except SQLAlchemyError as error:
        raise SourceUnavailable("database", one_line(error)) from error
    except BROKER_ERRORS as error:
        of_file = isinstance(error, OSError) and error.filename is not None
        raise SourceUnavailable("file system" if of_file else "broker", one_line(error)) from error
