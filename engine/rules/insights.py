"""What is worth asking about many statements, and what they say together that none of them says alone.

What statements say in figures: whose blood pressure was 162, and what the rent came to.

A reading is a figure with what its clause says that it is the figure of: "the rent went up to 950". Only a
clause that says so has one: between the noun and the figure stand verbs of being and changing and nothing
else, and nothing in the statement denies, wants, proposes, refuses, plans or supposes it (``unreal.*.txt``).
Dates, times and ordinals are no readings.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby, pairwise

from engine.providers.questions import FocalPoints, Insight, InsightList, Insights, Points
from engine.rules.topics import topics
from engine.rules.triples import VERBS, tagged_words, word_list
from jiyi.text.words import (
    CJK,
    ENGLISH_STOP_WORDS,
    Language,
    is_filler,
    language_of,
    normalise,
    shortened,
    stem,
    telling,
)

#: Statements that are looked at; a reflection has dozens.
MAX_STATEMENTS = 500
#: Characters of a statement that are read, and that are quoted.
MAX_READ, MAX_QUOTED = 1_000, 160

QUESTIONS: dict[Language, str] = {"zh": "关于{}，有什么值得注意的？", "en": "What is known about {}?"}


def focal_points(question: FocalPoints) -> Points:
    """What has figures in several statements, then the most salient topics; else the statements."""
    statements = [statement[:MAX_READ] for statement in question.statements[:MAX_STATEMENTS]]
    measured = (name for name in _measured(statements) if normalise(name) != normalise(question.agent_id))
    topic_names = [topic.name for topic in topics(statements, question.count, question.agent_id)]
    names = list(dict.fromkeys([*measured, *topic_names]))
    names = names or [line for statement in statements if (line := shortened(statement, MAX_QUOTED))]
    names = names or [shortened(question.agent_id, MAX_QUOTED) or "…"]
    form = QUESTIONS[question.language]
    questions = [form.format(shortened(name, MAX_QUOTED)) for name in names[: question.count]]
    return Points(questions=list(dict.fromkeys(questions)))


def _measured(statements: list[str]) -> list[str]:
    """What several statements have figures of, the most first: one name each for who it is and what."""
    measured: dict[object, list[FigureReading]] = {}
    for number, statement in enumerate(statements):
        for reading in readings(number, statement):
            measured.setdefault(reading.attribute, []).append(reading)
    numbers = {whose: {reading.statement for reading in group} for whose, group in measured.items()}
    names: list[str] = []
    several = [whose for whose, where in numbers.items() if len(where) > 1]
    several.sort(key=lambda whose: -len(numbers[whose]))
    previous: list[set[int]] = []
    for whose in several:
        if not any(numbers[whose] <= other for other in previous):
            previous.append(numbers[whose])
            names.append(name_of(measured[whose]))
    return names


def insights(question: Insights) -> InsightList:
    """Courses of figures, and what comes again and again, with their days; nothing where statements have no
    times.

    Thoughts are no evidence, and what one of them says already is not said again. What concerns the focal
    point comes first.
    """
    texts = [statement[:MAX_READ] for statement in question.statements[:MAX_STATEMENTS]]
    if len(question.times) < len(texts):
        return InsightList(insights=[])
    times: list[datetime] = question.times
    thoughts = set(question.thoughts)
    in_order = sorted(enumerate(texts), key=lambda item: times[item[0]])
    statements = {number: text for number, text in in_order if number not in thoughts}
    thought_texts = {normalise(text) for number, text in enumerate(texts) if number in thoughts}
    focus = set(telling(question.focal_point))
    candidates = courses(statements, times)
    in_courses = {number for candidate in candidates for number in candidate.covers}
    others = {number: text for number, text in statements.items() if number not in in_courses}
    candidates += recurring(others, times)
    candidates.sort(key=lambda each: focus.isdisjoint(telling(each.about)))  # stable: else as they are
    result: dict[str, Insight] = {}
    for candidate in candidates:
        if normalise(candidate.text) not in thought_texts:
            result.setdefault(candidate.text, Insight(text=candidate.text, evidence=candidate.evidence))
    return InsightList(insights=list(result.values())[: question.count])


#: A course has at least so many readings, each of a day of its own, and shows the last ones.
LEAST_READINGS, MOST_READINGS = 3, 8
#: Something happens again and again from so many days on; how often is said in these steps, so that it is not
#: said again each time.
STEPS = (3, 5, 10, 20, 50, 100, 200)
#: A habit has at most so many days of the week, and each at least twice.
MOST_WEEKDAYS, LEAST_EACH = 2, 2
#: Two statements say the same if they share this part of their telling words, and have so many.
SAME_WORDS, LEAST_WORDS = 0.6, 2
#: Statements that a thought rests on, at most: the latest.
MOST_EVIDENCE = 12

MONTHS = "January February March April May June July August September October November December".split()
WEEKDAYS: dict[Language, list[str]] = {
    "zh": [f"周{day}" for day in "一二三四五六日"],
    "en": [f"{day}days" for day in ("Mon", "Tues", "Wednes", "Thurs", "Fri", "Satur", "Sun")],
}


@dataclass(frozen=True, slots=True)
class DerivedThought:
    """A thought, what it is about, and the numbers of the statements that it rests on."""

    text: str
    about: str
    evidence: list[int]
    #: The statements that it leaves nothing to say of: its evidence, and what is older.
    covers: frozenset[int]


def courses(statements: Mapping[int, str], times: Sequence[datetime]) -> list[DerivedThought]:
    """How figures went, the most readings first; each statement is used for one course of a person."""
    groups: dict[tuple[object, ...], list[FigureReading]] = {}
    for number, statement in statements.items():
        for reading in readings(number, statement):
            groups.setdefault((*reading.attribute, reading.unit, reading.language), []).append(reading)
    result: list[DerivedThought] = []
    used: set[int] = set()

    def size(group: list[FigureReading]) -> tuple[int, int]:
        return len(group), max(len(reading.name) for reading in group)

    for group in sorted(groups.values(), key=size, reverse=True):
        if not _is_one_thing(group):
            continue
        each = _one_a_day([reading for reading in group if reading.statement not in used], times)
        amounts = [reading.amount for reading in each]
        if len(each) < LEAST_READINGS or len(set(amounts)) < 2:
            continue
        latest = each[-MOST_READINGS:]
        measured, language = name_of(each), each[-1].language
        values = " → ".join(reading.value for reading in latest)
        span = period(times[latest[0].statement], times[latest[-1].statement], language)
        zh, en = f"{measured}：{values}，{span}", f"{measured[:1].upper()}{measured[1:]}: {values}, {span}"
        covers = frozenset(reading.statement for reading in group)
        evidence = sorted(reading.statement for reading in latest)
        result.append(DerivedThought(zh if language == "zh" else en, measured, evidence, covers))
        used |= covers
    return result


def _is_one_thing(group: Sequence[FigureReading]) -> bool:
    """Of the blood pressure and the pressure, not of that and the tyre pressure."""
    names = sorted({reading.nouns for reading in group}, key=len)
    return all(shorter <= longer for shorter, longer in pairwise(names))


def _one_a_day(group: Sequence[FigureReading], times: Sequence[datetime]) -> list[FigureReading]:
    """The last reading of each day, in order of time."""
    in_order = sorted(group, key=lambda reading: times[reading.statement])
    by_day = {times[reading.statement].date(): reading for reading in in_order}
    return [by_day[day] for day in sorted(by_day)]


def name_of(group: Sequence[FigureReading]) -> str:
    """The most frequent name of what is measured; of equals the longer."""
    names = Counter(reading.name for reading in group)
    return max(names, key=lambda name: (names[name], len(name)))


def recurring(statements: Mapping[int, str], times: Sequence[datetime]) -> list[DerivedThought]:
    """What happens again and again, on which weekdays or on how many days; the most frequent first."""
    result: list[DerivedThought] = []
    for group in sorted(_similar_groups(statements), key=len, reverse=True):
        days = sorted({times[number].date() for number in group})
        step = max((step for step in STEPS if step <= len(days)), default=0)
        if not step:
            continue
        shortest = min((statements[number] for number in group), key=len)
        shortest = shortened(shortest, MAX_QUOTED).rstrip("。.!！ ")
        language = language_of(shortest)
        weekdays = Counter(day.weekday() for day in days)
        first, last = times[group[0]], times[group[-1]]
        often = len(weekdays) <= MOST_WEEKDAYS and min(weekdays.values()) >= LEAST_EACH
        habit = often and (days[-1] - days[0]).days >= 14
        span = period(first, last, language)
        if language == "zh":
            names = "、".join(WEEKDAYS["zh"][day] for day in sorted(weekdays))
            text = f"每逢{names}：{shortest}" if habit else f"{span}至少有{step}天：{shortest}"
        else:
            names = " and ".join(WEEKDAYS["en"][day] for day in sorted(weekdays))
            text = f"On {names}: {shortest}" if habit else f"On at least {step} days, {span}: {shortest}"
        result.append(DerivedThought(text, shortest, sorted(group[-MOST_EVIDENCE:]), frozenset(group)))
    return result


def _similar_groups(statements: Mapping[int, str]) -> Iterator[list[int]]:
    """Groups of statements that say the same, with the same figures, each in its order."""
    groups: list[tuple[frozenset[str], frozenset[str], list[int]]] = []
    for number, statement in statements.items():
        words = frozenset(token for token in telling(statement) if not is_filler(token))
        if not LEAST_WORDS <= len(words) <= MOST_WORDS or not states(statement):
            continue
        figures = frozenset(word for word in words if any(char.isdigit() for char in word))
        for first, group_figures, group in groups:
            if group_figures == figures and len(first & words) >= SAME_WORDS * len(first | words):
                group.append(number)
                break
        else:
            groups.append((words, figures, [number]))
    return (group for _, _, group in groups)


def period(first: datetime, last: datetime, language: Language) -> str:
    """In days: 7 March to 5 September, 3月7日至9月5日; the month once, and years where they differ."""
    years, months = first.year != last.year, (first.year, first.month) != (last.year, last.month)
    if language == "zh":
        begin, end = (f"{f'{day.year}年' if years else ''}{day.month}月{day.day}日" for day in (first, last))
        return f"{begin}至{end if months else f'{last.day}日'}" if begin != end else begin
    begin, end = (
        f"{day.day} {MONTHS[day.month - 1]}{f' {day.year}' if years else ''}" for day in (first, last)
    )
    return f"{begin if months else first.day} to {end}" if begin != end else begin


#: Words before a figure that are looked at: what is measured stands close to it.
NEAR = 6
#: A text of more telling words has figures of many things.
MOST_WORDS = 30
#: Characters of a statement that are looked at.
MAX_CHARS = 400

#: Chinese numerals from 110 on: 一百六十二. Shorter ones are mostly in words (十分), and no readings.
_NUMERAL = re.compile(r"[一二两三四五六七八九][千百][零一二三四五六七八九十百]{1,6}+(?![点分万亿])")
_DIGITS = {char: value for value, char in enumerate("零一二三四五六七八九")} | {"两": 2}
_UNITS = {"十": 10, "百": 100, "千": 1_000}
_CLAUSE_END = re.compile(r"[，。！？；;!?\n]|[,.](?=\s|\Z)")
_FIGURE = re.compile(
    r"(?<![A-Za-z\d.:/-])[£$€¥]?(\d{2,3}/\d{2,3}|\d{1,3}(?:,\d{3})+|\d{1,6})(\.\d{1,3})?(?![\d:/-]|\.\d)"
)
#: After a figure that is a day, a time, or one of a row: 19 June, 7 pm, 3rd, 八月 25 号.
_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6}"
_NO_READING = re.compile(
    r"\s{0,3}(?:年|月|日|号|点|时|分(?!钟)|岁生|am\b|pm\b|o'clock|st\b|nd\b|rd\b|th\b"
    rf"|{_MONTH}\b)",
    re.IGNORECASE,
)
_DATE_BEFORE = re.compile(
    rf"{_MONTH}\s{{0,3}}\Z|\b(?:in|since|until|at|page|no\.?|number)\s{{0,3}}\Z|第\Z", re.IGNORECASE
)
_UNIT = re.compile(
    r"\s?(%|°C?|kg|km|cm|mm|mmHg|ml|g|公斤|千克|斤|公里|厘米|毫米|元|块|度|分钟|小时|毫克|片|"
    r"kilos?|pounds?|miles?|euros?|degrees|minutes|hours)(?![a-z])",
    re.IGNORECASE,
)
_POSSESSIVE = re.compile(r"['’]s\Z")
_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")

#: People by what they are called at home, each as one.
_KIN = """
妈妈=妈=母亲 爸爸=爸=父亲 爷爷 奶奶 外婆 外公 弟弟 妹妹 哥哥 姐姐 儿子 女儿 老公=丈夫 老婆=妻子
mother=mum=mom father=dad grandma grandpa wife husband brother sister son daughter
"""
KIN = {name: names.split("=")[0] for names in _KIN.split() for name in names.split("=")}
#: End in 's and own nothing.
_NO_OWNERS = frozenset("it that this there here he she who what let".split())
#: Other words for the same measure.
SAME = {"高压": "血压", "收缩压": "血压"}
#: What may stand between a noun and its figure: verbs of being and of changing, and what goes with them.
_CHANGES = frozenset(
    map(
        stem,
        """came come went go gone fell fall fallen rose rise risen drop climb grew grow grown increase
        decrease reduce lower raise set change move reach hit stand stood measure read cut""".split(),
    )
)
_UP_OR_DOWN = frozenset({"up", "down"})
_BEING = (
    "is was are were be been has have had now currently again still just already only today yesterday at to"
    " of a an the back i we"
)
_LINKS = _CHANGES | _UP_OR_DOWN | frozenset(map(stem, _BEING.split()))
_CHINESE_LINK = re.compile(
    r"[\s：:，,=是为到了降升涨跌减增加落回调至成的已经现在又今昨天有变达测量得出高低上下]{0,12}"
)
#: Ties a noun to the one before it, with articles between.
_ATTACHES = frozenset("of for in at on from".split())
_ARTICLES = frozenset("the a an my our this next last".split())
#: Whose it is, without a name.
_ELSES = frozenset("his her their your its".split())
_CHINESE_ELSES = frozenset("他 她 它 他们 她们 你 您 别人 人家 对方".split())
_CHINESE_OWN = frozenset("我 我们 咱 咱们 自己 家里".split())
_ASKS = re.compile(r"[?？]")
_SPEAKER = re.compile(rf"(user|[A-Z][\w'’-]{{0,30}}(?: [A-Z][\w'’-]{{0,30}}){{0,2}}|[{CJK}]{{2,6}})[:：] ?")
_OWN = re.compile(r"\b(?:i|my|we|our)\b|[我咱]", re.IGNORECASE)
#: What a memory calls who speaks.
_USERS = frozenset({"user", "用户"})
#: Verbs that name what they measure, or that are nouns where something is measured.
MEASURING = frozenset("weigh cost rent score price weight count run".split())


@dataclass(frozen=True, slots=True)
class FigureReading:
    """A figure as written, with its unit; ``who`` and ``key``: whose and what, ``name``: in its own words."""

    statement: int
    who: str
    key: str
    #: What else it is of: the rent of the *flat*, the *neighbour's* rent, the budget for *next year*.
    of: frozenset[str]
    #: The nouns that stand together with it: *blood* pressure.
    nouns: frozenset[str]
    name: str
    value: str
    language: Language

    @property
    def attribute(self) -> tuple[str, str, frozenset[str]]:
        """What readings have to have in common to be of one course."""
        return self.who, self.key, self.of

    @property
    def amount(self) -> float:
        return float(_NUMBER.findall(self.value)[0].replace(",", ""))

    @property
    def unit(self) -> str:
        """What stands around the number: kg, €; empty where nothing does."""
        return normalise(_NUMBER.sub("", self.value)).strip(" /")


def readings(number: int, statement: str) -> list[FigureReading]:
    """One for each noun of what a clause's only figure is of; nothing where a clause has several."""
    speaker, text = _speaker(statement[:MAX_CHARS])
    language = language_of(text)
    result: list[FigureReading] = []
    if len(telling(text)) > MOST_WORDS or not states(text):
        return result
    clauses = _clauses(_NUMERAL.sub(lambda numeral: str(_number(numeral.group())), text))
    # Who is named last may be meant before; of several people only those who were.
    people = {person for clause in clauses if (person := _person(clause, language))}
    who, called = people.pop() if len(people) == 1 else (speaker, speaker)
    for clause in clauses:
        who, called = _person(clause, language) or (who, called)
        figures = [match for match in _FIGURE.finditer(clause) if not _is_date(clause, match)]
        if len(figures) != 1:
            continue
        figure = figures[0]
        unit = _UNIT.match(clause, figure.end())
        value = figure.group().strip() + (unit.group() if unit else "")
        measured = (_measured_zh if language == "zh" else _measured_en)(clause[: figure.start()])
        if measured is None or (measured.elses and not who):
            continue
        nouns = frozenset(SAME.get(key, key) for _, key in measured.nouns)
        for name, key in measured.nouns:
            what, says = (SAME[key], SAME[key]) if key in SAME else (key, name)
            of = measured.of - {normalise(called), normalise(who)}
            whose = _whose(called, says, language)
            result.append(FigureReading(number, who, what, of, nouns, whose, value, language))
    return result


