"""The pages of memories, retrieval, agents, reflections, archive and events: with data, with nothing, with
bad input.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from flask.testing import FlaskClient
from sqlalchemy import text

from engine.reflection import thought_id
from engine.text import keywords
from jiyi import Client
from jiyi.protocol.events import build
from models.db.connection import unit_of_work
from models.memory import access
from models.memory import archive as archiving
from models.memory.agents import TimelineSpan
from models.memory.inbox import store
from models.queue.pending_work import enqueue
from models.reflection import reflections
from models.reflection.reflections import REFLECT
from tests.integration.away import away
from tests.integration.conftest import SignIn
from tests.integration.memory.accesses import touch
from tests.integration.memory.test_inbox import configured
from tests.integration.web.markup import attributes
from web.admin import agents as agent_pages
from web.admin import node as evidence
from web.admin import retrieval as asking

AGENT = "林岚"
EVIL = "<script>alert('记')</script>\" onmouseover=\"x"
RTL = "\u202eمرحبا"


def observed(
    group: str, agent: str = AGENT, *, at: datetime | None = None, session: str | None = None, **payload: Any
) -> Any:
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
            "UPDATE memory_nodes SET embedding = %s, embedding_model = 'test' WHERE node_id = %s",
            (str(list(vector)), node_id),
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


def test_a_group_without_anything_has_pages(signed_in: FlaskClient, group: str) -> None:
    for path in LISTS:
        assert 'class="empty"' in page(signed_in, path, group=group), path
        assert data(signed_in, f"{path}.json", group=group)["group"] == group


def test_all_pages_escape_what_others_wrote(signed_in: FlaskClient, group: str) -> None:
    ground = observe(
        group, EVIL, description=EVIL, keywords=[EVIL], subject=EVIL, provenance={"from": EVIL}, session=EVIL
    )
    thought = observe(
        group, EVIL, node_type="thought", description=EVIL + RTL, evidence=[str(ground)], session=EVIL
    )
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


def test_search_finds_by_text_and_by_what_is_known(signed_in: FlaskClient, group: str) -> None:
    days = {"猫": 1, "cats": 2, "river": 3, "thought": 4, "gone": 5}
    at = {name: datetime(2026, 3, day, 7, 15, tzinfo=UTC) for name, day in days.items()}
    observe(group, description="门口来了一只流浪猫", at=at["猫"], session="s1", provenance={"name": "猫"})
    embed(
        observe(group, description="Two cats sleep by the stove", at=at["cats"], provenance={"name": "cats"}),
        1,
        0,
    )
    observe(group, "Tomas", description="100% of the river", keywords=["River"], poignancy=7, at=at["river"])
    observe(group, node_type="thought", description="so be it", at=at["thought"])
    archive(group, observe(group, description="nothing", at=at["gone"]))
    queries: list[tuple[dict[str, Any], str]] = [
        ({}, "猫 cats river thought"),
        ({"q": "浪"}, "猫"),
        ({"q": "CATS sleeping"}, "cats"),
        ({"q": "%"}, "river"),
        ({"q": "_"}, ""),
        ({"q": "no such words"}, ""),
        ({"agent": "Tomas"}, "river"),
        ({"agent": "nobody"}, ""),
        ({"type": ["thought", "event"], "session": "s1"}, "猫"),
        ({"from": "2026-03-02", "to": "2026-03-02"}, "cats"),
        ({"from": "2026-03-02T08:00+01:00", "to": "2026-03-02T07:15:01Z"}, "cats"),
        ({"importance": "5"}, "river"),
        ({"keyword": "River"}, "river"),
        ({"archived": "only"}, "gone"),
        ({"archived": "with"}, "猫 cats river thought gone"),
        ({"vector": "without"}, "猫 river thought"),
    ]
    for query, expected in queries:
        found = [
            datetime.fromisoformat(node["created_at"])
            for node in data(signed_in, "/memories.json", group=group, **query)["nodes"]
        ]
        assert found == sorted((at[name] for name in expected.split()), reverse=True), query
        html = page(signed_in, "/memories", group=group, **query)
        assert html.count('title="Open this memory"') == len(found), query
        assert ("<mark>" in html) == bool(found and "q" in query), query


def test_pages_of_a_search_have_no_gaps_and_no_doubles_while_memories_arrive(
    signed_in: FlaskClient, group: str
) -> None:
    moment = datetime(2026, 3, 2, tzinfo=UTC)
    with unit_of_work() as connection:
        store(
            connection,
            [observed(group, description=f"day {n}", at=moment + timedelta(hours=n // 3)) for n in range(75)],
        )
    for of in ({"agent": AGENT}, {}):
        first = data(signed_in, "/memories.json", group=group, **of)
        seen, before = [text for text in texts(first) if text != "late"], first["next"]
        while before is not None:
            observe(group, description="late", at=moment + timedelta(days=30))
            found = data(signed_in, "/memories.json", group=group, cursor=before, **of)
            seen, before = seen + texts(found), found["next"]
        assert sorted(seen) == sorted(f"day {n}" for n in range(75))
    rows = page(signed_in, "/memories/rows", group=group, cursor=first["next"])
    assert "<html" not in rows
    assert not set(re.findall(r"/nodes/[^\"]+", rows)) & {
        f"/nodes/{group}/{node['node_id']}" for node in first["nodes"]
    }


def test_a_search_that_takes_too_long_says_what_to_do(
    signed_in: FlaskClient, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    observe(group)
    # This statement alone has so little time.
    slow = text("SET LOCAL statement_timeout = 50; SELECT pg_sleep(60)")
    monkeypatch.setattr("web.admin.memory.search", lambda connection, *_: connection.execute(slow))
    answer = signed_in.get("/memories", query_string={"group": group, "q": "雨"})
    assert answer.status_code == 503
    assert "statement timeout" in answer.text
    assert "Choose an agent" in answer.text
    assert 'value="雨"' in answer.text
    assert (
        "statement timeout"
        in signed_in.get("/memories.json", query_string={"group": group}).json["why_unknown"]
    )


def test_a_memory_stands_among_its_like_its_session_and_its_work(signed_in: FlaskClient, group: str) -> None:
    nodes = [observe(group, description=f"turn {n}", session="talk") for n in range(5)]
    other = observe(group, description="elsewhere", session="another")
    for place, node in enumerate(nodes):
        embed(node, 1, place)
    embed(other, 1, 0, 0)
    touch(group, [nodes[1]], datetime(2026, 3, 3, 9, 41, tzinfo=UTC).timestamp())
    access.flush()
    found = data(signed_in, f"/nodes/{group}/{nodes[1]}.json")
    assert [row["description"] for row in found["session"]["before"]] == ["turn 0"]
    assert [row["description"] for row in found["session"]["after"]] == ["turn 2", "turn 3", "turn 4"]
    nearest = data(signed_in, f"/nodes/{group}/{nodes[1]}/nearest.json")["nearest"]
    assert [row["description"] for row, _ in nearest] == ["turn 2", "turn 3", "turn 4", "turn 0"]
    assert nearest[0][1] == pytest.approx(3 / 10**0.5)
    assert found["event"]["payload"]["description"] == "turn 1"
    assert {row["kind"] for row in found["pending"]} == {"appraise", "embed"}
    assert found["node"]["access_count"] == 1
    html = page(signed_in, f"/nodes/{group}/{nodes[1]}")
    for shown in ("Similar", "turn 4", "<code>embed</code>", "03-03 09:41</time></li>"):
        assert shown in html
    assert data(signed_in, f"/nodes/{group}/{other}/nearest.json")["nearest"] == []  # of another size


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


def test_changes_ask_for_a_right_and_leave_a_trace(sign_in: SignIn, group: str, nothing_owed: None) -> None:
    node = observe(group)
    viewer, admin = sign_in("viewer", [group]), sign_in("admin", [group])
    for action in ("archive", "restore", "delete"):
        assert viewer.get(f"/nodes/{group}/{node}/{action}").status_code == 405
    assert 'data-confirm="' not in page(viewer, f"/nodes/{group}/{node}")
    assert audits(group) == []
    assert admin.post(f"/nodes/{group}/{node}/archive").status_code == 303
    assert data(admin, f"/nodes/{group}/{node}.json")["node"]["archived_reason"] == "chosen"
    assert "somebody archived it" in page(admin, "/archive", group=group)
    assert admin.post(f"/nodes/{group}/{node}/restore").status_code == 303
    assert data(admin, f"/nodes/{group}/{node}.json")["node"]["archived_at"] is None
    assert admin.post(f"/nodes/{group}/{uuid4()}/archive").status_code == 404
    answer = admin.post(f"/nodes/{group}/{node}/delete")
    assert answer.status_code == 303
    assert answer.location.startswith("/erasure/")
    page(admin, answer.location)
    by = f"user:{admin.user.name}"  # type: ignore[attr-defined]
    assert [(action, actor) for action, actor, _ in audits(group)] == [
        ("archive.archive", by),
        ("archive.restore", by),
        ("erasure.request", by),
    ]


def audits(group: str) -> list[tuple[str, str, str]]:
    with unit_of_work() as connection:
        rows = connection.exec_driver_sql(
            "SELECT action, actor, target FROM audit_log WHERE group_id = %s ORDER BY audit_id", (group,)
        )
        return [(row.action, row.actor, row.target) for row in rows]


def test_the_archive_is_listed_page_by_page_and_restores_the_chosen_or_all_of_an_agent(
    sign_in: SignIn, group: str
) -> None:
    events = [observed(group, description=f"old {n}") for n in range(60)]
    foreign = observe(f"{group}-other")
    archive(f"{group}-other", foreign)
    with unit_of_work() as connection:
        store(connection, events)
        archiving.archive_chosen(connection, group, [event.event_id for event in events])
    admin = sign_in("admin", [group])
    first = data(admin, "/archive.json", group=group)
    assert first["counts"] == [{"agent_id": AGENT, "archived": 60, "expired": 0, "faded": 0}]
    second = data(admin, "/archive.json", group=group, cursor=first["next"])
    assert second["next"] is None
    assert sorted(texts(first) + texts(second)) == sorted(f"old {n}" for n in range(60))
    assert page(admin, "/archive/rows", group=group, cursor=first["next"]).count('name="node_id"') == 10
    assert data(admin, "/archive.json", group=group, reason="faded")["nodes"] == []
    answer = admin.post(
        f"/archive/{group}/restore", data={"node_id": [str(events[0].event_id), str(foreign)]}
    )
    assert "Restored: 1" in page(admin, answer.location)
    assert admin.post(f"/archive/{group}/restore", data={"agent": AGENT}).status_code == 303
    assert data(admin, "/archive.json", group=group)["nodes"] == []
    for wrong in ({}, {"agent": AGENT, "node_id": str(foreign)}, {"node_id": "x"}):
        assert admin.post(f"/archive/{group}/restore", data=wrong).status_code == 400
    with unit_of_work() as connection:
        left = connection.exec_driver_sql(
            "SELECT archived_at FROM memory_nodes WHERE node_id = %s", (foreign,)
        ).scalar()
    assert left is not None


def test_chosen_memories_are_shown_with_what_goes_along_before_they_are_archived_or_erased(
    service: str, sign_in: SignIn
) -> None:
    nodes = [observe(service, f"chosen {uuid4()}", description=f"tea {n}") for n in range(3)]
    foreign = observe(f"{service}-other")
    viewer, admin = sign_in("viewer", [service]), sign_in("admin", [service])
    assert 'name="node_id"' in page(admin, "/memories", group=service)
    assert 'name="node_id"' not in page(viewer, "/memories", group=service)
    two = {"node_id": [str(node) for node in nodes[:2]]}
    shown = admin.post(f"/memories/{service}/chosen", data={"node_id": [*two["node_id"], str(foreign)]})
    assert shown.status_code == 200
    assert [text in shown.text for text in ("tea 0", "tea 1", "tea 2", "雨")] == [True, True, False, False]
    assert "nodes <strong>2</strong>" in shown.text or "memories <strong>2</strong>" in shown.text
    for path in ("chosen", "archive", "delete"):
        assert viewer.post(f"/memories/{service}/{path}", data=two).status_code == 403
    for wrong in ({}, {"node_id": "x"}, {"node_id": [str(uuid4())] * 201}):
        assert admin.post(f"/memories/{service}/chosen", data=wrong).status_code == 400
    assert data(admin, f"/nodes/{service}/{nodes[0]}.json")["node"]["archived_at"] is None
    assert admin.post(f"/memories/{service}/archive", data=two).status_code == 303
    assert [data(admin, f"/nodes/{service}/{node}.json")["node"]["archived_reason"] for node in nodes] == [
        "chosen",
        "chosen",
        None,
    ]
    assert admin.post(f"/memories/{service}/archive", data={"node_id": str(foreign)}).status_code == 404
    assert admin.post(f"/memories/{service}/delete", data=two).location.startswith("/erasure/")


def test_an_agents_settings_are_a_form(sign_in: SignIn, group: str) -> None:
    observe(group)
    admin = sign_in("admin", [group])
    path = f"/agents/{group}/{AGENT}"
    every = dict.fromkeys(agent_pages.SETTINGS, "")
    assert (
        admin.post(f"{path}/settings", data={**every, "mode": "elapsed", "recency_w": "2.5"}).status_code
        == 303
    )
    assert data(admin, f"{path}.json")["agent"]["settings"] == {"mode": "elapsed", "recency_w": 2.5}
    html = page(admin, path)
    assert "<option selected>elapsed</option>" in html
    assert 'value="2.5"' in html
    for _ in range(2):  # mode goes back to the deployment; then nothing is changed: no event
        admin.post(f"{path}/settings", data={**every, "recency_w": "2.5"})
    assert data(admin, f"{path}.json")["agent"]["settings"] == {"recency_w": 2.5}
    assert [row[0] for row in audits(group)] == ["agents.configure"] * 2
    fragment = admin.post(f"{path}/settings", data={"recency_w": "-300"}, headers={"HX-Request": "true"})
    assert fragment.status_code == 400
    assert 'data-message data-field="recency_w"' in fragment.text
    assert "<html" not in fragment.text
    assert admin.post(f"/agents/{group}/nobody/settings", data={"recency_w": "1"}).status_code == 404


def test_reflections_are_owed_listed_and_shown_with_thoughts_and_evidence(
    sign_in: SignIn, group: str, nothing_owed: None
) -> None:
    ground = observe(group, "A", description="the river rises")
    observe(group, "B")
    with unit_of_work() as connection:
        begun = reflections.begin(connection, group, "A", "rules-2")
        payload = {
            "node_type": "thought",
            "description": "move the books",
            "evidence": [str(ground)],
            "provenance": {"focal_point": "why?"},
        }
        thought = {
            "type": "memory.observed",
            "event_id": thought_id(begun.reflection_id, 0),
            "group_id": group,
            "agent_id": "A",
        }
        store(connection, [build({**thought, "payload": payload})])
        reflections.finish(connection, begun, focal_points=["why?"], thoughts=1)
        waiting = reflections.begin(connection, group, "B", "rules-2")
        reflections.interrupt(connection, waiting, "the LLM is away")
        key = connection.exec_driver_sql(
            "SELECT agent_key FROM agents WHERE group_id = %s AND agent_id = 'B'", (group,)
        ).scalar_one()
        enqueue(connection, REFLECT, [(key, group)])
    admin = sign_in("admin", [group])

    def listed(**query: str) -> list[tuple[str, str]]:
        rows = data(admin, "/reflections.json", group=group, **query)["reflections"]
        return [(row["agent_id"], row["state"]) for row in rows]

    assert listed() == [("B", "waiting"), ("A", "done")]
    assert listed(agent="A") == [("A", "done")]
    assert listed(state="waiting") == [("B", "waiting")]
    assert "the LLM is away" in page(admin, "/reflections", group=group)
    html = page(admin, f"/reflections/{group}/{begun.reflection_id}")
    for shown in ("why?", "move the books", f"/nodes/{group}/{ground}"):
        assert shown in html
    found = data(admin, f"/reflections/{group}/{begun.reflection_id}.json")["reflection"]
    assert found["thoughts"][0]["evidence"][0]["description"] == "the river rises"
    with unit_of_work() as connection:
        connection.exec_driver_sql("DELETE FROM pending_work WHERE subject_id = %s", (key,))
    assert listed(state="given up") == [("B", "given up")]
    asked = admin.post(f"/agents/{group}/A/reflect")
    assert admin.post(f"/agents/{group}/A/reflect").location == asked.location
    assert "every two seconds" in page(admin, asked.location)
    assert listed(trigger="request") == [("A", "owed")]
    assert admin.post(f"/agents/{group}/nobody/reflect").status_code == 404


def test_events_are_listed_as_they_arrived_and_the_news_alone(signed_in: FlaskClient, group: str) -> None:
    with unit_of_work() as connection:
        store(connection, [observed(group, description=f"told {n}") for n in range(60)])
    first = data(signed_in, "/events.json", group=group)
    second = data(signed_in, "/events.json", group=group, cursor=first["next"])
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
    assert [
        row["summary"] for row in data(signed_in, "/events.json", group=group, agent="Tomas")["events"]
    ] == ["news"]
    with unit_of_work() as connection:
        store(connection, [observed(group) for _ in range(101)])
    flood = page(signed_in, "/events/rows", group=group, after=newest)
    assert flood.count("data-position") == 100
    assert 'class="missed"' in flood


def test_an_event_tells_what_became_of_it(signed_in: FlaskClient, group: str) -> None:
    event = observed(group, description="as it came")
    with unit_of_work() as connection:
        store(connection, [event])
        store(connection, [configured(group, AGENT, dedupe="exact")])
    again = observe(group, description="as it came")
    html = page(signed_in, f"/events/{group}/{event.event_id}")
    assert "&#34;description&#34;: &#34;as it came&#34;" in html
    assert f"/nodes/{group}/{event.event_id}" in html
    assert "<code>embed</code>" in html
    repeated = data(signed_in, f"/events/{group}/{again}.json")["event"]
    assert (repeated["outcome"], repeated["node_id"]) == ("duplicate", str(event.event_id))
    assert "a repetition" in page(signed_in, f"/events/{group}/{again}")


def test_bad_input_nothing_chosen_is_not_everything(signed_in: FlaskClient, group: str) -> None:
    observe(group, description="as it came")
    for path in ("/memories/chosen.jsonl", f"/memories/{group}/chosen"):
        answer = signed_in.post(
            path, query_string={"group": group}, data={"from_page": f"/memories?group={group}"}
        )
        assert (answer.status_code, "Choose at least one memory." in answer.text) == (400, True), path


def test_an_agents_time_is_drawn_and_a_time_chosen(signed_in: FlaskClient, group: str) -> None:
    for day in (1, 1, 3):
        observe(group, description=f"day {day}", at=datetime(2026, 3, day, 9, tzinfo=UTC))
    path = f"/agents/{group}/{AGENT}"
    assert data(signed_in, f"{path}.json")["timeline"]["unit"] == "hour"
    observe(group, node_type="thought", description="hm", at=datetime(2026, 3, 20, 9, tzinfo=UTC))
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
            "INSERT INTO kw_strength SELECT %s, %s, 'event', 'word ' || n, 100 - n FROM generate_series(1,"
            " 45) n",
            (group, AGENT),
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


def test_bad_parameters_are_named(signed_in: FlaskClient, group: str) -> None:
    asked = f"group={group}&agent=a&focal=x"
    for path, rest in (
        ("/memories?from=yesterday", asked),
        ("/memories?importance=nan", asked),
        ("/memories?importance=11", asked),
        ("/memories?type=dream", asked),
        ("/memories?cursor=x", f"group={group}"),
        ("/memories?archived=maybe", asked),
        ("/memories?to=9999-12-31", f"group={group}"),
        ("/events?cursor=99999999999999999999", asked),
        ("/events/rows?after=-1", asked),
        ("/reflections?state=odd", asked),
        ("/reflections?cursor=AAAA", asked),
        ("/archive?reason=odd", asked),
        ("/archive?cursor=é", asked),
        ("/playground?a.mode=odd", asked),
        ("/playground?a.recency_w=-101", asked),
        ("/playground?now=soon", asked),
        ("/playground?origin=odd", asked),
        ("/playground?min_trust=1.1", asked),
        (f"/agents/{group}/x?from=1", ""),
        (f"/agents/{group}/x/keywords?offset=x", ""),
    ):
        answer = signed_in.get(f"{path}&{rest}")
        assert answer.status_code == 400, (path, answer.text)
        assert path.partition("?")[2].partition("=")[0] in answer.text, path


def test_another_groups_things_are_not_there(sign_in: SignIn, group: str) -> None:
    other = f"{group}-other"
    node = observe(other)
    with unit_of_work() as connection:
        begun = reflections.begin(connection, other, AGENT, "rules-2").reflection_id
    admin = sign_in("admin", [group])
    observe(group, "ours")
    paths = [
        f"/{page}?group={other}" for page in ("memories", "playground", "archive", "events", "events/rows")
    ]
    for whose in (group, other):
        paths += [
            f"/{what}/{whose}/{which}"
            for what, which in (("nodes", node), ("agents", AGENT), ("events", node), ("reflections", begun))
        ]
    paths += [f"/agents/{other}/{AGENT}/{part}" for part in ("memories", "keywords")]
    for path in [*paths, f"/playground/one/{other}/{node}?agent={AGENT}&focal=x"]:
        assert admin.get(path).status_code == 404, path
        bare, mark, query = path.partition("?")
        if "/rows" not in bare and "/one/" not in bare and not bare.endswith(("/memories", "/keywords")):
            assert admin.get(f"{bare}.json{mark}{query}").status_code == 404, path
    changes = [
        f"nodes/{group}/{node}/archive",
        f"nodes/{other}/{node}/archive",
        f"nodes/{group}/{node}/delete",
    ]
    for path in [
        *changes,
        f"agents/{other}/{AGENT}/reflect",
        f"agents/{group}/{AGENT}/settings",
        f"archive/{other}/restore",
    ]:
        assert (
            admin.post(
                f"/{path}", data={} if "nodes" in path else {"agent": AGENT, "mode": "elapsed"}
            ).status_code
            == 404
        ), path
    assert "雨" not in page(admin, f"/agents/{group}/{AGENT}/memories")


def test_without_a_worker_the_playground_says_so(
    signed_in: FlaskClient, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    observe(group)
    monkeypatch.setattr(asking, "RETRIEVAL_TIMEOUT", 0.2)
    html = page(signed_in, "/playground", group=group, agent=AGENT, focal="rain", compare="1")
    assert html.count("No answer:") == 2
    assert "no answer to retrieval.retrieve within 0.2 s" in html, html[html.index("No answer:") :][:300]
    assert "No answer:" in page(signed_in, f"/playground/one/{group}/{uuid4()}", agent=AGENT, focal="rain")


def test_without_valkey_the_pages_answer(signed_in: FlaskClient, group: str) -> None:
    node = observe(group)
    with away("valkey"):
        for path in (*LISTS, f"/nodes/{group}/{node}", f"/agents/{group}/{AGENT}"):
            page(signed_in, path, group=group)
        archive(group, node)
        assert signed_in.post(f"/nodes/{group}/{node}/restore").status_code == 303
        assert data(signed_in, f"/nodes/{group}/{node}.json")["node"]["archived_at"] is None


def test_a_question_that_cannot_be_asked_is_told_in_a_sentence(signed_in: FlaskClient, group: str) -> None:
    observe(group)
    html = page(
        signed_in,
        "/playground",
        **{"group": group, "agent": AGENT, "focal": "rain", "a.mode": "stanford", "a.diversity": "0.5"},
    )
    assert "the stanford mode ranks as the original does" in html
    assert "8,000" in page(signed_in, "/playground", group=group, agent=AGENT, focal="x" * 8_001)


def test_the_address_of_a_question_leaves_out_what_the_agent_has(signed_in: FlaskClient, group: str) -> None:
    with unit_of_work() as connection:
        store(connection, [configured(group, AGENT, recency_w=2.0)])
    answer = signed_in.get(
        "/playground/answer",
        query_string={
            "group": group,
            "agent": AGENT,
            "focal": "",
            "a.recency_w": "2",
            "a.relevance_w": "3",
            "b.relevance_w": "4",
        },
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
        [
            {"agent_id": AGENT, "description": text, "poignancy": place * 3 + 1}
            for place, text in enumerate(told)
        ],
        wait=True,
        timeout=60,
    )
    before = client.retrieve(AGENT, "bees", touch=False).retrieved_nodes
    viewer = sign_in("viewer", [service])
    query = {
        "group": service,
        "agent": AGENT,
        "focal": "bees",
        "compare": "1",
        "b.relevance_w": "0",
        "b.recency_w": "0",
    }
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
    for left_out in ({"origin": ["tool", "document"]}, {"min_trust": "0.9"}):
        assert not data(viewer, "/playground.json", **query, **left_out)["found"]["a"]["rows"]
        html = page(viewer, "/playground", **query, **left_out)
        assert "from user (origins)" in html or "4 trusted less than min_trust" in html
    one = found["a"]["rows"][0]
    fragment = page(viewer, f"/playground/one/{service}/{one['node_id']}", agent=AGENT, focal="bees")
    assert f"Rank 1 of {len(told)} candidates" in fragment
    assert "It is not among the best" in page(
        viewer, f"/playground/one/{service}/{uuid4()}", agent=AGENT, focal="bees"
    )
    after = client.retrieve(AGENT, "bees", touch=False).retrieved_nodes
    # Looking touches nothing.
    assert [node.last_accessed for node in after] == [node.last_accessed for node in before]
    linked = page(viewer, f"/nodes/{service}/{one['node_id']}", focal="bees")
    assert f"/playground/one/{service}/{one['node_id']}" in linked


@pytest.mark.parametrize(
    ("text", "words", "marked"),
    [
        ("Two cats sleep", "SLEEPING cat", ["cats", "sleep"]),
        ("门口来了一只流浪猫", "流浪猫", ["流浪猫"]),
        ("a (b) [c", "(b)", ["(b)"]),
        ("any", "", []),
        ("x" * 500 + " cats " + "y" * 500, "cat", ["cats"]),
    ],
)
def test_matches_are_marked(text: str, words: str, marked: list[str]) -> None:
    found = keywords.pieces(text, words)
    assert [piece for piece, is_match in found if is_match] == marked
    whole = "".join(piece for piece, _ in found)
    assert whole.strip("…") in text
    assert len(whole) <= keywords.SHOWN_CHARS + 2


def test_texts_fit_their_boxes() -> None:
    assert evidence.lines("") == []
    assert evidence.lines("two lines of words that are broken here") == [
        "two lines of words that",
        "are broken here",
    ]
    assert evidence.lines("记" * 40) == ["记" * 13, "记" * 12 + "…"]


def test_a_timeline_has_bars_for_empty_months_too() -> None:
    start = datetime(2025, 11, 1, tzinfo=UTC)
    spans = [
        TimelineSpan(start=start, memories=4, event=3, thought=1, chat=0),
        TimelineSpan(start=datetime(2026, 2, 1, tzinfo=UTC), memories=2, event=0, thought=0, chat=2),
    ]
    drawn = agent_pages.Timeline("month", spans)
    assert [bar["memories"] for bar in drawn.bars] == [4, 0, 0, 2]
    assert [bar["start"].month for bar in drawn.bars] == [11, 12, 1, 2]
    assert not agent_pages.Timeline("day", [])
    long = agent_pages.Timeline(
        "day", [spans[0], spans[1].model_copy(update={"start": start + timedelta(days=1_000)})]
    )
    assert (len(long.bars), long.cut) == (agent_pages.MOST_BARS, True)
