"""Web searches of several processes: one allowance a session, results used again, options and answer
arriving.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from flask import Flask

from engine.erasure import Whom
from jiyi.protocol.tier_questions import MemoryQuery
from models.db import valkey_keys
from models.db.scope import for_groups
from models.db.valkey import valkey
from models.erasure import cache_invalidation
from models.tiers import query as memory
from models.tiers.query import SESSION_SEARCHES, SESSION_SECONDS, searcher
from tests.integration.away import away
from tests.integration.tiers.outputs import ask, tier
from tests.unit.providers.test_websearch import TAVILY, Engine, running
from workers.ephemeral import environment

pytestmark = pytest.mark.usefixtures("database", "nothing_owed")

#: Searches in a process of its own, one question each: how many were made, and how many refused.
SEARCHES = """
import sys
from engine.providers.web_search import WebSearchOptions
from engine.tiers.answer import Skipped
from models.tiers import query
group, mark, made, refused = sys.argv[1], sys.argv[2], 0, 0
for number in range(6):
    try:
        query.searcher().search(f"{mark}{number}", WebSearchOptions(), group_id=group, session_id="s")
        made += 1
    except Skipped as reason:
        assert "as often as it may" in str(reason)
        refused += 1
print(made, refused)
"""


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    with running(Engine()) as made:
        made.says(*[TAVILY] * 50)
        monkeypatch.setenv("TAVILY_API_KEY", "tvly-k")
        with environment(web_search="tavily", web_search_base_url=made.base_url):
            searcher.cache_clear()
            yield made
    searcher.cache_clear()


def bodies(engine: Engine) -> list[dict[str, Any]]:
    return [body for _, _, _, body in engine.asked]


def test_the_allowance_of_a_session_is_one_for_all_processes(group: str, engine: Engine) -> None:
    commands = [[sys.executable, "-c", SEARCHES, group, mark] for mark in "ab"]
    running_ones = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for command in commands]
    counts = [tuple(map(int, one.communicate(timeout=200)[0].split())) for one in running_ones]
    assert [one.returncode for one in running_ones] == [0, 0]
    assert (sum(made for made, _ in counts), sum(refused for _, refused in counts)) == (10, 2)
    assert len(engine.asked) == SESSION_SEARCHES
    left = valkey().ttl(valkey_keys.web_searches(group, "s"))
    assert SESSION_SECONDS - 120 < left <= SESSION_SECONDS  # tomorrow it may search again


def test_sessions_have_an_allowance_each_and_filter_nothing_by_it(group: str, engine: Engine) -> None:
    for number in range(SESSION_SEARCHES + 1):
        answer = ask(group, f"question {number}", web_results=1, asking_session="monday")
    assert tier(answer, "web").state == "skipped"
    assert "as often as it may" in tier(answer, "web").message
    others: list[tuple[str, dict[str, Any]]] = [
        (group, {"asking_session": "tuesday"}),
        (group, {"session_id": "wednesday"}),
        (group, {}),
        (f"{group}-other", {"asking_session": "monday"}),
    ]
    for number, (whose, session) in enumerate(others):
        assert tier(ask(whose, f"another {number}", web_results=1, **session), "web").state == "ok"
    assert len(engine.asked) == SESSION_SEARCHES + len(others)


def test_results_are_used_again_by_other_processes_of_the_group(group: str, engine: Engine) -> None:
    first = ask(group, "Why does glaze crack?", web_results=2)
    searcher.cache_clear()  # as another process begins
    again = ask(group, "why does  GLAZE crack?", web_results=2, asking_session="another")
    assert (again.results, again.web_answer) == (first.results, first.web_answer)
    assert len(engine.asked) == 1
    ask(f"{group}-other", "Why does glaze crack?", web_results=2)
    assert len(engine.asked) == 2
    (key, _) = [
        key
        for key in valkey().scan_iter(match="jiyi:search:*")
        if b"Why does glaze crack?" in (valkey().get(key) or b"")
    ]
    assert 0 < valkey().pttl(key) <= 300_000


def test_type_domains_and_the_engines_answer_arrive(group: str, engine: Engine) -> None:
    answer = ask(group, "Why does glaze crack?", web_results=2, search_type="news", domains=["example.org"])
    (body,) = bodies(engine)
    assert (body["topic"], body["include_domains"], body["max_results"]) == ("news", ["example.org"], 2)
    assert answer.web_answer == TAVILY["answer"]
    assert [(item.source, urlsplit(item.item_id).hostname) for item in answer.results] == [
        ("external", "example.org")
    ]
    assert ask(group, "no web is wanted").web_answer == ""


def test_they_arrive_over_rest_and_a_key_without_a_session_has_its_own_allowance(
    group: str, engine: Engine, web_app: Flask, api_key: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Caller:
        """Answers as the worker does."""

        def call_for_json(self, _task: str, _queue: str, query: MemoryQuery, _seconds: float) -> bytes:
            sessions.append(query.asking_session)
            with for_groups(query.group_id):
                return memory.query_memory(query).model_dump_json().encode()

    sessions: list[str | None] = []
    monkeypatch.setattr("web.api.tiers.caller", Caller)
    headers = {"Authorization": f"Bearer {api_key(group, 'read')}"}
    wanted = {"query": "Why?", "web_results": 1, "search_type": "news", "domains": ["example.org"]}
    answer = web_app.test_client().post("/api/v1/memory/query", json=wanted, headers=headers)
    assert answer.status_code == 200, answer.text
    assert answer.json is not None
    assert answer.json["web_answer"] == TAVILY["answer"]
    assert bodies(engine)[0]["topic"] == "news"
    assert (sessions[0] or "").startswith("key:")
    inputs = {"inputs": {"topic": "Why so?", "session_id": "s7"}, "properties": {"web_results": 1}}
    assert (
        web_app.test_client().post("/api/v1/nodes/memory-retrieval", json=inputs, headers=headers).status_code
        == 200
    )
    assert sessions[1] == "s7"


def test_without_valkey_nobody_searches(group: str, engine: Engine) -> None:
    with away("valkey"):
        answer = ask(group, "Why does glaze crack?", web_results=2)
    # On a busy machine the tries to reach it take as long as the tier may.
    why = ("web searches are counted in Valkey, which is away", "no answer within 8 s")
    assert tier(answer, "web").message in why
    assert engine.asked == []


def test_what_is_kept_of_a_search_is_found_by_an_erasure(group: str, engine: Engine) -> None:
    ask(group, "Where does Wilhelmine Grosz live?", web_results=1)
    assert any(b"Grosz" in (valkey().get(key) or b"") for key in valkey().scan_iter(match="jiyi:search:*"))
    assert cache_invalidation.clear(group, [], [], Whom(["Wilhelmine Grosz"]))["searches"] == 1
    assert not any(
        b"Grosz" in (valkey().get(key) or b"") for key in valkey().scan_iter(match="jiyi:search:*")
    )
