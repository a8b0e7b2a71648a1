"""engine.reflection: the order of the questions, evidence by number, counters and progress."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as some

from engine.providers.questions import (
    FocalPoints,
    Insight,
    InsightList,
    Insights,
    Memo,
    Planning,
    Poignancy,
    Points,
    Triple,
)
from engine.reflection import (
    INSIGHTS,
    MAX_STATEMENTS,
    MAX_UTTERANCES,
    RETRIEVED,
    MemoryStatement,
    Origin,
    Thought,
    counters_after,
    events_of,
    is_due,
    reflect,
    reflect_on_conversation,
    thought_id,
    window,
    with_progress,
)
from jiyi.errors import InvalidEvent
from jiyi.protocol.memory import AgentState
from jiyi.settings import Settings
from tests.llms import Scripted

LATEST = [MemoryStatement(uuid4(), f"Klaus reads chapter {n}") for n in range(4)]
POOL = [MemoryStatement(uuid4(), f"memory {n}") for n in range(5)]


def retrieve(points: list[str]) -> list[list[MemoryStatement]]:
    return [POOL for _ in points]


class Told(Scripted):
    """Gives these answers to focal points and insights; the rest as :class:`Scripted`."""

    def __init__(self, points: list[str], insights: list[list[tuple[str, list[int]]]]) -> None:
        super().__init__()
        self._points, self._insights = points, insights

    def ask(self, question: Any) -> Any:
        if isinstance(question, FocalPoints):
            self.asked.append(question)
            return Points(questions=self._points)
        if isinstance(question, Insights):
            self.asked.append(question)
            told = self._insights.pop(0)
            return InsightList(insights=[Insight(text=text, evidence=numbers) for text, numbers in told])
        return super().ask(question)


def test_evidence_numbers_become_memories_in_the_order_named_each_once() -> None:
    made = reflect("klaus", LATEST, Told(["why?"], [[("so", [3, 0, 3])]]), retrieve)
    (thought,) = made.thoughts
    assert thought.evidence == [POOL[3].node_id, POOL[0].node_id]
    assert (thought.description, thought.focal_point, thought.prompt) == ("so", "why?", "insights@2")


def test_all_points_are_retrieved_at_once_before_any_insight() -> None:
    asked: list[list[str]] = []
    llm = Told(["a?", "b?"], [[("x", [0])], [("y", [1])]])

    def once(points: list[str]) -> list[list[MemoryStatement]]:
        assert [type(question) for question in llm.asked] == [FocalPoints]
        asked.append(points)
        return retrieve(points)

    reflect("klaus", LATEST, llm, once)
    assert asked == [["a?", "b?"]]
    assert [type(question) for question in llm.asked] == [FocalPoints, *[Insights, Triple, Poignancy] * 2]
    assert [question.count for question in llm.asked if isinstance(question, Insights)] == [INSIGHTS] * 2


def test_a_point_given_twice_is_thought_about_once_and_one_without_memories_not_at_all() -> None:
    llm = Told(["a?", "a?", "b?"], [[("x", [0])]])
    made = reflect("klaus", LATEST, llm, lambda points: [[] if point == "b?" else POOL for point in points])
    assert [thought.description for thought in made.thoughts] == ["x"]
    assert made.focal_points == ["a?", "a?", "b?"]


def test_the_same_insight_is_one_thought_with_all_its_evidence() -> None:
    for original, evidence in ((False, [[0, 1, 2]]), (True, [[0, 1], [1, 2]])):
        llm = Told(["a?", "b?"], [[("x", [0]), ("x", [1])], [("x", [1, 2])]])
        made = reflect("klaus", LATEST, llm, retrieve, original=original)
        expected = [[POOL[number].node_id for number in numbers] for numbers in evidence]
        assert [thought.evidence for thought in made.thoughts] == expected


def test_insights_are_asked_for_with_the_times_of_the_memories_and_which_are_thoughts() -> None:
    days = [datetime(2026, 3, day, tzinfo=UTC) for day in (1, 2)]
    memories = [MemoryStatement(uuid4(), "it rains", days[0])]
    memories.append(MemoryStatement(uuid4(), "it will rain", days[1], is_thought=True))
    llm = Told(["a?"], [[]])
    assert reflect("klaus", LATEST, llm, lambda points: [memories for _ in points]).thoughts == []
    asked = llm.asked[-1]
    assert isinstance(asked, Insights)
    assert (asked.times, asked.thoughts) == (days, [1])
    reflect("klaus", LATEST, llm := Told(["a?"], [[]]), retrieve)  # of nothing is known when it was
    assert isinstance(asked := llm.asked[-1], Insights)
    assert asked.times == []


def test_what_is_idle_is_not_asked_about() -> None:
    for original, text, asked in (
        (False, "the sofa is idle", 0),
        (False, "an idle thought is idle no more", 1),
        (True, "it is idle no more", 0),
    ):
        llm = Told(["a?"], [[(text, [0])]])
        (thought,) = reflect("klaus", LATEST, llm, retrieve, original=original).thoughts
        assert sum(isinstance(question, Poignancy) for question in llm.asked) == asked
        assert thought.poignancy == (7 if asked else 1)


def test_questions_are_in_the_language_of_the_statements() -> None:
    llm = Told(["为什么？"], [[("林岚喜欢读书", [0]), ("She likes tea", [1])]])
    latest = [MemoryStatement(uuid4(), text) for text in ("林岚在读 Neuromancer", "卸下门板")]
    reflect("林岚", latest, llm, retrieve)
    assert [question.language for question in llm.asked] == ["zh", "zh", "zh", "zh", "en", "en"]


def test_a_conversation_leaves_a_plan_and_a_memo_with_the_name_once() -> None:
    llm, chat = Scripted(), uuid4()
    plan, memo = reflect_on_conversation("Maria", [chat], [("Maria", "Hi"), ("Klaus", "Hello")], llm)
    asked = [type(question) for question in llm.asked]
    assert asked == [Planning, Triple, Poignancy, Memo, Triple, Poignancy]
    assert plan.description == "For Maria's planning: should bring Klaus the map on Friday."
    assert memo.description == "Maria found the map interesting."
    assert plan.evidence == memo.evidence == [chat]
    # Of a long one the end is shown.
    said = [("Klaus", str(number)) for number in range(MAX_UTTERANCES + 50)]
    reflect_on_conversation("Maria", [chat], said, long := Scripted())
    assert long.asked[0].utterances == said[-MAX_UTTERANCES:]


def test_a_reflection_is_due_when_nothing_is_left_and_looks_at_the_events_since_the_last() -> None:
    assert [is_due(left) for left in (1, 0.5, 0, -3)] == [False, False, True, True]
    assert window(10, original=False) == window(10, original=True) == 10
    assert window(0, original=False) == RETRIEVED == 30
    assert window(0, original=True) == window(10_000, original=False) == MAX_STATEMENTS


@given(some.floats(-500, 0), some.lists(some.integers(1, 10), max_size=50), some.integers(0, 100))
def test_what_comes_meanwhile_is_never_lost(seen: float, events: list[int], before: int) -> None:
    now = seen - sum(events), before + len(events)
    assert counters_after(now, (seen, before), 150, original=True) == (150, 0)
    set_anew = 100, 2  # by an import meanwhile
    assert counters_after(set_anew, (-4, 40), 150, original=False) == (150, 0)
    left, count = counters_after(now, (seen, before), 150, original=False)
    assert left == pytest.approx(150 - sum(events))
    assert count == len(events)


WHEN, REFLECTION = datetime(2026, 3, 2, tzinfo=UTC), UUID(int=7)
WHO = {"group_id": "g", "agent_id": "klaus", "session_id": "s"}
ORIGIN = Origin(**WHO, now=WHEN, reflection_id=REFLECTION, llm="m")


def made(description: str = "so", focal_point: str = "why?") -> Thought:
    triple = {"subject": "klaus", "predicate": "is", "object": "klaus"}
    found: dict[str, Any] = {"poignancy": 5.0, "evidence": [UUID(int=1)], "prompt": "insights@1", **triple}
    return Thought(description=description, focal_point=focal_point, **found)


def test_thoughts_become_events_that_say_where_they_come_from() -> None:
    first, second = events_of([made(), made("and so", focal_point="")], ORIGIN)
    assert first.event_id == thought_id(UUID(int=7), 0) != second.event_id
    assert first.payload.keywords == ["klaus", "is"]
    assert first.payload.expires_at == ORIGIN.now + timedelta(days=30)
    whence = {"reflection": str(REFLECTION), "llm": "m", "prompt": "insights@1", "focal_point": "why?"}
    assert first.payload.provenance == whence
    assert "focal_point" not in second.payload.provenance
    assert (first.session_id, first.correlation_id) == ("s", str(UUID(int=7)))
    assert events_of([made()], ORIGIN) == events_of([made()], ORIGIN)
    with pytest.raises(InvalidEvent):
        events_of([made("so\x00")], ORIGIN)


@pytest.mark.parametrize(
    ("own", "left", "expected"),
    [
        ({}, 150, (0, 150, False)),
        ({}, -4, (154, 150, True)),
        ({"importance_trigger_max": 20}, 5, (15, 20, False)),
    ],
)
def test_what_events_have_added_up_to_is_compared_with_the_agents_own_threshold(
    own: dict[str, Any], left: float, expected: tuple[float, float, bool]
) -> None:
    counted = {"node_count": 1, "type_counts": {"event": 1}, "importance_ele_n": 1, "created_at": WHEN}
    state = {"agent_id": "Ada", "settings": own, "importance_trigger_curr": left, **counted}
    found = with_progress(AgentState.model_validate(state), Settings()).reflection
    assert (found.gathered, found.max, found.owed) == expected
