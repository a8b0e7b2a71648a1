"""When an agent looks at itself, what it sees by rules, and which changes it may propose."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.conversations.gate import GATES
from engine.growth.pains import (
    IdentityChange,
    ReviewSchedule,
    SelfReflected,
    allowed_changes,
    is_new,
    review,
    suggested_content,
)
from engine.growth.questions import SelfReflectionQuestion
from engine.rules.provider import Rules
from jiyi.protocol.growth import SelfSettings
from tests.unit.text.labelled import labelled

NOW = datetime(2026, 5, 1, 9, tzinfo=UTC)


def schedule(conversations: int = 5, hours: int = 24, **fields: Any) -> ReviewSchedule:
    settings = SelfSettings.model_construct(conversations=conversations, hours=hours)
    return ReviewSchedule(settings, NOW, **{"anything_new": True, **fields})


@pytest.mark.parametrize(
    ("fields", "hours", "expected"),
    [
        ({"ended": 4}, 0, None),
        ({"ended": 5}, 0, "conversations"),
        ({"ended": 9}, 30, "conversations"),
        ({}, 23.9, None),
        ({}, 24, "hours"),
        ({"anything_new": False}, 48, None),
        ({"conversations": 0, "ended": 100}, 0, None),
        ({"hours": 0}, 1_000, None),
        ({}, -5, None),
    ],
)
def test_when_it_is_due(fields: dict[str, Any], hours: float, expected: str | None) -> None:
    assert schedule(**fields).due(NOW + timedelta(hours=hours)) == expected
    assert schedule(**fields).due_at == (None if fields.get("hours") == 0 else NOW + timedelta(hours=24))


def users(*said: str) -> list[tuple[str, str]]:
    return [("user", text) for text in said]


def test_what_hurt_or_was_praised_twice_is_a_pattern_and_what_hurt_has_an_improvement() -> None:
    found = review("小伴", users("导出报表总是失败", "你好", "报表导出又失败了"))
    assert [(one.kind, one.evidence) for one in found.patterns] == [("negative", [0, 2])]
    assert found.improvements[0].evidence == [0, 2]
    [memory] = found.meta_memories
    assert memory.text.startswith("小伴的用户抱怨过2次")
    assert memory.evidence == [0, 2]
    praise = "That was a great summary, very helpful.", "Great summary again, so helpful."
    praised = review("bot", users(*praise)).patterns
    assert [(one.kind, one.evidence) for one in praised] == [("positive", [0, 1])]
    by_assistants = [("assistant", "导出总是失败"), ("assistant", "导出又失败了")]
    for talk in (users("导出报表总是失败", "你解释得很清楚"), by_assistants):
        assert review("bot", talk).patterns == []


@labelled
def test_a_wish_for_good_is_a_change_of_agents_and_nothing_else_is(said: str, addition: str | None) -> None:
    changes = [(one.file, one.addition, one.evidence) for one in review("bot", users(said)).identity_changes]
    assert changes == ([("AGENTS", addition, [0])] if addition else [])


def change(file: Any = "AGENTS", addition: str = "Be brief.") -> IdentityChange:
    return IdentityChange(file=file, addition=addition, reason="asked", evidence=[0])


@labelled
def test_a_change_is_one_line_at_the_end_of_the_file_if_it_may_be_written(
    addition: str, before: str, after: str | None
) -> None:
    assert suggested_content(change(addition=addition), before, 100) == after


def test_soul_is_changed_only_where_it_is_allowed_and_nothing_that_was_asked_already() -> None:
    changes = [change("SOUL"), change("AGENTS")]
    assert [len(allowed_changes(changes, soul=soul)) for soul in (False, True)] == [1, 2]
    assert is_new(change(), {})
    assert not is_new(change(addition="以后回答请简洁一点"), {"AGENTS": ["以后请回答得简洁一点"]})
    assert is_new(change(addition="以后回答请简洁一点"), {"SOUL": ["以后请回答得简洁一点"]})


@given(
    st.lists(st.tuples(st.sampled_from(["user", "assistant"]), st.text(max_size=120)), min_size=1, max_size=8)
)
def test_any_talk_can_be_looked_at_and_findings_of_lines_that_are_not_there_are_none(
    talk: list[tuple[str, str]],
) -> None:
    question = SelfReflectionQuestion(agent_id="bot", utterances=talk)
    found = Rules().ask(question)
    elsewhere = change().model_copy(update={"evidence": [len(talk)]})
    wrong = found.model_copy(update={"identity_changes": [elsewhere]})
    left = found.model_copy(update={"identity_changes": []})
    nothing = "no line says any of it"
    assert GATES[SelfReflectionQuestion](question, wrong) == (left if left != SelfReflected() else nothing)
