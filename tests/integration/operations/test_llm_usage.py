"""What questions to LLMs have used: counted by the workers, shown by ``jiyi llms show``."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from engine.providers.llm_prompts import Usage
from jiyi import Client
from jiyi.errors import LLMUnavailable
from jiyi.protocol.events import build
from jiyi.protocol.providers import LLMUsage
from models.db.connection import unit_of_work
from models.operations import budgets, numbers
from tests.integration.away import away
from tests.integration.memory.test_inbox import execute, save
from workers.ephemeral import environment

pytestmark = pytest.mark.usefixtures("database")


def used(group: str, prompt: str = "insights@1", **changes: Any) -> Usage:
    values = {"calls": 2, "failures": 1, "prompt_tokens": 100, "completion_tokens": 10, "cost": 0.5}
    values |= {"questions": 1, "repaired": 1, "seconds": 1.5, **changes}
    return Usage(prompt=prompt, model="openai:x", group_id=group, **values)


def sums(group: str, first_day: date | None = None) -> list[LLMUsage]:
    with unit_of_work() as connection:
        return numbers.usage_since(
            connection, group, first_day or datetime.now(UTC).date() - timedelta(days=1)
        )


def test_usage_of_a_day_adds_up_by_prompt_and_model(group: str) -> None:
    numbers.record_usage(used(group, "poignancy@1", cost=0.0))
    numbers.record_usage(used(group + "-other"))
    with ThreadPoolExecutor(8) as pool:  # workers that count at the same time lose nothing
        list(pool.map(lambda _: numbers.record_usage(used(group)), range(40)))
    first, second = sums(group)
    assert first.model_dump() == {
        "prompt": "insights@1",
        "model": "openai:x",
        "calls": 80,
        "failures": 40,
        "prompt_tokens": 4_000,
        "completion_tokens": 400,
        "cost": pytest.approx(20.0),
        "questions": 40,
        "unusable": 0,
        "repaired": 40,
        "by_rules": 0,
        "dropped": 0,
        "seconds": pytest.approx(60.0),
    }
    assert second.prompt == "poignancy@1"
    execute("UPDATE llm_usage SET day = day - 40 WHERE group_id = :group", group=group)
    numbers.record_usage(used(group))
    assert [row.calls for row in sums(group)] == [2]  # only the days that are asked for
    assert [row.calls for row in sums(group, date(2020, 1, 1))] == [82, 2]


def test_usage_is_told_by_task_model_group_and_month(group: str) -> None:
    numbers.record_usage(used(group))
    numbers.record_usage(used(group, "poignancy@1", cost=1.0))
    keys = {
        "task": ["poignancy@1", "insights@1"],
        "model": ["openai:x"],
        "group": [group],
        "month": [f"{datetime.now(UTC):%Y-%m}"],
    }
    for by, expected in keys.items():
        with unit_of_work() as connection:
            rows = numbers.usage_by(connection, group, datetime.now(UTC).date(), by)  # type: ignore[arg-type]
        assert [row["key"] for row in rows] == expected
        assert sum(row["cost"] for row in rows) == pytest.approx(1.5)


def test_a_spent_budget_stops_questions_of_its_group_alone(group: str) -> None:
    almost = f"{group}-almost"
    numbers.record_usage(used(almost, cost=0.9))
    numbers.record_usage(used(group, cost=1.1))
    with environment(llm_budget="/1"):
        budgets.allow(almost)
        with unit_of_work() as connection:
            assert [budget.state for budget in budgets.of(connection, almost)] == ["attention"]
        spent = r"the group's budget of 1 a month is spent \(JIYI_LLM_BUDGET\)"
        with pytest.raises(LLMUnavailable, match=spent):
            budgets.allow(group)


def test_an_answer_is_not_lost_because_it_cannot_be_counted(
    group: str, caplog: pytest.LogCaptureFixture
) -> None:
    with away("database"):
        numbers.record_usage(used(group))
    assert "usage of insights@1 by openai:x was not counted" in caplog.text


def test_jiyi_llms_shows_the_llm_the_vendors_and_the_usage_of_the_group(
    client: Client, jiyi: Callable[..., str]
) -> None:
    numbers.record_usage(used(client.group))
    found = client.llms.show()
    active = {"vendor": "rules", "model": "rules-2", "breaker": None, "problem": None, "tried": []}
    assert found.active.model_dump() == {**active, "left_to_rules": []}
    assert {row.vendor for row in found.vendors} >= {"openai", "deepseek", "ollama", "compatible"}
    assert [(row.prompt, row.calls) for row in found.usage] == [("insights@1", 2)]
    shown = jiyi("llms", "show")
    assert "rules-2" in shown
    assert "insights@1" in shown
    document = json.loads(jiyi("llms", "show", "--json", "--days", 7))
    assert (document["days"], document["usage"]) == (7, found.model_dump(mode="json")["usage"])


def test_jiyi_prompts_show_prints_what_would_be_sent_for_a_session(
    client: Client, jiyi: Callable[..., str]
) -> None:
    turn = {"type": "turn.recorded", "group_id": client.group, "agent_id": "helper", "session_id": "s1"}
    save(build({**turn, "payload": {"role": "user", "text": "I am allergic to peanuts.\x1b[2J"}}))
    asked = ["prompts", "show", "extraction", "helper"]
    shown = jiyi(*asked, "s1")
    assert "extraction@4, about " in shown
    assert "allergic to peanuts" in shown
    assert "\x1b" not in shown
    [only] = json.loads(jiyi(*asked, "s1", "--json"))["rows"]
    assert [message["role"] for message in only["messages"]] == ["system", "user"]
    assert "no turns of the session" in jiyi(*asked, "s2", code=1)
