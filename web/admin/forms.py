"""Forms that are refused: their page answers again as they were filled in, with what is wrong beside the
field that it is about.

A form says in a hidden field on which page it stands (``csrf()`` in the templates adds it). The page's
function is asked for that page, and its template finds with ``form_of`` what was sent. To htmx only the
problems are answered: the form is still there, and the script puts them beside its fields.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import wraps
from typing import Any, NamedTuple, NoReturn
from urllib.parse import parse_qs, unquote, urlsplit

from flask import Flask, Response, current_app, g, make_response, render_template, request, url_for
from flask_babel import lazy_gettext
from pydantic import ValidationError
from werkzeug.datastructures import ImmutableMultiDict, MultiDict
from werkzeug.exceptions import HTTPException
from werkzeug.routing.exceptions import RoutingException

from jiyi.errors import Conflict, InvalidRequest, NotFound, first_errors, join_problems, problems_of
from models.db.bounded_reads import SourceUnavailable
from web.admin import frame
from web.answers import no_answer
from web.show import localize

#: The hidden field with the address of the page on which a form stands.
PAGE = "from_page"
#: Statuses with which a form is refused: what was typed may be right another time, or after a change.
STATUSES = frozenset({400, 403, 404, 409, 422, 429, 503})
#: What a request calls a field besides its own name: an agent's name is ``agent_id`` there.
ENDINGS = ("", "_id", "_ids")

#: pydantic's error types that people cause in forms, with messages in their own language.
WORDS = {
    kind: words
    for words, kinds in (
        (lazy_gettext("is needed"), ("missing", "string_type")),
        (lazy_gettext("must not be blank, or is not written like this"), ("string_pattern_mismatch",)),
        (lazy_gettext("must have at least %(min_length)s characters"), ("string_too_short",)),
        (lazy_gettext("must have at most %(max_length)s characters"), ("string_too_long",)),
        (lazy_gettext("must be more than %(gt)s"), ("greater_than",)),
        (lazy_gettext("must be at least %(ge)s"), ("greater_than_equal",)),
        (lazy_gettext("must be less than %(lt)s"), ("less_than",)),
        (lazy_gettext("must be at most %(le)s"), ("less_than_equal",)),
        (
            lazy_gettext("must be a whole number"),
            ("int_parsing", "int_type", "int_parsing_size", "int_from_float"),
        ),
        (lazy_gettext("must be a number"), ("float_type", "float_parsing", "finite_number")),
        (lazy_gettext("must be yes or no"), ("bool_parsing", "bool_type")),
        (lazy_gettext("must be a day, such as 2026-03-05"), ("date_parsing", "date_from_datetime_parsing")),
        (
            lazy_gettext("must be a time, such as 2026-03-05T14:30"),
            ("datetime_parsing", "datetime_from_date_parsing"),
        ),
        (lazy_gettext("must be a time of day, such as 22:00"), ("time_parsing",)),
        (lazy_gettext("must say its time zone, such as 2026-03-05T14:30+08:00"), ("timezone_aware",)),
        (lazy_gettext("must be a list"), ("list_type",)),
        (lazy_gettext("must be names with values"), ("dict_type",)),
        (lazy_gettext("is not known here"), ("extra_forbidden",)),
        (lazy_gettext("must be one of %(expected)s"), ("enum", "literal_error")),
        (lazy_gettext("choose at least %(min_length)s"), ("too_short",)),
        (lazy_gettext("choose at most %(max_length)s"), ("too_long",)),
        (lazy_gettext("must be an id"), ("uuid_parsing", "uuid_type")),
    )
    for kind in kinds
}


class FormProblem(NamedTuple):
    """One sentence; ``field``: what it is about, by the form's or the request's name; empty: the whole."""

    field: str
    text: str

    @classmethod
    def of(cls, sentence: str) -> FormProblem:
        """A sentence such as ``days: must be one of 1, 7``, in the language of the request."""
        field, colon, text = sentence.partition(": ")
        return (
            cls(field, localize(text))
            if colon and field.replace("_", "").replace(".", "").isalnum()
            else cls("", localize(sentence))
        )

    def __str__(self) -> str:
        return f"{self.field}: {self.text}" if self.field else self.text


class FormRefused(HTTPException):
    """A form cannot be done as it was sent; nothing was changed."""

    def __init__(self, problems: Sequence[FormProblem], code: int = 400) -> None:
        super().__init__(join_problems([str(problem) for problem in problems]))
        self.problems, self.code = list(problems), code


def refuse(field: str, text: str, code: int = 400) -> NoReturn:
    """The form is refused for one of its fields."""
    raise FormRefused([FormProblem(field, text)], code)


def refusal(error: InvalidRequest | NotFound | Conflict) -> FormRefused:
    """What the service refuses, in its own words."""
    if isinstance(error, InvalidRequest):
        return FormRefused([FormProblem.of(problem) for problem in error.problems])
    return FormRefused([FormProblem.of(str(error))], 404 if isinstance(error, NotFound) else 409)


def problems(error: ValidationError) -> list[FormProblem]:
    """A sentence for each wrong field of a request."""
    return [
        _problem(item["type"], item.get("ctx", {}), text)
        for item, text in zip(first_errors(error), problems_of(error), strict=False)
    ]


def _problem(kind: str, values: dict[str, object], sentence: str) -> FormProblem:
    problem = FormProblem.of(sentence)
    texts = {name: f"{value:g}" if isinstance(value, float) else value for name, value in values.items()}
    return (
        FormProblem(problem.field, str(WORDS[kind]) % texts) if problem.field and kind in WORDS else problem
    )


class RefusedForm(NamedTuple):
    """What was sent to an address and is refused."""

    address: str
    sent: MultiDict[str, str]
    problems: list[FormProblem]


class Form:
    """A form for its template: as it was sent, where it is the one that is refused; otherwise as its page has
    it.

    Args:
        refusal: of this form.
        names: its fields beside which words can stand.
    """

    def __init__(self, refusal: RefusedForm | None = None, names: Collection[str] = ()) -> None:
        self.refused = refusal is not None
        self._sent: MultiDict[str, str] = MultiDict() if refusal is None else refusal.sent
        #: Field → what is wrong with it.
        self.problems: dict[str, str] = {}
        #: What is wrong with the form, or with what is no field of it.
        self.above: list[FormProblem] = []
        for problem in [] if refusal is None else refusal.problems:
            last = problem.field.rpartition(".")[2]
            shorter = (last.removesuffix(end) for end in ENDINGS if last.endswith(end))
            name = next((each for each in shorter if each in names), None)
            if name is None or name in self.problems:
                self.above.append(problem)
            else:
                self.problems[name] = problem.text
        #: The field that gets the focus.
        self.first = next(iter(self.problems), None)

    def value(self, name: str, otherwise: Any = "") -> Any:
        """The text of a field."""
        return self._sent.get(name, otherwise)

    def chosen(self, name: str, value: Any, otherwise: bool = False) -> bool:
        """Whether a box is ticked, or an option selected."""
        return str(value) in self._sent.getlist(name) if self.refused else otherwise


def form_of(addresses: str | Sequence[str], *names: str) -> Form:
    """The form that is sent to one of these addresses; ``names``: fields beside which words can stand."""
    refusal: RefusedForm | None = g.get("refusal")
    paths = [
        unquote(urlsplit(address).path)
        for address in ([addresses] if isinstance(addresses, str) else addresses)
    ]
    if refusal is None or refusal.address not in paths:
        return Form()
    g.refusal_shown = True
    return Form(refusal, names)


def above_the_page() -> list[FormProblem]:
    """What is wrong with a form that the page does not have, or that has no fields."""
    refusal: RefusedForm | None = g.get("refusal")
    return [] if refusal is None or g.get("refusal_shown") else refusal.problems


#: Of a query no part of another address: a part of the page, and arguments of ``url_for``.
NOT_ASKED = frozenset({"whole", "endpoint", "_anchor", "_method", "_scheme", "_external"})


def page_as_json() -> str | None:
    """The address of the page that is being made, as JSON; None if it has no such form."""
    endpoint = f"{request.endpoint}_json"
    if endpoint not in current_app.view_functions:
        return None
    return url_for(endpoint, **{"group": frame.group(), **_query(), **(request.view_args or {})})


def _query() -> dict[str, list[str]]:
    """The query, without what ``url_for`` takes for its own arguments."""
    return {name: values for name, values in request.args.lists() if name not in NOT_ASKED}


def this_page() -> str:
    """The address of the page that is being made, or in a part that htmx asked for, of the page around it."""
    if frame.wants_fragment():
        around = urlsplit(request.headers.get("HX-Current-URL", ""))
        return f"{around.path}?{around.query}"
    return url_for(str(request.endpoint), **{"group": frame.group(), **_query(), **(request.view_args or {})})


def register(app: Flask, blueprints: Collection[str]) -> None:
    """After the blueprints: all their routes that take forms."""
    app.jinja_env.globals.update(
        this_page=this_page, page_as_json=page_as_json, form_of=form_of, above_the_page=above_the_page
    )
    for rule in app.url_map.iter_rules():
        if "POST" in (rule.methods or ()) and rule.endpoint.partition(".")[0] in blueprints:
            app.view_functions[rule.endpoint] = _answering_again(
                app.view_functions[rule.endpoint], blueprints
            )


def _answering_again(view: Callable[..., Any], blueprints: Collection[str]) -> Callable[..., Any]:
    @wraps(view)
    def answered(**parts: Any) -> Any:
        try:
            return view(**parts)
        except HTTPException as error:
            wrong = (
                error.problems
                if isinstance(error, FormRefused)
                else [FormProblem.of(str(error.description or error.name))]
            )
            again = _again(wrong, error.code, blueprints) if error.code in STATUSES else None
            if again is None:
                raise
            return again
        except SourceUnavailable as error:
            again = _again([FormProblem("", no_answer(error))], 503, blueprints)
            if again is None:
                raise
            return again

    return answered


def _again(wrong: list[FormProblem], status: int | None, blueprints: Collection[str]) -> Response | None:
    """None if there is no page to show again."""
    if frame.wants_fragment():
        return Response(render_template("_refused.html", problems=wrong), status)
    refusal = RefusedForm(request.path, MultiDict(request.form), wrong)
    before = request.url_rule, request.view_args, request.args
    try:
        page = _page(request.form.get(PAGE, ""), blueprints, refusal)
    except (HTTPException, RoutingException, SourceUnavailable):
        page = None
    if page is None or page.status_code != 200 or page.mimetype != "text/html" or page.is_streamed:
        request.url_rule, request.view_args, request.args = before
        g.pop("refusal", None)
        frame.enter_again()
        return None
    page.status_code = status or 400
    return page


def _page(address: str, blueprints: Collection[str], refusal: RefusedForm) -> Response | None:
    """The admin page at an address, rendered again as the request's page; None if it is no page of ours."""
    there = urlsplit(address)
    adapter = current_app.create_url_adapter(request)
    if adapter is None or there.scheme or there.netloc or not there.path.startswith("/"):
        return None
    rule, parts = adapter.match(there.path, method="GET", return_rule=True)
    if rule.endpoint.partition(".")[0] not in blueprints:
        return None
    request.url_rule, request.view_args = rule, dict(parts)
    request.args = ImmutableMultiDict(parse_qs(there.query, keep_blank_values=True))
    frame.enter_again()
    g.refusal = refusal
    return make_response(current_app.view_functions[rule.endpoint](**parts))
