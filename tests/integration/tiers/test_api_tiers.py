"""The three tiers over HTTP: every operation, bad input, rights, and what still answers while something is
away.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import create_autospec
from uuid import uuid4

import pytest

from jiyi.text.prompting import PREFACE
from jiyi.tiers.retrieval_node import HEADINGS
from models.queue import stream
from tests.integration.away import away
from tests.integration.fields import check_fields
from tests.integration.programs import Program
from tests.integration.web.test_api import rows, until
from web.api import tiers as asking

SAID = "釉面开裂的原因在土，不在窑火：新土的收缩率比釉高，所以冷却时釉面被拉裂。"
ALSO = "The second firing is needed for thick cups only, since the first one never reaches their heart."
VERDICT = "裁决：薄杯子烧一次，厚杯子烧两次；若仍开裂，下一批改釉，并且记录每一窑的温度。"
SHORT = "Hear, hear."

pytestmark = pytest.mark.usefixtures("own_caller")


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tier that answers is waited for, however busy the machine is."""
    monkeypatch.setattr(asking, "DIRECT_SECONDS", 60.0)


def ingest(api: Program, content: str = SAID, wait: float = 30, **fields: Any) -> Any:
    return api.ask(
        "POST", f"/memory/ingest?wait={wait}", 202, json={"content": content, "confidence": 0.9, **fields}
    ).json


def ask(api: Program, query: str = "釉面为什么会裂？", **fields: Any) -> Any:
    return api.post("/memory/query", {"query": query, **fields}, 200)


def states(answer: Any) -> dict[str, str]:
    return {tier["tier"]: tier["state"] for tier in answer["tiers"]}


def run_node(
    api: Program, topic: str = "釉面为什么会裂？", inputs: Any = None, **fields: Any
) -> tuple[str, list[Any]]:
    """The history, and the events."""
    done = api.post("/nodes/memory-retrieval", {"inputs": {"topic": topic, **(inputs or {})}, **fields}, 200)
    return done["outputs"]["history_context"], done["events"]


def failed_tiers(events: list[Any]) -> list[str]:
    told = [event["data"] for event in events if event["event"] == "memory_retrieval_error"]
    assert all(failure["error"] for failure in told)
    return [failure["tier"] for failure in told]


# With workers


def test_what_is_ingested_is_found_by_the_group_and_by_nobody_else(
    service: str, program: Callable[..., Program]
) -> None:
    api = program(service)
    done = ingest(
        api, session_id="monday", agent_id="potter", node_id="research", metadata={"source": "kiln log"}
    )
    assert done == {
        "status": "ingested",
        "entry_id": done["entry_id"],
        "accepted": True,
        "reason": None,
        "message": "",
        "flags": ["unverified"],
    }
    answer = ask(api)
    assert (answer["status"], states(answer)) == ("ok", {"working": "ok", "longterm": "ok"})
    (item,) = answer["results"]
    check_fields(item, item_id=done["entry_id"], content=SAID, source="hot", score=1.0)
    check_fields(item, session_id="monday", agent_id="potter", temporary=True, verified=False)
    assert item["metadata"]["node_id"] == "research"
    assert ask(api, session_id="tuesday")["results"] == []  # only if asked
    assert ask(program(f"{service}-other"))["results"] == []


def test_what_the_filters_refuse_is_stored_with_the_reason_and_not_found(
    service: str, program: Callable[..., Program]
) -> None:
    api = program(service)
    refused = ingest(api, SHORT)
    assert (refused["accepted"], refused["reason"]) == (False, "too_short")
    assert refused["message"]
    assert ingest(api, confidence=0.3)["reason"] == "low_confidence"
    assert ask(api, SHORT)["results"] == []
    listed = api.get("/knowledge", layer="quarantine")
    assert [(row["content"], row["rejected"]) for row in listed["rows"]] == [
        (SAID, "low_confidence"),
        (SHORT, "too_short"),
    ]
    assert listed["counts"] == {"quarantine": 2, "working": 0, "longterm": 0}
    assert [
        row["content"] for row in api.get("/knowledge", layer="quarantine", rejected="too_short")["rows"]
    ] == [SHORT]


