"""Reflections in a running service, by the LLM that needs none; and by one that speaks OpenAI's protocol,
nearby.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from engine.providers import breakers, llms
from engine.rules.provider import Rules
from jiyi import Client
from jiyi.errors import NotFound
from jiyi.protocol.reflection import NewThought
from tests.integration.memory.test_inbox import rows
from tests.integration.reflection.test_reflection import live, reflection_rows, run, thoughts
from tests.integration.waiting import until
from tests.misbehaving import Reply, Request, Vendor, chat, vendor
from workers import ephemeral

#: With what no line says alone: how the river rose, and what Klaus does on Tuesdays.
STORY = {
    datetime(2026, 3, 3, tzinfo=UTC): "Klaus sells bread at the market",
    datetime(2026, 3, 4, tzinfo=UTC): "The river is at 120 cm",
    datetime(2026, 3, 10, tzinfo=UTC): "Klaus sells bread at the market again",
    datetime(2026, 3, 11, tzinfo=UTC): "The river has come up to 160 cm",
    datetime(2026, 3, 17, tzinfo=UTC): "Klaus sells bread at the market",
    datetime(2026, 3, 18, tzinfo=UTC): "The river is at 210 cm, the market closes early",
}
TOLD = [
    {"agent_id": "klaus", "description": text, "occurred_at": day, "poignancy": 6}
    for day, text in STORY.items()
]


def test_importance_that_has_added_up_becomes_thoughts_by_itself(client: Client) -> None:
    client.configure("klaus", importance_trigger_max=30, wait=True)
    client.observe_many(TOLD, wait=True)
    found = until(lambda: _of_reflections(client))
    assert all(row["filling"] for row in found)
    assert {row["description"] for row in found} == {
        "River: 120 cm → 160 cm → 210 cm, 4 to 18 March",
        "On Tuesdays: Klaus sells bread at the market",
    }
    assert {row["provenance"]["llm"] for row in found} == {Rules.model}
    assert all(row["expires_at"] for row in found)


def test_a_reflection_on_request_and_the_reason_of_a_thought(
    client: Client, jiyi: Callable[..., str]
) -> None:
    client.observe_many(TOLD, wait=True)
    made = json.loads(jiyi("reflect", "klaus", "--json"))
    assert (made["state"], made["trigger"], made["llm"]) == ("done", "request", Rules.model)
    thought = NewThought.model_validate(made["thoughts"][0])
    assert thought.expires_at is not None
    assert thought.expires_at - thought.created_at == timedelta(days=30)
    assert {evidence.description for evidence in thought.evidence} <= set(STORY.values())
    client.wait_for([thought.node_id])
    assert thought.node_id in [
        node.node_id
        for node in client.retrieve("klaus", thought.description, now=thought.created_at).retrieved_nodes
    ]
    shown = jiyi("reflect", "klaus")
    # All has been thought already.
    assert "nothing follows from them that no single memory says" in shown
    assert re.search(r"reflection [0-9a-f-]{36} · state nothing · thoughts 0", shown)
    reason = json.loads(jiyi("memory", "why", thought.node_id, "--json"))
    assert reason["nodes"][str(thought.node_id)]["provenance"]["focal_point"] == thought.focal_point
    tree = jiyi("memory", "why", thought.node_id)
    assert thought.description in tree
    assert all(evidence.description in tree for evidence in thought.evidence)
    assert f"made with {Rules.model} insights@2" in tree
    assert "not shown: see --depth" in jiyi("memory", "why", thought.node_id, "--depth", 0)
    with Client("somebody-else") as other, pytest.raises(NotFound):
        other.memory.why(id=thought.node_id)
    jiyi("reflect", "nobody", code=1)
    jiyi("memory", "why", uuid4(), code=1)
    with pytest.raises(NotFound):
        client.reflect("nobody")


def test_a_session_that_ends_leaves_thoughts(client: Client, jiyi: Callable[..., str]) -> None:
    client.observe(
        "林岚",
        "林岚和小满聊排班",
        node_type="chat",
        session_id="s1",
        utterances=[["小满", "周六我要去考试，不能来。"], ["林岚", "那周六我自己看店。"]],
        wait=True,
    )
    jiyi("end-session", "林岚", "s1", "--partner", "小满")
    planning, memo = until(lambda: _of_reflections(client, "林岚"))[::-1]
    assert planning["description"].startswith("林岚接下来要记着：")
    assert memo["description"].startswith("林岚")
    assert [
        row["session_id"]
        for row in rows("SELECT session_id FROM memory_nodes WHERE node_id = :i", i=memo["node_id"])
    ] == ["s1"]


def _of_reflections(client: Client, agent: str = "klaus") -> list[dict[str, Any]]:
    try:
        found = client.memory.list(agent_id=agent, types=["thought"]).rows
    except NotFound:
        return []
    return [row.model_dump(mode="json") for row in found if "reflection" in row.provenance]


# An LLM that speaks OpenAI's protocol


@pytest.fixture
def server(nothing_owed: None) -> Iterator[Vendor]:
    untried = {"llm": "compatible:small", "llm_trial_days": "0"}
    with vendor() as running, ephemeral.environment(**untried, llm_base_url=running.base_url):
        llms.llm.cache_clear()
        breakers.in_process.clear()
        yield running
        llms.llm.cache_clear()
        breakers.in_process.clear()


def sensible(request: Request) -> Reply:
    """Answers by the schema that is sent."""
    asked = json.dumps(request.body["response_format"])
    replies = {
        '"questions"': {"questions": ["What does Klaus read?", "Why?", "For how long?"]},
        '"insights"': {"insights": [{"text": "Klaus is a reader", "evidence": [0, 2]}]},
        '"predicate"': {"subject": "Klaus", "predicate": "is", "object": "reader"},
        '"poignancy"': {"poignancy": 6},
    }
    return chat(json.dumps(next(reply for mark, reply in replies.items() if mark in asked)))(request)


def test_a_model_behind_an_api_makes_the_thoughts(group: str, server: Vendor) -> None:
    server.otherwise = sensible
    live(group, 40)
    assert run() == 1
    (row,) = reflection_rows(group)
    assert (row["state"], row["llm"]) == ("done", "compatible:small")
    assert row["focal_points"] == ["What does Klaus read?", "Why?", "For how long?"]
    assert thoughts(group)
    assert all(len(thought["filling"]) >= 2 and thought["poignancy"] == 6 for thought in thoughts(group))


def test_an_api_that_is_away_keeps_the_work_owed(group: str, server: Vendor) -> None:
    server.close()
    live(group, 40)
    assert run() == 0
    (row,) = reflection_rows(group)
    assert (row["state"], bool(row["error"])) == ("waiting", True)
    assert rows("SELECT attempts FROM pending_work WHERE group_id = :g AND kind = 'reflect'", g=group) == [
        {"attempts": 0}
    ]
    assert thoughts(group) == []
