"""Lists over REST: the cursor of a request is the place that a read goes on from, and the place that it gives back a cursor.

A read of a list has a field ``before`` or ``after`` and answers with ``rows`` and ``next``. Of what type a place is, its field says.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from dataclasses import dataclass
from functools import reduce
from operator import or_
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

from pydantic import BaseModel, TypeAdapter

from jiyi.protocol import rest
from jiyi.protocol.base import Rows
from jiyi.protocol.rest import Cursor


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
        place = rest.decode_cursor(given.pop("after", ""), self.form)
        if place is not None:
            given[self.place] = place if len(place) > 1 else place[0]

    def page(self, found: Rows[Any], present: Callable[[Any], Any]) -> BaseModel:
        """The answer, each row as it is presented."""
        beside = {name: getattr(found, name) for name in type(found).model_fields if name not in ("rows", "next")}
        following = found.next if found.next is None or isinstance(found.next, tuple) else (found.next,)
        rows = {next(iter(self.answer.model_fields)): list(map(present, found.rows))}
        return self.answer.model_validate({**beside, **rows, "next": following and rest.encode_cursor(*following)})
