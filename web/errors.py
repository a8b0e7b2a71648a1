"""What a person or a program is told when there is no answer: what and why, never a stack trace."""

from __future__ import annotations

import logging

from flask import Flask, Response
from flask.typing import ResponseReturnValue
from werkzeug.exceptions import HTTPException, InternalServerError

from web.answers import answer
from web.sources import Unanswered

log = logging.getLogger("jiyi.web")

TITLES = {400: "That cannot be asked", 404: "Not found", 405: "This admin only shows", 503: "No answer"}
MESSAGES = {
    404: "There is nothing at this address. It may have been removed, or the address is incomplete.",
    405: "Nothing can be changed here; only GET is answered.",
}


def register(app: Flask) -> None:
    app.register_error_handler(HTTPException, _refused)
    app.register_error_handler(Unanswered, _unanswered)
    app.register_error_handler(Exception, _failed)


def _refused(error: HTTPException) -> ResponseReturnValue:
    if error.response is not None or error.code is None or error.code < 400:
        return error.get_response()  # a redirect
    message = error.description or error.name
    if error.description == type(error).description:  # werkzeug's own words
        message = MESSAGES.get(error.code, message)
    return _page(error.code, TITLES.get(error.code, error.name), message or error.name)


def _unanswered(error: Unanswered) -> Response:
    return _page(503, TITLES[503], f"The {error.source} did not answer: {error.reason}. Try again in a moment.")


def _failed(error: Exception) -> Response:
    log.error("a page failed", exc_info=error)
    return _page(InternalServerError.code, "Something failed here", "The log of the process `web` has the details.")


def _page(code: int, title: str, message: str) -> Response:
    return answer("error.html", code, data={"error": {"code": code, "title": title, "message": message}})
