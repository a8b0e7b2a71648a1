"""Operations of the API: each is said once, and routes, checks, the OpenAPI document and tests follow from it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import BaseModel

from web.accounts.identity import Scope

PREFIX = "/api/v1"

Method = Literal["GET", "POST", "PATCH", "DELETE"]
Tag = Literal["events", "retrieval", "memories", "agents", "reflections", "service", "erasure", "tiers"]
Handler = Callable[..., Any]

#: ``<converter:name>`` of a route.
_PART = re.compile(r"<(\w+):(\w+)>")


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """What :func:`operation` was told."""

    method: Method
    path: str
    id: str
    scope: Scope
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
        summary, _, description = (handler.__doc__ or "").strip().partition("\n")
        told.setdefault("description", " ".join(description.split()) or summary)
        OPERATIONS.append(Operation(method=method, path=path, summary=summary.rstrip("."), handler=handler, **told))
        return handler

    return register
