"""The pages of memories, retrieval, agents, reflections, archive and events: with data, with nothing, with bad input."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
import redis
from flask.testing import FlaskClient
from sqlalchemy import text

from engine.reflection.reflect import thought_id
from engine.text import marking
from jiyi import Client
from jiyi.protocol.events import build
from models.db.connection import unit_of_work
from models.memory import access
from models.memory import archive as archiving
from models.memory.agent_reads import Span, TimelineSpan
from models.memory.inbox import store
from models.queue.pending_work import enqueue
from models.reflection import reflections
from models.reflection.reflections import REFLECT
from tests.integration.conftest import SignIn
from tests.integration.web.markup import attributes
from web.admin.memory import agents as agent_pages
from web.admin.memory import node as evidence
from web.admin.retrieval import playground as asking

AGENT = "林岚"
EVIL = "<script>alert('记')</script>\" onmouseover=\"x"
RTL = "\u202eمرحبا"


def observed(group: str, agent: str = AGENT, *, at: datetime | None = None, session: str | None = None, **payload: Any) -> Any:
    return build(
        {
            "type": "memory.observed",
            "event_id": uuid4(),
            "group_id": group,
            "agent_id": agent,
            "session_id": session,
            "occurred_at": at or datetime(2026, 3, 2, 7, 15, tzinfo=UTC),
            "payload": {"description": "雨", "keywords": ["雨"], **payload},
        }
    )


def observe(group: str, agent: str = AGENT, **fields: Any) -> UUID:
    event = observed(group, agent, **fields)
    with unit_of_work() as connection:
        store(connection, [event])
    found: UUID = event.event_id
    return found


def embed(node_id: UUID, *vector: float) -> None:
    with unit_of_work() as connection:
        connection.exec_driver_sql(
            "UPDATE memory_nodes SET embedding = %s, embedding_model = 'test' WHERE node_id = %s", (str(list(vector)), node_id)
        )


def archive(group: str, *ids: UUID) -> None:
    with unit_of_work() as connection:
        archiving.archive_chosen(connection, group, ids)


def page(browser: FlaskClient, path: str, **query: Any) -> str:
    answer = browser.get(path, query_string=query or None)
    assert answer.status_code == 200, answer.text
    assert answer.mimetype == "text/html"
    return str(answer.text)


def data(browser: FlaskClient, path: str, **query: Any) -> Any:
    answer = browser.get(path, query_string=query or None)
    assert answer.status_code == 200, answer.text
    return answer.json


def texts(found: Any) -> list[str]:
    return [node["description"] for node in found["nodes"]]


LISTS = ("/memories", "/playground", "/agents", "/reflections", "/archive", "/events")


@pytest.mark.parametrize("path", LISTS)
def test_a_group_without_anything_has_pages(signed_in: FlaskClient, group: str, path: str) -> None:
    html = page(signed_in, path, group=group)
    assert 'class="empty"' in html
    assert data(signed_in, f"{path}.json", group=group)["group"] == group


def test_all_pages_escape_what_others_wrote(signed_in: FlaskClient, group: str) -> None:
    ground = observe(group, EVIL, description=EVIL, keywords=[EVIL], subject=EVIL, provenance={"from": EVIL}, session=EVIL)
    thought = observe(group, EVIL, node_type="thought", description=EVIL + RTL, evidence=[str(ground)], session=EVIL)
    chat = observe(group, EVIL, node_type="chat", utterances=[[EVIL, EVIL]])
    archive(group, chat)
    with unit_of_work() as connection:
        reflection = reflections.begin(connection, group, EVIL, EVIL)
        reflections.finish(connection, reflection, focal_points=[EVIL])
    agent = re.search(r'<th scope="row"><a href="([^"]+)"', page(signed_in, "/agents", group=group))
    assert agent is not None
    paths = [
        *(f"{path}?group={group}" for path in LISTS if path != "/agents"),
        agent[1],
        f"{agent[1]}/memories",
        f"/nodes/{group}/{ground}",
        f"/nodes/{group}/{thought}",
        f"/nodes/{group}/{chat}",
        f"/events/{group}/{ground}",
        f"/events/rows?group={group}",
        f"/reflections/{group}/{reflection.reflection_id}",
        f"/memories/rows?group={group}",
    ]
    for path in paths:
        html = page(signed_in, path)
        assert "alert(&#39;记&#39;)" in html, path
        assert "<script>" not in html, path
        assert not attributes(html) & {"style", "onmouseover"}, path
    query = {"group": group, "q": EVIL, "agent": EVIL, "session": EVIL, "keyword": EVIL}
    html = page(signed_in, "/memories", **query)
    assert "<script>" not in html
    assert "onmouseover" not in attributes(html)


def test_long_texts_are_cut_in_lists_and_whole_on_their_page(signed_in: FlaskClient, group: str) -> None:
    long = "记忆 memory " * 1_500
    node = observe(group, description=long, embedding_key="short")
    for path in ("/memories", "/events", f"/agents/{group}/{AGENT}"):
        assert page(signed_in, path, group=group).count("memory ") < 150
    assert long.strip() in page(signed_in, f"/nodes/{group}/{node}")
    payload = {"notes": ["x" * 1_000] * 7}
    other = observe(group, description="with much around it", provenance=payload)
    assert "x" * 1_000 in page(signed_in, f"/nodes/{group}/{other}")


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, ["猫", "cats", "river", "thought"]),
        ({"q": "流浪"}, ["猫"]),
        ({"q": "浪"}, ["猫"]),
        ({"q": "cat"}, ["cats"]),
        ({"q": "CATS sleeping"}, ["cats"]),
        ({"q": "lee"}, ["cats"]),
        ({"q": "%"}, ["river"]),
        ({"q": "_"}, []),
        ({"q": "no such words"}, []),
        ({"agent": "Tomas"}, ["river"]),
        ({"agent": "nobody"}, []),
        ({"type": "thought"}, ["thought"]),
        ({"type": ["thought", "event"], "session": "s1"}, ["猫"]),
        ({"from": "2026-03-03"}, ["river", "thought"]),
        ({"to": "2026-03-01"}, ["猫"]),
        ({"from": "2026-03-02", "to": "2026-03-02"}, ["cats"]),
        ({"from": "2026-03-02T08:00+01:00", "to": "2026-03-02T07:15:01Z"}, ["cats"]),
        ({"importance": "5"}, ["river"]),
        ({"keyword": "River"}, ["river"]),
        ({"archived": "only"}, ["gone"]),
        ({"archived": "with"}, ["猫", "cats", "river", "thought", "gone"]),
        ({"vector": "without"}, ["猫", "river", "thought"]),
    ],
)
def test_search_finds_by_text_and_by_what_is_known(signed_in: FlaskClient, group: str, query: dict[str, Any], expected: list[str]) -> None:
    days = {"猫": 1, "cats": 2, "river": 3, "thought": 4, "gone": 5}
    at = {name: datetime(2026, 3, day, 7, 15, tzinfo=UTC) for name, day in days.items()}
    observe(group, description="门口来了一只流浪猫", at=at["猫"], session="s1", provenance={"name": "猫"})
    embed(observe(group, description="Two cats sleep by the stove", at=at["cats"], provenance={"name": "cats"}), 1, 0)
    observe(group, "Tomas", description="100% of the river", keywords=["River"], poignancy=7, at=at["river"])
    observe(group, node_type="thought", description="so be it", at=at["thought"])
    archive(group, observe(group, description="nothing", at=at["gone"]))
    found = data(signed_in, "/memories.json", group=group, **query)
    named = {at[name].isoformat(): name for name in days}
    moments = [named[datetime.fromisoformat(node["created_at"]).isoformat()] for node in found["nodes"]]
    assert sorted(moments) == sorted(expected)
    assert moments == sorted(moments, key=days.__getitem__, reverse=True)
    html = page(signed_in, "/memories", group=group, **query)
    assert html.count('title="Open this memory"') == len(expected)
    if expected and query.get("q"):
        assert "<mark>" in html


@pytest.mark.parametrize("agent", [None, AGENT])
def test_pages_of_a_search_have_no_gaps_and_no_doubles_while_memories_arrive(signed_in: FlaskClient, group: str, agent: str | None) -> None:
    moment = datetime(2026, 3, 2, tzinfo=UTC)
    with unit_of_work() as connection:
        store(connection, [observed(group, description=f"day {n}", at=moment + timedelta(hours=n // 3)) for n in range(75)])
    seen, before = [], None
    while True:
        query = {"group": group, "agent": agent, "before": before}
        found = data(signed_in, "/memories.json", **{name: value for name, value in query.items() if value})
        seen += texts(found)
        observe(group, description="late", at=moment + timedelta(days=30))
        if (before := found["next"]) is None:
            break
    assert sorted(seen) == sorted(f"day {n}" for n in range(75))
    first = data(signed_in, "/memories.json", group=group)
    rows = page(signed_in, "/memories/rows", group=group, before=first["next"])
    assert "<html" not in rows
    assert not set(re.findall(r"/nodes/[^\"]+", rows)) & {f"/nodes/{group}/{node['node_id']}" for node in first["nodes"]}


def test_a_search_that_takes_too_long_says_what_to_do(signed_in: FlaskClient, group: str, monkeypatch: pytest.MonkeyPatch) -> None:
    observe(group)
    slow = text("SET LOCAL statement_timeout = 50; SELECT pg_sleep(60)")  # this statement alone has so little time
    monkeypatch.setattr("web.admin.memory.memories.search", lambda connection, *_: connection.execute(slow))
    answer = signed_in.get("/memories", query_string={"group": group, "q": "雨"})
    assert answer.status_code == 503
    assert "statement timeout" in answer.text
    assert "Choose an agent" in answer.text
    assert 'value="雨"' in answer.text
    assert "statement timeout" in signed_in.get("/memories.json", query_string={"group": group}).json["why_unknown"]


def test_a_memory_stands_among_its_like_its_session_and_its_work(signed_in: FlaskClient, group: str) -> None:
    nodes = [observe(group, description=f"turn {n}", session="talk") for n in range(5)]
    observe(group, description="elsewhere", session="another")
    for place, node in enumerate(nodes):
        embed(node, 1, place)
    found = data(signed_in, f"/nodes/{group}/{nodes[1]}.json")
    assert [row["description"] for row in found["session"]["before"]] == ["turn 0"]
    assert [row["description"] for row in found["session"]["after"]] == ["turn 2", "turn 3", "turn 4"]
    assert [row["description"] for row in found["nearest"]] == ["turn 2", "turn 3", "turn 4", "turn 0"]
    assert found["nearest"][0]["similarity"] == pytest.approx(3 / 10**0.5)
    assert found["event"]["payload"]["description"] == "turn 1"
    assert {row["kind"] for row in found["owed"]} == {"appraise", "embed"}
    html = page(signed_in, f"/nodes/{group}/{nodes[1]}")
    assert "Alike" in html
    assert "turn 4" in html
    assert "<code>embed</code>" in html


def test_vectors_of_other_models_are_not_compared(signed_in: FlaskClient, group: str) -> None:
    ours, other, alone = observe(group), observe(group, description="other"), observe(group, description="alone")
    embed(ours, 1, 0)
    embed(other, 1, 0, 0)
    embed(alone, 1, 0)
    with unit_of_work() as connection:
        connection.exec_driver_sql("UPDATE memory_nodes SET embedding_model = 'else' WHERE node_id = %s", (other,))
    assert [row["node_id"] for row in data(signed_in, f"/nodes/{group}/{ours}.json")["nearest"]] == [str(alone)]
    assert data(signed_in, f"/nodes/{group}/{other}.json")["nearest"] == []
    assert data(signed_in, f"/nodes/{group}/{observe(group)}.json")["nearest"] == []


def test_the_last_accesses_are_shown(signed_in: FlaskClient, group: str) -> None:
    node = observe(group)
    access.touch(group, [node], datetime(2026, 3, 3, 9, 41, tzinfo=UTC).timestamp())
    access.flush()
    assert data(signed_in, f"/nodes/{group}/{node}.json")["node"]["access_count"] == 1
    html = page(signed_in, f"/nodes/{group}/{node}")
    assert "03-03 09:41</time></li>" in html


def test_evidence_is_drawn_and_told_down_to_the_events(signed_in: FlaskClient, group: str) -> None:
    grounds = [observe(group, description=f"seen {n}") for n in range(12)]
    missing = str(uuid4())
    thought = observe(group, node_type="thought", description="hence", evidence=[*map(str, grounds), missing])
    above = observe(group, node_type="thought", description="and so", evidence=[str(thought)])
    html = page(signed_in, f"/nodes/{group}/{thought}")
    graph = html[html.index('<svg class="graph"') : html.index("</svg>", html.index('<svg class="graph"'))]
    assert graph.count("<path") == 1 + evidence.MOST_IN_COLUMN
    assert "and 3 more" in graph
    assert f'href="/nodes/{group}/{above}"' in graph
    assert f'href="/nodes/{group}/{grounds[0]}"' in graph
    assert missing in html
    deep = data(signed_in, f"/nodes/{group}/{above}.json")["reasons"]
    assert set(deep["nodes"]) == {str(above), str(thought), *map(str, grounds)}
    assert deep["missing"] == [missing]
    assert '<svg class="graph"' not in page(signed_in, f"/nodes/{group}/{observe(group)}")


def test_archive_and_restore_ask_for_a_right_and_leave_a_trace(sign_in: SignIn, group: str) -> None:
    node = observe(group)
    viewer, admin = sign_in("viewer", [group]), sign_in("admin", [group])
    for action in ("archive", "restore", "delete"):
        assert viewer.post(f"/nodes/{group}/{node}/{action}").status_code == 403
        assert viewer.get(f"/nodes/{group}/{node}/{action}").status_code == 405
    assert viewer.post(f"/archive/{group}/restore", data={"agent": AGENT}).status_code == 403
    assert viewer.post(f"/agents/{group}/{AGENT}/settings", data={"mode": "elapsed"}).status_code == 403
    assert viewer.post(f"/agents/{group}/{AGENT}/reflect").status_code == 403
    assert 'data-confirm="' not in page(viewer, f"/nodes/{group}/{node}")
    assert audits(group) == []

    assert admin.post(f"/nodes/{group}/{node}/archive").status_code == 303
    found = data(admin, f"/nodes/{group}/{node}.json")["node"]
    assert found["archived_reason"] == "chosen"
    assert "somebody archived it" in page(admin, "/archive", group=group)
    assert admin.post(f"/nodes/{group}/{node}/restore").status_code == 303
    assert data(admin, f"/nodes/{group}/{node}.json")["node"]["archived_at"] is None
    name = admin.user.name  # type: ignore[attr-defined]
    assert audits(group) == [("archive.archive", f"user:{name}", AGENT), ("archive.restore", f"user:{name}", AGENT)]
    assert admin.post(f"/nodes/{group}/{uuid4()}/archive").status_code == 404
    with_token, admin.token = admin.token, ""
    assert admin.post(f"/nodes/{group}/{node}/archive").status_code in (400, 403)
    admin.token = with_token
    assert data(admin, f"/nodes/{group}/{node}.json")["node"]["archived_at"] is None


def audits(group: str) -> list[tuple[str, str, str]]:
    with unit_of_work() as connection:
        rows = connection.exec_driver_sql("SELECT action, actor, target FROM audit_log WHERE group_id = %s ORDER BY audit_id", (group,))
        return [(row.action, row.actor, row.target) for row in rows]


def test_to_delete_a_memory_asks_for_its_erasure(sign_in: SignIn, group: str, nothing_owed: None) -> None:
    node = observe(group)
    admin = sign_in("admin", [group])
    answer = admin.post(f"/nodes/{group}/{node}/delete")
    assert answer.status_code == 303
    assert answer.location.startswith("/erasure/")
    page(admin, answer.location)
    with unit_of_work() as connection:
        kinds = connection.exec_driver_sql("SELECT kind FROM pending_work WHERE group_id = %s", (group,)).scalars().all()
    assert "erase" in kinds
    assert [action for action, _, _ in audits(group)] == ["erasure.request"]


def test_the_archive_restores_the_chosen_or_all_of_an_agent(sign_in: SignIn, group: str) -> None:
    nodes = [observe(group, description=f"old {n}") for n in range(4)]
    foreign = observe(f"{group}-other")
    archive(group, *nodes)
    archive(f"{group}-other", foreign)
    admin = sign_in("admin", [group])
    found = data(admin, "/archive.json", group=group)
    assert found["counts"] == [{"agent_id": AGENT, "archived": 4, "expired": 0, "faded": 0}]
    assert len(found["nodes"]) == 4
    assert data(admin, "/archive.json", group=group, reason="faded")["nodes"] == []
    answer = admin.post(f"/archive/{group}/restore", data={"node_id": [str(nodes[0]), str(foreign)]})
    assert answer.status_code == 303
    assert "Restored: 1" in page(admin, answer.location)
    assert len(data(admin, "/archive.json", group=group)["nodes"]) == 3
    assert admin.post(f"/archive/{group}/restore", data={"agent": AGENT}).status_code == 303
    assert data(admin, "/archive.json", group=group)["nodes"] == []
    for wrong in ({}, {"agent": AGENT, "node_id": str(nodes[0])}, {"node_id": "x"}):
        assert admin.post(f"/archive/{group}/restore", data=wrong).status_code == 400
    with unit_of_work() as connection:
        left = connection.exec_driver_sql("SELECT archived_at FROM memory_nodes WHERE node_id = %s", (foreign,)).scalar()
    assert left is not None


def test_pages_of_the_archive_have_no_gaps(signed_in: FlaskClient, group: str) -> None:
    with unit_of_work() as connection:
        events = [observed(group, description=f"old {n}") for n in range(60)]
        store(connection, events)
        archiving.archive_chosen(connection, group, [event.event_id for event in events])
    first = data(signed_in, "/archive.json", group=group)
    second = data(signed_in, "/archive.json", group=group, before=first["next"])
    assert second["next"] is None
    assert sorted(texts(first) + texts(second)) == sorted(f"old {n}" for n in range(60))
    assert page(signed_in, "/archive/rows", group=group, before=first["next"]).count('name="node_id"') == 10


def test_an_agents_settings_are_a_form(sign_in: SignIn, group: str) -> None:
    observe(group)
    admin = sign_in("admin", [group])
    path = f"/agents/{group}/{AGENT}"
    every = dict.fromkeys(agent_pages.SETTINGS, "")
    answer = admin.post(f"{path}/settings", data={**every, "mode": "elapsed", "recency_w": "2.5"})
    assert answer.status_code == 303
    settings = data(admin, f"{path}.json")["agent"]["settings"]
    assert settings == {"mode": "elapsed", "recency_w": 2.5}
    html = page(admin, path)
    assert "<option selected>elapsed</option>" in html
    assert 'value="2.5"' in html
    assert [row[0] for row in audits(group)] == ["agents.configure"]
    assert data(admin, "/events.json", group=group)["events"][0]["type"] == "agent.configured"

    admin.post(f"{path}/settings", data={**every, "recency_w": "2.5"})  # mode goes back to the deployment
    assert data(admin, f"{path}.json")["agent"]["settings"] == {"recency_w": 2.5}
    admin.post(f"{path}/settings", data={**every, "recency_w": "2.5"})  # nothing changed: no event
    assert len(audits(group)) == 2

    fragment = admin.post(f"{path}/settings", data={"recency_w": "-300"}, headers={"HX-Request": "true"})
    assert fragment.status_code == 400
    assert 'data-message data-field="recency_w"' in fragment.text
    assert "<html" not in fragment.text
    assert admin.post(f"{path}/settings", data={"recency_w": "much"}).status_code == 400
    assert data(admin, f"{path}.json")["agent"]["settings"] == {"recency_w": 2.5}
    assert admin.post(f"/agents/{group}/nobody/settings", data={"recency_w": "1"}).status_code == 404


def test_reflect_now_owes_a_reflection_and_shows_it(sign_in: SignIn, group: str, nothing_owed: None) -> None:
    observe(group)
    admin = sign_in("admin", [group])
    first = admin.post(f"/agents/{group}/{AGENT}/reflect")
    assert first.status_code == 303
    assert admin.post(f"/agents/{group}/{AGENT}/reflect").location == first.location
    found = data(admin, first.location + ".json")["reflection"]
    assert (found["state"], found["trigger"]) == ("owed", "request")
    assert "every two seconds" in page(admin, first.location)
    assert admin.post(f"/agents/{group}/nobody/reflect").status_code == 404
    listed = data(admin, "/reflections.json", group=group)["reflections"]
    assert [(row["state"], row["agent_id"]) for row in listed] == [("owed", AGENT)]


def test_reflections_are_listed_by_agent_state_and_trigger(signed_in: FlaskClient, group: str) -> None:
    made: list[UUID] = []
    for agent in ("A", "B"):
        observe(group, agent)
        with unit_of_work() as connection:
            begun = reflections.begin(connection, group, agent, "rules-2")
            reflections.finish(connection, begun, focal_points=["why?"], thoughts=0)
            made.append(begun.reflection_id)
    with unit_of_work() as connection:
        waiting = reflections.begin(connection, group, "B", "rules-2")
        reflections.interrupt(connection, waiting, "the LLM is away")
        key = connection.exec_driver_sql("SELECT agent_key FROM agents WHERE group_id = %s AND agent_id = 'B'", (group,)).scalar_one()
        enqueue(connection, REFLECT, [(key, group)])

    def listed(**query: str) -> list[tuple[str, str]]:
        rows = data(signed_in, "/reflections.json", group=group, **query)["reflections"]
        return [(row["agent_id"], row["state"]) for row in rows]

    assert listed() == [("B", "waiting"), ("B", "done"), ("A", "done")]
    assert listed(agent="A") == [("A", "done")]
    assert listed(state="waiting") == [("B", "waiting")]
    assert listed(trigger="request") == []
    assert "the LLM is away" in page(signed_in, "/reflections", group=group)
    assert "why?" in page(signed_in, f"/reflections/{group}/{made[0]}")
    with unit_of_work() as connection:
        connection.exec_driver_sql("DELETE FROM pending_work WHERE subject_id = %s", (key,))
    assert listed(state="given up") == [("B", "given up")]


def test_a_reflection_shows_its_thoughts_with_their_evidence(signed_in: FlaskClient, group: str) -> None:
    ground = observe(group, description="the river rises")
    with unit_of_work() as connection:
        begun = reflections.begin(connection, group, AGENT, "rules-2")
        event = build(
            {
                "type": "memory.observed",
                "event_id": thought_id(begun.reflection_id, 0),
                "group_id": group,
                "agent_id": AGENT,
                "payload": {
                    "node_type": "thought",
                    "description": "move the books",
                    "evidence": [str(ground)],
                    "provenance": {"focal_point": "what about the river?"},
                },
            }
        )
        store(connection, [event])
        reflections.finish(connection, begun, focal_points=["what about the river?"], thoughts=1)
    html = page(signed_in, f"/reflections/{group}/{begun.reflection_id}")
    assert "move the books" in html
    assert f"/nodes/{group}/{ground}" in html
    found = data(signed_in, f"/reflections/{group}/{begun.reflection_id}.json")["reflection"]
    assert found["thoughts"][0]["evidence"][0]["description"] == "the river rises"


def test_events_are_listed_as_they_arrived_and_the_news_alone(signed_in: FlaskClient, group: str) -> None:
    with unit_of_work() as connection:
        store(connection, [observed(group, description=f"told {n}") for n in range(60)])
    first = data(signed_in, "/events.json", group=group)
    second = data(signed_in, "/events.json", group=group, before=first["next"])
    told = [row["summary"] for row in first["events"] + second["events"]]
    assert told == [f"told {n}" for n in reversed(range(60))]
    assert second["next"] is None
    everything = page(signed_in, "/events/rows", group=group, after=0)  # as asked for where there was nothing
    assert everything.count("data-position") == 60
    newest = first["events"][0]["position"]
    late = observe(group, "Tomas", description="news")
    rows = page(signed_in, "/events/rows", group=group, after=newest)
    assert rows.count("<li") == 1
    assert f'id="event-{late}"' in rows
    assert 'class="state stored"' in rows
    embed(late, 1, 0)
    assert 'class="state retrievable"' in page(signed_in, "/events/rows", group=group, after=newest)
    assert page(signed_in, "/events/rows", group=group, after=newest, agent=AGENT).count("<li") == 0
    assert [row["summary"] for row in data(signed_in, "/events.json", group=group, agent="Tomas")["events"]] == ["news"]
    with unit_of_work() as connection:
        store(connection, [observed(group) for _ in range(101)])
    flood = page(signed_in, "/events/rows", group=group, after=newest)
    assert flood.count("data-position") == 100
    assert 'class="missed"' in flood


def test_an_event_tells_what_became_of_it(signed_in: FlaskClient, group: str) -> None:
    event = observed(group, description="as it came")
    with unit_of_work() as connection:
        store(connection, [event])
        store(connection, [build({"type": "agent.configured", "group_id": group, "agent_id": AGENT, "payload": {"dedupe": "exact"}})])
    again = observe(group, description="as it came")
    html = page(signed_in, f"/events/{group}/{event.event_id}")
    assert "&#34;description&#34;: &#34;as it came&#34;" in html
    assert f"/nodes/{group}/{event.event_id}" in html
    assert "<code>embed</code>" in html
    repeated = data(signed_in, f"/events/{group}/{again}.json")["event"]
    assert (repeated["outcome"], repeated["node_id"]) == ("duplicate", str(event.event_id))
    assert "a repetition" in page(signed_in, f"/events/{group}/{again}")


def test_an_agents_time_is_drawn_and_a_time_chosen(signed_in: FlaskClient, group: str) -> None:
    for day in (1, 1, 3):
        observe(group, description=f"day {day}", at=datetime(2026, 3, day, 9, tzinfo=UTC))
    observe(group, node_type="thought", description="hm", at=datetime(2026, 3, 20, 9, tzinfo=UTC))
    path = f"/agents/{group}/{AGENT}"
    found = data(signed_in, f"{path}.json")
    assert found["timeline"]["unit"] == "day"
    assert [(row["start"][:10], row["event"], row["thought"]) for row in found["timeline"]["spans"]] == [
        ("2026-03-01", 2, 0),
        ("2026-03-03", 1, 0),
        ("2026-03-20", 0, 1),
    ]
    html = page(signed_in, path)
    assert html.count('class="hit"') == 20
    chosen = page(signed_in, f"{path}/memories", **{"from": "2026-03-02", "to": "2026-03-03"})
    assert "day 3" in chosen
    assert "day 1" not in chosen
    assert texts(data(signed_in, f"{path}.json", **{"from": "2026-03-02", "to": "2026-03-03"})) == ["day 3"]


def test_keywords_go_on_page_by_page(signed_in: FlaskClient, group: str) -> None:
    observe(group)
    with unit_of_work() as connection:
        connection.exec_driver_sql(
            "INSERT INTO kw_strength SELECT %s, %s, 'event', 'word ' || n, 100 - n FROM generate_series(1, 45) n", (group, AGENT)
        )
    html, seen, address = page(signed_in, f"/agents/{group}/{AGENT}"), [], ""
    while True:
        seen += re.findall(r"(word \d+)</a>", html)
        following = re.search(r'hx-get="([^"]+/keywords[^"]+)"', html)
        if following is None:
            break
        assert following[1] != address
        address = following[1]
        html = page(signed_in, address.replace("&amp;", "&"))
    assert seen == [f"word {n}" for n in range(1, 46)]


@pytest.mark.parametrize("name", ["a/b", "..", "x.json", "a%2Fb", "空 格?#&", '"><b>', EVIL, RTL])
def test_every_name_has_pages(sign_in: SignIn, group: str, name: str) -> None:
    observe(group, name)
    admin = sign_in("admin", [group])
    link = re.search(r'<th scope="row"><a href="([^"]+)"', page(admin, "/agents", group=group))
    assert link is not None
    path = link[1].replace("&amp;", "&")
    assert data(admin, f"{path}.json")["agent"]["agent_id"] == name
    assert f'action="{link[1]}/reflect"' in page(admin, path)
    assert admin.post(f"{path}/reflect").status_code == 303
    assert admin.post(f"{path}/settings", data={"mode": "elapsed"}).status_code == 303
    assert len(data(admin, "/memories.json", group=group, agent=name)["nodes"]) == 1


@pytest.mark.parametrize(
    "path",
    [
        "/memories?from=yesterday",
        "/memories?importance=nan",
        "/memories?importance=11",
        "/memories?type=dream",
        "/memories?before=x",
        "/memories?agent=a&before=²",
        "/memories?archived=maybe",
        "/memories?to=9999-12-31",
        "/events?before=0",
        "/events?before=99999999999999999999",
        "/events/rows?after=-1",
        "/reflections?state=odd",
        "/reflections?before=AAAA",
        "/archive?reason=odd",
        "/archive?before=é",
        "/playground?a.mode=odd",
        "/playground?a.recency_w=-101",
        "/playground?b.top_k=0",
        "/playground?a.recency_decay=0",
        "/playground?now=soon",
        "/agents/{group}/x?from=1",
        "/agents/{group}/x/keywords?offset=x",
    ],
)
def test_bad_parameters_are_named(signed_in: FlaskClient, group: str, path: str) -> None:
    query = path.format(group=group) + ("" if path.startswith("/agents/") else f"&group={group}&agent=a&focal=x")
    if path.startswith(("/memories?before", "/memories?to")):
        query = f"{path}&group={group}"
    answer = signed_in.get(query)
    assert answer.status_code == 400, answer.text
    name = path.partition("?")[2].rpartition("&")[2].partition("=")[0]
    assert name in answer.text


def test_another_groups_things_are_not_there(sign_in: SignIn, group: str) -> None:
    other = f"{group}-other"
    node = observe(other)
    with unit_of_work() as connection:
        begun = reflections.begin(connection, other, AGENT, "rules-2")
    admin = sign_in("admin", [group])
    observe(group, "ours")
    for path in (
        f"/nodes/{group}/{node}",
        f"/nodes/{other}/{node}",
        f"/agents/{group}/{AGENT}",
        f"/agents/{other}/{AGENT}",
        f"/agents/{other}/{AGENT}/memories",
        f"/agents/{other}/{AGENT}/keywords",
        f"/events/{group}/{node}",
        f"/events/{other}/{node}",
        f"/reflections/{group}/{begun.reflection_id}",
        f"/reflections/{other}/{begun.reflection_id}",
        f"/memories?group={other}",
        f"/playground?group={other}",
        f"/archive?group={other}",
        f"/events?group={other}",
        f"/events/rows?group={other}",
        f"/playground/one/{other}/{node}?agent={AGENT}&focal=x",
    ):
        assert admin.get(path).status_code == 404, path
        bare, mark, query = path.partition("?")
        if "/rows" not in bare and "/one/" not in bare and not bare.endswith(("/memories", "/keywords")):
            assert admin.get(f"{bare}.json{mark}{query}").status_code == 404, path
    for path in (
        f"/nodes/{group}/{node}/archive",
        f"/nodes/{other}/{node}/archive",
        f"/agents/{other}/{AGENT}/reflect",
        f"/nodes/{group}/{node}/delete",
        f"/agents/{group}/{AGENT}/settings",
        f"/archive/{other}/restore",
    ):
        assert admin.post(path, data={"agent": AGENT, "mode": "elapsed"}).status_code == 404, path
    assert "雨" not in page(admin, f"/agents/{group}/{AGENT}/memories")


def test_without_a_worker_the_playground_says_so(signed_in: FlaskClient, group: str, monkeypatch: pytest.MonkeyPatch) -> None:
    observe(group)
    monkeypatch.setattr(asking, "RETRIEVAL_TIMEOUT", 0.2)
    html = page(signed_in, "/playground", group=group, agent=AGENT, focal="rain", compare="1")
    assert html.count("No answer:") == 2
    assert "no answer to retrieval.retrieve within 0.2 s" in html, html[html.index("No answer:") :][:300]
    found = data(signed_in, "/playground.json", group=group, agent=AGENT, focal="rain")["found"]
    assert found["a"]["rows"] == []
    assert "worker" in found["a"]["unknown"]
    fragment = page(signed_in, f"/playground/one/{group}/{uuid4()}", agent=AGENT, focal="rain")
    assert "No answer:" in fragment


def test_without_valkey_the_pages_answer(signed_in: FlaskClient, group: str, monkeypatch: pytest.MonkeyPatch) -> None:
    node = observe(group)
    nowhere = redis.Redis.from_url("unix:///nonexistent-folder/v.sock")
    monkeypatch.setattr("models.db.valkey.valkey", lambda: nowhere)
    monkeypatch.setattr("models.retrieval.touches.valkey", lambda: nowhere)
    for path in (*LISTS, f"/nodes/{group}/{node}", f"/agents/{group}/{AGENT}"):
        page(signed_in, path, group=group)
    archive(group, node)
    assert signed_in.post(f"/nodes/{group}/{node}/restore").status_code == 303
    assert data(signed_in, f"/nodes/{group}/{node}.json")["node"]["archived_at"] is None


def test_a_question_that_cannot_be_asked_is_told_in_a_sentence(signed_in: FlaskClient, group: str) -> None:
    observe(group)
    html = page(signed_in, "/playground", **{"group": group, "agent": AGENT, "focal": "rain", "a.mode": "stanford", "a.diversity": "0.5"})
    assert "the stanford mode ranks as the original does" in html
    assert "8,000" in page(signed_in, "/playground", group=group, agent=AGENT, focal="x" * 8_001)


def test_the_address_of_a_question_leaves_out_what_the_agent_has(signed_in: FlaskClient, group: str) -> None:
    with unit_of_work() as connection:
        store(connection, [build({"type": "agent.configured", "group_id": group, "agent_id": AGENT, "payload": {"recency_w": 2.0}})])
    answer = signed_in.get(
        "/playground/answer",
        query_string={"group": group, "agent": AGENT, "focal": "", "a.recency_w": "2", "a.relevance_w": "3", "b.relevance_w": "4"},
    )
    address = answer.headers["HX-Replace-Url"]
    assert "a.relevance_w=3.0" in address
    assert "recency_w" not in address
    assert "b." not in address  # the other side is not shown
    assert 'name="a.relevance_w" min="0" max="5.0" step="0.1" value="3"' in page(signed_in, address)


def test_the_playground_ranks_explains_and_compares(client: Client, service: str, sign_in: SignIn) -> None:
    """With a running service."""
    told = ["the bees swarm", "rain on the roof", "the bees are gone", "a letter from the office"]
    client.observe_many(
        [{"agent_id": AGENT, "description": text, "poignancy": place * 3 + 1} for place, text in enumerate(told)], wait=True, timeout=60
    )
    before = client.retrieve(AGENT, "bees", touch=False).retrieved_nodes
    viewer = sign_in("viewer", [service])
    query = {"group": service, "agent": AGENT, "focal": "bees", "compare": "1", "b.relevance_w": "0", "b.recency_w": "0"}
    found = data(viewer, "/playground.json", **query)["found"]
    assert [row["node_id"] for row in found["a"]["rows"]] == [str(node.node_id) for node in before]
    for side in found.values():
        for row in side["rows"]:
            parts = [row[part]["contribution"] for part in ("recency", "relevance", "importance")]
            assert sum(parts) == pytest.approx(row["score"])
            assert sum(segment["width"] for segment in row["bar"]) <= 98.1
    assert [row["description"] for row in found["b"]["rows"]] == list(reversed(told))
    places = {row["node_id"]: row["rank"] for row in found["b"]["rows"]}
    for row in found["a"]["rows"]:
        assert row["moved"] == places[row["node_id"]] - row["rank"]
    html = page(viewer, "/playground", **query)
    assert html.count('<svg class="bar"') == 8
    assert "▲" in html
    one = found["a"]["rows"][0]
    fragment = page(viewer, f"/playground/one/{service}/{one['node_id']}", agent=AGENT, focal="bees")
    assert f"Rank 1 of {len(told)} candidates" in fragment
    assert "It is not among the best" in page(viewer, f"/playground/one/{service}/{uuid4()}", agent=AGENT, focal="bees")
    after = client.retrieve(AGENT, "bees", touch=False).retrieved_nodes
    assert [node.last_accessed for node in after] == [node.last_accessed for node in before]  # looking touches nothing
    linked = page(viewer, f"/nodes/{service}/{one['node_id']}", focal="bees")
    assert f"/playground/one/{service}/{one['node_id']}" in linked


@pytest.mark.parametrize(
    ("text", "words", "marked"),
    [
        ("Two cats sleep", "cat", ["cats"]),
        ("Two cats sleep", "SLEEPING two", ["Two", "sleep"]),
        ("门口来了一只流浪猫", "流浪猫", ["流浪猫"]),
        ("INV-2093 is paid", "inv-2093", ["INV-2093"]),
        ("a (b) [c", "(b)", ["(b)"]),
        ("nothing here", "else", []),
        ("any", "", []),
        ("x" * 500 + " cats " + "y" * 500, "cat", ["cats"]),
    ],
)
def test_matches_are_marked(text: str, words: str, marked: list[str]) -> None:
    found = marking.pieces(text, words)
    assert [piece for piece, is_match in found if is_match] == marked
    whole = "".join(piece for piece, _ in found)
    assert whole.strip("…") in text
    assert len(whole) <= marking.SHOWN_CHARS + 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("short", ["short"]),
        ("", []),
        ("two lines of words that are broken here", ["two lines of words that", "are broken here"]),
        ("记" * 40, ["记" * 13, "记" * 12 + "…"]),
        ("a\n\nb", ["a b"]),
    ],
)
def test_texts_fit_their_boxes(text: str, expected: list[str]) -> None:
    assert evidence.lines(text) == expected


def test_a_timeline_has_bars_for_empty_months_too() -> None:
    start = datetime(2025, 11, 1, tzinfo=UTC)
    spans = [
        TimelineSpan(start=start, memories=4, event=3, thought=1, chat=0),
        TimelineSpan(start=datetime(2026, 2, 1, tzinfo=UTC), memories=2, event=0, thought=0, chat=2),
    ]
    drawn = agent_pages.Timeline("month", spans)
    assert [bar["memories"] for bar in drawn.bars] == [4, 0, 0, 2]
    assert [bar["start"].month for bar in drawn.bars] == [11, 12, 1, 2]
    assert sum(segment["height"] for segment in drawn.bars[0]["segments"]) == pytest.approx(agent_pages.HEIGHT - 2)
    assert not agent_pages.Timeline("day", [])
    assert agent_pages.unit_for(Span(start, start + timedelta(days=3))) == "hour"
    assert agent_pages.unit_for(Span(start, start + timedelta(days=3_000))) == "month"
    long = agent_pages.Timeline("day", [spans[0], spans[1].model_copy(update={"start": start + timedelta(days=1_000)})])
    assert (len(long.bars), long.cut) == (agent_pages.MOST_BARS, True)
