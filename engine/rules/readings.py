"""What statements say in figures: whose blood pressure was 162, and what the rent came to.

A reading is a figure with the nouns before it in its clause. Dates, times and ordinals are no readings.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import groupby

from engine.rules.triples import VERBS, tagged_words
from jiyi.text.words import ENGLISH_STOP_WORDS, Language, language_of, normalise, stem, telling

#: Words before a figure that are looked at: what is measured stands close to it.
NEAR = 6
#: A text of more telling words has figures of many things.
MOST_WORDS = 30
#: Characters of a statement that are looked at.
MAX_CHARS = 400

#: Chinese numerals from 110 on: 一百六十二. Shorter ones are mostly in words (十分, 一百 times over), and no readings.
_NUMERAL = re.compile(r"[一二两三四五六七八九][千百][零一二三四五六七八九十百]{1,6}+(?![点分万亿])")
_DIGITS = {char: value for value, char in enumerate("零一二三四五六七八九")} | {"两": 2}
_UNITS = {"十": 10, "百": 100, "千": 1_000}
_CLAUSE_END = re.compile(r"[，。！？；;!?\n]|[,.](?=\s|\Z)")
_FIGURE = re.compile(r"(?<![A-Za-z\d.:/-])[£$€¥]?(\d{2,3}/\d{2,3}|\d{1,3}(?:,\d{3})+|\d{1,6})(\.\d{1,3})?(?![\d:/-]|\.\d)")
#: After a figure that is a day, a time, or one of a row: 19 June, 7 pm, 3rd, 八月 25 号.
_NO_READING = re.compile(
    r"\s{0,3}(?:年|月|日|号|点|时|分(?!钟)|岁生|am\b|pm\b|o'clock|st\b|nd\b|rd\b|th\b|"
    r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6}\b)",
    re.IGNORECASE,
)
_DATE_BEFORE = re.compile(
    r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6}\s{0,3}\Z|\b(?:in|since|until|at|page|no\.?|number)\s{0,3}\Z|第\Z",
    re.IGNORECASE,
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
KIN = {
    **{name: name for name in "妈妈 爸爸 爷爷 奶奶 外婆 外公 弟弟 妹妹 哥哥 姐姐 儿子 女儿 老公 老婆".split()},
    "妈": "妈妈",
    "母亲": "妈妈",
    "爸": "爸爸",
    "父亲": "爸爸",
    "丈夫": "老公",
    "妻子": "老婆",
    **{name: name for name in "mother father grandma grandpa wife husband brother sister son daughter".split()},
    "mum": "mother",
    "mom": "mother",
    "dad": "father",
}
#: End in 's and own nothing.
_NO_OWNERS = frozenset("it that this there here he she who what let".split())
#: Other words for the same measure.
SAME = {"高压": "血压", "收缩压": "血压"}
#: Verbs that name what they measure, or that are nouns where something is measured.
MEASURING = frozenset("weigh cost rent score price weight count run".split())


@dataclass(frozen=True, slots=True)
class Reading:
    """A figure as it is written, with its unit. ``who`` and ``key`` are whose and what, ``name`` is how the statement says it."""

    statement: int
    who: str
    key: str
    name: str
    value: str
    language: Language

    @property
    def amount(self) -> float:
        return float(_NUMBER.findall(self.value)[0].replace(",", ""))

    @property
    def unit(self) -> str:
        """What stands around the number: kg, €; empty where nothing does."""
        return normalise(_NUMBER.sub("", self.value)).strip(" /")


def readings(number: int, statement: str) -> list[Reading]:
    """The readings of a statement, one for each noun before its only figure; nothing where a clause has several."""
    text = statement[:MAX_CHARS]
    language = language_of(text)
    result: list[Reading] = []
    if len(telling(text)) > MOST_WORDS:
        return result
    clauses = _clauses(_NUMERAL.sub(lambda numeral: str(_number(numeral.group())), text))
    # Who is named last may be meant before; of several people only those who were.
    people = {person for clause in clauses if (person := _person(clause, language))}
    who, called = people.pop() if len(people) == 1 else ("", "")
    for clause in clauses:
        who, called = _person(clause, language) or (who, called)
        figures = [match for match in _FIGURE.finditer(clause) if not _is_date(clause, match)]
        if len(figures) != 1:
            continue
        figure = figures[0]
        unit = _UNIT.match(clause, figure.end())
        value = figure.group().strip() + (unit.group() if unit else "")
        for name, key in _nouns(clause[: figure.start()], language):
            what, says = (SAME[key], SAME[key]) if key in SAME else (key, name)
            result.append(Reading(number, who, what, _whose(called, says, language), value, language))
    return result


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
    return year or _NO_READING.match(clause, figure.end()) is not None or _DATE_BEFORE.search(clause, 0, figure.start()) is not None


def _person(clause: str, language: Language) -> tuple[str, str] | None:
    """Somebody in the clause, and what it calls them."""
    if language == "zh":
        people = (word for word, tag in tagged_words(clause) if word in KIN or (tag == "nr" and len(word) > 1))
        return next(((KIN.get(word, word), word) for word in people), None)
    words = [match.group() for match in _WORD.finditer(clause)]
    plain = [_POSSESSIVE.sub("", word) for word in words]
    known = next(((KIN[word.lower()], word) for word in plain if word.lower() in KIN), None)
    owners = (name for word, name in zip(words, plain, strict=True) if word != name and word[:1].isupper())
    return known or next(((name, name) for name in owners if name.lower() not in _NO_OWNERS), None)


def _whose(called: str, name: str, language: Language) -> str:
    if not called:
        return name
    return f"{called}的{name}" if language == "zh" else f"{called}'s {name}"


def _nouns(before: str, language: Language) -> list[tuple[str, str]]:
    """(name, key) of what may be measured; the name has all nouns that stand together with it: 空腹血糖."""
    if language == "zh":
        words = tagged_words(before)[-NEAR:]
        nouns = [(word, tag.startswith(("n", "vn")) and tag != "nr" and word not in KIN and len(word) > 1) for word, tag in words]
        joint = ""
    else:
        plain = [_POSSESSIVE.sub("", match.group()) for match in _WORD.finditer(before)][-NEAR:]
        nouns = [(word, _is_english_noun(word)) for word in plain]
        joint = " "
    runs = [[word for word, _ in run] for is_noun, run in groupby(nouns, key=lambda noun: noun[1]) if is_noun]
    return [(joint.join(run), stem(normalise(word))) for run in runs for word in run]


def _is_english_noun(word: str) -> bool:
    plain = normalise(word)
    if stem(plain) in MEASURING:
        return True
    grammar = plain in ENGLISH_STOP_WORDS or plain in VERBS or plain.endswith(("ly", "ing", "ed"))
    return len(plain) > 2 and not grammar and plain not in KIN and plain.isalpha()  # I've is a word, and no noun
