"""What is worth asking about many statements, and what they say together that none of them says alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from engine.providers.questions import FocalPoints, Insight, InsightList, Insights, Points
from engine.rules.poignancy import quote
from engine.rules.readings import MOST_WORDS, Reading, readings
from engine.rules.topics import topics
from jiyi.text.words import Language, is_filler, language_of, normalise, telling

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
    names: list[str] = []
    several = sorted((whose for whose, where in numbers.items() if len(where) > 1), key=lambda whose: -len(numbers[whose]))
    taken: list[set[int]] = []
    for whose in several:
        if not any(numbers[whose] <= other for other in taken):
            taken.append(numbers[whose])
            names.append(name_of(measured[whose]))
    return names


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
    candidates = courses(told, times)
    in_courses = {number for candidate in candidates for number in candidate.covers}
    candidates += recurring({number: text for number, text in told.items() if number not in in_courses}, times)
    candidates.sort(key=lambda candidate: asked.isdisjoint(telling(candidate.about)))  # stable: else as they are
    kept: dict[str, Insight] = {}
    for candidate in candidates:
        if not is_said(candidate, known):
            kept.setdefault(candidate.text, Insight(text=candidate.text, evidence=candidate.evidence))
    return InsightList(insights=list(kept.values())[: question.count])


#: A course has at least so many readings, each of a day of its own, and shows the last ones.
LEAST_READINGS, MOST_READINGS = 3, 8
#: Something happens again and again from so many days on; how often is said in these steps, so that it is not said anew each time.
STEPS = (3, 5, 10, 20, 50, 100, 200)
#: A habit has at most so many days of the week, and each at least twice.
MOST_WEEKDAYS, LEAST_EACH = 2, 2
#: Two statements say the same if they share this part of their telling words, of which each has at least so many.
SAME_WORDS, LEAST_WORDS = 0.6, 2
MAX_QUOTED = 160
#: Statements that a thought rests on, at most: the latest.
MOST_EVIDENCE = 12

MONTHS = "January February March April May June July August September October November December".split()
WEEKDAYS: dict[Language, list[str]] = {
    "zh": [f"周{day}" for day in "一二三四五六日"],
    "en": [f"{day}days" for day in ("Mon", "Tues", "Wednes", "Thurs", "Fri", "Satur", "Sun")],
}


@dataclass(frozen=True, slots=True)
class Found:
    """A thought, what it is about, and the numbers of the statements that it rests on."""

    text: str
    about: str
    evidence: list[int]
    #: The statements that it leaves nothing to say of: its evidence, and what is older.
    covers: frozenset[int]


def courses(statements: Mapping[int, str], times: Sequence[datetime]) -> list[Found]:
    """How figures went, the most readings first; each statement is used for one course of a person."""
    groups: dict[tuple[str, str, str, Language], list[Reading]] = {}
    for number, statement in statements.items():
        for reading in readings(number, statement):
            groups.setdefault((reading.who, reading.key, reading.unit, reading.language), []).append(reading)
    result: list[Found] = []
    used: set[int] = set()
    for group in sorted(groups.values(), key=lambda group: (len(group), max(len(reading.name) for reading in group)), reverse=True):
        each = _one_a_day([reading for reading in group if reading.statement not in used], times)
        amounts = [reading.amount for reading in each]
        if len(each) < LEAST_READINGS or len(set(amounts)) < 2:
            continue
        shown = each[-MOST_READINGS:]
        measured, language = name_of(each), each[-1].language
        values = " → ".join(reading.value for reading in shown)
        span = period(times[shown[0].statement], times[shown[-1].statement], language)
        text = f"{measured}：{values}，{span}" if language == "zh" else f"{measured[:1].upper()}{measured[1:]}: {values}, {span}"
        result.append(
            Found(text, measured, sorted(reading.statement for reading in shown), frozenset(reading.statement for reading in group))
        )
        used.update(reading.statement for reading in group)
    return result


def _one_a_day(group: Sequence[Reading], times: Sequence[datetime]) -> list[Reading]:
    """The last reading of each day, in order of time."""
    by_day = {times[reading.statement].date(): reading for reading in sorted(group, key=lambda reading: times[reading.statement])}
    return [by_day[day] for day in sorted(by_day)]


def name_of(group: Sequence[Reading]) -> str:
    """What is measured, as it is mostly called; of equals the longer."""
    names = Counter(reading.name for reading in group)
    return max(names, key=lambda name: (names[name], len(name)))


def recurring(statements: Mapping[int, str], times: Sequence[datetime]) -> list[Found]:
    """What happens again and again: on which days of the week, or on how many days. The most frequent first."""
    result: list[Found] = []
    for group in sorted(_alike(statements), key=len, reverse=True):
        days = sorted({times[number].date() for number in group})
        step = max((step for step in STEPS if step <= len(days)), default=0)
        if not step:
            continue
        shortest = quote(min((statements[number] for number in group), key=len), MAX_QUOTED).rstrip("。.!！ ")
        language = language_of(shortest)
        weekdays = Counter(day.weekday() for day in days)
        first, last = times[group[0]], times[group[-1]]
        habit = len(weekdays) <= MOST_WEEKDAYS and min(weekdays.values()) >= LEAST_EACH and (days[-1] - days[0]).days >= 14
        span = period(first, last, language)
        if language == "zh":
            names = "、".join(WEEKDAYS["zh"][day] for day in sorted(weekdays))
            text = f"每逢{names}：{shortest}" if habit else f"{span}至少有{step}天：{shortest}"
        else:
            names = " and ".join(WEEKDAYS["en"][day] for day in sorted(weekdays))
            text = f"On {names}: {shortest}" if habit else f"On at least {step} days, {span}: {shortest}"
        result.append(Found(text, shortest, sorted(group[-MOST_EVIDENCE:]), frozenset(group)))
    return result


def _alike(statements: Mapping[int, str]) -> Iterator[list[int]]:
    """Groups of statements that say the same, with the same figures, each in its order."""
    groups: list[tuple[frozenset[str], frozenset[str], list[int]]] = []
    for number, statement in statements.items():
        words = frozenset(token for token in telling(statement) if not is_filler(token))
        if not LEAST_WORDS <= len(words) <= MOST_WORDS:
            continue
        figures = frozenset(word for word in words if any(char.isdigit() for char in word))
        alike = (group for first, shown, group in groups if shown == figures and len(first & words) >= SAME_WORDS * len(first | words))
        same = next(alike, None)
        if same is None:
            groups.append((words, figures, [number]))
        else:
            same.append(number)
    return (group for _, _, group in groups)


def period(first: datetime, last: datetime, language: Language) -> str:
    """From when to when, in days: 7 March to 5 September, 3月7日至9月5日; the month once, and years where they differ."""
    years, months = first.year != last.year, (first.year, first.month) != (last.year, last.month)
    if language == "zh":
        begin, end = (f"{f'{day.year}年' if years else ''}{day.month}月{day.day}日" for day in (first, last))
        return f"{begin}至{end if months else f'{last.day}日'}" if begin != end else begin
    begin, end = (f"{day.day} {MONTHS[day.month - 1]}{f' {day.year}' if years else ''}" for day in (first, last))
    return f"{begin if months else first.day} to {end}" if begin != end else begin


def is_said(thought: Found, known: Sequence[str]) -> bool:
    """Whether one of the texts says it already."""
    return any(normalise(thought.text) == normalise(text) for text in known)
