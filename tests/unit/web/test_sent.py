"""What a form says of an action's request."""

from __future__ import annotations

from uuid import UUID, uuid4

from flask import Flask
from pydantic import BaseModel
from werkzeug.datastructures import MultiDict

from web.admin.acting import sent


class Request(BaseModel):
    agent_id: str
    said: str
    reason: str | None = None
    steps: list[str] = []
    ids: list[UUID] = []


def of(
    form: list[tuple[str, str]], named: dict[str, str] | None = None, **parts: object
) -> dict[str, object]:
    with Flask(__name__).test_request_context(method="POST", data=MultiDict(form)):
        return sent(Request, parts, named or {})


def test_fields_come_from_the_address_before_the_form_and_under_their_names_there() -> None:
    form = [("agent", "of the form"), ("agent_id", "of nobody"), ("said", "a\r\nb"), ("more", "x")]
    found = of(form, {"agent_id": "agent"}, agent="of the address")
    assert found == {"agent_id": "of the address", "said": "a\nb", "steps": [], "ids": []}


def test_what_was_left_blank_is_said_only_where_it_is_needed() -> None:
    found = of([("agent_id", "  "), ("reason", "  ")])
    assert found == {"agent_id": "  ", "steps": [], "ids": []}  # to be refused in the field's own words


def test_a_list_has_each_value_of_a_form_and_each_line_of_one() -> None:
    assert of([("steps", " one \r\n\n two"), ("steps", "three")])["steps"] == ["one", "two", "three"]
    id_ = uuid4()
    assert of([], {"ids": "id"}, id=id_)["ids"] == [id_]
