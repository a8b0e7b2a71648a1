"""Changes that pages make, and questions to workers: what is refused is told, and nothing is waited for too long."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeVar
from uuid import UUID

from flask import abort, request
from flask_babel import gettext as _
from pydantic import BaseModel, ValidationError
from sqlalchemy import Connection

from jiyi.errors import BrokerUnavailable, InvalidRequest, JiyiError, NoAnswer, NotFound, problems_of
from jiyi.protocol.queries import QUEUE, Query
from models.db.actions import Action
from web import actions
from web.admin import frame
from web.calls import caller
from web.sources import Unanswered, ask, source, writing

Q = TypeVar("Q", bound=BaseModel)
R = TypeVar("R")
T = TypeVar("T")

#: Seconds for each statement of a change; none takes long.
CHANGE_TIMEOUT = 10.0
#: Seconds that a page waits for a worker to do something. The message expires then: nobody does it later.
WORKER_TIMEOUT = 8.0
WORKER_PATIENCE = 9.0


def chosen_ids(name: str, most: int = 1_000) -> list[UUID]:
    """What was ticked in a form; 400 for what is no id, or too much at a time."""
    return ids_of(request.form.getlist(name), name, most)


def ids_of(values: Sequence[str], name: str, most: int) -> list[UUID]:
    """The ids among a form's or an address's values of a name; 400 for what is no id, or too much at a time."""
    if len(values) > most:
        abort(400, _("At most %(most)s at a time.", most=f"{most:,}"))
    try:
        return [UUID(value) for value in values]
    except ValueError:
        abort(400, f"{name}: must be ids.")


def perform(action: Action[Q, R], request: Q, *, timeout: float = WORKER_TIMEOUT) -> R:
    """Do it for the page's group, as whoever is signed in. 400 or 404 with its words if it is refused: then nothing is changed.

    Raises:
        Unanswered: what has to do it is away, or no worker answered in time.
    """
    try:
        return actions.perform(action, frame.group(), request, timeout=timeout)
    except (InvalidRequest, NotFound) as error:
        _refuse(error)
    except (NoAnswer, BrokerUnavailable) as error:
        raise Unanswered("worker", str(error)) from error


def checked(model: type[Q], **fields: Any) -> Q:
    """The request that a form means; 400 with a sentence for each wrong field."""
    try:
        return model(**fields)
    except ValidationError as error:
        abort(400, "; ".join(problems_of(error)))


def change(step: Callable[[Connection], T]) -> T:
    """``step`` in a transaction. 400 or 404 with its words if it refuses, and nothing is changed."""

    def attempted() -> T | JiyiError:
        try:
            return writing(step, CHANGE_TIMEOUT)()
        except (InvalidRequest, NotFound) as error:
            return error

    done = ask("database", attempted)
    if isinstance(done, JiyiError):
        _refuse(done)
    return done


def ask_worker(what: str, query: Query, timeout: float = WORKER_TIMEOUT) -> Any:
    """The answer of a worker. Raises :class:`Unanswered`; 400 or 404 with the worker's words if it refuses."""

    def attempted() -> Any:
        try:
            return caller().call(f"inspect.{what}", QUEUE, query, timeout)
        except (InvalidRequest, NotFound) as error:
            return error

    answer = source("inspection worker").begin(attempted, max(timeout + 1, WORKER_PATIENCE))()
    if isinstance(answer, JiyiError):
        _refuse(answer)
    return answer


def have_done(what: str, query: Query) -> Any:
    """Let a worker change something. 503 if none answers: nothing is changed then, now or later."""
    try:
        return ask_worker(what, query)
    except Unanswered as error:
        cause = error.__cause__
        if isinstance(cause, NoAnswer | BrokerUnavailable) or cause is None:
            abort(503, _("No worker answered, so nothing was changed. See whether the queue “inspection” is read."))
        raise


def _refuse(error: JiyiError) -> NoReturn:
    abort(404 if isinstance(error, NotFound) else 400, str(error))
