"""The admin's pages of conversations: the four kinds, the profile, what changed, what was injected and why; none of another group."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from jiyi.protocol.conversations import ContextRequest, ProfileSignals
from models.conversations import injections
from models.db.actions import Actor
from models.db.connection import unit_of_work
from tasks.conversations import injection
from tests.integration.conftest import SignIn
from tests.integration.conversations.talk import hurry, run, say

pytestmark = pytest.mark.usefixtures("database", "nothing_owed")

SMALL_TALK = ["Hello there.", "Nice weather.", "Well then."]


@pytest.fixture
def talked(group: str) -> str:
    say(group, *SMALL_TALK, "I live in Porto.")
    run()
    say(group, *SMALL_TALK, "I moved to Lisbon.", session_id="s2")
    hurry()
    run()
    with unit_of_work() as connection:
        injections.update_profile(connection, (group, "helper"), ProfileSignals(industry="pottery"), datetime.now(UTC))
    injection.build(Actor(group, "test"), ContextRequest(agent_id="helper", query="Where do I live now?"))
    return group


def test_pages_of_conversations_show_all_of_them_and_to_another_group_none(talked: str, sign_in: SignIn) -> None:
    browser = sign_in("viewer", groups=[talked])
    page = browser.get("/conversations", query_string={"group": talked})
    assert page.status_code == 200
    assert f"/conversations/{talked}/helper" in page.text
    found: Any = browser.get("/conversations.json", query_string={"group": talked}).json
    [row] = found["agents"]
    assert (row["knowledge"], row["session"]) == (1, 8)
    page = browser.get(f"/conversations/{talked}/helper")
    assert page.status_code == 200
    for text in ("Lisbon", "Porto", "pottery", "Where do I live now?", "what holds since", "place 1"):
        assert text in page.text, text
    assert browser.get(f"/conversations/{talked}/nobody").status_code == 404
    stranger = sign_in("viewer", groups=[f"{talked}-other"])
    assert stranger.get(f"/conversations/{talked}/helper").status_code in (403, 404)
    assert "helper" not in stranger.get("/conversations").text
