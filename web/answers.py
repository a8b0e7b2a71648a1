"""Pages as HTML, and as JSON under the same address with ``.json``; and what goes wrong, in both."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

from flask import Flask, Response, render_template, request
from flask.typing import ResponseReturnValue
from flask_babel import gettext as _
from flask_babel import lazy_gettext
from pydantic_core import to_jsonable_python
from werkzeug.exceptions import HTTPException, InternalServerError

from models.db.bounded_reads import SourceUnavailable
from models.db.errors import refused_value
from web.api.problems import answer_to, is_api
from web.show import translated


def wants_json() -> bool:
    return request.path.endswith(".json")


def answer(
    template: str, status: int = 200, *, data: Mapping[str, object], **only_for_people: Any
) -> Response:
    """``data`` in the form that was asked for."""
    if wants_json():
        return json_answer(data, status)
    return Response(render_template(template, **data, **only_for_people), status, mimetype="text/html")


def json_answer(data: Mapping[str, object], status: int = 200) -> Response:
    body = json.dumps(to_jsonable_python(data), ensure_ascii=False, indent=2)
    return Response(body + "\n", status, mimetype="application/json")


log = logging.getLogger("jiyi.web")

TITLES = {
    400: lazy_gettext("Bad request"),
    401: lazy_gettext("Not signed in"),
    403: lazy_gettext("Not allowed"),
    404: lazy_gettext("Not found"),
    405: lazy_gettext("Method not allowed"),
    413: lazy_gettext("Too large"),
    429: lazy_gettext("Too many requests"),
    503: lazy_gettext("Service unavailable"),
}
MESSAGES = {
    404: lazy_gettext(
        "There is nothing at this address. It may have been removed, or the address is incomplete."
    ),
    405: lazy_gettext("This address does not accept this method."),
    413: lazy_gettext("The request is too large."),
}


def register(app: Flask) -> None:
    app.register_error_handler(HTTPException, _refused)
    app.register_error_handler(SourceUnavailable, _source_unavailable)
    app.register_error_handler(Exception, _failed)


def _refused(error: HTTPException) -> ResponseReturnValue:
    if is_api():
        return answer_to(error)
    if error.response is not None or error.code is None or error.code < 400:
        return error.get_response()  # a redirect
    message = error.description or error.name
    if error.description == type(error).description:  # werkzeug's own words
        message = MESSAGES.get(error.code, message)
    page = _page(error.code, str(TITLES.get(error.code, error.name)), str(message or error.name))
    page.headers.extend((name, value) for name, value in error.get_headers() if name == "Retry-After")
    return page


def _source_unavailable(error: SourceUnavailable) -> Response:
    if is_api():
        return answer_to(error)
    if refused_value(error.__cause__) is not None:
        return _of_refused_value()
    return _page(503, str(TITLES[503]), no_answer(error))


def no_answer(error: SourceUnavailable) -> str:
    """What a page says of a source that is away."""
    text: str = _(
        "The %(source)s did not answer: %(reason)s. Try again in a moment.",
        source=error.source,
        reason=translated(error.reason),
    )
    return text


def _failed(error: Exception) -> Response:
    if is_api():
        return answer_to(error)
    if refused_value(error) is not None:
        log.warning("a page was requested with a value that cannot be stored: %s", error)
        return _of_refused_value()
    log.error("a page failed", exc_info=error)
    return _page(
        InternalServerError.code,
        _("Something failed here"),
        _("The log of the process `web` has the details."),
    )


def _of_refused_value() -> Response:
    return _page(
        400,
        str(TITLES[400]),
        _("A number or a text in the request is too large, or contains a character that is not stored."),
    )


def _page(code: int, title: str, message: str) -> Response:
    return answer("error.html", code, data={"error": {"code": code, "title": title, "message": message}})
