"""Programs written for mem0: whose memories a filter gives, when they were, what a deletion leaves, and which
messages are taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

import pytest
from flask import Flask

from jiyi.protocol.conversations import ProfileSignals
from models.conversations import injections
from models.db.connection import unit_of_work
from tests.integration.conversations.talk import hurry, nodes, run
from tests.integration.erasure.test_erasure import alone, carry_on
from tests.integration.memory.test_inbox import rows
from web import mem0
from web import mem0_requests as dialect

__all__ = ["alone"]

Ask = Callable[..., Any]
PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
WORK = {"role": "user", "content": "I work at Acme as a welder."}


@pytest.fixture
def ask(
    web_app: Flask, api_key: Callable[..., str], group: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Ask]:
    """A request as mem0's client sends it; nothing is waited for, since no worker runs."""
    monkeypatch.setattr(mem0, "SECONDS", 0)
    program, key = web_app.test_client(), api_key(group, "publish", "read", "admin")

    def asked(method: str, path: str, body: Any = None, status: int = 200) -> Any:
        answer = program.open(
            f"/api/mem0{path}", method=method, json=body, headers={"Authorization": f"Token {key}"}
        )
        assert answer.status_code == status, answer.text
        return answer.json

    yield asked


def texts(answer: Any) -> list[str]:
    return sorted(row["memory"] for row in answer["results"])


def add(ask: Ask, *said: Any, **fields: Any) -> Any:
    return ask("POST", "/v1/memories/", {"messages": list(said), "user_id": "mia", **fields})


def of(**filters: Any) -> dict[str, Any]:
    return {"filters": {"AND": [{name: value} for name, value in filters.items()]}}


# Whose


#: What asks for two users, runs or topics at once.
IMPOSSIBLE: list[dict[str, Any]] = [
    {"user_id": "ben", "agent_id": "companion", "filters": {"user_id": "zoe"}},
    {"filters": {"AND": [{"user_id": "ben"}, {"agent_id": "companion"}, {"user_id": "zoe"}]}},
    {"filters": {"AND": [{"user_id": "ben"}, {"AND": [{"user_id": "zoe"}]}]}},
    {"user_id": "zoe", "filters": {"agent_id": "companion", "run_id": "a", "AND": [{"run_id": "b"}]}},
    {"user_id": "zoe", "filters": {"AND": [{"metadata": {"topic": "a"}}, {"metadata": {"topic": "b"}}]}},
]


def test_two_users_in_a_filter_give_nothing(ask: Ask) -> None:
    """A program adds its own user to what an end user asked for: nobody gets another one's memories by a
    filter.
    """
    hides, whose = "Zoe hides under the stairs", {"user_id": "zoe", "agent_id": "companion"}
    add(ask, {"content": hides}, **whose, infer=False, metadata={"topic": "b"}, run_id="b")
    assert texts(ask("POST", "/v3/memories/", {"filters": whose})) == [hides]
    for asked in IMPOSSIBLE:
        assert ask("POST", "/v3/memories/", asked)["count"] == 0, asked
        for version in ("v2", "v3"):
            found = ask("POST", f"/{version}/memories/search/", {"query": "stairs", **asked})
            assert found == {"results": []}, asked


def test_a_filter_never_widens_what_the_program_asked_for() -> None:
    read = dialect.ListRequest.model_validate
    for own, filtered in (("ben", "*"), ("*", "ben")):
        assert read({"user_id": own, "filters": {"user_id": filtered}}).entities == {"user_id": "ben"}
    both = read({"metadata": {"a": 1}, "filters": {"metadata": {"b": 2}}})
    assert (both.metadata, both.is_impossible) == ({"a": 1, "b": 2}, False)
    with pytest.raises(ValueError, match=r"filters\.user_id: null would be everybody's"):
        read({"user_id": "ben", "filters": {"user_id": None}})


# When


