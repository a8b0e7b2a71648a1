"""Who does what to whom, by patterns. Any text that is not blank gives a triple; "I" and 我 are the agent.

How poignant a memory is, from its words: what weighs most in it decides.

=====  ==============================================================
1 – 2  small talk; routine: sleeping, brushing teeth, meals, coffee, tidying up
3 – 4  ordinary; 4 with people, learning, numbers, or as a thought
5 – 6  plans, preferences, decisions, money, trouble, feelings; 6 what somebody would be hurt by if it were
       forgotten: diet, health, fears, family, where they live, promises (allergies weigh 7)
7 – 8  accidents, illness, jobs lost and won, moving, secrets
9 – 10 deaths, births, weddings, divorces
=====  ==============================================================

A strong word that is denied weighs less, emphasis adds one; so does a second and third strong word.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

from engine.providers.questions import Facts, Poignancy, Triple
from engine.text.keywords import verbs
from jiyi.text.words import (
    CJK,
    beginning,
    is_filler,
    language_of,
    normalise,
    one_line,
    shortened,
    stem,
    telling,
)

#: "haha nice", 嗯嗯: nobody will ask for it.
SMALL_TALK = 1
ORDINARY = 3
#: From here on a word outweighs the routine that it stands in: "breakfast" does not make a wedding less.
STRONG = 5
#: As many different words of this weight add one to the strongest.
GRAVE, GRAVE_COUNT = 6, 3
#: What a denial takes away: "nobody was hurt" still matters more than breakfast.
DENIED = 2
#: A denial counts when it ends at most so many characters before the word.
REACH_CHINESE, REACH_ENGLISH = 2, 16
MOST, LEAST = 10, 1

_SENTENCE_END = re.compile(r"[.!?;,。！？；，]")


@dataclass(frozen=True, slots=True)
class WeighedText:
    """A poignancy, with what made it."""

    poignancy: int
    reasons: list[str]


def weigh(question: Poignancy) -> WeighedText:
    """The poignancy of a text, and why."""
    text = beginning(question.text)
    cues = list(word_list("cues").find(text))
    if says_nothing(text, [cue for cue in cues if cue.label == "small_talk"]):
        return WeighedText(SMALL_TALK, ["small talk"])
    denials = sorted(cue.end for cue in cues if cue.label == "negation")
    weighed: dict[str, int] = {}
    for word in word_list("weights").find(text):
        if word.label != "0":
            level = int(word.label)
            if level >= STRONG and _denied(text, word, denials):
                level = max(ORDINARY, level - DENIED)
            weighed[word.phrase] = max(level, weighed.get(word.phrase, 0))
    level = _level(weighed, detailed=any(char.isdigit() for char in text), thought=question.kind == "thought")
    reasons = [f"{phrase}: {weight}" for phrase, weight in sorted(weighed.items(), key=lambda item: -item[1])]
    if level >= STRONG:
        if "!" in text or any(cue.label == "emphasis" for cue in cues):
            level += 1
            reasons.append("emphasis: +1")
        if sum(weight >= GRAVE for weight in weighed.values()) >= GRAVE_COUNT:
            level += 1
            reasons.append("several strong words: +1")
    return WeighedText(max(LEAST, min(MOST, level)), reasons)


def says_nothing(text: str, small_talk: list[PhraseMatch]) -> bool:
    """Whether a text is small talk only: greetings, thanks and the like, and no information."""
    rest = list(text)
    for phrase in small_talk:
        rest[phrase.start : phrase.end] = " " * (phrase.end - phrase.start)
    return all(is_filler(token) for token in telling("".join(rest)))


def _level(weighed: dict[str, int], *, detailed: bool, thought: bool) -> int:
    heaviest, lightest = max(weighed.values(), default=ORDINARY), min(weighed.values(), default=ORDINARY)
    if heaviest >= STRONG:
        return heaviest
    if lightest < ORDINARY:  # routine, unless something else is there too
        return lightest if heaviest < ORDINARY else ORDINARY
    return ORDINARY + 1 if heaviest > ORDINARY or detailed or thought else ORDINARY


def _denied(text: str, word: PhraseMatch, denials: list[int]) -> bool:
    """``denials``: where they end, in order."""
    reach = REACH_ENGLISH if text[word.start].isascii() else REACH_CHINESE
    near = denials[bisect_left(denials, word.start - reach) : bisect_right(denials, word.start)]
    return any(not _SENTENCE_END.search(text, end, word.start) for end in near)


#: Marks around words.
TRIM = " \t\"'“”‘’「」『』()（）[]【】,，、。.!?！？:：;；…-–—*#"
_CJK_RUN = re.compile(rf"[{CJK}]+")
_WORD = re.compile(rf"[^\W\d_{CJK}]+(?:['’][^\W\d_{CJK}]+)?")
_POSSESSIVE = re.compile(r"['’]s\Z")


@dataclass(frozen=True, slots=True)
class PhraseMatch:
    """A phrase of a list in a text; ``start`` and ``end`` are places in the normalised text."""

    label: str
    phrase: str
    start: int
    end: int


class WordList:
    """Labelled phrases of one language."""

    def __init__(self, source: str) -> None:
        self._chinese: dict[str, str] = {}
        self._stemmed: dict[tuple[str, ...], str] = {}
        for line in source.splitlines():
            label, colon, phrases = line.partition(":")
            if line.startswith("#") or not colon:
                continue
            for phrase in map(str.strip, normalise(phrases).split(",")):
                if _CJK_RUN.search(phrase):
                    self._chinese[phrase] = label
                else:
                    self._stemmed[tuple(stem(word) for word in phrase.split())] = label
        longest_first = sorted(map(re.escape, self._chinese), key=len, reverse=True)
        self._pattern = re.compile("|".join(longest_first)) if longest_first else None
        self._longest = max(map(len, self._stemmed), default=0)

    def find(self, text: str) -> Iterator[PhraseMatch]:
        """The list's phrases in a normalised text."""
        if self._pattern is not None:
            for match in self._pattern.finditer(text):
                yield PhraseMatch(self._chinese[match.group()], match.group(), match.start(), match.end())
        if self._stemmed:
            yield from self._find_words(list(_WORD.finditer(text)))

    def _find_words(self, words: list[re.Match[str]]) -> Iterator[PhraseMatch]:
        stems = [stem(_POSSESSIVE.sub("", match.group()).replace("’", "'")) for match in words]
        place = 0
        while place < len(stems):
            for length in range(min(self._longest, len(stems) - place), 0, -1):
                label = self._stemmed.get(tuple(stems[place : place + length]))
                if label is not None:
                    phrase, last = " ".join(stems[place : place + length]), words[place + length - 1]
                    yield PhraseMatch(label, phrase, words[place].start(), last.end())
                    place += length
                    break
            else:
                place += 1


