"""The admin: its pages in both forms, what it refuses, and what it shows when something is dead."""

from __future__ import annotations

import re
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote
from uuid import UUID, uuid4

import pytest
from flask.testing import FlaskClient
from sqlalchemy import Connection, text

from engine.providers import breakers, web_search
from jiyi.errors import SettingsError
from jiyi.protocol.events import made
from jiyi.settings import Settings
from models.db import connection as base
from models.db.bounded_reads import SourceUnavailable, from_database
from models.db.connection import unit_of_work
from models.operations import health_checks as health
from models.operations.worker_liveness import Worker
from models.queue import dead_letters
from models.queue.broker_queues import redis_address, task_queues
from models.queue.pending_work import complete
from tests.integration.conftest import away
from tests.integration.memory.test_inbox import observed, rows, save
from tests.integration.web.markup import code_in_attributes
from tests.pgbouncer import own_sessions
from web import show
from web.security import require_login_on_public_bind
from workers.embedded.stack import Stack
from workers.ephemeral import environment
from workers.web import serve

AGENT = "林岚"


@pytest.fixture
def browser(signed_in: FlaskClient) -> FlaskClient:
    """An operator's."""
    return signed_in


def observe(group: str, agent: str = AGENT, **payload: Any) -> UUID:
    at = datetime(2026, 3, 2, 7, 15, tzinfo=UTC)
    event = made("memory.observed", (group, agent), at, {"description": "雨", "keywords": ["雨"], **payload})
    save(event)
    return event.event_id


def page(browser: FlaskClient, path: str, status: int = 200, **query: Any) -> str:
    answer = browser.get(path, query_string=query or None)
    assert answer.status_code == status, (path, answer.text)
    assert answer.mimetype == "text/html"
    return answer.text


def data(browser: FlaskClient, path: str, **query: Any) -> Any:
    answer = browser.get(path, query_string=query or None)
    assert answer.status_code == 200, answer.text
    return answer.json


def check(overview: Any, name: str, field: str = "state") -> str:
    return next(check[field] for check in overview["checks"] if check["name"] == name)


def state_of(overview: Any, *names: str) -> Any:
    """Of one check, or a list of those of several."""
    found = [check(overview, name) for name in names]
    return found if len(names) > 1 else found[0]


def pages_of(browser: FlaskClient, path: str, rows: str, **query: Any) -> list[list[Any]]:
    """The rows of each page of a list."""
    pages, cursor = [], ""
    while cursor is not None:
        found = data(browser, path, **query, **({"cursor": cursor} if cursor else {}))
        pages.append(found[rows])
        cursor = found["next"]
    return pages


def test_the_overview_shows_agents_queues_and_health(browser: FlaskClient, group: str) -> None:
    observe(group, poignancy=6)
    observe(group, node_type="thought", description="河要涨了")
    html = page(browser, "/", group=group)
    for word in ("记忆", AGENT, "memory.intake"):
        assert word in html
    found = data(browser, "/overview.json", group=group)
    [agent] = found["agents"]
    assert (agent["agent_id"], agent["type_counts"]) == (AGENT, {"event": 1, "thought": 1})
    assert (found["totals"], found["group"]) == ({"agents": 1, "nodes": 2}, group)
    assert set(state_of(found, "Database", "Valkey", "Dead letters")) <= {"ok", "attention"}
    assert all(queue["waiting"] is not None for queue in found["queues"])
    fragment = page(browser, "/overview/live", group=group)
    assert (AGENT in fragment, "<html" in fragment) == (True, False)
    rows("UPDATE agents SET importance_trigger_curr = -3042 WHERE group_id = :g RETURNING 1", g=group)
    (agent,) = data(browser, "/overview.json", group=group)["agents"]
    assert agent["reflection"] == {"gathered": 3192, "max": 150, "owed": True}  # the bar is bounded
    assert 'value="150" max="150"' in page(browser, "/", group=group)


