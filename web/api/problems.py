"""Problem details (RFC 9457): how the API says that something went wrong."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Mapping

from flask import Response, request
from pydantic import BaseModel, ValidationError
from pydantic_core import to_json
from werkzeug.exceptions import HTTPException, MethodNotAllowed, RequestEntityTooLarge
from werkzeug.exceptions import NotFound as WerkzeugNotFound

from engine import subjects
from jiyi.errors import (
    BrokerUnavailable,
    InvalidEvent,
    InvalidRequest,
    JiyiError,
    first_errors,
    join_problems,
    problems_of,
)
from jiyi.protocol.openapi.document import MEANINGS, MEDIA_TYPE, PREFIX, STATUSES, TITLES, field_problem
from jiyi.protocol.rest import FieldProblem, Problem
from jiyi.protocol.wire.calls import OF_VALKEY, state_of_valkey
from models.db.bounded_reads import SourceUnavailable
from models.db.errors import refused_value, sentence_of

log = logging.getLogger("jiyi.web")

#: Where the kinds of problems are explained.
DOCS = "/api/docs"
#: Seconds after which a client that was refused for lack of room should retry.
RETRY_SECONDS = 1


class RequestRefused(Exception):  # noqa: N818 – its name says what happened
    """A request that is answered with a status and, perhaps, what is wrong with which field."""

    def __init__(
        self,
        status: int,
        detail: str,
        errors: Iterable[FieldProblem] = (),
        *,
        code: str | None = None,
        **headers: str,
    ) -> None:
        self.status, self.detail, self.errors, self.code = status, detail, list(errors), code
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}
        super().__init__(detail)


def is_api() -> bool:
    """Whether this request is a program's, and its errors are to be problem details."""
    return request.path.startswith("/api/") and not request.path.startswith(DOCS)


def answer_to(error: Exception) -> Response:
    """The problem that an error is. Which socket or host is away only the log says."""
    if (
        refused := refused_value(error.__cause__ if isinstance(error, SourceUnavailable) else error)
    ) is not None:
        log.warning("%s %s: %s", request.method, request.path, error)
        error = refused
    if (
        isinstance(error, WerkzeugNotFound)
        and (subject := subjects.of_path(request.path.removeprefix(PREFIX))) is not None
    ):
        error = subject.refusal
    match error:
        case RequestRefused():
            return problem(error.status, error.detail, error.errors, error.headers, error.code)
        case InvalidEvent() | InvalidRequest():
            return problem(422, str(error), map(field_problem, error.problems), code=error.code)
        case JiyiError():
            return _of_service(error)
        case SourceUnavailable():
            reason = None if error.__cause__ is None else sentence_of(error.__cause__)
            detail = f"The {error.source} did not answer: {reason or error.reason}. Try again in a moment."
            return problem(503, detail, headers={"Retry-After": str(RETRY_SECONDS)})
        case HTTPException():
            return _of_werkzeug(error)
        case _:
            log.error("%s %s failed", request.method, request.path, exc_info=error)
            return problem(500, "The log of the process `web` has the details.")


def problem(
    status: int,
    detail: str,
    errors: Iterable[FieldProblem] = (),
    headers: Mapping[str, str] | None = None,
    code: str | None = None,
) -> Response:
    title = TITLES.get(status, "Refused")
    body = Problem(
        type=f"{DOCS}#problem-{status}",
        title=title,
        status=status,
        detail=detail,
        instance=request.path,
        errors=list(errors),
        code=code,
    )
    return Response(
        to_json(body, exclude_none=True), status, mimetype=MEDIA_TYPE, headers=dict(headers or {})
    )


def refusal_of(error: ValidationError, model: type[BaseModel]) -> RequestRefused:
    """400 for what is no JSON at all, 422 for wrong fields."""
    problems = problems_of(error, model)
    if any(item["type"] == "json_invalid" for item in first_errors(error)):
        return RequestRefused(400, f"The body is not JSON: {problems[0].removeprefix('value: ')}.")
    return RequestRefused(422, join_problems(problems), map(field_problem, problems))


def _of_service(error: JiyiError) -> Response:
    status, detail = STATUSES.get(error.code, 500), str(error)
    if status == 500:
        log.error("%s %s failed: %s", request.method, request.path, error)
    if isinstance(error, BrokerUnavailable):
        log.warning("%s %s: %s", request.method, request.path, error)
        detail = f"the broker or Valkey {OF_VALKEY[state_of_valkey(error)]}"
    seconds = getattr(error, "retry_after", None)
    headers = (
        {"Retry-After": str(RETRY_SECONDS if seconds is None else math.ceil(seconds))}
        if status in (429, 503, 504)
        else {}
    )
    return problem(status, detail, headers=headers, code=error.code)


def _of_werkzeug(error: HTTPException) -> Response:
    if error.response is not None or error.code is None or error.code < 400:
        return Response(status=error.code or 500, headers=error.get_headers())  # a redirect
    own_words = error.description != type(error).description
    detail = (error.description if own_words else MEANINGS.get(error.code)) or error.name
    if (
        isinstance(error, RequestEntityTooLarge)
        and not own_words
        and (most := request.max_content_length) is not None
    ):
        detail = f"The body is larger than {most:,} bytes."
    headers = {
        name: value for name, value in error.get_headers() if name in ("Retry-After", "WWW-Authenticate")
    }
    if isinstance(error, MethodNotAllowed) and error.valid_methods:
        headers["Allow"] = ", ".join(sorted(error.valid_methods))
    if error.code == 401:
        headers.setdefault("WWW-Authenticate", 'Bearer realm="jiyi"')
    return problem(error.code, detail, headers=headers)
