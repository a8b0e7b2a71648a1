"""Operations of the API: each is said once, and routes, checks, the OpenAPI document and tests follow from it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ValidationError
from pydantic_core import from_json

from jiyi.errors import InvalidRequest, NotFound, problems_of
from models.db.actions import Action
from web.accounts.identity import Scope
from web.actions import READ_TIMEOUT_MS, STATEMENT_TIMEOUT_MS, WORKER_SECONDS, perform
from web.api.paging import Paging
from web.api.problems import Refused

PREFIX = "/api/v1"
#: A file for each operation: ``request`` (what it shows → body or query) and ``answer``, as the OpenAPI document has them.
EXAMPLES = Path(__file__).with_name("examples")

Method = Literal["GET", "POST", "PATCH", "DELETE"]
Tag = Literal[
    "events", "retrieval", "memories", "agents", "reflections", "service", "erasure", "tiers", "conversations", "stores", "growth", "items"
]
Handler = Callable[..., Any]
#: What an action is asked with, by the names of its request's fields.
Given = Mapping[str, Any]

#: ``<converter:name>`` of a route.
_PART = re.compile(r"<(\w+):(\w+)>")


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """What :func:`operation` was told."""

    method: Method
    path: str
    id: str
    #: None: what it does decides.
    scope: Scope | None
    tag: Tag
    summary: str
    description: str
    handler: Handler
    answer: type[BaseModel]
    status: int = 200
    query: type[BaseModel] | None = None
    body: type[BaseModel] | None = None
    body_required: bool = True
    #: Bodies, or queries, by what they show.
    examples: Mapping[str, Any] = field(default_factory=dict)
    answer_example: Any = None
    #: Statuses beyond those that follow from the rest.
    errors: tuple[int, ...] = ()
    #: Fields that the document for Dify keeps; None: not in it.
    flat: tuple[str, ...] | None = None
    #: Which of the body's models those are fields of, where it has several forms.
    flat_body: type[BaseModel] | None = None
    #: The action that it is, unless it takes events or is a read without a name.
    action: Action[Any, Any] | None = None

    @property
    def parts(self) -> dict[str, str]:
        """Name → converter of what varies in the path."""
        return {name: converter for converter, name in _PART.findall(self.path)}

    @property
    def url(self) -> str:
        """The whole path as OpenAPI writes it."""
        return PREFIX + _PART.sub(r"{\2}", self.path)

    @property
    def statuses(self) -> list[int]:
        """Every status that it may answer with."""
        found = {self.status, 400, 401, 403, 429, 500, 503, *self.errors}
        if self.parts:
            found |= {404}
        if self.body is not None:
            found |= {413, 415}
        return sorted(found | {422})


#: Every operation there is, in the order of the document.
OPERATIONS: list[Operation] = []


def operation(method: Method, path: str, **told: Any) -> Callable[[Handler], Handler]:
    """Make a function an operation.

    It gets an :class:`web.api.running.Asker`, the path's parts by name, and ``query`` and ``body`` where there are such
    models, already checked. What it gives is the answer: a model, plain data, or JSON as bytes; or a
    :class:`web.api.running.Reply`. Its docstring's first line is the summary, the rest the description.
    """

    def register(handler: Handler) -> Handler:
        shown = EXAMPLES / f"{told['id']}.json"
        if shown.exists():
            example = from_json(shown.read_bytes())
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
    query with a cursor see :mod:`web.api.paging`. ``present`` makes the answer of an :class:`web.api.running.Asker` and the result,
    in lists of each row; without it the result is the answer. ``missing``: what a 404 says, with the path's parts in braces.
    """
    told.setdefault("answer", action.result)
    paging = Paging.between(told.get("query"), action.request, told["answer"])
    statement_ms = READ_TIMEOUT_MS if method == "GET" else STATEMENT_TIMEOUT_MS

    def handler(asker: Any, body: BaseModel | None = None, query: BaseModel | None = None, **parts: Any) -> Any:
        fields = {name: getattr(one, name) for one in (body, query) if one is not None for name in one.model_fields_set} | parts
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
