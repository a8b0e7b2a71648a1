"""What an operation of the REST API says of itself: the document, the tools and the tests follow from it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import BaseModel

from jiyi.protocol.wire.api_keys import KeyScope

PREFIX = "/api/v1"
#: An operator's key says with it which group it speaks for.
GROUP_HEADER = "Jiyi-Group"

Method = Literal["GET", "POST", "PATCH", "DELETE"]
Tag = Literal[
    "events", "retrieval", "memories", "agents", "reflections", "service", "erasure", "tiers", "conversations", "stores", "growth", "items"
]

#: ``<converter:name>`` of a path.
_PART = re.compile(r"<(\w{1,40}):(\w{1,40})>")


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """Method and path, what it takes and what it answers with."""

    method: Method
    path: str
    id: str
    #: None: what it does decides.
    scope: KeyScope | None
    tag: Tag
    summary: str
    description: str
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
        possible = {self.status, 400, 401, 403, 429, 500, 503, *self.errors}
        if self.parts:
            possible |= {404}
        if self.body is not None:
            possible |= {413, 415}
        return sorted(possible | {422})