def _speaker(text: str) -> tuple[str, str]:
    """Who speaks of themselves, if the text says so ("Ana: my rent is 900"), and the text without that."""
    match = _SPEAKER.match(text)
    if match is None:
        return "", text
    rest = text[match.end() :]
    if match[1].lower() in _USERS:
        return "", rest
    return (match[1], rest) if _OWN.search(rest) else ("", text)


def states(text: str) -> bool:
    """Whether a text states how things are: nothing is denied, wanted, planned, supposed or asked."""
    cues = word_list("unreal").find(normalise(text))
    return not _ASKS.search(text) and all(cue.label != "unreal" for cue in cues)


def _clauses(text: str) -> list[str]:
    """The clauses of a text; one that is a bare figure belongs to the one before: 量血压，134."""
    clauses: list[str] = []
    for clause in _CLAUSE_END.split(text):
        if clauses and _FIGURE.fullmatch(clause.strip()):
            clauses[-1] += f" {clause.strip()}"
        else:
            clauses.append(clause)
    return clauses


def _number(numeral: str) -> int:
    """The value of a Chinese numeral below 10,000; 一百五 is 150. ValueError for what is none."""
    if strange := set(numeral) - _DIGITS.keys() - _UNITS.keys():
        raise ValueError(f"no Chinese numeral, it has {min(strange)!r}")
    total, digit, last = 0, 0, 1
    for char in numeral:
        if char in _UNITS:
            last = _UNITS[char]
            total, digit = total + max(digit, 1) * last, 0
        else:
            digit, last = _DIGITS[char], 1 if char == "零" else last
    return total + digit * (last // 10 or 1)


def _is_date(clause: str, figure: re.Match[str]) -> bool:
    if _UNIT.match(clause, figure.end()):
        return False
    year = figure.group(2) is None and figure.group(1).isdecimal() and 1900 <= int(figure.group(1)) <= 2100
    return bool(
        year or _NO_READING.match(clause, figure.end()) or _DATE_BEFORE.search(clause, 0, figure.start())
    )


def _person(clause: str, language: Language) -> tuple[str, str] | None:
    """Somebody in the clause, and what it calls them."""
    if language == "zh":
        words = tagged_words(clause)
        people = (word for word, tag in words if word in KIN or (tag == "nr" and len(word) > 1))
        return next(((KIN.get(word, word), word) for word in people), None)
    tokens = _WORD.findall(clause)
    plain = [_POSSESSIVE.sub("", word) for word in tokens]
    relative = next(((KIN[word.lower()], word) for word in plain if word.lower() in KIN), None)
    owners = (name for word, name in zip(tokens, plain, strict=True) if word != name and word[:1].isupper())
    return relative or next(((name, name) for name in owners if name.lower() not in _NO_OWNERS), None)


def _whose(called: str, name: str, language: Language) -> str:
    if not called or name.startswith(called):
        return name
    return f"{called}的{name}" if language == "zh" else f"{called}'s {name}"


@dataclass(frozen=True, slots=True)
class _Measured:
    """(name, key) of each noun, what these are of, and whether that is somebody not named ("her rent")."""

    nouns: list[tuple[str, str]]
    of: frozenset[str]
    elses: bool


def _measured_en(before: str) -> _Measured | None:
    """What the words before a figure say that it is of; None where they do not say so."""
    words = [match.group() for match in _WORD.finditer(before)][-NEAR:]
    plain = [_POSSESSIVE.sub("", word) for word in words]
    is_noun = [_is_english_noun(word) for word in plain]
    if True not in is_noun:
        return None
    last = len(words) - is_noun[::-1].index(True)
    link = [stem(normalise(word)) for word in words[last:]]
    if not _LINKS.issuperset(link) or (not _UP_OR_DOWN.isdisjoint(link) and _CHANGES.isdisjoint(link)):
        return None
    grouped = groupby(enumerate(is_noun), key=lambda item: item[1])
    runs = [[place for place, _ in run] for noun, run in grouped if noun]
    head = len(runs) - 1
    while head and _is_attached(words[runs[head - 1][-1] + 1 : runs[head][0]]):
        head -= 1
    of = {stem(normalise(plain[place])) for run in runs[head + 1 :] for place in run}
    owners = [place for place in runs[head] if words[place] != plain[place]]
    of |= {stem(normalise(plain[place])) for place in owners}
    nouns = [plain[place] for place in runs[head] if place not in owners]
    before_it = normalise(words[runs[head][0] - 1]) if runs[head][0] else ""
    if not nouns:
        return None
    name = " ".join(words[runs[head][0] : last])
    return _Measured([(name, stem(normalise(word))) for word in nouns], frozenset(of), before_it in _ELSES)


def _is_attached(between: Sequence[str]) -> bool:
    words = [word.lower() for word in between]
    return words[:1] != [] and words[0] in _ATTACHES and _ARTICLES.issuperset(words[1:])


def _measured_zh(before: str) -> _Measured | None:
    """The same in Chinese; what stands together with a noun belongs to its name: 空腹血糖."""
    words = tagged_words(before)[-NEAR:]
    is_noun = [
        tag.startswith(("n", "vn")) and tag != "nr" and word not in KIN and len(word) > 1
        for word, tag in words
    ]
    if True not in is_noun:
        return None
    last = len(words) - is_noun[::-1].index(True)
    if not _CHINESE_LINK.fullmatch("".join(word for word, _ in words[last:])):
        return None
    first = last - 1
    while first and is_noun[first - 1]:
        first -= 1
    owner, tag = words[first - 2] if first > 1 and words[first - 1][0] == "的" else ("", "")
    whose = {owner} - _CHINESE_OWN if owner and tag != "nr" and owner not in KIN else set()
    run = [word for word, _ in words[first:last]]
    name = "".join(word for word, _ in words[first - 2 if whose - _CHINESE_ELSES else first : last])
    nouns = [(name, stem(normalise(word))) for word in run]
    return _Measured(nouns, frozenset(whose - _CHINESE_ELSES), bool(whose & _CHINESE_ELSES))


def _is_english_noun(word: str) -> bool:
    plain = normalise(word)
    if stem(plain) in MEASURING:
        return True
    grammar = plain in ENGLISH_STOP_WORDS or plain in VERBS or plain.endswith(("ly", "ing", "ed"))
    # I've is a word, and no noun.
    return len(plain) > 2 and not grammar and plain not in KIN and plain.isalpha()
