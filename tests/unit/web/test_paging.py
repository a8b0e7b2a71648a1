"""Lists over REST: cursors and places are one another's, and a cursor of another list is refused."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from pydantic import BaseModel

from jiyi.errors import InvalidRequest
from jiyi.protocol import rest
from jiyi.protocol.base import Request, Rows
from jiyi.protocol.memory import AgentsQuery
from jiyi.protocol.operations import LettersRequest
from jiyi.protocol.reflection import ReflectionsWanted
from jiyi.protocol.rest import Cursor
from web.api.registry import Paging

ID = UUID("0198a6c8-0000-7000-8000-000000000001")
THEN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
PLACES = [(AgentsQuery, "after", "klaus"), (LettersRequest, "before", ID), (ReflectionsWanted, "before", (THEN, ID))]


class Numbers(BaseModel):
    numbers: list[int]
    counts: dict[str, int]
    next: str | None


class Counted(Rows[int]):
    counts: dict[str, int]


def paging(request: type[BaseModel]) -> Paging:
    found = Paging.between(Cursor, request, Numbers)
    assert found is not None
    return found


@pytest.mark.parametrize(("request_type", "field", "place"), PLACES)
def test_the_next_page_goes_on_from_the_place_that_was_told(request_type: type[BaseModel], field: str, place: Any) -> None:
    page = paging(request_type).page(Counted(rows=[1, 2], counts={"all": 9}, next=place), lambda row: row * 10)
    assert isinstance(page, Numbers)
    assert (page.numbers, page.counts) == ([10, 20], {"all": 9})
    given = {"limit": 2, "after": page.next}
    paging(request_type).replace_cursor(given)
    assert given == {"limit": 2, field: place}


def test_the_last_page_has_no_cursor_and_the_first_none_either() -> None:
    last = paging(AgentsQuery).page(Counted(rows=[], counts={}, next=None), lambda row: row)
    assert isinstance(last, Numbers)
    assert last.next is None
    given: dict[str, Any] = {"after": ""}
    paging(AgentsQuery).replace_cursor(given)
    assert given == {}
    assert Paging.between(None, AgentsQuery, Numbers) is Paging.between(Request, AgentsQuery, Numbers) is None  # no list


@pytest.mark.parametrize(
    "cursor", ["x", "!", rest.encode_cursor("klaus"), rest.encode_cursor(THEN, ID), rest.encode_cursor(1, 2, 3), rest.encode_cursor()]
)
def test_a_cursor_of_another_list_is_refused(cursor: str) -> None:
    with pytest.raises(InvalidRequest, match="after: is no cursor of this list"):
        paging(LettersRequest).replace_cursor({"after": cursor})
