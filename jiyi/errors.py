"""Every error a user of Jiyi can meet, each with a stable ``code`` and a sentence that names the fix."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from itertools import islice
from typing import Any, Literal, get_args

from pydantic import BaseModel, RootModel, ValidationError
from pydantic_core import ErrorDetails

MAX_PROBLEMS_SHOWN = 10  # a batch of 500 bad events must not print 500 lines
#: … nor an answer hold more than so many; and of still more errors pydantic does not even make its list, a
#: thousand bytes each.
MAX_PROBLEMS, MAX_ERRORS = 50, 10_000
MAX_VALUE_CHARS = 60  # of an offending value quoted in a message
#: Least similarity of a name and the one that was probably meant, 0 … 1.
LEAST_SIMILARITY = 0.6
#: How pydantic calls the members of a union in the path of an error.
_MEMBER = re.compile(r"(?:function-(?:after|before|wrap|plain)|literal|list|dict|nullable|lax-or-strict)\[")
#: Names that are listed where none is similar.
MAX_NAMES_SHOWN = 12


def words_of(error: BaseException) -> str:
    """What an error says; its kind, if it says nothing, as a time-out does."""
    return str(error).strip() or type(error).__name__


def kind_and_words(error: BaseException) -> str:
    """The same behind its kind."""
    words, kind = words_of(error), type(error).__name__
    return kind if words == kind else f"{kind}: {words}"


class JiyiError(Exception):
    """Base of all errors that Jiyi raises on purpose."""

    code = "error"


class SettingsError(JiyiError, ValueError):
    """A ``JIYI_…`` variable has a value that cannot be used, or one that is needed is missing."""

    code = "settings"


class _ProblemsError(Exception):
    """An error that is made of sentences, or of one."""

    def __init__(self, problems: Sequence[str] | str) -> None:
        self.problems = list(problems) if not isinstance(problems, str) else [problems] if problems else []
        super().__init__(join_problems(self.problems))


class InvalidEvent(_ProblemsError, JiyiError, ValueError):  # noqa: N818 – users know it by this name
    """An event was refused; ``problems`` has one sentence per field."""

    code = "invalid_event"


class InvalidRequest(_ProblemsError, JiyiError, ValueError):  # noqa: N818 – users know it by this name
    """A request was refused; ``problems`` has one sentence per field."""

    code = "invalid_request"


class ConfigError(InvalidRequest):
    """A declaration of stores was refused; ``problems`` begin with paths: ``memory[1].config.embedding``."""

    code = "config"


class HeadsError(JiyiError, ValueError):
    """The packaged weights of the learned judgements are broken, or of another version or model."""

    code = "heads"


class RegistryError(JiyiError, ValueError):
    """Two types of store were registered under one name, or what was to provide one cannot be loaded."""

    code = "registry"


class BrokerUnavailable(JiyiError, ConnectionError):  # noqa: N818 – users know it by this name
    """Broker, Valkey or service are away, or full; nothing was published, unless the connection broke."""

    code = "broker_unavailable"


class DatabaseUnavailable(JiyiError, ConnectionError):  # noqa: N818 – users know it by this name
    """The database is away, starting, out of connections, or its disk is full. Nothing was changed."""

    code = "database_unavailable"


class NoAnswer(JiyiError, TimeoutError):  # noqa: N818 – users know it by this name
    """Nothing was answered in time. A change may have been made; the same events may be sent again."""

    code = "no_answer"


class EventRejected(JiyiError):  # noqa: N818 – users know it by this name
    """The service received the event but could not store it; it is kept in the dead letters."""

    code = "event_rejected"


class IdReused(_ProblemsError, EventRejected):  # noqa: N818 – users know it by this name
    """Another event has this id and says something else; ``problems`` has a sentence an event."""

    code = "id_reused"


class ProviderUnavailable(JiyiError):  # noqa: N818 – users know it by this name
    """Something outside that the work needs is away: the work waits, and no attempt is counted against it."""

    code = "provider_unavailable"
    #: HTTP status that it answered, if it got that far.
    status: int | None = None
    #: Its own words and code, to be read and not to be shown: they may quote what was sent.
    words: str = ""
    #: Seconds that it asks to be left alone; 0 if it asks for nothing.
    retry_after: float = 0.0
    #: It took longer than it was given.
    timed_out: bool = False


class EmbeddingUnavailable(ProviderUnavailable):
    """The embedding provider failed or answered something unusable; the work stays pending."""

    code = "embedding_unavailable"


class TextRefused(JiyiError, ValueError):  # noqa: N818 – users know it by this name
    """The embedding provider works, but refuses one of these texts: an attempt counts against the texts."""

    code = "text_refused"


class LLMUnavailable(ProviderUnavailable):
    """The LLM cannot be reached, is too slow, or refuses; the work stays pending."""

    code = "llm_unavailable"


class SearchUnavailable(ProviderUnavailable):
    """The search engine cannot be reached, is too slow, refuses, or answers something unusable."""

    code = "search_unavailable"


class RerankerUnavailable(ProviderUnavailable):
    """The reranker is away, too slow, refuses, or answers something unusable: the order stays as it was."""

    code = "reranker_unavailable"


class BadReply(JiyiError):  # noqa: N818 – users know it by this name
    """The LLM answered, but not what was asked for, even after it was given the error."""

    code = "bad_reply"
    #: The question was not let through (a filter of contents, its length), while others are.
    refused: bool = False
    #: What was longer than the model takes.
    too_long: Literal["", "question", "answer"] = ""


class LeftToRules(BadReply):
    """The LLM is not asked this: it cannot do it, or has had nothing usable to say for a while."""

    code = "left_to_rules"


class ModelMismatch(JiyiError, ValueError):  # noqa: N818 – users know it by this name
    """Vectors of different models, or of different sizes, were about to be compared."""

    code = "model_mismatch"


class EvidenceMissing(JiyiError):  # noqa: N818 – users know it by this name
    """A thought rests on memories that have not arrived."""

    code = "evidence_missing"


class NotFound(JiyiError, LookupError):  # noqa: N818 – users know it by this name
    """The thing named does not exist in this group."""

    code = "not_found"


class SwitchedOff(NotFound):
    """It belongs to an optional subject that this deployment has switched off (``JIYI_SUBJECTS``)."""

    code = "switched_off"


class Conflict(JiyiError):  # noqa: N818 – users know it by this name
    """It does not fit what has happened meanwhile, such as another's decision; nothing was changed."""

    code = "conflict"


