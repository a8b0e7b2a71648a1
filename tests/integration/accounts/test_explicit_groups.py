"""Nobody sees every group by an empty field: adding a person without groups is refused at every door, all
groups is a choice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from flask import Flask
from sqlalchemy import text

from jiyi import Client
from jiyi.errors import InvalidRequest
from jiyi.protocol.wire.calls import open_reply
from models.accounts import users
from models.db.connection import unit_of_work
from models.db.scope import Scope, whole_service, within
from tests.integration.actions.calling import called, service
from tests.integration.conftest import Browser, SignIn
from tests.services import PASSWORD, password_hash

REFUSAL = "name at least one group"


def groups_of(name: str) -> list[str] | str | None:
    """The groups that are stored of a person; ``nobody`` if there is none."""
    with whole_service(), unit_of_work() as connection:
        user = users.by_name(connection, name)
    if user is None:
        return "nobody"
    return None if user.groups is None else list(user.groups)


@pytest.fixture
def name() -> str:
    return f"mia-{uuid4().hex[:8]}"


def test_the_admin_form_refuses_a_person_without_groups_and_shows_who_has_all(
    sign_in: SignIn, group: str, name: str
) -> None:
    browser = sign_in("operator")
    refused = browser.post(
        "/people", query_string={"group": group}, data={"name": name, "role": "admin", "groups": " , "}
    )
    assert refused.status_code == 400
    assert REFUSAL in refused.text
    both = browser.post(
        "/people", data={"name": name, "role": "admin", "groups": group, "all_groups": "true"}
    )
    assert both.status_code == 400
    assert groups_of(name) == "nobody"
    assert (
        browser.post(
            "/people", data={"name": name, "role": "viewer", "groups": "", "all_groups": "true"}
        ).status_code
        == 201
    )
    assert groups_of(name) is None
    assert name in warned_of(browser, group)
    with whole_service(), unit_of_work() as connection:
        connection.execute(text("UPDATE users SET disabled_at = now() WHERE name = :name"), {"name": name})
    assert name not in warned_of(browser, group)


def warned_of(browser: Browser, group: str) -> str:
    """Where the page of people names those who see every group."""
    page = browser.get("/people", query_string={"group": group}).text
    assert "shown this once" not in page
    return page.partition("without being operators")[2].partition("</p>")[0]


@pytest.mark.parametrize(
    ("access", "stored"), [({}, "nobody"), ({"groups": ["a"]}, ["a"]), ({"all_groups": True}, None)]
)
@pytest.mark.parametrize("door", ["broker", "http"])
def test_programs_have_to_say_which_groups(
    web_app: Flask,
    api_key: Callable[..., str],
    group: str,
    name: str,
    door: str,
    access: dict[str, Any],
    stored: list[str] | str | None,
) -> None:
    body = {"name": name, "password_hash": password_hash(), "role": "viewer", **access}
    if door == "http":
        headers = {"Authorization": f"Bearer {api_key(None, 'operator')}", "Jiyi-Group": group}
        with within(Scope()):
            answer = web_app.test_client().post("/api/v1/actions/people.add", json=body, headers=headers)
        assert answer.status_code == (422 if stored == "nobody" else 200), answer.text
    elif stored == "nobody":
        with pytest.raises(InvalidRequest, match="groups"):
            open_reply(called("rpc.people.add", {"group_id": group, **body}, service()))
    else:
        open_reply(called("rpc.people.add", {"group_id": group, **body}, service()))
    assert groups_of(name) == stored


def test_the_client_refuses_before_anything_is_sent(group: str, name: str) -> None:
    with Client(group=group) as client, pytest.raises(InvalidRequest, match=REFUSAL):
        client.people.add(name, PASSWORD, role="viewer")
    assert groups_of(name) == "nobody"
