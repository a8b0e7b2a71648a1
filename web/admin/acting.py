"""Changes that pages make, and questions to workers: what is refused is told, and nothing is waited for too long."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn, TypeVar
from uuid import UUID

from flask import abort, request
from flask_babel import gettext as _
from pydantic import BaseModel, ValidationError

from jiyi.errors import BrokerUnavailable, Conflict, InvalidRequest, NoAnswer, NotFound
from models.db.actions import Action
from web import actions
from web.admin import frame
from web.admin.forms.refused import Problem, Refused, problems
from web.sources import Unanswered

Q = TypeVar("Q", bound=BaseModel)
R = TypeVar("R")

#: Seconds that a page waits for a worker to do something. The message expires then: nobody does it later.
WORKER_TIMEOUT = 8.0


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


def perform(action: Action[Q, R], request: Q | None = None, /, *, timeout: float = WORKER_TIMEOUT, **fields: Any) -> R:
    """Do it for the page's group, as whoever is signed in; ``fields`` are the request's, unless one is made already.

    400, 404 or 409 with its words if it is refused: then nothing is changed.

    Raises:
        Unanswered: what has to do it is away, or no worker answered in time.
    """
    try:
        return actions.perform(action, frame.group(), request or checked(action.request, **fields), timeout=timeout)
    except (InvalidRequest, NotFound, Conflict) as error:
        _refuse(error)
    except (NoAnswer, BrokerUnavailable) as error:
        raise Unanswered("worker", str(error)) from error


def checked(model: type[Q], **fields: Any) -> Q:
    """The request that a form means; 400 with a sentence for each wrong field."""
    try:
        return model(**fields)
    except ValidationError as error:
        raise Refused(problems(error)) from None


def _refuse(error: InvalidRequest | NotFound | Conflict) -> NoReturn:
    if isinstance(error, InvalidRequest):
        raise Refused([Problem.of(problem) for problem in error.problems])
    raise Refused([Problem.of(str(error))], 404 if isinstance(error, NotFound) else 409)