@lru_cache
def word_list(name: str) -> WordList:
    """The lists ``<name>.en.txt`` and ``<name>.zh.txt`` as one: many texts mix both languages."""
    return WordList("\n".join(read(f"{name}.{language}.txt") for language in ("en", "zh")))


def read(file: str) -> str:
    """A file that lies beside this module."""
    return files(__package__).joinpath(file).read_text(encoding="utf-8")


#: Only the beginning of a text is looked at: who and what stand there.
MAX_CHARS = 400
#: Longer parts make poor keywords.
MAX_PART_CHARS = 80

#: What ends a clause. A colon does only before what is quoted: 10:30 and world:sector:arena go on.
_CLAUSE_END = re.compile(r"[。！？；;!?\n]|\.(?=\s|\Z)|(?<=\S)[：:](?=\s|[“\"「])| [-–—] ")
_SELF = frozenset({"i", "me", "we", "我", "我们", "咱", "咱们", "自己", "本人"})


def triple(question: Triple) -> Facts:
    """The first clause with a verb; else the agent, "is" or 说, and the text."""
    text = question.text.strip()[:MAX_CHARS]
    first = next((parts for clause in _CLAUSE_END.split(text) if (parts := _parts(clause.strip(TRIM)))), None)
    subject, predicate, object_ = first or ("", "", "")
    return Facts(
        subject=_part("" if subject.lower() in _SELF else subject) or _part(question.agent_id) or "?",
        predicate=_part(predicate) or ("说" if language_of(text) == "zh" else "is"),
        object=_part(object_) or _part(text) or "?",
    )


def _parts(clause: str) -> tuple[str, str, str] | None:
    if not clause:
        return None
    return chinese_parts(clause) if language_of(clause) == "zh" else english_parts(clause)


