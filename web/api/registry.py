"""Operations of the API: each is said once, and routes, checks, the OpenAPI document and tests follow from it.

The cursor of a request is the place that a read of a list goes on from. Such a read has a field ``before`` or ``after``, whose type says
what a place is, and answers with ``rows`` and ``next``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass
from functools import reduce
from operator import or_
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import from_json

from jiyi.errors import InvalidRequest, NotFound, problems_of
from jiyi.protocol.base import Rows
from jiyi.protocol.openapi import document
from jiyi.protocol.openapi.document import Method
from jiyi.protocol.rest import Cursor, decode_cursor, encode_cursor
from models.db.actions import Action
from web.actions import READ_TIMEOUT_MS, STATEMENT_TIMEOUT_MS, WORKER_SECONDS, perform
from web.api.problems import Refused

#: Operation → ``request`` (what it shows → body or query) and ``answer``, as the OpenAPI document has them. A file for each tag.
EXAMPLES: Mapping[str, Any] = {
    name: example for path in Path(__file__).with_name("examples").glob("*.json") for name, example in from_json(path.read_bytes()).items()
}

Handler = Callable[..., Any]
#: What an action is asked with, by the names of its request's fields.
Given = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation(document.Operation):
    """What :func:`operation` was told."""

    handler: Handler
    #: The action that it is, unless it takes events or is a read without a name.
    action: Action[Any, Any] | None = None
    #: Whether its body may be as long as an event; of an action, the table says so.
    large: bool = False


#: Every operation there is, in the order of the document.
OPERATIONS: list[Operation] = []


def operation(method: Method, path: str, **told: Any) -> Callable[[Handler], Handler]:
    """Make a function an operation.

    It gets an :class:`web.api.running.Asker`, the path's parts by name, and ``query`` and ``body`` where there are such
    models, already checked. What it gives is the answer: a model, plain data, or JSON as bytes; or a
    :class:`web.api.running.Reply`. Its docstring's first line is the summary, the rest the description.
    """

    def register(handler: Handler) -> Handler:
        if (example := EXAMPLES.get(told["id"])) is not None:
            told.update(examples=example.get("request", {}), answer_example=example.get("answer"))
        summary, _, description = (handler.__doc__ or "").strip().partition("\n")
        told.setdefault("description", " ".join(description.split()) or summary)
        OPERATIONS.append(Operation(method=method, path=path, summary=summary.rstrip("."), handler=handler, **told))
        return handler

    return register


def expose(
    action: Action[Any, Any],
    method: Method,
    path: str,
    *,
    present: Callable[[Any, Any], Any] | None = None,
    given: Callable[[Given], Given] | None = None,
    missing: str = "",
    doc: str = "",
    timeout: float = WORKER_SECONDS,
    **told: Any,
) -> Operation:
    """Make an action, or a read, an operation: its scope, its words (unless ``doc`` has others) and its behaviour are the action's.

    The body's or the query's fields and the path's parts together are the action's request, or what ``given`` makes of them; of a
    query with a cursor see :mod:`web.api.registry`. ``present`` makes the answer of an :class:`web.api.running.Asker` and the result,
    in lists of each row; without it the result is the answer. ``missing``: what a 404 says, with the path's parts in braces.
    """
    told.setdefault("answer", action.result)
    paging = Paging.between(told.get("query"), action.request, told["answer"])
    statement_ms = READ_TIMEOUT_MS if method == "GET" else STATEMENT_TIMEOUT_MS

    def handler(asker: Any, body: BaseModel | None = None, query: BaseModel | None = None, **parts: Any) -> Any:
        fields = {name: getattr(model, name) for model in (body, query) if model is not None for name in model.model_fields_set} | parts
        if paging is not None:
            paging.replace_cursor(fields)
        try:
            request = action.request.model_validate(fields if given is None else given(fields))
        except ValidationError as error:
            raise InvalidRequest(problems_of(error, action.request)) from None
        try:
            result = perform(action, asker.group_id, request, timeout=timeout, statement_ms=statement_ms)
        except NotFound as error:
            raise Refused(404, missing.format(**parts)) if missing else error from None
        if paging is not None:
            return paging.page(result, lambda row: row if present is None else present(asker, row))
        return result if present is None else present(asker, result)

    handler.__doc__ = doc or action.doc
    operation(method, path, scope=action.scope, action=action if action.name else None, **told)(handler)
    return OPERATIONS[-1]


@dataclass(frozen=True, slots=True)
class Paging:
    """What differs from list to list: the request's field of the place and its form, and the answer, whose first field is the rows."""

    place: str
    form: TypeAdapter[tuple[Any, ...]]
    answer: type[BaseModel]

    @classmethod
    def between(cls, query: type[BaseModel] | None, request: type[BaseModel], answer: type[BaseModel]) -> Paging | None:
        """None unless the query has a cursor."""
        if query is None or not issubclass(query, Cursor):
            return None
        place = "before" if "before" in request.model_fields else "after"
        kind = request.model_fields[place].annotation
        kinds = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
        forms = [type_ if get_origin(type_) is tuple else tuple[type_] for type_ in kinds if type_ is not NoneType]  # type: ignore[valid-type]
        return cls(place, TypeAdapter(reduce(or_, forms)), answer)

    def replace_cursor(self, given: MutableMapping[str, Any]) -> None:
        """Put the place where the query's cursor was. Raises :class:`jiyi.errors.InvalidRequest` if the cursor is not of this list."""
        place = decode_cursor(given.pop("after", ""), self.form)
        if place is not None:
            given[self.place] = place if len(place) > 1 else place[0]

    def page(self, found: Rows[Any], present: Callable[[Any], Any]) -> BaseModel:
        """The answer, each row as it is presented."""
        beside = {name: getattr(found, name) for name in type(found).model_fields if name not in ("rows", "next")}
        following = found.next if found.next is None or isinstance(found.next, tuple) else (found.next,)
        rows = {next(iter(self.answer.model_fields)): list(map(present, found.rows))}
        return self.answer.model_validate({**beside, **rows, "next": following and encode_cursor(*following)})
