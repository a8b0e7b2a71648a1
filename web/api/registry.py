"""Operations of the API: routes, checks, the OpenAPI document and tests follow from each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import new_class
from typing import Any, ClassVar, cast, get_type_hints

from pydantic import BaseModel, ValidationError
from pydantic_core import from_json

from jiyi.errors import InvalidRequest, NotFound, problems_of
from jiyi.protocol.base import Rows
from jiyi.protocol.openapi import document
from jiyi.protocol.openapi.document import Method, Tag
from models.db.actions import Action
from web.actions import READ_TIMEOUT_MS, STATEMENT_TIMEOUT_MS, WORKER_SECONDS, perform
from web.api.problems import RequestRefused

#: Operation → ``request`` (what it shows → body or query) and ``answer``, as the OpenAPI document has them. A
#: file for each tag.
EXAMPLES: Mapping[str, Any] = {
    name: example
    for path in Path(__file__).with_name("examples").glob("*.json")
    for name, example in from_json(path.read_bytes()).items()
}

Handler = Callable[..., Any]
#: Values of an action's request, by the names of its fields.
RequestFields = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiOperation(document.Operation):
    """The arguments given to :func:`operation`, with the handler."""

    handler: Handler
    #: The action that it is, unless it takes events or is a read without a name.
    action: Action[Any, Any] | None = None
    #: Whether its body may be as long as an event; of an action, the table says so.
    large: bool = False


#: Every operation there is, in the order of the document.
OPERATIONS: list[ApiOperation] = []


def operation(address: str, tag: Tag, **options: Any) -> Callable[[Handler], Handler]:
    """Make a function the operation of its name at an address such as ``GET /nodes/<uuid:id>``.

    It gets a :class:`web.api.running.RequestContext`, the path's parts by name, and ``query`` and ``body``
    where it has such parameters, checked as these are annotated. It returns the answer, ``answer`` or as
    annotated: a model, plain data, JSON as bytes, or a :class:`web.api.running.Reply`. Its docstring's first
    line is the summary, the rest the description.
    """

    def register(handler: Handler) -> Handler:
        name, hints = handler.__name__, get_type_hints(handler)
        for field, parameter in (("body", "body"), ("query", "query"), ("answer", "return")):
            options.setdefault(field, hints.get(parameter))
        options.update(
            {field: tuple(options[field].split()) for field in ("flat", "needed") if field in options}
        )
        if (example := EXAMPLES.get(name)) is not None:
            options.update(examples=example.get("request", {}), answer_example=example.get("answer"))
        summary, _, description = (handler.__doc__ or "").strip().partition("\n")
        options.setdefault("description", " ".join(description.split()) or summary)
        method, _, path = address.partition(" ")
        common: dict[str, Any] = {
            "id": name,
            "tag": tag,
            "method": cast("Method", method),
            "path": path,
            "handler": handler,
        }
        OPERATIONS.append(ApiOperation(summary=summary.rstrip("."), **common, **options))
        return handler

    return register


def complete_examples() -> None:
    """An answer without an example of its own has that of the first operation with such an answer; a list has
    the example of a row.
    """
    examples: dict[str, Any] = {}
    for one in OPERATIONS:
        if one.answer_example is not None:
            examples.setdefault(repr(one.answer), one.answer_example)

    def example(answer: Any) -> Any:
        of = getattr(answer, "__pydantic_generic_metadata__", {"origin": None})
        if repr(answer) in examples or of["origin"] is not Rows:
            return examples.get(repr(answer))
        row = example(of["args"][0])
        return None if row is None else {"rows": [row], "next": None}

    OPERATIONS[:] = [
        replace(one, answer_example=example(one.answer)) if one.answer_example is None else one
        for one in OPERATIONS
    ]


def expose(
    action: Action[Any, Any],
    address: str,
    name: str,
    tag: Tag,
    *,
    present: Callable[[Any, Any], Any] | None = None,
    from_parts: Callable[[RequestFields], RequestFields] | None = None,
    without: str = "",
    missing: str = "",
    doc: str = "",
    timeout: float = WORKER_SECONDS,
    **options: Any,
) -> ApiOperation:
    """Make an action, or a read, an operation: its scope, its words (unless ``doc`` has others) and its
    behaviour are the action's.

    The action's request is what the path's parts say and, of a GET or DELETE, the query, else the body: all
    its fields but those of ``without``. ``from_parts``: the path's parts alone are, and it makes the request
    of them. ``present`` makes the answer of a :class:`web.api.running.RequestContext` and the result; without
    it the result is the answer. ``missing``: what does not exist when it is 404, with the path's parts in
    braces.
    """
    options = {"answer": action.result, "body": None, "query": None, **options}
    method, _, path = address.partition(" ")
    parts = document.parts_of(path)
    form = None if from_parts is not None else without_fields(action.request, {*parts, *without.split()})
    if form is not None and form.model_fields:
        options["query" if method in ("GET", "DELETE") else "body"] = form
    statement_ms = READ_TIMEOUT_MS if method == "GET" else STATEMENT_TIMEOUT_MS

    def handler(
        context: Any, body: BaseModel | None = None, query: BaseModel | None = None, **parts: Any
    ) -> Any:
        fields = {
            name: getattr(model, name)
            for model in (body, query)
            if model is not None
            for name in model.model_fields_set
        } | parts
        try:
            request = action.request.model_validate(fields if from_parts is None else from_parts(fields))
        except ValidationError as error:
            raise InvalidRequest(problems_of(error, action.request)) from None
        try:
            result = perform(action, context.group_id, request, timeout=timeout, statement_ms=statement_ms)
        except NotFound as error:
            raise (
                RequestRefused(404, f"There is no {missing.format(**parts)}.") if missing else error
            ) from None
        return result if present is None else present(context, result)

    handler.__name__, handler.__doc__ = name, doc or action.doc
    operation(address, tag, scope=action.scope, action=action if action.name else None, **options)(handler)
    return OPERATIONS[-1]


def without_fields(request: type[BaseModel], names: set[str]) -> type[BaseModel]:
    """The request's form without these fields: what a path says, the body does not say again."""
    gone = names & request.model_fields.keys()
    if not gone:
        return request
    namespace = {
        "__module__": request.__module__,
        "__doc__": request.__doc__,
        "__annotations__": dict.fromkeys(gone, ClassVar[None]),
    }
    form: type[BaseModel] = new_class(
        f"{request.__name__}Form",
        (request,),
        exec_body=lambda body: body.update(namespace | dict.fromkeys(gone)),
    )
    return form