def _part(text: str) -> str:
    return shortened(one_line(text).strip(TRIM), MAX_PART_CHARS)


MAX_SUBJECT_WORDS = 8

_BE = frozenset(
    """is are was were am be been being 's i'm we're they're you're he's she's it's
    isn't aren't wasn't weren't""".split()
)
_HELPING = _BE | frozenset(
    """has have had will would can could should may might must do does did cannot won't can't couldn't
    wouldn't shouldn't doesn't don't didn't hasn't haven't hadn't
    i'll he'll she'll we'll they'll you'll i've we've they've you've""".split()
)
#: Between a helping verb and its verb.
_BETWEEN = frozenset(
    """not never also just still already now always often only really finally again currently going to
    usually sometimes probably quickly quietly slowly soon almost even both""".split()
)
#: Belong to the verb that they follow: wakes up, talks to.
_ENGLISH_PARTICLES = frozenset("to up out off on down away back about for with at into in over".split())
#: After one of these stands a noun, or a clause of its own.
_NOUN_FOLLOWS = frozenset(
    "the a an his her my your their our its of to for in on at with from by this that no".split()
)
_NO_VERB_FOLLOWS_HELPING = _NOUN_FOLLOWS | frozenset("as which who and or but if when while".split())
#: End like verbs and are none, or stand after the noun that they describe.
_NO_VERBS = frozenset(
    """red bed shed seed need speed hundred naked sacred wicked beloved united indeed sled named called
    based""".split()
)

#: "Yesterday, …", "On Monday morning, …": says when, not who.
_WHEN = re.compile(
    r"(?:(?:yesterday|today|tonight|tomorrow|now|then|later|finally|suddenly|and|but|so|also"
    r"|meanwhile)\b,?\s*"
    r"|(?:this|last|next|every|on|at|in|after|before|by|since|during)\b[^,]{1,30},\s*"
    r"|(?:this|last|next|every)\s(?:morning|afternoon|evening|night|week|month|year|\w+day)\s+)+",
    re.IGNORECASE,
)
_LEADING = re.compile(r"\A(?:and|or|but|the|a|an|his|her|my|your|their|our|its|some)\s+(?=\S)", re.IGNORECASE)


VERBS = verbs()


def english_parts(clause: str) -> tuple[str, str, str] | None:
    """Subject (empty if the clause begins with its verb), predicate and object; None if no verb is found."""
    words = _WHEN.sub("", clause, count=1).split() if _WHEN.match(clause) else clause.split()
    plain = [word.lower().strip(TRIM).replace("’", "'") for word in words]
    first = range(min(len(words), MAX_SUBJECT_WORDS + 1))
    at = next((place for place in first if _is_english_verb(words, plain, place)), None)
    if at is None:
        return None
    end = at + 1
    if plain[at] in _HELPING:
        after_be = plain[at] in _BE
        while end < len(words) and plain[end] in _BETWEEN | _HELPING:
            after_be = after_be or plain[end] in _BE
            end += 1
        end += end < len(words) and _follows_helping(plain[end], after_be=after_be)
    if end < len(words) - 1 and plain[end] in _ENGLISH_PARTICLES and plain[end - 1] not in _HELPING:
        end += 1
    subject = " ".join(words[:at])
    if not subject and "'" in plain[at]:  # I'll, she's
        subject = plain[at].partition("'")[0]
    return subject, " ".join(plain[at:end]), _LEADING.sub("", " ".join(words[end:]).partition(",")[0])


def _is_english_verb(words: list[str], plain: list[str], place: int) -> bool:
    word, before = plain[place], plain[place - 1] if place else ""
    if word in _HELPING:
        return place > 0 or "'" in word
    if before in _NOUN_FOLLOWS or word in _NO_VERBS:
        return False
    if word in VERBS or (word.endswith("ed") and len(word) > 4):
        return True
    if place == 0:
        return word.endswith("ing") and len(word) > 5
    names = all(name[:1].isupper() and not name.endswith(("'s", "’s")) for name in words[:place])
    return names and word.endswith("s") and not word.endswith(("ss", "us", "'s"))


def _follows_helping(word: str, *, after_be: bool) -> bool:
    if after_be:
        return word.endswith(("ing", "ed", "en")) or word in VERBS
    return word not in _NO_VERB_FOLLOWS_HELPING and word.isalpha()


