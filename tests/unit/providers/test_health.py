"""How the embedder, the LLM and the search fare, without asking any of them (item 14)."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from engine.providers import health, llms
from jiyi.settings import Settings
from models.operations import health_checks
from models.operations.worker_liveness import Canary

Configure = Callable[..., Settings]


def states(settings: Settings, embedder: str | None = None) -> dict[str, str]:
    return {one.name: one.state for one in health.providers(settings, embedder)}


def test_14_a_new_deployment_is_healthy_and_the_embedder_in_use_counts_not_the_one_that_is_set(
    configure: Configure,
) -> None:
    assert states(configure()) == {"embedder": "ok", "llm": "ok", "reranker": "off", "search": "off"}
    assert states(configure(embedder="openai"), embedder="hashing:64")["embedder"] == "ok"


def test_14_what_is_missing_is_named(configure: Configure, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = configure(embedder="openai", llm="deepseek:deepseek-chat", web_search="tavily")
    missing = dict.fromkeys(("embedder", "llm", "search"), "not_configured")
    assert states(settings) == {**missing, "reranker": "off"}
    details = {one.name: one.detail for one in health.providers(settings)}
    assert "OPENAI_API_KEY" in details["embedder"]
    assert "DEEPSEEK_API_KEY" in details["llm"]
    assert "TAVILY_API_KEY" in details["search"]
    assert states(configure(web_search="searxng"))["search"] == "not_configured"
    for wrong in ("nobody", "compatible:m", "deepseek"):
        assert states(configure(embedder=wrong))["embedder"] == "not_configured"
    monkeypatch.setitem(sys.modules, "fastembed", None)  # not installed
    (embedder, *_) = health.providers(configure(embedder="fastembed"))
    assert (embedder.state, "pip install fastembed" in embedder.detail) == ("not_configured", True)


def vendors(configure: Configure) -> Settings:
    nowhere = "http://127.0.0.1:9"
    return configure(
        embedder="openai",
        embedder_api_key="k",
        llm="openai:gpt-4o-mini",
        llm_api_key="k",
        reranker=f"bge@{nowhere}",
        web_search="searxng",
        web_search_base_url=nowhere,
    )


@pytest.mark.parametrize(
    ("fields", "state"),
    [
        ({}, "ok"),
        ({"state": "open"}, "failing"),
        ({"state": "half-open"}, "failing"),
        ({"failures": 1}, "failing"),
        # What is refused as the request's fault (400, 404) is no failure of the breaker; until something is
        # answered.
        ({"last_error_at": "2026-05-03T09:00:00Z"}, "failing"),
        ({"last_error_at": "2026-05-03T09:00:00Z", "last_success_at": "2026-05-03T08:00:00Z"}, "failing"),
        ({"last_error_at": "2026-05-03T09:00:00Z", "last_success_at": "2026-05-03T10:00:00Z"}, "ok"),
        ({"state": "unknown", "failures": None}, "unknown"),  # without Valkey nobody knows
    ],
)
def test_14_a_provider_whose_last_call_failed_is_failing_with_the_reason(
    fields: dict[str, Any], state: str, configure: Configure, known: Callable[..., None]
) -> None:
    known(**fields, last_error="refuses the key")
    found = health.providers(vendors(configure))
    assert {one.state for one in found} == {state}
    assert all(one.detail.endswith(": refuses the key") for one in found) or state != "failing"


def test_a_provider_that_is_slow_and_answers_is_not_away(
    configure: Configure, known: Callable[..., None]
) -> None:
    now = datetime.now(UTC)
    late = {"last_error": "did not answer within 1800 s", "last_error_at": now, "last_error_late": True}
    rows: list[tuple[int | None, dict[str, Any], str]] = [
        (30, {}, "ok"),
        (30, {"last_error_late": False}, "failing"),
        (90, {}, "failing"),
        (None, {}, "failing"),
        (30, {"state": "open"}, "failing"),
    ]
    for minutes, fields, state in rows:
        answered = None if minutes is None else now - timedelta(minutes=minutes)
        known(**{**late, "failures": 1, "last_success_at": answered, **fields})
        (found, *_) = health.providers(vendors(configure))
        assert (found.name, found.state) == ("embedder", state)
        assert "did not answer within 1800 s" in found.detail


def test_work_and_health_have_more_time_with_a_longer_time_out_of_the_llm(configure: Configure) -> None:
    for llm, seconds, slower in (
        *(("rules", 30, 0), ("rules", 1_800, 0)),  # rules wait for nobody
        *(("openai", 10, 0), ("openai", 30, 0), ("openai", 1_800, 6 * 1_770)),
    ):
        assert llms.slower_seconds(configure(llm=llm, llm_timeout=seconds)) == slower
    canary = Canary("reflection", sent_at=time.time(), ran_at=time.time() - 3_600, outstanding=1)
    assert not health_checks.is_silent(canary)
    configure(llm="openai", llm_timeout=30)
    assert health_checks.is_silent(canary)
