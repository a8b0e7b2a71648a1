"""Lists over REST: the cursor of a request is the place that a read goes on from, and the place that it gives back a cursor.

A read of a list has a field ``before`` or ``after`` and answers with ``rows`` and ``next``. Of what type a place is, its field says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import or_
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

from pydantic import BaseModel, TypeAdapter

from jiyi.protocol.queries import Rows
from jiyi.protocol.rest import Cursor
from web import cursors


@dataclass(frozen=True, slots=True)
class Paging:
    """What differs from list to list: the request's field of the place and its form, and what the answer calls its rows."""

    place: str
    form: TypeAdapter[tuple[Any, ...]]
    rows: str

    @classmethod
    def between(cls, query: type[BaseModel] | None, request: type[BaseModel], answer: type[BaseModel]) -> Paging | None:
        """None unless the query has a cursor."""
        if query is None or not issubclass(query, Cursor):
            return None
        place = "before" if "before" in request.model_fields else "after"
        kind = request.model_fields[place].annotation
        kinds = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
        forms = [one if get_origin(one) is tuple else tuple[one] for one in kinds if one is not NoneType]  # type: ignore[valid-type]
        return cls(place, TypeAdapter(reduce(or_, forms)), next(iter(answer.model_fields)))

    def asked(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The query's fields as the request has them. Raises :class:`jiyi.errors.InvalidRequest` if the cursor is not of this list."""
        place = cursors.decode(given.get("after", ""), self.form)
        rest = {name: value for name, value in given.items() if name != "after"}
        return rest if place is None else {**rest, self.place: place if len(place) > 1 else place[0]}

    def answer(self, page: Rows[Any], present: Callable[[Any], Any]) -> dict[str, Any]:
        """The page as it is answered, each row as it is presented."""
        beside = {name: getattr(page, name) for name in type(page).model_fields if name not in ("rows", "next")}
        following = page.next if page.next is None or isinstance(page.next, tuple) else (page.next,)
        return {self.rows: list(map(present, page.rows)), **beside, "next": following and cursors.encode(*following)}
