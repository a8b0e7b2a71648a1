"""Every form of the admin: if it is refused, its page answers again as it was filled in.

A form says in a hidden field on which page it stands (``csrf()`` in the templates adds it); that page is asked for once more, as
it is now, as whoever sent the form. To htmx only the problems are answered: the form is still there, and the script puts them beside
its fields.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import wraps
from io import BytesIO
from typing import Any
from urllib.parse import unquote_to_bytes, urlsplit

from flask import Flask, Response, current_app, render_template, request, url_for
from werkzeug.exceptions import HTTPException

from models.db.bounded_reads import Unanswered
from web.admin import frame
from web.admin.forms.refilling import refilled
from web.admin.forms.refused import Problem, Refused
from web.errors import no_answer

View = Callable[..., Any]

#: The hidden field with the address of the page on which a form stands.
PAGE = "from_page"
#: Statuses with which a form is refused: what was typed may be right another time, or after a change.
STATUSES = frozenset({400, 403, 404, 409, 422, 429, 503})


def register(app: Flask, blueprints: Collection[str]) -> None:
    """After the blueprints: all their routes that take forms."""
    app.jinja_env.globals["this_page"] = this_page
    for rule in app.url_map.iter_rules():
        if "POST" in (rule.methods or ()) and rule.endpoint.partition(".")[0] in blueprints:
            app.view_functions[rule.endpoint] = _answering_again(app.view_functions[rule.endpoint])


def this_page() -> str:
    """The address of the page that is being made, or in a part that htmx asked for, of the page around it."""
    if frame.wants_fragment():
        around = urlsplit(request.headers.get("HX-Current-URL", ""))
        return f"{around.path}?{around.query}"
    return url_for(str(request.endpoint), **{"group": frame.group(), **request.args.to_dict(flat=False), **(request.view_args or {})})


def _answering_again(view: View) -> View:
    @wraps(view)
    def answered(**parts: Any) -> Any:
        try:
            return view(**parts)
        except HTTPException as error:
            again = _again(_problems(error), error.code) if error.code in STATUSES else None
            if again is None:
                raise
            return again
        except Unanswered as error:
            again = _again([Problem("", no_answer(error))], 503)
            if again is None:
                raise
            return again

    return answered


def _problems(error: HTTPException) -> list[Problem]:
    return error.problems if isinstance(error, Refused) else [Problem.of(str(error.description or error.name))]


def _again(problems: list[Problem], status: int | None) -> Response | None:
    """None if there is no page to show again."""
    if frame.wants_fragment():
        return Response(render_template("_refused.html", problems=problems), status)
    html = _page(request.form.get(PAGE, ""))
    return None if html is None else Response(refilled(html, request.path, request.form, problems), status, mimetype="text/html")


def _page(address: str) -> str | None:
    """A page as it is now, for whoever asks; None if it does not answer, or is not one of ours."""
    path, _mark, query = address.partition("?")
    if not path.startswith("/"):
        return None
    asked = {
        "REQUEST_METHOD": "GET",
        "PATH_INFO": unquote_to_bytes(path).decode("latin-1"),  # as WSGI has it
        "QUERY_STRING": query,
        "CONTENT_LENGTH": "0",
        "CONTENT_TYPE": "",
        "wsgi.input": BytesIO(),
    }
    known = {name: value for name, value in request.environ.items() if not name.startswith("werkzeug.")}
    with current_app.app_context(), current_app.request_context(known | asked):  # who asks and for which group is found out anew
        answer = current_app.full_dispatch_request()
        whole = answer.status_code == 200 and answer.mimetype == "text/html" and not answer.is_streamed
        return answer.get_data(as_text=True) if whole else None
