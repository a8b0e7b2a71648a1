"""Lists: cursors and places are one another's, and a cursor of another list is refused."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from pydantic import BaseModel, TypeAdapter

from jiyi.errors import InvalidRequest
from jiyi.protocol.base import BY_ID, BY_NAME, BY_NUMBER, BY_TIME, Paged, encode_cursor
from models.db.rows import page

ID = UUID("0198a6c8-0000-7000-8000-000000000001")
THEN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


class Row(BaseModel):
    number: int


ROWS = [Row(number=number) for number in range(3)]


@pytest.mark.parametrize(
    ("form", "place"), [(BY_NAME, "klaus"), (BY_ID, ID), (BY_NUMBER, 7), (BY_TIME, (THEN, ID))]
)
def test_the_next_page_goes_on_from_the_place_where_the_page_before_ended(
    form: TypeAdapter[Any], place: Any
) -> None:
    first = page(ROWS, 2, lambda last: place if last.number == 1 else None)
    assert [row.number for row in first.rows] == [0, 1]
    assert Paged(cursor=first.next).place(form) == place


def test_the_last_page_has_no_cursor_and_the_first_none_either() -> None:
    assert page(ROWS, 3, lambda last: last.number).next is None
    assert page(ROWS[:0], 3, lambda last: last.number).next is None
    assert Paged().place(BY_ID) is Paged(cursor="").place(BY_ID) is None


def test_a_cursor_of_another_list_is_refused() -> None:
    for cursor in ("x", "!", *map(encode_cursor, ("klaus", [THEN, ID], [1, 2, 3], [], None))):
        with pytest.raises(InvalidRequest, match="cursor: is no cursor of this list"):
            Paged(cursor=cursor).place(BY_ID)