def test_a_digest_is_made_promoted_edited_and_demoted_over_http(
    service: str, program: Callable[..., Program]
) -> None:
    api = program(service)
    entries = {
        ingest(api, text, session_id=session)["entry_id"] for session, text in (("s1", SAID), ("s2", ALSO))
    }
    digest = api.post("/memory/digest", {"days": 1}, 200)
    chosen = sorted({entry for item in digest["items"] for entry in item["entry_ids"]})
    assert (digest["entries"], chosen) == (2, sorted(entries))
    assert api.get("/memory/digests")["rows"] == [digest]
    assert api.get(f"/memory/digests/{digest['digest_id']}") == digest
    preview = api.post("/memory/promote", {"entry_ids": chosen, "text": VERDICT, "preview": True}, 200)
    assert [piece["content"] for piece in preview["pieces"]] == [VERDICT]
    assert api.get("/knowledge", layer="longterm")["rows"] == []
    first, again = (
        api.post("/memory/promote", {"entry_ids": chosen, "text": VERDICT, "kind": "verdict"}, 200)
        for _ in range(2)
    )
    assert (first["entries"], again["pieces"][0]["known"]) == (chosen, True)
    knowledge_id = first["pieces"][0]["knowledge_id"]
    until(lambda: api.get(f"/knowledge/{knowledge_id}")["embedded"])
    (found,) = [item for item in ask(api, VERDICT)["results"] if item["source"] == "cold"]
    assert (found["verified"], found["kind"], found["content"]) == (True, "verdict", VERDICT)

    edited = api.ask(
        "PATCH", f"/knowledge/{knowledge_id}", 200, json={"content": ALSO, "reason": "shorter"}
    ).json
    assert (edited["content"], [change["action"] for change in edited["history"]]) == (
        ALSO,
        ["promoted", "edited"],
    )
    old = api.get(f"/knowledge/{knowledge_id}")
    assert (old["replaced_by"], [change["action"] for change in old["history"]]) == (
        edited["knowledge_id"],
        ["promoted", "edited"],
    )
    assert old["history"][0]["actor"].startswith("key:")
    for demoted in ([edited["knowledge_id"]], []):
        gone = api.post("/memory/demote", {"knowledge_ids": [edited["knowledge_id"]], "reason": "wrong"}, 200)
        assert gone["rows"] == demoted


def test_14_the_node_gives_the_markdown_and_tells_what_it_did_on_the_stream_too(
    service: str, program: Callable[..., Program]
) -> None:
    api = program(service)
    ingest(api, session_id="monday")
    before = stream.ends(service)[1]
    inputs = {"group_id": service, "nested": {"a": [1, None, "二"]}, "session_id": "monday"}
    done = api.post(
        "/nodes/memory-retrieval",
        {"inputs": {"topic": "釉面", **inputs}, "node_id": "load", "properties": {"time_range": "7d"}},
        200,
    )
    assert done["outputs"] == {
        "topic": "釉面",
        **inputs,
        "history_context": (
            f'## 历史上下文\n\n{PREFACE["zh"]}\n\n### 记录 1 (相关度: 1.00) ⚡ 临时，未验证\n"{SAID}"\n\n'
        ),
    }
    assert [(event["event"], event["node_id"]) for event in done["events"]] == [
        ("node_state_change", "load"),
        ("memory_retrieved", "load"),
        ("node_state_change", "load"),
    ]
    assert done["events"][1]["data"] == {"count": 1, "hot": 1, "cold": 0, "external": 0}
    told = [(entry.kind, json.loads(entry.data)) for entry in stream.read(service, before)]
    told = [(kind, data) for kind, data in told if data.get("node") == "load"]
    own = {"node": "load", "session": "monday"}
    completed = {"status": "completed", "context_length": len(done["outputs"]["history_context"])}
    assert told == [
        ("node_state_change", {**own, "status": "running"}),
        ("memory.retrieved", {**own, "count": 1, "hot": 1, "cold": 0, "external": 0}),
        (
            "node_state_change",
            {**own, **completed, "context_tokens": done["events"][2]["data"]["context_tokens"]},
        ),
    ]
    assert SAID not in json.dumps([entry.data for entry in stream.read(service, "0")], ensure_ascii=False)
    english, _ = run_node(api, properties={"language": "en", "max_results": 1})
    assert english.startswith(HEADINGS["en"])
    assert run_node(api, " ")[1][-1]["data"]["skipped"] == "no query"


