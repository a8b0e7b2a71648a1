"""The REST API by hand: what is promised of each operation, and bad input of every kind."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote
from uuid import UUID, uuid4

import pytest
from flask import Flask
from uuid6 import uuid7

from jiyi import Client
from jiyi.protocol import limits
from jiyi.protocol.retrieval import Answer
from jiyi.settings import get_settings
from models.accounts import audit
from models.db import valkey_keys
from models.db.connection import unit_of_work
from models.db.valkey import valkey
from models.queue import broker_queues, dead_letters
from tests.integration.programs import Program
from web import actions
from web.api.memory import status_url
from workers.ephemeral import environment

AGENT = "林岚"

pytestmark = pytest.mark.usefixtures("own_caller")


@contextmanager
def other_settings(monkeypatch: pytest.MonkeyPatch, **settings: str) -> Iterator[None]:
    """For what the web asks the settings for; its database stays as it is."""
    held = (get_settings, valkey, actions.caller)
    with monkeypatch.context() as patch:
        for name, value in settings.items():
            patch.setenv(f"JIYI_{name.upper()}", value)
        for one in held:
            one.cache_clear()
        yield
    for client in valkey.made():
        client.close()
    for one in held:
        one.cache_clear()


def rows(statement: str, *parameters: Any) -> list[Any]:
    with unit_of_work() as connection:
        return list(connection.exec_driver_sql(statement, parameters))


def until(condition: Callable[[], Any], seconds: float = 30.0) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.02)
    return found


def observe(api: Program, agent: str = AGENT, **fields: Any) -> str:
    done = api.post("/events", {"agent_id": agent, "description": "雨", **fields})
    assert done["accepted"] == 1
    return str(done["event_ids"][0])


def test_accepted_means_in_the_table(api: Program, group: str) -> None:
    event = {"agent_id": AGENT, "description": "河水涨了", "poignancy": 6}
    done = api.ask("POST", "/events", 202, json=event)
    (event_id,) = done.json["event_ids"]
    status_url = f"/api/v1/events/status?ids={event_id}"
    counted = {"accepted": 1, "repeated": 0}
    assert done.json == {"event_ids": [event_id], **counted, "status_url": status_url}
    assert done.headers["Location"] == status_url
    stored = "SELECT group_id, agent_id, description, poignancy FROM memory_nodes WHERE node_id = %s"
    assert [tuple(row) for row in rows(stored, event_id)] == [(group, AGENT, "河水涨了", 6)]
    owed = {row.kind for row in rows("SELECT kind FROM pending_work WHERE subject_id = %s", event_id)}
    assert {"embed", "strengthen", "accumulate"} <= owed
    states = api.client.get(status_url, headers=api.headers).json
    assert states["rows"] == [{"event_id": event_id, "state": "stored", "node_id": event_id, "reason": ""}]


def test_workers_are_woken(api: Program) -> None:
    client = broker_queues.broker_client(broker_queues.redis_address(get_settings().broker_url) or "")
    valkey().delete(valkey_keys.wake("embed"))
    before = client.llen("embedding")
    observe(api)
    until(lambda: client.llen("embedding") == before + 1)
    observe(api)
    until(lambda: valkey().exists(valkey_keys.wake("embed")))
    assert client.llen("embedding") == before + 1  # one wake-up is enough until it is taken


def test_the_same_event_twice_or_at_once_from_many_is_one(web_app: Flask, api: Program) -> None:
    event = {"event_id": str(uuid4()), "agent_id": AGENT, "description": "雪"}
    key = api.headers["Authorization"].removeprefix("Bearer ")
    with ThreadPoolExecutor(4) as pool:
        send = lambda _: Program(web_app.test_client(), key).post("/events", event)
        done = list(pool.map(send, range(12)))
    assert [sum(one[name] for one in done) for name in ("accepted", "repeated")] == [1, 11]
    again = api.post("/events", {"events": [event, {**event, "occurred_at": "2026-03-02T09:00:00Z"}]})
    assert (again["accepted"], again["repeated"]) == (0, 2)
    other = {"events": [event, {**event, "description": "别的"}]}
    assert api.post("/events", other, 409)["code"] == "id_reused"
    assert [node["description"] for node in api.get("/nodes", agent_id=AGENT)["rows"]] == ["雪"]


def test_events_of_one_request_keep_their_order(api: Program) -> None:
    events = [{"agent_id": AGENT, "description": f"第 {n} 天"} for n in range(100)]
    done = api.post("/events", {"events": events})
    assert done["accepted"] == 100
    listed = api.get("/nodes", agent_id=AGENT, limit=200)["rows"]
    assert [node["node_id"] for node in reversed(listed)] == done["event_ids"]
    assert [node["node_count"] for node in reversed(listed)] == list(range(1, 101))


def test_all_types_of_events_are_taken(api: Program) -> None:
    chat = {"description": "一", "node_type": "chat", "utterances": [["老葛", "多少钱?"]]}
    of = {"agent_id": AGENT}
    events = [
        {"type": "memory.observed", **of, "session_id": "s", "payload": chat},
        {"type": "agent.configured", **of, "payload": {"mode": "elapsed"}},
        {"type": "session.ended", **of, "session_id": "s"},
    ]
    done = api.post("/events", {"events": events})
    states = api.post("/events/status", {"ids": done["event_ids"]}, 200)["rows"]
    assert [state["state"] for state in states] == ["stored", "applied", "applied"]
    assert api.get(f"/agents/{AGENT}")["settings"] == {"mode": "elapsed"}
    owed = "SELECT FROM pending_work WHERE kind = 'reflect_conversation' AND subject_id = %s"
    assert rows(owed, done["event_ids"][2])


def test_the_group_is_the_keys_and_an_operator_names_one(
    program: Callable[..., Program], api: Program, group: str
) -> None:
    full = {"type": "memory.observed", "agent_id": AGENT, "payload": {"description": "雨"}}
    (node,) = api.post("/events", {**full, "group_id": group})["event_ids"]
    assert "group_id" in api.post("/events", {**full, "group_id": "another"}, 422)["detail"]
    api.post("/events", {"agent_id": AGENT, "description": "雨", "group_id": "another"}, 422)
    api.ask("GET", "/nodes", 403, headers={"Jiyi-Group": "another"})
    api.ask("GET", "/nodes", 200, headers={"Jiyi-Group": group})
    operator = program(None, "operator")
    operator.get(f"/nodes/{node}", 404)
    assert operator.ask("GET", f"/nodes/{node}", 200, headers={"Jiyi-Group": group}).json["node_id"] == node
    operator.ask("GET", "/nodes", 400, headers={"Jiyi-Group": "\xff\xfe"})


def test_status_urls_fit_into_a_request_line() -> None:
    assert len(status_url([uuid4() for _ in range(200)])) < 8_000
    assert status_url([uuid4() for _ in range(201)]) == "/api/v1/events/status"


def test_an_event_comes_back_as_it_was_stored(api: Program) -> None:
    told = {"agent_id": AGENT, "session_id": "s", "correlation_id": "c"}
    event_id = observe(api, **told, keywords=["伞"])
    event = api.get(f"/events/{event_id}")
    assert {
        **told,
        "type": "memory.observed",
        "state": "stored",
        "node_id": event_id,
    }.items() <= event.items()
    assert event["payload"] == {"description": "雨", "keywords": ["伞"]}
    api.get(f"/events/{uuid4()}", 404)


def test_every_name_of_an_agent_has_an_address(api: Program) -> None:
    for name in ("a/b", "..", "x.json", "50% off", "a%2Fb", "空 格?#&", '"><b>', "/a//b/", "x/settings"):
        observe(api, name)
        path = f"/agents/{quote(name, safe='')}"
        assert api.get(path)["agent_id"] == name
        done = api.ask("PATCH", f"{path}/settings", 200, json={"recency_w": 0.5})
        assert done.json["settings"] == {"recency_w": 0.5}
        assert "id" in api.post(f"{path}/reflect")
        assert api.get("/reflections", agent_id=name)["rows"][0]["agent_id"] == name


def test_settings_are_replaced_one_by_one_and_put_down(api: Program, group: str) -> None:
    observe(api)
    path = f"/agents/{quote(AGENT)}/settings"
    api.ask("PATCH", path, 200, json={"mode": "elapsed", "recency_w": 2})
    assert api.ask("PATCH", path, 200, json={"mode": None}).json["settings"] == {"recency_w": 2}
    refused = api.ask("PATCH", path, 422, json={"mode": "never", "foo": 1}).json
    assert {problem["field"] for problem in refused["errors"]} == {"mode", "foo"}
    api.ask("PATCH", "/agents/nobody/settings", 404, json={"mode": "elapsed"})
    assert rows("SELECT FROM agents WHERE group_id = %s AND agent_id = 'nobody'", group) == []
    audit = "SELECT actor FROM audit_log WHERE group_id = %s AND action = 'agents.configure'"
    assert [row.actor[:4] for row in rows(audit, group)] == ["key:"] * 2


def all_pages(api: Program, path: str, **query: Any) -> Iterator[Any]:
    after = ""
    while True:
        page = api.get(path, **query, **({"cursor": after} if after else {}))
        yield from page["rows"]
        if (after := page["next"]) is None:
            return


def test_pages_have_no_gaps_and_no_duplicates(api: Program) -> None:
    events = [
        {
            "agent_id": f"a{n % 3}",
            "description": f"第 {n} 天",
            "node_type": "thought" if n % 5 == 0 else "event",
        }
        for n in range(57)
    ]
    ids = set(api.post("/events", {"events": events})["event_ids"])
    everything = [node["node_id"] for node in all_pages(api, "/nodes", limit=10)]
    assert len(everything) == len(ids)
    assert set(everything) == ids
    numbers = [node["node_count"] for node in all_pages(api, "/nodes", agent_id="a1", limit=4)]
    assert numbers == list(range(19, 0, -1))
    thoughts = [node["type"] for node in all_pages(api, "/nodes", types="thought,chat", limit=2)]
    assert thoughts == ["thought"] * 12
    assert [agent["agent_id"] for agent in all_pages(api, "/agents", limit=1)] == ["a0", "a1", "a2"]
    strength = (
        "SELECT group_id, 'a0', 'event', 'k' || n, 9 - n / 2 FROM memory_nodes, generate_series(0, 8) n"
    )
    with unit_of_work() as connection:
        connection.exec_driver_sql(f"INSERT INTO kw_strength {strength} WHERE node_id = %s", (everything[0],))
    keywords = [
        (row["strength"], row["keyword"]) for row in all_pages(api, "/keywords", agent_id="a0", limit=2)
    ]
    assert keywords == [(9 - n // 2, f"k{n}") for n in range(9)]


def test_memories_are_found_by_what_is_known_of_them(api: Program) -> None:
    for n, said in enumerate(("Klaus reads a book", "老葛订了两个书架", "Klaus sleeps")):
        at = datetime(2026, 3, 1 + n, tzinfo=UTC).isoformat()
        observe(api, "klaus", description=said, occurred_at=at, session_id=f"s{n}", keywords=[f"k{n}"])
    for query, found in (
        ({"words": "reading books"}, ["s0"]),
        ({"words": "书架"}, ["s1"]),
        ({"keyword": "K2"}, ["s2"]),
        ({"session_id": "s1"}, ["s1"]),
        ({"created_after": "2026-03-02T00:00:00Z"}, ["s2", "s1"]),
        ({"created_before": "2026-03-02T00:00:00Z"}, ["s0"]),
        ({"archived": "with"}, ["s2", "s1", "s0"]),
    ):
        assert [node["session_id"] for node in api.get("/nodes", **query)["rows"]] == found, query
    api.get("/nodes", 404, agent_id="nobody")


def test_a_memory_is_explained(api: Program) -> None:
    ground = observe(api, description="水位 4.8 米")
    missing = str(uuid4())
    thought = observe(api, node_type="thought", description="该买带轮子的书架", evidence=[ground, missing])
    assert api.get(f"/nodes/{thought}")["filling"] == [ground, missing]
    why = api.get(f"/nodes/{thought}/evidence")
    assert set(why["nodes"]) == {thought, ground}
    assert why["missing"] == [missing]
    assert api.get(f"/nodes/{thought}/evidence", depth=0)["beyond"] == [ground, missing]
    api.get(f"/nodes/{uuid4()}/evidence", 404)
    related = api.get("/related", agent_id=AGENT, subject="x:y:水位")
    assert set(related) == {"events", "thoughts"}


def test_dead_letters_are_replayed_or_come_back(api: Program, group: str) -> None:
    event = {
        "type": "memory.observed",
        "group_id": group,
        "agent_id": AGENT,
        "payload": {"description": "雨"},
    }
    ids = good_id, bad_id, foreign_id = [str(uuid7()) for _ in range(3)]
    good, bad, foreign = event, {**event, "payload": {}}, {**event, "group_id": "somebody-else"}
    with unit_of_work() as connection:
        for event_id, one in zip(ids, (good, bad, foreign), strict=True):
            body = json.dumps({**one, "event_id": event_id})
            dead_letters.add_message(connection, body, "why", UUID(event_id), group)
        dead_letters.add_message(connection, "{}", "of nobody", None, None)
    letters = api.get("/dead-letters")["rows"]
    assert [letter["subject_id"] for letter in letters] == ids[::-1]
    assert api.get(f"/dead-letters/{letters[0]['letter_id']}")["reason"] == "why"
    done = api.post("/dead-letters/resolve", {"action": "replay", "kind": "intake"}, 200)
    assert done == {"resolved": 3, "refused_again": 2}
    assert [node["node_id"] for node in api.get("/nodes")["rows"]] == [good_id]
    assert api.post("/events/status", {"ids": [bad_id]}, 200)["rows"][0]["state"] == "dead"
    again = api.get("/dead-letters")["rows"]
    assert {letter["subject_id"] for letter in again} == {bad_id, foreign_id}
    discard = {"action": "discard", "letter_ids": [letter["letter_id"] for letter in again]}
    assert api.post("/dead-letters/resolve", discard, 200)["resolved"] == 2
    api.post("/dead-letters/resolve", discard, 404)
    api.post("/dead-letters/resolve", {"action": "discard"}, 422)
    assert len(api.get("/dead-letters", state="discarded")["rows"]) == 2
    with unit_of_work() as connection:
        noted = audit.entries(connection, group, None, 10)
    assert [row.action for row in noted[:2]] == ["dead_letters.resolve"] * 2
    assert noted[0].details["letters"] == sorted(discard["letter_ids"])
    assert [noted[1].details[name] for name in ("kind", "count", "refused_again")] == ["intake", 3, 2]


def test_the_group_is_counted(api: Program, group: str) -> None:
    observe(api)
    observe(api, node_type="thought")
    found = api.get("/stats")
    assert found["group_id"] == group
    assert {"nodes": 2, "event_nodes": 1, "dead_letters": 0}.items() <= found["counts"].items()
    assert {row["kind"] for row in found["work_owed"]} >= {"embed"}
    assert api.get("/queues")["queues"]["retrieval"] is not None


# Bad input


#: Each with the status that answers it.
BAD_BODIES = (
    (b"", 400),
    (b"{", 400),
    (b"\xff\xfe", 400),
    (b'{"agent_id": "a", "description": "\\ud800"}', 400),
    (b'{"agent_id": "a", "description": "a\x00b"}', 400),
    (b'{"agent_id": "a", "description": "a\\u0000b"}', 422),
    (b"[" * 10_000, 422),
    (b'{"a":' * 10_000 + b"1" + b"}" * 10_000, 422),
    (b'{"agent_id": "a", "description": "d", "provenance": ' + b'{"a":' * 100 + b"1" + b"}" * 101, 422),
    (b'{"agent_id": "a", "description": "d", "poignancy": 1' + b"0" * 5_000 + b"}", 400),
    (b'{"agent_id": "a", "description": "d", "poignancy": 1e999}', 422),
    (b'{"agent_id": "a", "description": "d", "poignancy": NaN}', 422),
    (b'{"agent_id": "a", "description": "d", "retention": 99999999999999999999}', 422),
    (b"[]", 422),
    (b"null", 422),
    (b'"text"', 422),
    (b"{}", 422),
    (b'{"events": []}', 422),
    (b'{"events": {}}', 422),
    (b'{"type": "no.such"}', 422),
    (b'{"type": {"a": 1}}', 422),
    (b'{"type": "memory.observed"}', 422),
    (b'{"agent_id": " ", "description": "d"}', 422),
    (
        (
            b'{"type": "turn.recorded", "agent_id": "a", "session_id": "s", "user_id": "u", "payload":'
            b' {"role": "user", "text": "t"}}'
        ),
        422,
    ),
    (b'{"agent_id": "a", "description": "d", "occurred_at": "2026-01-01T00:00:00"}', 422),
    (b'{"agent_id": "a", "description": "d", "event_id": "x"}', 422),
    (b'{"agent_id": "a", "description": "d", "vector": [1, 2]}', 422),
)


def test_bad_bodies_are_told_apart_and_nothing_is_stored(api: Program) -> None:
    for body, status in BAD_BODIES:
        answer = api.ask("POST", "/events", data=body, content_type="application/json")
        assert answer.status_code == status, body[:80]
        assert answer.json["detail"], body[:80]
    for more, key in ((b'"agent_id": "maria"', "agent_id"), (b'"provenance": {"a": 1, "a": 2}', "a")):
        body = b'{"agent_id": "klaus", "description": "x", ' + more + b"}"
        answer = api.ask("POST", "/events", 422, data=body, content_type="application/json")
        assert f"{key}: given twice" in answer.json["detail"]
    good = {"agent_id": "a", "description": "d"}
    # One stops all.
    refused = api.post("/events", {"events": [good, {**good, "poignancy": 11}, {"agent_id": "a"}]}, 422)
    fields = [problem["field"] for problem in refused["errors"]]
    assert fields == ["events.1.poignancy", "events.2.description"]
    # Would be read as a minute of 1970.
    number = api.post("/context", {"agent_id": "klaus", "query": "x", "now": 60_000}, 422)
    assert "now: must be a text in quotes, not a number" in number["detail"]
    large = b'{"agent_id": "a", "description": "' + b"x" * limits.MAX_MESSAGE_BYTES + b'"}'
    api.ask("POST", "/events", 413, data=large, content_type="application/json")
    many = {"events": [good] * (limits.MAX_EVENTS_PER_MESSAGE + 1)}
    assert "events" in api.post("/events", many, 422)["detail"]
    assert api.get("/nodes")["rows"] == []


def test_json_in_utf8_is_taken_by_any_name_and_no_other_type(api: Program) -> None:
    body = '{"agent_id": "a", "description": "雨"}'.encode()
    others = ("text/plain", "application/x-www-form-urlencoded", "application/xml", "", "multipart/form-data")
    for content_type in others:
        api.ask("POST", "/events", 415, data=body, content_type=content_type)
    api.ask("POST", "/events", 202, data=body, content_type="application/json; charset=utf-8")


def test_bad_parameters_are_named(api: Program) -> None:
    for path, field in (
        ("/nodes?limit=0", "limit"),
        ("/nodes?limit=100000", "limit"),
        ("/nodes?limit=" + "9" * 5_000, "limit"),
        ("/nodes?limit=1&limit=2", "limit"),
        ("/nodes?agent_id=a&agent_id=b", "agent_id"),
        ("/nodes?types=dream", "types.0"),
        ("/nodes?cursor=x", "cursor"),
        ("/nodes?cursor=WzFd", "cursor"),
        ("/nodes?agent_id=a&cursor=WyJ4Il0", "cursor"),
        ("/nodes?agent_id=a%00b", "agent_id"),
        ("/nodes?words=%00", "words"),
        ("/nodes?nonsense=1", "nonsense"),
        ("/nodes?created_after=yesterday", "created_after"),
        ("/keywords", "agent_id"),
        ("/events/status", "ids"),
        ("/events/status?ids=x", "ids.0"),
        ("/dead-letters?state=lost", "state"),
    ):
        refused = api.ask("GET", path, 422).json
        assert [problem["field"] for problem in refused["errors"]] == [field], path


def test_what_is_not_there_is_a_problem_too_and_wrong_methods_are_told_the_right_ones(api: Program) -> None:
    wrong = (
        "/nodes/x",
        "/nodes/" + "0" * 36,
        "/agents/a%00b",
        "/nothing",
        "/",
        "",
        "/events/%ff",
        "/agents/%ff",
    )
    for path in wrong:
        api.get(path, 404)
    assert api.ask("PUT", "/events", 405).headers["Allow"] == "POST"
    assert set(api.ask("POST", "/nodes", 405).headers["Allow"].split(", ")) == {"GET", "HEAD"}
    api.ask("OPTIONS", "/nodes", 405)
    assert api.ask("HEAD", "/nodes", 200).data == b""


# Retrieval


def test_retrieval_without_workers_ends_in_time_and_bad_questions_before_anybody_is_asked(
    api: Program,
) -> None:
    answer = api.ask("POST", "/retrieve", 504, json={"agent_id": AGENT, "query": "雨?", "timeout": 0.1})
    assert answer.headers["Retry-After"]
    said = {"role": "user", "content": "y"}
    bodies: tuple[tuple[dict[str, Any], str], ...] = (
        ({"agent_id": "a"}, "query"),
        ({"agent_id": "a", "queries": []}, "query"),
        ({"agent_id": "a", "query": "x", "queries": ["y"]}, "query"),
        ({"agent_id": "a", "query": " "}, "queries.0"),
        ({"query": "x"}, "agent_id"),
        ({"agent_id": "a", "query": "x", "top_k": 0}, "top_k"),
        ({"agent_id": "a", "query": "x", "group_id": "other"}, "group_id"),
        ({"agent_id": "a", "query": "x", "timeout": 1e9}, "timeout"),
        ({"agent_id": "a", "query": "x\x00"}, "queries.0"),
        ({"agent_id": "a", "query": "x", "messages": [said]}, "query"),
        ({"agent_id": "a", "messages": [{**said, "content": ""}]}, "messages.0.content"),
    )
    for body, field in bodies:
        assert field in [problem["field"] for problem in api.post("/retrieve", body, 422)["errors"]], body


def test_what_was_told_over_http_is_recalled_over_http(service: str, program: Callable[..., Program]) -> None:
    api = program(service)
    said = ("Klaus is reading a book on gentrification", "老葛订了两个带轮子的书架")
    done = api.post("/events", {"events": [{"agent_id": "klaus", "description": one} for one in said]})
    roles = ("user", "assistant", "user")
    texts = ("Klaus is back.", "Oh?", "他读什么？")
    talk = [{"role": role, "content": text} for role, text in zip(roles, texts, strict=True)]
    asked: dict[str, Any] = {"agent_id": "klaus", "touch": False, "timeout": 30}
    with Client(service) as client:
        client.wait_for([UUID(event_id) for event_id in done["event_ids"]], 30)
        for question in ({"query": "What does Klaus read?"}, {"messages": talk}):
            given = {"focal": question["query"]} if "query" in question else question
            same = client.retrieve("klaus", **given, touch=False).retrieved_nodes  # type: ignore[arg-type]
            (answer,) = Answer.model_validate(api.post("/retrieve", {**asked, **question}, 200)).groups
            assert answer.query == question.get("query", "他读什么？")
            assert [node.node_id for node in answer.retrieved_nodes] == [node.node_id for node in same]
    many = api.post("/retrieve", {**asked, "queries": ["Klaus?", "老葛?"], "top_k": 1}, 200)
    assert [group["query"] for group in many["groups"]] == ["Klaus?", "老葛?"]
    assert api.post("/retrieve", {"agent_id": "nobody", "query": "x"}, 200)["status"] == "unknown_agent"
    own = {"vectors": [[1.0, 2.0]], "embedding_model": "mine"}
    api.post("/retrieve", {"agent_id": "klaus", "query": "x", **own}, 422)


def test_a_reflection_asked_for_over_http_ends(service: str, program: Callable[..., Program]) -> None:
    api = program(service)
    for n in range(5):
        observe(api, "klaus", description=f"Klaus reads chapter {n} on gentrification", poignancy=5)
    asked = api.ask("POST", "/agents/klaus/reflect", 202)
    path = asked.headers["Location"].removeprefix("/api/v1")
    until(lambda: api.get(path)["state"] in ("done", "nothing"))
    api.post("/sessions/a%2Fb/end", {"agent_id": "klaus"})
    api.post("/sessions/s/end", {"agent_id": "nobody"}, 404)


def test_jobs_are_for_operators(service: str, program: Callable[..., Program]) -> None:
    operator = program(None, "operator")
    jobs = {job["job"]: job for job in operator.get("/schedules")["rows"]}
    assert "reconcile" in jobs
    assert operator.ask("POST", "/schedules/snapshot/run", 202).json["state"] == "waiting"
    operator.post("/schedules/no_such/run", {}, 404)


# When something is dead


def test_a_dead_database_is_said_in_time(api: Program) -> None:
    api.get("/nodes")  # the key is known from here on
    with environment(database_url="postgresql+psycopg://nobody@127.0.0.1:1/nothing"):
        for method, path, body in (
            ("GET", "/nodes", {}),
            ("POST", "/events", {"json": {"agent_id": "a", "description": "d"}}),
        ):
            answer = api.ask(method, path, 503, **body)
            assert answer.headers["Retry-After"]
            why = "The database did not answer: cannot be reached. Try again in a moment."
            assert answer.json["detail"] == why


def test_a_dead_broker_stops_retrieval_and_not_events(api: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    nothing = "redis://127.0.0.1:1/0"
    with other_settings(monkeypatch, broker_url=nothing, redis_url=nothing):
        answer = api.ask("POST", "/retrieve", 503, json={"agent_id": "a", "query": "x"})
        assert answer.headers["Retry-After"]
        for told in (answer, api.ask("GET", "/queues", 503)):
            assert "127.0.0.1" not in told.json["detail"], "where the servers are is for the log"
        api.post("/events", {"agent_id": "a", "description": "d"})
    assert len(api.get("/nodes")["rows"]) == 1