def test_pages_of_an_agent_have_no_gaps_and_no_duplicates(browser: FlaskClient, group: str) -> None:
    kinds = ["thought" if n % 3 == 0 else "event" for n in range(1, 61)]
    save(*(observed(group, f"第 {n} 天", AGENT, node_type=kind) for n, kind in enumerate(kinds, 1)))
    for kind, expected in (("", range(60, 0, -1)), ("thought", range(60, 0, -3))):
        pages = pages_of(browser, f"/agents/{group}/{AGENT}.json", "nodes", type=kind)
        assert [node["node_count"] for nodes in pages for node in nodes] == list(expected)
        assert len(pages) == -(-len(expected) // 20)
    html = page(browser, f"/agents/{group}/{AGENT}")
    following = re.search(r'href="([^"]+cursor=[\w-]+)"', html)
    assert following is not None
    assert "第 40 天" in page(browser, following[1].replace("&amp;", "&"))


def test_every_name_has_an_address_of_its_own(browser: FlaskClient, group: str) -> None:
    for number, name in enumerate(("a/b", "..", "x.json", "50% off", "a%2Fb", "空 格?#&", '"><b>')):
        own = f"{group}-{number}"
        observe(own, name)
        link = re.search(r'<th scope="row"><a href="([^"]+)"', page(browser, "/", group=own))
        assert link is not None
        path = link[1].replace("&amp;", "&")
        title = name.replace("&", "&amp;").replace(">", "&gt;").replace("<", "&lt;").replace('"', "&#34;")
        assert f"<title>{title}" in page(browser, path)
        assert data(browser, path + ".json")["agent"]["agent_id"] == name


def test_a_memory_shows_its_evidence_and_what_rests_on_it(browser: FlaskClient, group: str) -> None:
    ground = observe(group, description="水位 4.8 米")
    thought = observe(
        group, node_type="thought", description="该买带轮子的书架", evidence=[str(ground), str(uuid4())]
    )
    above = data(browser, f"/nodes/{group}/{thought}.json")
    assert [node["node_id"] for node in above["evidence"]] == [str(ground)]
    assert above["evidence_count"] == 2
    assert above["node"]["depth"] == 1
    below = data(browser, f"/nodes/{group}/{ground}.json")
    assert [node["node_id"] for node in below["resting"]] == [str(thought)]
    assert f"/nodes/{group}/{ground}" in page(browser, f"/nodes/{group}/{thought}")
    assert f"/nodes/{group}/{thought}" in page(browser, f"/nodes/{group}/{ground}")


def test_an_agents_page_shows_keywords_with_their_strength_and_a_conversation_its_speakers(
    browser: FlaskClient, group: str
) -> None:
    observe(group, keywords=["春茶", "Tomas"], poignancy=7)
    node = observe(group, node_type="chat", utterances=[["老葛", "多少钱?"], [AGENT, "两个都行。"]])
    strength = "INSERT INTO kw_strength VALUES (:g, :a, 'event', '春茶', 9)"
    update = "ON CONFLICT (group_id, agent_id, memory_type, keyword) DO UPDATE SET strength = 9 RETURNING 1"
    rows(f"{strength} {update}", g=group, a=AGENT)
    html = page(browser, f"/agents/{group}/{AGENT}")
    assert '<progress class="event" value="9" max="9"' in html
    assert "importance 7" in html
    html = page(browser, f"/nodes/{group}/{node}")
    assert "多少钱?" in html
    assert html.count('<li class="own">') == 1
    said = data(browser, f"/nodes/{group}/{node}.json")["utterances"][0]
    assert said == {"speaker": "老葛", "text": "多少钱?"}


def test_text_of_others_is_escaped_everywhere(browser: FlaskClient, group: str) -> None:
    evil = "<script>alert('记')</script>"
    ground = observe(
        group, agent=evil, description=evil, keywords=[evil], subject=evil, provenance={"from": evil}
    )
    observe(group, agent=evil, node_type="thought", description=evil, evidence=[str(ground)])
    chat = observe(group, agent=evil, node_type="chat", utterances=[[evil, evil]])
    with unit_of_work() as connection:
        dead_letters.add_message(connection, evil, evil, None, group, evil)
    agent = re.search(r'<th scope="row"><a href="([^"]+)"', page(browser, "/", group=group))
    assert agent is not None
    for path in (
        f"/?group={group}",
        agent[1],
        f"/nodes/{group}/{ground}",
        f"/nodes/{group}/{chat}",
        f"/dead?group={group}",
    ):
        html = page(browser, path)
        assert "alert(&#39;记&#39;)" in html
        assert "<script>" not in html
        assert not code_in_attributes(html)


def test_dead_letters_are_paged_and_counted(browser: FlaskClient, group: str) -> None:
    with unit_of_work() as connection:
        for n in range(53):
            dead_letters.add_message(connection, '{"n": "坏"}', f"reason {n}", None, group)
    letters = [row for rows in pages_of(browser, "/dead.json", "letters", group=group) for row in rows]
    mine = [letter for letter in letters if letter["group_id"] == group]
    assert [letter["reason"] for letter in mine] == [f"reason {n}" for n in reversed(range(53))]
    assert data(browser, "/dead.json", group=group)["open"] >= 53
    assert "reason 52" in page(browser, "/dead", group=group)
    assert "坏" in page(browser, f"/dead/{mine[-1]['letter_id']}", group=group)
    assert state_of(data(browser, "/overview.json", group=group), "Dead letters") == "attention"


def test_one_group_sees_nothing_of_another(browser: FlaskClient, group: str) -> None:
    node = observe(group, description="only ours")
    with unit_of_work() as connection:
        dead_letters.add_message(connection, "ours", "our reason", None, group)
    other = f"{group}-other"
    observe(other, agent="B")
    assert browser.get(f"/nodes/{other}/{node}").status_code == 404
    assert browser.get(f"/agents/{other}/{AGENT}").status_code == 404
    assert [agent["agent_id"] for agent in data(browser, "/overview.json", group=other)["agents"]] == ["B"]
    assert "our reason" not in page(browser, "/dead", group=other)


def test_what_is_not_there_is_told_in_both_forms(browser: FlaskClient) -> None:
    for path, status in (
        ("/nothing", 404),
        ("/nodes/g/not-a-uuid", 404),
        ("/nodes/g/00000000-0000-0000-0000-000000000000", 404),
        ("/agents/g/nobody", 404),
        ("/agents/g/a%00b", 404),
        ("/?group=a%00b", 404),
        ("/agents/g/nobody?type=dream", 400),
        ("/agents/g/nobody?cursor=-1", 400),
        ("/agents/g/nobody?cursor=99999999999", 400),
        ("/agents/g/nobody?cursor=²", 400),
        ("/dead?cursor=x", 400),
    ):
        answer = browser.get(path)
        assert answer.status_code == status, path
        assert "To the overview" in answer.text
        bare, _, query = path.partition("?")
        if bare != "/":
            answer = browser.get(f"{bare}.json?{query}")
            assert answer.status_code == status, path
            assert answer.json["error"]["code"] == status
    for method in ("POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"):
        assert browser.open("/", method=method).status_code == 405


def test_foreign_hosts_are_refused(browser: FlaskClient, group: str) -> None:
    observe(group, description="secret")
    for host in ("localhost", "LOCALHOST:1", "127.0.0.1:8765", "[::1]:8765"):
        assert browser.get("/healthz", headers={"Host": host}).status_code == 200, host
    for host in (
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "10.0.0.1",
        "a@localhost",
        "",
    ):
        for path in (f"/agents/{group}/{AGENT}", "/static/jiyi.css", "/healthz"):
            answer = browser.get(path, headers={"Host": host})
            assert answer.status_code == 400, host
            assert "secret" not in answer.text


def test_every_answer_carries_the_security_headers(browser: FlaskClient) -> None:
    for path in ("/", "/overview.json", "/nothing", "/static/jiyi.css", "/healthz"):
        with browser.get(path) as answer:
            headers = answer.headers
        assert "default-src 'self'" in headers["Content-Security-Policy"]
        assert "unsafe" not in headers["Content-Security-Policy"]
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["X-Frame-Options"] == "DENY"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert ("no-store" in headers["Cache-Control"]) is not path.startswith("/static")


def test_a_failure_shows_no_stack_trace(signed_in: FlaskClient) -> None:
    def fail() -> None:
        raise RuntimeError("hunter2")

    paths = ("/fails", "/fails.json", "/api/v1/fails")
    for path in paths:
        signed_in.application.add_url_rule(path, path, fail)
    for path in paths:
        answer = signed_in.get(path)
        assert answer.status_code == 500
        assert not [word for word in ("hunter2", "Traceback") if word in answer.text]


def test_a_dead_database_leaves_the_pages_standing(browser: FlaskClient, group: str) -> None:
    with environment(**away("database")):
        found = data(browser, "/overview.json", group=group)
        assert (found["state"], found["agents"]) == ("unreachable", None)
        assert state_of(found, "Database", "Valkey") == ["unreachable", "ok"]
        assert set(state_of(found, "Work", "Schedule", "Dead letters")) == {"unknown"}
        assert "nonexistent-folder" in page(browser, "/", group=group)
        answer = browser.get(f"/agents/{group}/{AGENT}")
        assert answer.status_code == 503
        assert "database did not answer" in answer.text
        assert browser.get("/healthz").status_code == 200
        ready = browser.get("/readyz")
        assert (ready.status_code, ready.json["valkey"]) == (503, "ok")


def test_a_dead_broker_and_valkey_are_told_with_the_reason(browser: FlaskClient, group: str) -> None:
    with environment(**away("valkey", "broker")):
        found = data(browser, "/overview.json", group=group)
        assert state_of(found, "Valkey", "Intake", "Database") == ["unreachable", "unknown", "ok"]
        assert [queue["waiting"] for queue in found["queues"]] == [None] * (1 + len(task_queues()))
        assert "unknown" in page(browser, "/", group=group)
        assert browser.get("/readyz").status_code == 503


def test_a_hanging_database_does_not_hold_the_page(browser: FlaskClient, group: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts, and never says a word
        address = f"postgresql+psycopg://nobody@127.0.0.1:{silent.getsockname()[1]}/nothing"
        with environment(database_url=address):
            found = data(browser, "/overview.json", group=group)
        assert "timeout" in check(found, "Database", "detail")
        assert state_of(found, "Valkey") == "ok"


@own_sessions
def test_many_slow_questions_to_the_database_hold_up_no_short_one(browser: FlaskClient, group: str) -> None:
    """As many searches as there may be connections but one wait in the database, and pages are answered."""
    slow, gate = base.POOL_SIZE + base.POOL_OVERFLOW - 3, uuid4().int % 2**31

    def wait_for_the_gate(connection: Connection) -> bool:
        connection.execute(text("SET LOCAL lock_timeout = 0"))
        connection.execute(text("SELECT pg_advisory_xact_lock_shared(:gate)"), {"gate": gate})
        return True

    def waiting(connection: Connection) -> int:
        statement = (
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = :gate AND NOT granted"
        )
        return int(connection.execute(text(statement), {"gate": gate}).scalar_one())

    with ThreadPoolExecutor(slow) as threads:
        with unit_of_work() as connection:
            connection.execute(text("SELECT pg_advisory_xact_lock(:gate)"), {"gate": gate})
            asked = [threads.submit(from_database, wait_for_the_gate, 60) for _ in range(slow)]
            while from_database(waiting) < slow:  # each of these is a short question itself
                time.sleep(0.01)
            page(browser, "/memories", group=group, q="雨")
            assert state_of(data(browser, "/overview.json", group=group), "Database") == "ok"
            assert from_database(waiting) == slow
        assert all(one.result() for one in asked)


def test_the_database_ends_a_question_that_takes_too_long(database: Stack) -> None:
    with pytest.raises(SourceUnavailable, match="statement timeout"):
        from_database(lambda connection: connection.execute(text("SELECT pg_sleep(60)")), timeout=0.05)
    with pytest.raises(SourceUnavailable, match="statement timeout"):
        from_database(
            lambda connection: connection.execute(
                text("SET LOCAL statement_timeout = 50; SELECT pg_sleep(60)")
            )
        )


def test_it_is_ready_when_the_database_and_valkey_answer(browser: FlaskClient) -> None:
    providers = {"embedder": "ok", "llm": "ok", "reranker": "off", "search": "off"}
    servers = dict.fromkeys(("database", "valkey", "broker"), "ok")
    assert browser.get("/readyz").json == {"status": "ready", **servers, **providers}
    assert browser.get("/healthz").json == {"status": "up"}


def test_14_health_covers_embedder_llm_and_search(
    browser: FlaskClient, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("DEEPSEEK_API_KEY", "TAVILY_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    with environment(llm="deepseek:deepseek-chat", web_search="tavily"):
        ready = browser.get("/readyz")
        states = [ready.json[name] for name in ("embedder", "llm", "search")]
        assert (ready.status_code, states) == (200, ["ok", "not_configured", "not_configured"])
        found = data(browser, "/overview.json", group=group)
        assert state_of(found, "Embedder", "LLM", "Web search") == ["ok", "attention", "attention"]
        assert "DEEPSEEK_API_KEY" in check(found, "LLM", "detail")
    with environment(web_search="searxng", web_search_base_url="http://127.0.0.1:9"):
        breaker = web_search.breaker_name("searxng")
        breakers.note_error(breaker, "no answer")
        assert browser.get("/readyz").json["search"] == "failing"
        assert state_of(data(browser, "/overview.json", group=group), "Web search") == "attention"
        breakers.note_success(breaker)
        assert browser.get("/readyz").json["search"] == "ok"


def test_workers_that_have_written_no_heartbeat_are_unknown_not_down() -> None:
    def state(*seconds: float) -> str:
        silent = [Worker("here:1", "w@1", tuple(task_queues()), since) for since in seconds]
        return health.workers(health.SourceReading(silent)).state

    # One that stopped was there, and says nothing any more.
    assert [state(1.0), state(health.STOPPED_SECONDS + 1), state()] == ["ok", "unreachable", "unknown"]
    assert health.workers(health.SourceReading(None, "why")) == health.Check("Workers", "unknown", "why")


def test_work_that_waits_too_long_needs_attention(browser: FlaskClient, group: str) -> None:
    subject = uuid4()
    rows(
        "INSERT INTO pending_work (kind, subject_id, group_id, created_at)"
        " VALUES ('test-late', :s, :g, now() - '1 h'::interval) RETURNING 1",
        s=subject,
        g=group,
    )
    try:
        found = data(browser, "/overview.json", group=group)
        assert state_of(found, "Work") == "attention"
        row = next(row for row in found["work_owed"] if row["kind"] == "test-late")
        assert (row["owed"], row["overdue"]) == (1, 1)
        assert datetime.now(UTC) - datetime.fromisoformat(row["oldest"]) >= timedelta(hours=1)
    finally:
        with unit_of_work() as connection:
            complete(connection, "test-late", [subject])


def test_the_last_run_of_a_job_is_told_in_words() -> None:
    summary = {"due": {"embed": 2}, "buried": 0, "accesses_recovered": 3}
    assert show.summary(summary) == "due: embed 2, accesses recovered: 3"
    assert show.summary({"due": {}, "buried": 0}) == "nothing to do"


def test_a_broker_address_is_rewritten_for_redis_or_unknown() -> None:
    assert redis_address("redis://u:p@h:6379/1") == "redis://u:p@h:6379/1"
    assert redis_address("redis+socket:///run/v.sock?virtual_host=2") == "unix:///run/v.sock?db=2"
    assert redis_address("redis+socket://:p@/run/v.sock") == "unix://:p@/run/v.sock?db=0"
    assert redis_address("amqp://h//") is redis_address("sentinel://h:26379/0") is None


def test_it_listens_to_others_only_when_somebody_can_sign_in() -> None:
    for host in ("::1", "127.0.0.1", "localhost"):
        require_login_on_public_bind(Settings(web_host=host), somebody_signs_in=False)
    for host in ("0.0.0.0", "192.168.1.5", "::", "example.org"):
        settings = Settings(web_host=host)
        require_login_on_public_bind(settings, somebody_signs_in=True)
        with pytest.raises(SettingsError, match=r"JIYI_WEB_HOST.*nobody can sign in.*jiyi people add"):
            require_login_on_public_bind(settings, somebody_signs_in=False)


def test_a_taken_port_is_one_clear_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(SettingsError, match=rf"port {port} .*taken.*JIYI_WEB_PORT"):
            serve.listen(Settings(web_host="127.0.0.1", web_port=port))


def test_a_name_that_turns_the_direction_of_a_line_is_shown_for_what_it_is(
    signed_in: FlaskClient, group: str
) -> None:
    name = "Maria\u202enimda"
    save(observed(group, "hello", agent_id=name))
    page = signed_in.get(f"/agents?group={group}").text
    assert "Maria\\u202enimda</a>" in page
    assert re.search(r">[^<]*\u202e", page) is None
    assert signed_in.get(f"/agents/{group}/{quote(name)}").status_code == 200  # its address works
