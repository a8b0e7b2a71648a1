"""What is worth asking about many statements, and what they say together that none of them says alone."""

from __future__ import annotations

from datetime import datetime

from engine.providers.llms.questions import FocalPoints, Insight, InsightList, Insights, Points
from engine.providers.llms.rules.courses import courses, is_said, name_of, recurring
from engine.providers.llms.rules.readings import Reading, readings
from engine.providers.llms.rules.topics import topics
from engine.providers.llms.rules.wordlists import quote
from jiyi.text.tokens import telling
from jiyi.text.words import Language, normalise

#: Statements that are looked at; a reflection brings dozens.
MAX_STATEMENTS = 500
#: Characters of a statement that are read, and that are quoted.
MAX_READ, MAX_QUOTED = 1_000, 240

QUESTIONS: dict[Language, str] = {"zh": "关于{topic}，有什么值得注意的？", "en": "What is known about {topic}?"}


def focal_points(question: FocalPoints) -> Points:
    """What has figures in several statements, then the most salient topics, as questions; else the statements themselves."""
    statements = [statement[:MAX_READ] for statement in question.statements[:MAX_STATEMENTS]]
    measured = (name for name in _measured(statements) if normalise(name) != normalise(question.agent_id))
    names = list(dict.fromkeys([*measured, *(topic.name for topic in topics(statements, question.count, question.agent_id))]))
    names = names or [line for statement in statements if (line := quote(statement, MAX_QUOTED))]
    names = names or [quote(question.agent_id, MAX_QUOTED) or "…"]
    asked = [QUESTIONS[question.language].format(topic=quote(name, MAX_QUOTED)) for name in names[: question.count]]
    return Points(questions=list(dict.fromkeys(asked)))


def _measured(statements: list[str]) -> list[str]:
    """What several statements have figures of, the most first: one name each for who it is and what."""
    measured: dict[tuple[str, str], list[Reading]] = {}
    for number, statement in enumerate(statements):
        for reading in readings(number, statement):
            measured.setdefault((reading.who, reading.key), []).append(reading)
    numbers = {whose: {reading.statement for reading in group} for whose, group in measured.items()}
    found: list[str] = []
    several = sorted((whose for whose, where in numbers.items() if len(where) > 1), key=lambda whose: -len(numbers[whose]))
    taken: list[set[int]] = []
    for whose in several:
        if not any(numbers[whose] <= other for other in taken):
            taken.append(numbers[whose])
            found.append(name_of(measured[whose]))
    return found


def insights(question: Insights) -> InsightList:
    """Courses of figures, and what comes again and again, with their days; nothing where statements have no times.

    Thoughts are no evidence, and what one of them says already is not said again. What concerns the focal point comes
    first.
    """
    texts = [statement[:MAX_READ] for statement in question.statements[:MAX_STATEMENTS]]
    if len(question.times) < len(texts):
        return InsightList(insights=[])
    times: list[datetime] = question.times
    thoughts = set(question.thoughts)
    told = {number: text for number, text in sorted(enumerate(texts), key=lambda item: times[item[0]]) if number not in thoughts}
    known = [text for number, text in enumerate(texts) if number in thoughts]
    asked = set(telling(question.focal_point))
    found = courses(told, times)
    in_courses = {number for one in found for number in one.covers}
    found += recurring({number: text for number, text in told.items() if number not in in_courses}, times)
    found.sort(key=lambda one: asked.isdisjoint(telling(one.about)))  # stable: else as they are
    kept: dict[str, Insight] = {}
    for one in found:
        if not is_said(one, known):
            kept.setdefault(one.text, Insight(text=one.text, evidence=one.evidence))
    return InsightList(insights=list(kept.values())[: question.count])
