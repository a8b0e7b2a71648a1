"""The admin's pages of users and of traces: whom agents talk with, what is known of each, and what was put
before an answer; figures are the database's, and nothing is another user's or group's.
"""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import text

from jiyi.protocol.conversations import ContextRequest
from models.db.actions import Actor
from models.db.connection import unit_of_work
from tasks.conversations import injection
from tests.integration.conftest import SignIn
from tests.integration.conversations.talk import hurry, run, say

pytestmark = pytest.mark.usefixtures("database", "nothing_owed")


@pytest.fixture
def talked(group: str) -> str:
    """Mia has moved, chen lives in Chengdu; both talk with the same agent."""
    say(group, "Hello there.", "Well then.", "Nice weather.", "I live in Porto.", user_id="mia")
    say(group, "你好。", "天气不错。", "好吧。", "我住在成都。", user_id="陈", session_id="s2")
    run()
    say(group, "Hello.", "Good evening.", "So.", "I moved to Lisbon.", user_id="mia", session_id="s3")
    hurry()
    run()
    question = "Where do I live now?"
    request = {"agent_id": "helper", "query": question, "user_id": "mia", "session_id": "s4", "turn": 1}
    injection.build(Actor(group, "test"), ContextRequest(**request, split=True))
    say(group, question, ("assistant", "In Lisbon."), user_id="mia", session_id="s4")
    return group


def test_each_user_has_one_page_with_what_is_known_of_nobody_else(talked: str, sign_in: SignIn) -> None:
    browser = sign_in("admin", groups=[talked])
    listing: Any = browser.get("/users.json", query_string={"group": talked}).json["users"]
    assert [(row["user_id"], row["agents"]) for row in listing] == [("mia", 1), ("陈", 1)]
    with unit_of_work() as connection:
        counts = connection.execute(
            text("""
                SELECT user_id, count(*) FROM memory_nodes WHERE group_id = :group AND user_id IS NOT NULL
                AND kind <> 'session' AND superseded_at IS NULL GROUP BY user_id
            """),
            {"group": talked},
        )
        assert {row["user_id"]: row["memories"] for row in listing} == dict(counts.all())
    found = browser.get("/users.json", query_string={"group": talked, "q": "MI"}).json["users"]
    assert [row["user_id"] for row in found] == ["mia"]
    page = browser.get(f"/users/{talked}/mia")
    assert page.status_code == 200
    for word in ("Lisbon", "Porto", "Where do I live now?", "current version", "Reinstate", "home"):
        assert word in page.text, word
    assert "成都" not in page.text
    other = browser.get(f"/users/{talked}/陈").text
    assert "成都" in other
    assert "Lisbon" not in other
    assert browser.get(f"/users/{talked}/nobody").status_code == 404
    stranger = sign_in("viewer", groups=[f"{talked}-other"])
    assert stranger.get(f"/users/{talked}/mia").status_code in (403, 404)
    assert stranger.get("/users.json").json["users"] == []


def test_a_conversations_memories_are_those_of_the_user_who_is_chosen(talked: str, sign_in: SignIn) -> None:
    browser = sign_in("viewer", groups=[talked])
    address = f"/conversations/{talked}/helper"
    whole = browser.get(address).text
    assert "成都" in whole
    assert "Each user has a profile: choose one." in whole
    mias = browser.get(address, query_string={"user": "mia"}).text
    assert "Lisbon" in mias
    assert "成都" not in mias


def test_a_turn_is_followed_from_its_question_to_the_prompt_and_to_what_was_remembered(
    talked: str, sign_in: SignIn
) -> None:
    browser = sign_in("viewer", groups=[talked])
    of_mia = {"group": talked, "user": "mia"}
    [trace] = browser.get("/traces.json", query_string=of_mia).json["traces"]
    assert (trace["kind"], trace["session_id"], trace["memories"] > 0) == ("injection", "s4", True)
    assert trace["ms"] > 0
    assert browser.get("/traces.json", query_string={**of_mia, "user": "陈"}).json["traces"] == []
    page: Any = browser.get(f"/traces/{talked}/{trace['trace_id']}.json").json
    assert "Lisbon" in page["prompt"]
    assert page["answer"]["description"] == "In Lisbon."
    assert any("Lisbon" in row["memory"]["description"] for row in page["memories"])
    html = browser.get(f"/traces/{talked}/{trace['trace_id']}").text
    assert "user=mia" in html, "to ask it again, one asks as the user"
    turns: Any = browser.get(f"/sessions/{talked}/helper/s4.json").json["turns"]
    assert [turn["trace"] and turn["trace"]["trace_id"] for turn in turns] == [trace["trace_id"], None]
    missing = browser.get(f"/traces/{talked}/{page['turn']['node_id']}")
    assert missing.status_code == 404
    stranger = sign_in("viewer", groups=[f"{talked}-other"])
    assert stranger.get(f"/traces/{talked}/{trace['trace_id']}").status_code in (403, 404)


def test_a_wrong_supersession_is_taken_back_on_the_users_page(talked: str, sign_in: SignIn) -> None:
    browser = sign_in("admin", groups=[talked])
    [change] = browser.get(f"/users/{talked}/mia.json").json["changes"]
    assert "Porto" in change["description"]
    answered = browser.post(f"/users/{talked}/mia/{change['node_id']}/reinstate", data={})
    assert answered.status_code == 303
    page: Any = browser.get(f"/users/{talked}/mia.json").json
    assert page["changes"] == []
    known = [row["description"] for rows in page["statements"].values() for row in rows]
    assert [name for name in ("Porto", "Lisbon") if any(name in each for each in known)] == [
        "Porto",
        "Lisbon",
    ]


def test_a_users_export_has_nothing_of_others(talked: str, sign_in: SignIn) -> None:
    browser = sign_in("viewer", groups=[talked])
    lines = browser.get("/memories/export.jsonl", query_string={"group": talked, "user": "mia"}).text
    assert "Lisbon" in lines
    assert "成都" not in lines


def test_superseded_matches_that_a_search_leaves_out_are_counted(talked: str, sign_in: SignIn) -> None:
    browser = sign_in("viewer", groups=[talked])
    asked = {"group": talked, "q": "Porto", "kind": "knowledge"}
    assert "1 superseded is hidden: show it" in browser.get("/memories/kinds", query_string=asked).text
    shown = browser.get("/memories/kinds", query_string={**asked, "superseded": "1"}).text
    assert "hidden" not in shown


def test_entries_of_the_menu_that_a_group_uses_not_stand_aside(talked: str, sign_in: SignIn) -> None:
    browser = sign_in("viewer", groups=[talked])
    menu, _, rest = browser.get("/users", query_string={"group": talked}).text.partition("Not used yet")
    assert "Users" in menu
    assert "Appointments" not in menu
    assert "Appointments" in rest
    opened = browser.get("/growth/schedules", query_string={"group": talked}).text
    assert "Appointments" in opened.partition("Not used yet")[0]