def test_the_timestamp_counts_when_messages_are_looked_through(ask: Ask, group: str) -> None:
    """1684922400 is 24 May 2023: what was said then of last week is not of this year."""
    add(ask, {"role": "user", "content": "I went to Rome last week."}, timestamp=1_684_922_400)
    [turn] = nodes(group, "session")
    assert turn["created_at"].isoformat() == "2023-05-24T10:00:00+00:00"
    run()
    assert {row["created_at"].year for row in nodes(group)} == {2023}


def test_a_time_is_compared_as_its_operator_says(ask: Ask) -> None:
    """A bare day is mem0's own form: the whole day. ``lte`` has its bound, ``gt`` has not; what has no zone
    is in UTC.
    """
    for day in (
        "2026-06-30T22:00:00Z",
        "2026-07-01T00:00:00Z",
        "2026-07-31T00:00:00Z",
        "2026-07-31T12:00:00Z",
        "2026-08-01T00:00:00Z",
    ):
        add(ask, {"content": day}, infer=False, timestamp=datetime.fromisoformat(day).timestamp())
    june, first, last, noon, august = texts(ask("POST", "/v2/memories/", of(user_id="mia")))
    for compared, expected in (
        ({"gte": "2026-07-01", "lte": "2026-07-31"}, [first, last, noon]),
        ({"gt": "2026-06-30", "lt": "2026-08-01"}, [first, last, noon]),
        ({"gte": "2026-07-01T00:00:00Z", "lte": "2026-07-31T00:00:00Z"}, [first, last]),
        ({"gt": "2026-07-01T00:00:00Z"}, [last, noon, august]),
        ({"lte": "2026-07-01T00:00:00"}, [june, first]),
        ({"gte": "2026-07-31T14:00:00+02:00"}, [noon, august]),
        ({"lt": "9999-12-31T00:00:00Z"}, [june, first, last, noon, august]),
        ({"gt": "9999-12-31"}, []),
        ({"gte": "0001-01-01"}, [june, first, last, noon, august]),
    ):
        found = texts(ask("POST", "/v2/memories/", of(user_id="mia", created_at=compared)))
        assert found == expected, compared
    since = [{"created_at": {"gte": f"2026-0{month}-01"}} for month in (7, 6)]
    assert june not in texts(ask("POST", "/v2/memories/", {"filters": {"AND": [{"user_id": "mia"}, *since]}}))
    for compared, said in (
        ({"gte": "soon"}, "filters.created_at.gte: 'soon' is no time"),
        ({"ne": "2026-07-01"}, "created_at"),
    ):
        wrong = ask("POST", "/v2/memories/", of(user_id="mia", created_at=compared), status=422)
        assert said in wrong["detail"]


# Deletions


def profiles(group: str, *users: str) -> list[str]:
    """Make these; the users of all that there are."""
    with unit_of_work() as connection:
        for user in users:
            signals, now = ProfileSignals(recent_topics=["stamps"]), datetime.now().astimezone()
            injections.update_profile(connection, (group, "assistant"), signals, now, user)
    found = rows("SELECT user_id FROM user_profiles WHERE group_id = :g ORDER BY user_id", g=group)
    return [str(row["user_id"]) for row in found]


@pytest.mark.usefixtures("alone", "nothing_owed")
def test_after_delete_all_nothing_of_the_user_is_left(ask: Ask, group: str) -> None:
    """Turns, the profile and what other agents know of them go, too; another user's memories and profile
    stay.
    """
    ways = {"zed": "/v1/memories/?user_id=zed", "yan": "/v2/entities/user/yan/"}
    for user in ways:
        add(ask, {"content": "I collect stamps."}, {"content": "I live in Porto."}, user_id=user, run_id=user)
    run()
    for user in ways:
        add(ask, {"content": "I sing opera."}, user_id=user, agent_id="support", infer=False)
        assert {row["kind"] for row in nodes(group) if row["user_id"] == user} >= {"session", None}
    add(ask, {"content": "I drink tea."}, user_id="leo", infer=False)
    profiles(group, *ways, "leo")
    for path in ways.values():
        ask("DELETE", path)
    carry_on()
    assert [row["description"] for row in nodes(group)] == ["I drink tea."]
    assert profiles(group) == ["leo"]