class NotAllowed(JiyiError, PermissionError):  # noqa: N818 – users know it by this name
    """The call is not signed, or with a key that may not do this; nothing was done."""

    code = "not_allowed"


class TooManyQuestions(JiyiError):  # noqa: N818 – users know it by this name
    """The key or its group sends more requests, or more at a time, than it may; nothing was begun. A client
    retries automatically for 70 s before it raises this.
    """

    code = "too_many_questions"

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        """``retry_after``: seconds after which to ask again, if that is known."""
        super().__init__(message)
        self.retry_after = retry_after


class ServiceError(JiyiError):
    """The service failed on its side; its log has the details under the id in the message."""

    code = "service_error"


#: What travels back to a client in a reply: ``code`` -> the class it is raised as again.
BY_CODE: Mapping[str, type[JiyiError]] = {
    cls.code: cls for cls in list(globals().values()) if isinstance(cls, type) and issubclass(cls, JiyiError)
}


def join_problems(problems: Sequence[str]) -> str:
    text = "; ".join(problems[:MAX_PROBLEMS_SHOWN])
    hidden = len(problems) - MAX_PROBLEMS_SHOWN
    return f"{text}; and {hidden} more" if hidden > 0 else text


def problems_of(error: ValidationError, model: Any = None) -> list[str]:
    """One sentence per wrong field of a pydantic error: the field's path, what is wrong, the value; with the
    ``model`` (or union) that was checked also the name that was probably meant.
    """
    items = first_errors(error)
    sentences = [
        _sentence(item, model if place < MAX_PROBLEMS_SHOWN else None) for place, item in enumerate(items)
    ]
    more = error.error_count() - len(items)
    return (
        [
            *sentences,
            f"and {more:,} more problems" if sentences else f"{more:,} problems, too many to be listed",
        ]
        if more
        else sentences
    )


def first_errors(error: ValidationError) -> list[ErrorDetails]:
    """The details of a pydantic error, as far as they are reported."""
    return [] if error.error_count() > MAX_ERRORS else error.errors(include_url=False)[:MAX_PROBLEMS]


