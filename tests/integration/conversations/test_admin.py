"""The admin's pages of conversations: the four kinds, the profile, what changed, what was injected and why;
none of another group.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text

from jiyi.protocol.conversation_commands import JudgeTurn
from jiyi.protocol.conversations import ContextRequest, ProfileSignals
from models.conversations import injections
from models.conversations.actions import judge_turn
from models.db.actions import Actor
from models.db.connection import unit_of_work
from tasks.conversations import injection
from tests.integration.conftest import SignIn
from tests.integration.conversations.talk import SMALL_TALK
from tests.integration.conversations.talk import talked as look_through

pytestmark = pytest.mark.usefixtures("database", "nothing_owed")


@pytest.fixture
def talked(group: str) -> str:
    for said, session in (("I live in Porto.", "s1"), ("I moved to Lisbon.", "s2")):
        look_through(group, *SMALL_TALK, said, session_id=session)
    signals = ProfileSignals(industry="pottery")
    with unit_of_work() as connection:
        injections.update_profile(connection, (group, "helper"), signals, datetime.now(UTC))
    injection.build(Actor(group, "test"), ContextRequest(agent_id="helper", query="Where do I live now?"))
    return group


def test_pages_of_conversations_show_all_of_them_and_to_another_group_none(
    talked: str, sign_in: SignIn
) -> None:
    browser, path = sign_in("viewer", groups=[talked]), f"/conversations/{talked}/helper"
    page = browser.get("/conversations", query_string={"group": talked})
    assert page.status_code == 200
    assert path in page.text
    found: Any = browser.get("/conversations.json", query_string={"group": talked}).json
    [row] = found["agents"]
    assert (row["knowledge"], row["session"]) == (1, 8)
    page = browser.get(path)
    assert page.status_code == 200
    for word in ("Lisbon", "Porto", "pottery", "current version"):
        assert word in page.text, word
    [trace] = browser.get("/traces.json", query_string={"group": talked}).json["traces"]
    page = browser.get(f"/traces/{talked}/{trace['trace_id']}")
    for word in ("Where do I live now?", "Lisbon", "rank 1"):
        assert word in page.text, word
    assert browser.get(f"/conversations/{talked}/nobody").status_code == 404
    stranger = sign_in("viewer", groups=[f"{talked}-other"])
    assert stranger.get(path).status_code in (403, 404)
    assert "helper" not in stranger.get("/conversations").text


def test_what_people_say_of_turns_is_training_data_and_goes_with_them(talked: str, sign_in: SignIn) -> None:
    browser = sign_in("admin", groups=[talked])

    def judge(node_id: object, lasting: str, by: Any = browser) -> Any:
        path = f"/sessions/{talked}/helper/s2/{node_id}/judge"
        return by.post(path, data={"lasting": lasting}, follow_redirects=True)

    turns = {turn["description"]: turn for turn in _session(browser, talked, "s2")}
    moved = next(turn for text, turn in turns.items() if "moved to Lisbon" in text)
    [remembered] = moved["remembered"]
    assert "Lisbon" in remembered["description"]
    assert moved["judged"] is None
    small = next(turn for text, turn in turns.items() if "Nice weather" in text)
    # Said again, it counts as it was said last.
    for turn, lasting in ((small, "true"), (small, "false"), (moved, "true")):
        judge(turn["node_id"], lasting)
    assert {turn["judged"] for turn in _session(browser, talked, "s2")} == {None, True, False}
    rows = _rows(browser, talked)
    assert [(row["text"], row["lasting"], row["kind"], row["subject"]) for row in rows] == [
        ("Nice weather.", False, None, None),
        ("I moved to Lisbon.", True, "knowledge", "user"),
    ]
    assert (rows[1]["attribute"], rows[1]["language"], rows[1]["before"]) == ("home", "en", "")
    for node_id in (remembered["node_id"], uuid4()):
        refused = judge(node_id, "true")
        assert (refused.status_code, "no turn" in refused.text) == (404, True)
    assert judge(small["node_id"], "true", sign_in("viewer", groups=[talked])).status_code == 403
    judge_turn.perform(Actor(talked, "test"), JudgeTurn(id=UUID(small["node_id"]), lasting=None))
    assert [row["lasting"] for row in _rows(browser, talked)] == [True]
    with unit_of_work() as connection:
        connection.execute(text("DELETE FROM memory_nodes WHERE node_id = :id"), {"id": moved["node_id"]})
    assert _rows(browser, talked) == []


def _session(browser: Any, group: str, session: str) -> list[dict[str, Any]]:
    turns: list[dict[str, Any]] = browser.get(f"/sessions/{group}/helper/{session}.json").json["turns"]
    return turns


def _rows(browser: Any, group: str) -> list[dict[str, Any]]:
    lines = browser.get("/judged.jsonl", query_string={"group": group, "agent": "helper"}).text.splitlines()
    return [json.loads(line) for line in lines]