# Without workers


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no worker; nobody waits for one."""
    monkeypatch.setattr(asking, "QUERY_SECONDS", 0.05)


def stored(group: str, content: str = SAID, session: str | None = "s1", **columns: Any) -> str:
    """An entry of quarantine that is in working memory as the database knows it, as a worker leaves it."""
    entry_id = str(uuid4())
    until_ = "NULL" if columns.pop("out", False) else "now() + interval '1 day'"
    rows(
        f"""INSERT INTO quarantine_logs (entry_id, group_id, agent_id, session_id, node_id, kind, content,
            content_hash,
            created_at, screened_at, working_until, rejected_reason)
        VALUES (%s, %s, 'potter', %s, 'research', 'statement', %s, sha256(%s), now(), now(), {until_}, %s)
        RETURNING 1""",
        entry_id,
        group,
        session,
        content,
        content.encode(),
        columns.get("rejected"),
    )
    return entry_id


def test_without_workers_a_text_is_stored_and_nobody_has_decided(api: Program, group: str) -> None:
    done = ingest(api, wait=0)
    assert done["accepted"] is None
    assert done["message"]
    assert (
        rows("SELECT content FROM quarantine_logs WHERE entry_id = %s", done["entry_id"])[0].content == SAID
    )
    assert rows("SELECT FROM pending_work WHERE kind = 'ingress' AND subject_id = %s", done["entry_id"])


def test_without_workers_the_web_answers_by_itself_and_says_so(api: Program, group: str) -> None:
    stored(group)
    api.post("/memory/promote", {"text": VERDICT}, 200)
    answer = ask(api, VERDICT, timeout=0.05)
    assert answer["status"] == "ok"
    assert [(item["source"], item["content"]) for item in answer["results"]] == [
        ("hot", SAID),
        ("cold", VERDICT),
    ]
    (longterm,) = [tier for tier in answer["tiers"] if tier["tier"] == "longterm"]
    assert "words" in longterm["message"]


def test_a_promoted_text_goes_to_one_agent_if_told(api: Program) -> None:
    api.post("/memory/promote", {"text": VERDICT, "agent_id": "judge"}, 200)
    assert ask(api, VERDICT, timeout=0.05)["results"] == []
    assert [item["agent_id"] for item in ask(api, VERDICT, timeout=0.05, agent_id="judge")["results"]] == [
        "judge"
    ]


@pytest.mark.long
def test_valkey_away_long_term_memory_still_answers_and_says_so(api: Program, group: str) -> None:
    stored(group)
    api.post("/memory/promote", {"text": VERDICT}, 200)
    with away("valkey", "broker"):
        answer = ask(api, VERDICT)
        assert (answer["status"], states(answer)) == ("partial", {"working": "failed", "longterm": "ok"})
        assert [item["content"] for item in answer["results"]] == [VERDICT]
        history, events = run_node(api, VERDICT)
        assert VERDICT in history
        assert failed_tiers(events) == ["working"]
        assert events[-1]["data"]["status"] == "completed"
        working = api.get("/memory/working")
        assert (working["source"], [entry["content"] for entry in working["rows"]]) == ("database", [SAID])
        assert working["message"]
        assert ingest(api, ALSO, wait=0)["status"] == "ingested"


def test_postgresql_away_working_memory_still_answers_and_says_so(
    api: Program, group: str, impatient: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored(group)
    assert len(ask(api, timeout=0.05)["results"]) == 1  # Valkey has it from here on
    known = api.client.application.extensions["jiyi.keys"].known
    with away("database"):
        answer = ask(api, timeout=0.05)
        assert (answer["status"], states(answer)) == ("partial", {"working": "ok", "longterm": "failed"})
        assert [item["content"] for item in answer["results"]] == [SAID]
        history, events = run_node(api)
        assert SAID in history
        assert failed_tiers(events) == ["longterm"]
        monkeypatch.setattr(known, "fresh_seconds", -1)  # as if it had been away for a while
        assert api.get("/memory/working")["source"] == "valkey"
        api.ask("POST", "/memory/ingest?wait=0", 503, json={"content": SAID})
        api.ask("POST", "/memory/promote", 503, json={"text": SAID})
        monkeypatch.setattr(known, "stale_seconds", -1)  # not for ever: nobody could revoke a key
        api.get("/memory/working", 503)


@pytest.mark.long
def test_both_away_the_workflow_goes_on_with_an_empty_history_and_an_error_event(
    api: Program, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored(group)
    api.get("/memory/working")  # the key is known from here on
    with monkeypatch.context() as patch:
        patch.setattr(asking, "ask", create_autospec(asking.ask, side_effect=RuntimeError("hunter2")))
        history, events = run_node(api)
        assert (history, "hunter2" in str(events)) == ("", False), "a failure of ours is shown to nobody"
    with away("database", "valkey", "broker"):
        history, events = run_node(api)
        assert (history, set(failed_tiers(events))) == ("", {"working", "longterm"})
        assert events[-1]["data"] == {"status": "completed", "context_length": 0, "context_tokens": 0}
        assert ask(api)["status"] == "failed"
        api.ask("GET", "/memory/working", 503)


# Lists


def test_a_sessions_knowledge_is_listed_by_tier_and_page(
    api: Program, program: Callable[..., Program], group: str
) -> None:
    """The original reads a path parameter that its route does not have, and lists nothing."""
    for n in range(5):
        stored(group, f"{SAID} {n}", "s/1")
    stored(group, SHORT, "s/1", out=True, rejected="too_short")
    stored(group, ALSO, "another")
    api.post("/memory/promote", {"entry_ids": [stored(group, VERDICT, "s/1", out=True)]}, 200)

    def pages(**query: Any) -> Iterator[Any]:
        after = ""
        while True:
            page = api.get(
                "/knowledge", session_id="s/1", limit=2, **query, **({"cursor": after} if after else {})
            )
            yield from page["rows"]
            if (after := page["next"]) is None:
                return

    listed = list(pages())
    assert [row["layer"] for row in listed] == ["longterm", "quarantine", *["working"] * 5]
    assert [row["content"] for row in listed[2:]] == [f"{SAID} {n}" for n in range(4, -1, -1)]
    assert len({row["entry_id"] for row in listed}) == 7
    assert api.get("/knowledge", session_id="s/1")["counts"] == {"quarantine": 1, "working": 5, "longterm": 1}
    assert [row["content"] for row in pages(layer="working", words="釉面 3")] == [f"{SAID} 3"]
    assert [row["verified"] for row in pages(layer="longterm")] == [True]
    assert [row["content"] for row in api.get("/knowledge", session_id="another")["rows"]] == [ALSO]
    assert api.get("/knowledge", session_id="nobody")["rows"] == []
    reader = program(group, "read")  # for whom there is no quarantine
    reader.get("/knowledge", 403, layer="quarantine")
    assert reader.get("/knowledge", session_id="s/1")["counts"] == {"working": 5, "longterm": 1}


def test_the_nodes_address_and_a_memorys_cannot_be_taken_for_each_other(api: Program) -> None:
    found = api.get("/nodes/memory-retrieval", language="zh")
    assert (found["type"], found["label"], found["icon"]) == ("memory_retrieval", "加载历史", "📚")
    assert set(found["properties"]["properties"]) >= {
        "max_results",
        "time_range_days",
        "relevance_threshold",
        "include_verdicts",
    }
    api.get(f"/nodes/{uuid4()}", 404)
    assert set(api.ask("DELETE", "/nodes/memory-retrieval", 405).headers["Allow"].split(", ")) == {
        "GET",
        "HEAD",
        "POST",
    }


# Bad input


#: Bodies that are refused, each with the field that is named: by the address they are sent to.
BAD_BODIES: dict[str, tuple[tuple[dict[str, Any], str], ...]] = {
    "/memory/query": (
        ({}, "query"),
        ({"query": " "}, "query"),
        ({"query": "x", "group_id": "other"}, "group_id"),
        ({"query": "x", "max_results": 0}, "max_results"),
        ({"query": "x", "relevance_threshold": False}, "relevance_threshold"),
        ({"query": "x", "order": "random"}, "order"),
        ({"query": "x", "time_range_days": -1}, "time_range_days"),
        ({"query": "x", "timeout": 1e9}, "timeout"),
        ({"query": "x", "now": "2026-01-01T00:00:00"}, "now"),
    ),
    "/memory/ingest": (
        ({}, "content"),
        ({"content": "x", "confidence": 85}, "confidence"),
        ({"content": "x", "flags": ["Not a flag"]}, "flags.0"),
        ({"content": "x", "metadata": {"a": "b" * 100_000}}, "metadata"),
    ),
    "/memory/promote": (
        ({}, "entry_ids"),
        ({"entry_ids": ["x"]}, "entry_ids.0"),
        ({"text": "x", "kind": "rumour"}, "kind"),
    ),
    "/memory/demote": (({"knowledge_ids": []}, "knowledge_ids"),),
    "/memory/digest": (({"days": 0}, "days"),),
    "/nodes/memory-retrieval": (
        ({}, "inputs"),
        ({"inputs": {}, "properties": {"max_results": 0}}, "properties.max_results"),
        ({"inputs": {}, "properties": {"colour": "red"}}, "properties.colour"),
        ({"inputs": {"topic": "x", "group_id": "another"}}, "inputs.group_id"),
    ),
}


def test_bad_bodies_and_parameters_are_refused_with_the_field(api: Program) -> None:
    for path, bodies in BAD_BODIES.items():
        for body, field in bodies:
            refused = api.post(path, body, 422)
            assert field in [problem["field"] for problem in refused["errors"]], (path, body)
    for text in (
        b'{"inputs": {"n": 1e999}}',
        b'{"inputs": {"n": [NaN]}}',
        b'{"inputs": {"topic": "a\\u0000"}}',
    ):  # could not go back
        api.ask("POST", "/nodes/memory-retrieval", 422, data=text, content_type="application/json")
    for path, field in (
        ("/knowledge?layer=cellar", "layer"),
        ("/knowledge?cursor=x", "cursor"),
        ("/knowledge?limit=0", "limit"),
        ("/memory/digests?cursor=WzFd", "cursor"),
        ("/memory/working?x=1", "x"),
        ("/nodes/memory-retrieval?language=fr", "language"),
    ):
        refused = api.ask("GET", path, 422).json
        assert [problem["field"] for problem in refused["errors"]] == [field], path