def first_of(problems: Iterable[str]) -> list[str]:
    """The sentences that are reported, and a note if there are more; no further ones are made."""
    first = list(islice(problems, MAX_PROBLEMS + 1))
    return first if len(first) <= MAX_PROBLEMS else [*first[:-1], "and more problems"]


def unknown_option(name: str, names: Collection[str], within: str = "") -> str:
    """What is said of an option that is none of those known; ``within`` is the path to where it stands."""
    return unknown(name, names, "option", within)


def unknown(name: str, names: Collection[str], what: str, within: str = "") -> str:
    """What is said of a name (of an option, a command) that is not known, with the one probably meant."""
    readable_name = readable_part(name)
    matches = get_close_matches(readable_name, names, n=1, cutoff=LEAST_SIMILARITY) if names else []
    problem = f"unknown {what} '{within}{readable_name}'"
    if matches == [readable_name]:
        return f"{problem}: it is not taken here; leave it out"
    if matches:
        return f"{problem}: did you mean {matches[0]}?"
    return (
        f"{problem}: known are {', '.join(sorted(names))}"
        if 0 < len(names) <= MAX_NAMES_SHOWN
        else f"{problem}: there is none of this name"
    )


def _names_at(model: Any, path: Sequence[Any]) -> set[str]:
    """The names of the fields that the object at a path of the model may have."""
    models = set(_models_in(model))
    for part in path:
        if (
            isinstance(part, str) and "." not in part
        ):  # positions and the names of a union's members are no fields
            fields = [field for one in models for name, field in one.model_fields.items() if name == part]
            models = {model for field in fields for model in _models_in(field.annotation)}
    return {name for one in models for name in one.model_fields}


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, RootModel):
        yield from _models_in(annotation.model_fields["root"].annotation)
    elif isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    else:
        for part in get_args(annotation):
            yield from _models_in(part)


def _sentence(item: Mapping[str, Any], model: Any) -> str:
    # The names of a tagged union's members are pydantic's, not the user's: they are no part of the path.
    path = ".".join(readable_part(part) for part in item["loc"] if _is_field(part)) or "value"
    message = str(item["msg"]).removeprefix("Value error, ")
    if not item["loc"] and item["type"] == "value_error":
        return message  # of the whole; names the fields itself
    value = item.get("input")
    match item["type"]:
        case "extra_forbidden" if model is not None:
            *above, name = item["loc"]
            within = "".join(f"{readable_part(part)}." for part in above if "." not in str(part))
            return unknown_option(str(name), _names_at(model, above), within)
        case "union_tag_not_found":
            return "type: required, but missing (or this is no JSON object)"
        case "union_tag_invalid":
            return f"type: unknown, {_short(item['ctx']['tag'])}; known are {item['ctx']['expected_tags']}"
        case "too_long" if item["ctx"]["actual_length"] is not None:
            message = (
                f"{item['ctx']['actual_length']:,} are more than {item['ctx']['max_length']:,}; send fewer"
            )
        case "missing":
            message, value = "required, but missing", None
        case "string_pattern_mismatch" if item["ctx"]["pattern"] == r"\S":
            message, value = "must not be blank", None
        case "string_pattern_mismatch" if examples := _examples(model, item["loc"]):
            message = f"is not of its form; write it like {' or '.join(map(repr, examples))}"
    if isinstance(value, str | int | float | bool) and "value_error" not in item["type"]:
        return f"{path}: {message} (got {_short(value)})"
    return f"{path}: {message}"


def _examples(model: Any, path: Sequence[Any]) -> list[Any]:
    """What a field of the model may look like, if its examples say so."""
    field = getattr(model, "model_fields", {}).get(path[0]) if len(path) == 1 else None
    return (field.examples or []) if field is not None else []


def _is_field(part: object) -> bool:
    """Not pydantic's name of a union's member: ``literal['off']``, ``function-after[…]``, ``a.tag``."""
    return not ("." in str(part) or _MEMBER.match(str(part)))


def readable_part(part: object) -> str:
    """A part of a field's path as logs and tables may show it: names from outside may hold anything."""
    text = str(part)
    return text if text.isprintable() and len(text) <= MAX_VALUE_CHARS else ascii(text[:MAX_VALUE_CHARS])


def _short(value: object) -> str:
    text = repr(value)
    return (
        text if len(text) <= MAX_VALUE_CHARS else f"{text[:MAX_VALUE_CHARS]}…, {len(str(value)):,} characters"
    )