@pytest.mark.usefixtures("alone", "nothing_owed")
def test_after_delete_all_of_more_than_one_erasure_takes_nothing_is_left(
    ask: Ask, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What one erasure leaves of a turn that the next one takes would stay."""
    monkeypatch.setattr(mem0, "MAX_NODES", 2)
    said = "I live in Porto. I am allergic to peanuts.", "I live with my cat. I am 34."
    add(ask, *({"content": one} for one in said), run_id="r")
    hurry()
    run()
    assert len(nodes(group)) > 2 * 2
    ask("DELETE", "/v1/memories/?user_id=mia")
    carry_on()
    assert nodes(group) == []


def test_who_has_said_something_is_listed_before_it_is_extracted(ask: Ask) -> None:
    """Its client deletes whom this lists: ``reset`` would leave the turns of all others."""
    add(ask, {"content": "Hello there."}, run_id="r")
    found = ask("GET", "/v1/entities/")["results"]
    listed = {row["type"]: (row["name"], row["total_memories"]) for row in found}
    assert listed == {"agent": ("assistant", 0), "user": ("mia", 0), "run": ("r", 0)}


@pytest.mark.usefixtures("alone", "nothing_owed")
def test_after_a_deletion_the_turn_does_not_say_it_again(ask: Ask, group: str) -> None:
    """Nothing of "I am pregnant" is left for a prompt: not its turn, and not the profile."""
    add(ask, {"content": "I am pregnant, due in June."}, {"content": "I collect stamps."}, run_id="r")
    run()
    profiles(group, "mia")
    fact = next(row for row in nodes(group, "knowledge", "preference") if "pregnant" in row["description"])
    ask("DELETE", f"/v1/memories/{fact['node_id']}/")
    carry_on()
    left = [row["description"] for row in nodes(group)]
    assert left
    assert not any("pregnant" in description for description in left)
    assert any("stamps" in description for description in left)
    assert profiles(group) == []


# Messages


@pytest.mark.parametrize("infer", [True, False])
def test_one_message_that_cannot_be_read_does_not_cost_the_others(ask: Ask, group: str, infer: bool) -> None:
    """Pictures, tool calls, blanks and unknown roles are left out one by one, and the answer says so."""
    parts = {"role": "user", "content": [{"type": "text", "text": "I live in Porto."}, PICTURE]}
    wrong: list[Any] = [
        {"role": "user", "content": PICTURE},
        {"role": "assistant", "content": None, "tool_calls": []},
        {"role": "assistant", "tool_calls": [{"id": "c1"}]},
        {"role": "assistant", "content": "  "},
        {"role": "critic", "content": "x"},
    ]
    answer = add(ask, WORK, parts, *wrong, {"role": "developer", "content": "Be brief."}, infer=infer)
    assert sorted(row["description"] for row in nodes(group)) == ["I live in Porto.", WORK["content"]]
    fields = [problem.partition(":")[0] for problem in answer["left_out"]]
    assert fields == [*(f"messages.{place}.content" for place in (2, 3, 4, 5)), "messages.6.role"]


def test_a_call_without_any_text_stores_nothing_and_fails_nobody(ask: Ask, group: str) -> None:
    calls: list[Any] = [{"role": "assistant", "content": None, "tool_calls": []}]
    for messages in (calls, {"role": "user", "content": PICTURE}):
        answer = ask("POST", "/v3/memories/add/", {"messages": messages, "user_id": "mia"})
        assert (answer["results"], len(answer["left_out"])) == ([], 1)
    assert nodes(group) == []
