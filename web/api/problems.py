"""Problem details (RFC 9457): how the API says that something went wrong. One table from errors to statuses."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from typing import Any

from flask import Response, request
from pydantic import BaseModel, ValidationError
from pydantic_core import to_json
from werkzeug.exceptions import HTTPException, MethodNotAllowed

from jiyi.errors import InvalidEvent, InvalidRequest, JiyiError, join_problems, problems_of
from jiyi.protocol.rest import FieldProblem, Problem
from web.sources import Unanswered

log = logging.getLogger("jiyi.web")

MEDIA_TYPE = "application/problem+json"
#: Where the kinds of problems are explained.
DOCS = "/api/docs"
#: Seconds after which whoever was refused for lack of room should ask again.
RETRY_SECONDS = 1
#: The API's statuses of a :class:`JiyiError`, by its code; a code that is not here is a failure of ours.
STATUSES: Mapping[str, int] = {
    "invalid_event": 422,
    "invalid_request": 422,
    "model_mismatch": 422,
    "event_rejected": 422,
    "id_reused": 409,
    "text_refused": 422,
    "not_found": 404,
    "conflict": 409,
    "not_allowed": 403,
    "too_many_questions": 429,
    "broker_unavailable": 503,
    "database_unavailable": 503,
    "provider_unavailable": 503,
    "embedding_unavailable": 503,
    "llm_unavailable": 503,
    "no_answer": 504,
}
TITLES: Mapping[int, str] = {
    400: "Not readable",
    401: "No valid key",
    403: "Not allowed with this key",
    404: "Not found",
    405: "Wrong method",
    409: "In conflict with what is there",
    413: "Too large",
    415: "Not JSON",
    422: "Not acceptable",
    429: "Too many requests",
    500: "The service failed",
    503: "Not available now",
    504: "No answer in time",
}
#: What each kind means and what to do about it: the docs page shows it.
MEANINGS: Mapping[int, str] = {
    400: "The request could not be read: its body is no JSON (or no UTF-8, or nested too deeply), or it came for another host.",
    401: "The header `Authorization: Bearer jiyi_…` is missing, or the key is unknown, expired or revoked.",
    403: "The key is valid, but has not the right that this operation needs. Things of other groups are not forbidden but not found.",
    404: "There is no such thing in the key's group, or no such address.",
    405: "The address exists, but not for this method; the header `Allow` names those it has.",
    409: "An id that was given is taken by something else; choose another. `code` is `id_reused` where an event's id was used again "
    "with other content: nothing of the request is stored, and the first event stays as it is; `conflict` where "
    "somebody else has changed, or decided on, the same thing meanwhile: look again.",
    413: "The body is larger than JIYI_MAX_MESSAGE_BYTES; send several requests.",
    415: "Bodies are JSON: send `Content-Type: application/json`.",
    422: "The request is JSON, but fields are missing, unknown or wrong; `errors` has a sentence for each.",
    429: "The key has asked more often than it may; the header `Retry-After` says when to go on.",
    500: "A failure of the service's own. Its log has the details.",
    503: "The database, the broker or the embedding model is away, or too many retrievals wait; `Retry-After` says when to "
    "ask again. Nothing was changed.",
    504: "No worker answered within the time given; it may be slow or away. Reading again is harmless.",
}


_UNKNOWN = re.compile(r"unknown option '([^']{1,400})'")


class Refused(Exception):  # noqa: N818 – its name says what happened
    """A request that is answered with a status and, perhaps, what is wrong with which field."""

    def __init__(self, status: int, detail: str, errors: Iterable[FieldProblem] = (), *, code: str | None = None, **headers: str) -> None:
        self.status, self.detail, self.errors, self.code = status, detail, list(errors), code
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}
        super().__init__(detail)


def is_api() -> bool:
    """Whether this request is a program's, and its errors are to be problem details."""
    return request.path.startswith("/api/") and not request.path.startswith(DOCS)


def answer_to(error: Exception) -> Response:
    """The problem that an error is."""
    match error:
        case Refused():
            return problem(error.status, error.detail, error.errors, error.headers, error.code)
        case InvalidEvent() | InvalidRequest():
            return problem(422, str(error), map(field_problem, error.problems), code=error.code)
        case JiyiError():
            return _of_service(error)
        case Unanswered():
            detail = f"The {error.source} did not answer: {error.reason}. Try again in a moment."
            return problem(503, detail, headers={"Retry-After": str(RETRY_SECONDS)})
        case HTTPException():
            return _of_werkzeug(error)
        case _:
            log.error("%s %s failed", request.method, request.path, exc_info=error)
            return problem(500, "The log of the process `web` has the details.")


def problem(
    status: int, detail: str, errors: Iterable[FieldProblem] = (), headers: Mapping[str, str] | None = None, code: str | None = None
) -> Response:
    title = TITLES.get(status, "Refused")
    body = Problem(
        type=f"{DOCS}#problem-{status}", title=title, status=status, detail=detail, instance=request.path, errors=list(errors), code=code
    )
    return Response(to_json(body, exclude_none=True), status, mimetype=MEDIA_TYPE, headers=dict(headers or {}))


def refusal_of(error: ValidationError, model: type[BaseModel]) -> Refused:
    """400 for what is no JSON at all, 422 for wrong fields."""
    problems = problems_of(error, model)
    if any(item["type"] == "json_invalid" for item in error.errors(include_url=False, include_context=False)):
        return Refused(400, f"The body is not JSON: {problems[0].removeprefix('value: ')}.")
    return Refused(422, join_problems(problems), map(field_problem, problems))


def field_problem(sentence: str) -> FieldProblem:
    """``field: what is wrong`` in two; a sentence on an unknown option names the field itself."""
    if (unknown := _UNKNOWN.match(sentence)) is not None:
        return FieldProblem(field=unknown[1], message=sentence)
    name, found, message = sentence.partition(": ")
    if not found or " " in name:
        return FieldProblem(field="", message=sentence)
    return FieldProblem(field="" if name == "value" else name, message=message)


def _of_service(error: JiyiError) -> Response:
    status = STATUSES.get(error.code, 500)
    if status == 500:
        log.error("%s %s failed: %s", request.method, request.path, error)
    headers: dict[str, Any] = {"Retry-After": str(RETRY_SECONDS)} if status in (429, 503, 504) else {}
    return problem(status, str(error), headers=headers, code=error.code)


def _of_werkzeug(error: HTTPException) -> Response:
    if error.response is not None or error.code is None or error.code < 400:
        return Response(status=error.code or 500, headers=error.get_headers())  # a redirect
    own_words = error.description != type(error).description
    detail = (error.description if own_words else MEANINGS.get(error.code)) or error.name
    headers = {name: value for name, value in error.get_headers() if name in ("Retry-After", "WWW-Authenticate")}
    if isinstance(error, MethodNotAllowed) and error.valid_methods:
        headers["Allow"] = ", ".join(sorted(error.valid_methods))
    if error.code == 401:
        headers.setdefault("WWW-Authenticate", 'Bearer realm="jiyi"')
    return problem(error.code, detail, headers=headers)