MAX_SUBJECT_CHARS = 20

#: Tags of what a subject is made of, and of what joins it: nouns, names, pronouns, idioms, numbers, …
_NOUNS = ("n", "r", "eng", "s", "i", "l", "j", "vn", "an", "f", "m", "q", "b", "z", "c", "uj", "a")
#: Tags that end a subject: adverbs, times, prepositions.
_NO_SUBJECT = frozenset({"d", "ad", "zg", "t", "tg", "p"})
#: Verbs whatever the segmenter says.
_VERBS = frozenset("是 为 叫 姓 在 有 像 等于 去世 空闲 闲置 过敏".split())
#: Say little without the verb that follows: 打算去, 答应还.
_LIGHT = frozenset(
    "打算 准备 计划 决定 想 要 会 能 可以 应该 必须 需要 开始 继续 去 来 到 答应 正在 请 让 叫 使".split()
)
#: Belong to the verb that they follow.
_CHINESE_PARTICLES = frozenset("了 着 过 地 得 完 好 到 出 上 下 起 住 掉 给 成 在".split())
_DENIALS = frozenset({"不", "没", "没有", "别", "未"})
_JOINTS = frozenset({"和", "与", "的", "跟", "、", "在", "里", "上"})

_NAME_PREFIXES = frozenset("老小阿大")

Tagged = list[tuple[str, str]]


def chinese_parts(clause: str) -> tuple[str, str, str] | None:
    """Subject (empty if there is none), predicate and object; None if no verb is found."""
    tagged = tagged_words(clause)
    at = next((place for place in range(len(tagged)) if _is_chinese_verb(tagged, place)), None)
    if at is None:
        return None
    end = at + 1
    while end < len(tagged) and (
        tagged[end][0] in _CHINESE_PARTICLES
        or (tagged[end - 1][0] in _LIGHT and tagged[end][1].startswith("v"))
    ):
        end += 1
    subject, moved = _before(tagged[:at])
    denial = next((word for word, _ in tagged[max(0, at - 2) : at] if word in _DENIALS), "")
    predicate = "".join(word for word, _ in tagged[at:end]).removesuffix("了").removesuffix("着")
    return subject, denial + predicate, moved or _joined(tagged[end:])


def tagged_words(text: str) -> Tagged:
    """The words of a text with their chinese_parts of speech, in the tags of jieba."""
    import rjieba  # late: its dictionary is loaded with it

    return [(word, _tag(word, tag)) for word, tag in rjieba.tag(text) if word.strip()]


def _tag(word: str, tag: str) -> str:
    """老周 is no time, whatever the segmenter says."""
    return "nr" if tag == "t" and len(word) == 2 and word[0] in _NAME_PREFIXES else tag


def _is_chinese_verb(tagged: Tagged, place: int) -> bool:
    word, tag = tagged[place]
    if tag == "vn" or not (tag.startswith("v") or word in _VERBS):
        return False
    if tagged[place + 1 : place + 2] == [("的", "uj")] and place + 2 < len(tagged):
        return False  # 喜欢的书: it describes a noun
    return not (word == "在" and any(later.startswith("v") for _, later in tagged[place + 1 :]))  # 在家看书


def _before(tagged: Tagged) -> tuple[str, str]:
    """The subject, and the object if 把 has moved it before the verb."""
    subject: list[str] = []
    for place, (word, tag) in enumerate(tagged):
        if word in {"把", "将"} and subject:
            return _subject(subject), "".join(moved for moved, _ in tagged[place + 1 :])
        if word in {"，", ","}:
            subject = []  # 下午，他…: what stood before says when
        elif tag in _NO_SUBJECT:
            if subject:
                break
        elif tag.startswith(_NOUNS) or word == "、":
            subject.append(word)
    return _subject(subject), ""


def _subject(words: list[str]) -> str:
    while words and words[-1] in _JOINTS:
        words.pop()
    subject = "".join(words).strip(TRIM + "的")
    return subject if len(subject) <= MAX_SUBJECT_CHARS else ""


def _joined(tagged: Tagged) -> str:
    """Words up to the next comma; Latin ones keep their spaces."""
    text = "".join(f" {word} " if word.isascii() and len(word) > 1 else word for word, _ in tagged)
    return text.strip(TRIM + "了").replace("，", ",").partition(",")[0]
