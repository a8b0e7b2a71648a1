"""What is wrong with a form, field by field, as its page tells it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, NoReturn

from flask_babel import lazy_gettext
from pydantic import ValidationError
from werkzeug.exceptions import HTTPException

from jiyi.errors import Conflict, InvalidRequest, NotFound, join_problems, problems_of
from web.admin.forms.sentences import told

#: pydantic's kinds of error that people bring about in forms, in their own language.
WORDS = {
    "missing": lazy_gettext("is needed"),
    "string_type": lazy_gettext("is needed"),
    "string_pattern_mismatch": lazy_gettext("must not be blank, or is not written like this"),
    "string_too_short": lazy_gettext("must have at least %(min_length)s characters"),
    "string_too_long": lazy_gettext("must have at most %(max_length)s characters"),
    "greater_than": lazy_gettext("must be more than %(gt)s"),
    "greater_than_equal": lazy_gettext("must be at least %(ge)s"),
    "less_than": lazy_gettext("must be less than %(lt)s"),
    "less_than_equal": lazy_gettext("must be at most %(le)s"),
    "int_parsing": lazy_gettext("must be a whole number"),
    "int_type": lazy_gettext("must be a whole number"),
    "int_parsing_size": lazy_gettext("must be a whole number"),
    "float_type": lazy_gettext("must be a number"),
    "bool_parsing": lazy_gettext("must be yes or no"),
    "bool_type": lazy_gettext("must be yes or no"),
    "date_parsing": lazy_gettext("must be a day, such as 2026-03-05"),
    "date_from_datetime_parsing": lazy_gettext("must be a day, such as 2026-03-05"),
    "datetime_parsing": lazy_gettext("must be a time, such as 2026-03-05T14:30"),
    "datetime_from_date_parsing": lazy_gettext("must be a time, such as 2026-03-05T14:30"),
    "time_parsing": lazy_gettext("must be a time of day, such as 22:00"),
    "timezone_aware": lazy_gettext("must say its time zone, such as 2026-03-05T14:30+08:00"),
    "list_type": lazy_gettext("must be a list"),
    "dict_type": lazy_gettext("must be names with values"),
    "extra_forbidden": lazy_gettext("is not known here"),
    "enum": lazy_gettext("must be one of %(expected)s"),
    "int_from_float": lazy_gettext("must be a whole number"),
    "float_parsing": lazy_gettext("must be a number"),
    "finite_number": lazy_gettext("must be a number"),
    "literal_error": lazy_gettext("must be one of %(expected)s"),
    "too_short": lazy_gettext("choose at least %(min_length)s"),
    "too_long": lazy_gettext("choose at most %(max_length)s"),
    "uuid_parsing": lazy_gettext("must be an id"),
    "uuid_type": lazy_gettext("must be an id"),
}


class Problem(NamedTuple):
    """One sentence; ``field`` is the form's or the request's name of what it is about, empty if it is about the whole."""

    field: str
    text: str

    @classmethod
    def of(cls, sentence: str) -> Problem:
        """A sentence such as ``days: must be one of 1, 7``, in the language of the request."""
        field, colon, text = sentence.partition(": ")
        return cls(field, told(text)) if colon and field.replace("_", "").replace(".", "").isalnum() else cls("", told(sentence))

    def __str__(self) -> str:
        return f"{self.field}: {self.text}" if self.field else self.text


class Refused(HTTPException):
    """A form cannot be done as it was sent; nothing was changed."""

    def __init__(self, problems: Sequence[Problem], code: int = 400) -> None:
        super().__init__(join_problems([str(problem) for problem in problems]))
        self.problems, self.code = list(problems), code


def refuse(field: str, text: str, code: int = 400) -> NoReturn:
    """The form is refused for one of its fields."""
    raise Refused([Problem(field, text)], code)


def refusal(error: InvalidRequest | NotFound | Conflict) -> Refused:
    """What the service refuses, in its own words."""
    if isinstance(error, InvalidRequest):
        return Refused([Problem.of(problem) for problem in error.problems])
    return Refused([Problem.of(str(error))], 404 if isinstance(error, NotFound) else 409)


def problems(error: ValidationError) -> list[Problem]:
    """A sentence for each wrong field of a request."""
    return [
        _problem(item["type"], item.get("ctx", {}), text)
        for item, text in zip(error.errors(include_url=False), problems_of(error), strict=True)
    ]


def _problem(kind: str, values: dict[str, object], sentence: str) -> Problem:
    problem = Problem.of(sentence)
    shown = {name: f"{value:g}" if isinstance(value, float) else value for name, value in values.items()}
    return Problem(problem.field, str(WORDS[kind]) % shown) if problem.field and kind in WORDS else problem
