"""Nobody sees every group by an empty field: all groups is a choice, on the page and for programs.

The command line is tried in :mod:`tests.integration.accounts.test_keys`.
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
from models.accounts import users
from models.db.connection import unit_of_work
from models.db.scope import Scope, whole_service, within
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

    def add(**fields: str) -> Any:
        form = {"name": name, "role": "viewer", **fields}
        return browser.post("/people", query_string={"group": group}, data=form)

    for fields, reason in (({"groups": " , "}, REFUSAL), ({"groups": group, "all_groups": "true"}, "")):
        refused = add(**fields)
        assert refused.status_code == 400
        assert reason in refused.text
        assert groups_of(name) == "nobody"
    assert add(groups="", all_groups="true").status_code == 201
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


def test_programs_have_to_say_which_groups(
    web_app: Flask, api_key: Callable[..., str], group: str, name: str
) -> None:
    headers = {"Authorization": f"Bearer {api_key(None, 'operator')}", "Jiyi-Group": group}
    for access, status, stored in (
        ({}, 422, "nobody"),
        ({"groups": ["a"]}, 200, ["a"]),
        ({"all_groups": True}, 200, None),
    ):
        own = f"{name}-{''.join(access)}"
        body = {"name": own, "password_hash": password_hash(), "role": "viewer", **access}
        with within(Scope()):
            answer = web_app.test_client().post("/api/v1/actions/people.add", json=body, headers=headers)
        assert answer.status_code == status, answer.text
        assert groups_of(own) == stored
    with Client(group=group) as client, pytest.raises(InvalidRequest, match=REFUSAL):
        client.people.add(name, PASSWORD, role="viewer")  # before anything is sent
    assert groups_of(name) == "nobody"
