"""The judgements that are learned, and what each of them reads.

``facts``, ``kinds``, ``attributes`` read a message and what was said before it; ``satisfaction`` the messages
of an exchange, the newest last; ``requests`` and ``keeping`` one message; ``changes`` an older and a newer
statement. Texts in another language than English and Chinese, and texts without a letter, are not judged.

Which older statements hold no longer, by newer ones: the head's judgement, and what it may never decide
alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from engine.heads.model import (
    MIN_NORM,
    WIDTH,
    Features,
    HeadWeights,
    Inputs,
    grams,
    is_readable,
    normalise,
    plain,
    stacked,
)
from engine.text.statements import CHANGE
from jiyi.text.words import CJK

#: ``(n, 2 * WIDTH)``: vectors of the last layer and of the one in between (``LocalEmbedder.layers``).
Embed = Callable[[Sequence[str]], Features]
#: Vectors by text.
Vectors = Mapping[str, Features]
#: What was said before and the message, or an older statement and a newer one.
Pair = tuple[str, str]

FACTS, KINDS, ATTRIBUTES, SATISFACTION = "facts", "kinds", "attributes", "satisfaction"
REQUESTS, CHANGES = "requests", "changes"
#: Whether a part of an earlier message holds no longer (``engine.conversations.endings``).
ENDINGS = "endings"
#: Labels of ``endings``, and the name of its thresholds by the share of messages that end nothing.
ENDED, HOLDS, LIKELY = "ended", "holds", "likely"
#: Whether a message asks that it is not kept, or that something is forgotten; and its labels.
KEEPING = "keeping"
PRIVATE, FORGET, NOTHING = "private", "forget", "none"
#: What weights have to have a head for.
JUDGEMENTS = (FACTS, KINDS, ATTRIBUTES, SATISFACTION, REQUESTS, CHANGES, ENDINGS, KEEPING)
#: Labels of ``facts``.
LASTING, PASSING = "lasting", "passing"
#: Labels of ``changes`` by which the older statement holds no longer.
RETIRING = ("replaces", "ends")
#: Name of the threshold of a head whose labels are all handled the same way.
ANY = "any"
#: Texts that are embedded by one call.
TOGETHER = 64

#: A day that was worked out for a memory is no word of it.
WORKED_OUT = re.compile(r" ?\(\d{4}(?:-\d{2}(?:-\d{2}[^()]{0,20})?)?\)")
_NUMBER = re.compile(r"\d+")
_CHINESE = re.compile(f"[{CJK}]")
#: Shared n-grams beyond this number say no more.
MOST_SHARED = 10
#: Letters of a Latin n-gram that say what a text is about.
TELLING_LETTERS = 4


@dataclass(frozen=True, slots=True)
class Judged:
    """The likeliest label, its probability, and those of all labels."""

    label: str
    probability: float
    probabilities: Mapping[str, float]


class Heads:
    """Judges texts. Thread-safe, if ``embed`` is.

    ``change_precision`` is how often it should be right that a statement takes back an older one; 0: as the
    head was trained for.
    """

    def __init__(self, weights: HeadWeights, embed: Embed, change_precision: float = 0.0) -> None:
        self._weights, self._embed = weights, embed
        self.change_precision = change_precision

    def with_weights(self, weights: HeadWeights) -> Heads:
        """Others that judge vectors of the same embedder."""
        return Heads(weights, self._embed, self.change_precision)

    def facts(self, texts: Sequence[Pair]) -> list[Judged | None]:
        """Whether each message, after the one before, is worth knowing: ``lasting`` or ``passing``."""
        return self._in_context(FACTS, texts)

    def kinds(self, texts: Sequence[Pair]) -> list[Judged | None]:
        """Of lasting messages: ``preference``, ``knowledge`` or ``experience``."""
        return self._in_context(KINDS, texts)

    def attributes(self, texts: Sequence[Pair]) -> list[Judged | None]:
        """Of lasting messages: what it is about, such as ``home`` or ``allergy``."""
        return self._in_context(ATTRIBUTES, texts)

    def satisfaction(self, exchanges: Sequence[Sequence[str]]) -> list[Judged | None]:
        """``positive``, ``negative`` or ``neutral``, by each exchange's last two messages."""
        return self._in_context(
            SATISFACTION, [(texts[-2] if len(texts) > 1 else "", texts[-1]) for texts in exchanges]
        )

    def requests(self, texts: Sequence[str]) -> list[Judged | None]:
        """What each asks of the agent's appointments: ``new``, ``cancel``, ``move``, ``list`` or ``none``."""
        return self._in_context(REQUESTS, [("", text) for text in texts])

    def keeping(self, texts: Sequence[str]) -> list[Judged | None]:
        """What each asks of the memory: ``private``, ``forget`` (something said before) or ``none``."""
        return self._in_context(KEEPING, [("", text) for text in texts])

    def changes(self, pairs: Sequence[Pair]) -> list[Judged | None]:
        """What each newer one does: ``replaces``, ``ends``, ``adds``, ``repeats`` or ``unrelated``."""
        return self._judge(
            CHANGES, pairs, [is_readable(older) and is_readable(newer) for older, newer in pairs], compared
        )

    def endings(self, features: Sequence[Sequence[float]]) -> list[float]:
        """How likely each candidate is over, by its features."""
        if not features:
            return []
        head = self._weights.heads[ENDINGS]
        probabilities = head.probabilities(Inputs(stacked(features), [()] * len(features)))
        return [float(row) for row in probabilities[:, head.classes.index(ENDED)]]

    def similarities(self, text: str, others: Sequence[str]) -> list[float]:
        """Similarity of a text to each of others: the cosine of centred vectors, -1 to 1."""
        vectors = self._vectors([(text, other) for other in others])
        nothing = np.zeros(2 * WIDTH, dtype=np.float32)
        mine = vectors.get(text, nothing)[:WIDTH]
        return [float(vectors.get(other, nothing)[:WIDTH] @ mine) for other in others]

    def least(self, name: str, label: str, precision: float = 0.0) -> float:
        """The least probability at which a label is right as often as this (0: as it was trained for)."""
        return self._weights.heads[name].least(label, precision)

    def _in_context(self, name: str, texts: Sequence[Pair]) -> list[Judged | None]:
        return self._judge(name, texts, [is_readable(text) for _, text in texts], in_context)

    def _judge(
        self,
        name: str,
        pairs: Sequence[Pair],
        readable: Sequence[bool],
        read: Callable[[Sequence[Pair], Vectors], Inputs],
    ) -> list[Judged | None]:
        result: list[Judged | None] = [None] * len(pairs)
        places = [place for place, is_one in enumerate(readable) if is_one]
        if places:
            chosen = [pairs[place] for place in places]
            head = self._weights.heads[name]
            rows = head.probabilities(read(chosen, self._vectors(chosen)))
            for place, row in zip(places, rows, strict=True):
                best, each = int(row.argmax()), dict(zip(head.classes, row.tolist(), strict=True))
                result[place] = Judged(head.classes[best], float(row[best]), each)
        return result

    def _vectors(self, pairs: Sequence[Pair]) -> dict[str, Features]:
        texts = list(dict.fromkeys(text for pair in pairs for text in pair if text.strip()))
        vectors: dict[str, Features] = {}
        for start in range(0, len(texts), TOGETHER):
            part = texts[start : start + TOGETHER]
            vectors.update(zip(part, centred(self._embed(part), self._weights.centre), strict=True))
        return vectors


def centred(vectors: Features, centre: Features) -> Features:
    """``(n, 2 * WIDTH)``: less the mean of all texts, since they are crowded; each half of length 1 again."""
    halves = (vectors - centre).reshape(len(vectors), -1, WIDTH)
    lengths = np.maximum(np.linalg.norm(halves, axis=2, keepdims=True), MIN_NORM)
    return np.asarray((halves / lengths).reshape(len(vectors), -1), dtype=np.float32)


def in_context(texts: Sequence[Pair], vectors: Vectors) -> Inputs:
    """A message after what was said before it: both vectors (zeros for nothing), its form, its words."""
    nothing = np.zeros(2 * WIDTH, dtype=np.float32)
    mine = np.array([vectors[text] for _, text in texts])
    theirs = np.array([vectors.get(before, nothing) for before, _ in texts])
    before_flags = [(float(bool(before)), float(before.rstrip()[-1:] in ("?", "？"))) for before, _ in texts]
    form = stacked([[*plain(text), *flags] for (_, text), flags in zip(texts, before_flags, strict=True)])
    return Inputs(np.hstack([mine, theirs, form]), [grams(text) for _, text in texts])


def compared(pairs: Sequence[Pair], vectors: Vectors) -> Inputs:
    """An older and a newer statement: vectors of the last layer, how they differ, what they share, the words
    of the newer one.

    Of the last layer alone, because that is the one that is stored with every memory.
    """
    older = np.array([vectors[older_text][:WIDTH] for older_text, _ in pairs])
    newer = np.array([vectors[newer_text][:WIDTH] for _, newer_text in pairs])
    cosine = (older * newer).sum(axis=1, keepdims=True)
    form = stacked([[*shared(was, now), *plain(now), *plain(was)] for was, now in pairs])
    return Inputs(
        np.hstack([older, newer, np.abs(older - newer), older * newer, cosine, cosine**2, form]),
        [grams(newer_text) for _, newer_text in pairs],
    )


def shared(older: str, newer: str) -> list[float]:
    """What two texts have in common, in words and numbers."""
    mine, theirs = _telling(older), _telling(newer)
    common = len(mine & theirs)
    numbers, others = set(_NUMBER.findall(normalise(older))), set(_NUMBER.findall(normalise(newer)))
    return [
        common / (1 + len(mine)),
        common / (1 + len(theirs)),
        min(common, MOST_SHARED) / MOST_SHARED,
        float(bool(numbers & others)),
        float(bool(numbers) and bool(others) and not numbers & others),
        float((_CHINESE.search(older) is None) != (_CHINESE.search(newer) is None)),
    ]


def _telling(text: str) -> set[str]:
    return {gram for gram in grams(text) if len(gram) >= TELLING_LETTERS or not gram.isascii()}


#: Least probability that a newer statement takes back an older one where a rule says so, too: they are of the
#: same attribute, of which there is one value, or the newer one has a word of change. From here on .94 of
#: them do, and .88 of those that do are found (labelled rows of unseen writers).
EXPECTED = 0.2
#: The same for a word of change and another one in common: .89 do (labelled rows of unseen writers).
CHANGED = 0.5
#: People take back one thing at a time: a statement that seems to take back more takes back nothing.
MOST_TAKEN_BACK = 2
#: Name of the two labels together, see the thresholds of ``changes``.
RETIRE = "retire"
#: Characters, a Chinese one counted as three, of the longest text that is judged as a statement. The head has
#: learned from single statements of at most so many; of turns of several sentences, unrelated to each other,
#: it is sure of nearly every pair.
STATEMENT_CHARS, CHINESE_COUNTS = 130, 3

_ALLERGIES, _CHINESE_ALLERGIES = r"allerg|anaphyla|epi-?pen|intoleran|coeliac|celiac", r"过敏|不耐受|忌口"
_ALLERGY = re.compile(f"{_ALLERGIES}|{_CHINESE_ALLERGIES}")
_DIAGNOSES = (
    r"(?:diagnos\w*|asthma\w*|diabet\w*|epilep\w*|hypertens\w*|blood pressure|cancer|tumou?r|arthritis"
    r"|migraines?|adhd|autis\w*|depress\w*|anxiety|bipolar|anaemi\w*|anemi\w*|pregnan\w*|hiv|hepatitis"
    r"|thyroid|heart (?:condition|disease|attack)|pacemaker|stroke|blood type|colou?r-?blind|deaf"
    r"|wheelchair)\b"
)
_CHINESE_DIAGNOSES = (
    r"确诊|诊断|哮喘|糖尿病|癫痫|高血压|低血压|癌|肿瘤|关节炎|偏头痛|抑郁|焦虑症|贫血|怀孕|肝炎"
    r"|甲状腺|甲亢|甲减|心脏病|起搏器|中风|血型|色盲|痛风|残疾"
)
#: By ASCII a Chinese character ends a word: 我有asthma.
_DIAGNOSIS = re.compile(rf"\b{_DIAGNOSES}|{_CHINESE_DIAGNOSES}", re.ASCII)
#: Medicines, diets and handicaps.
_CARE = (
    r"(?:insulin|inhalers?|medications?|medicines?|antidepressants?|antibiotics?|blood thinners?|warfarin"
    r"|metformin|statins?|\d{1,4} ?mg|prescri(?:bed|ption)s?|vegans?|vegetarians?|pescatarians?|kosher|halal"
    r"|(?:gluten|dairy|sugar|salt)[- ]free|blind|hard of hearing|hearing aids?|prosthe\w{1,6}|crutches"
    r"|disab(?:led|ility|ilities)|dyslexi\w{1,3})\b"
)
_CHINESE_CARE = r"胰岛素|吃药|服药|用药|降压药|降糖药|抗抑郁药|抗生素|吃素|素食|纯素|清真|轮椅|失明|失聪"
_CHINESE_CARE += r"|助听器|听障|视障|盲人"
#: What somebody must not eat or drink.
_FORBIDDEN = (
    r"(?:can't|cannot|mustn't|must not|(?:not|n't) (?:allowed|supposed) to) (?:eat|drink|have"
    r" (?!(?:an?|the|my|our|to|it|this|that)\b))"
)
_CHINESE_FORBIDDEN = r"不能[吃喝碰沾]|不可以[吃喝碰沾]|不许[吃喝碰沾]|忌[吃喝碰沾]"
_MUST_NOT = re.compile(rf"\b{_FORBIDDEN}|{_CHINESE_FORBIDDEN}", re.ASCII)
#: Any of these words, by language: every memory is searched for them when it is stored. Chinese ones begin
#: with a character each, by which ``re`` passes over most of a text; it is to try the others at beginnings
#: of words only.
_HEALTH = re.compile(rf"\b(?=\w)(?:{_DIAGNOSES}|{_CARE}|{_FORBIDDEN}|{_ALLERGIES})", re.ASCII)
_CHINESE_HEALTH = re.compile(
    f"{_CHINESE_DIAGNOSES}|{_CHINESE_CARE}|{_CHINESE_FORBIDDEN}|{_CHINESE_ALLERGIES}"
)
_HEALED = re.compile(
    r"\b(?:remission|cured|misdiagnos\w*|all clear|outgr[eo]w\w*|retest\w*|re-?test\w*|biopsy|scan|mri"
    r"|results?|gave birth|born|due)\b"
    r"|复查|误诊|痊愈|治好|根治|康复|排除|脱敏|结果|生了"
)
_NAME = re.compile(
    r"\b(?:my (?:\w+ )?(?:sur)?name(?:'s| is)|call(?:ed)? me|calling me|i'?m called|changed my"
    r" (?:sur)?name|my nickname|i go by)\b"
    r"|我(?:的?名字)?叫|叫我|我(?:的?名字|姓|改名|改姓|的?外号|的?小名|的?昵称)"
)
_BIRTH = re.compile(r"\b(?:birthday|born (?:on|in)|birth date|date of birth|dob)\b|生日|出生|生辰")
_OWN = re.compile(r"\b(?:i|i'm|im|i've|ive|my|we|our)\b|[我咱俺]")
#: What an older statement may be about that only a statement about the same takes back.
_GUARDED = ((_ALLERGY, _ALLERGY), (_DIAGNOSIS, None), (_NAME, _NAME), (_BIRTH, _BIRTH))


def retires(heads: Heads, pairs: Sequence[Pair]) -> list[bool]:
    """Whether each pair's newer statement surely replaces or ends the older one."""
    return are_sure(heads, chances(heads, pairs), [False] * len(pairs))


def are_sure(heads: Heads, probabilities: Sequence[float], expected: Sequence[bool]) -> list[bool]:
    """Which of the probabilities (:func:`chances`) are enough; less is (:data:`EXPECTED`) where a rule says
    so, too.
    """
    enough_each = [EXPECTED if is_expected else sure(heads) for is_expected in expected]
    return [chance >= least for chance, least in zip(probabilities, enough_each, strict=True)]


def enough(heads: Heads, older: str, newer: str) -> float:
    """The least probability to take back a statement of the same subject, of no attribute that rules know."""
    changed = CHANGE.search(newer.lower()) is not None and not _telling(older).isdisjoint(_telling(newer))
    return CHANGED if changed else sure(heads)


def sure(heads: Heads) -> float:
    """The least probability from which on a newer statement takes back the older one."""
    return heads.least(CHANGES, RETIRE, heads.change_precision)


def chances(heads: Heads, pairs: Sequence[Pair]) -> list[float]:
    """How likely each newer statement replaces or ends the older; 0 where it may not or nobody knows."""
    places = [place for place, pair in enumerate(pairs) if may_retire(*pair)]
    probabilities = [0.0] * len(pairs)
    for place, judged in zip(places, heads.changes([pairs[place] for place in places]), strict=True):
        probabilities[place] = 0.0 if judged is None else retiring(judged)
    return probabilities


def retiring(judged: Judged) -> float:
    """Probability that the older statement holds no longer."""
    return sum(judged.probabilities[label] for label in RETIRING)


def is_vital(text: str) -> bool:
    """Whether somebody says that they, or their own people, have an allergy or an illness: no small talk."""
    statement = normalise(text)
    return _OWN.search(statement) is not None and (
        _ALLERGY.search(statement) is not None or _DIAGNOSIS.search(statement) is not None
    )


def concerns_health(text: str) -> bool | None:
    """Whether a statement, of anybody, has words of an allergy, an illness, a handicap, a medicine or a diet.

    None: it has, but "vegan", "cancer" and the like stand in other statements, too ("I work in a cancer
    ward").
    """
    statement = normalise(text).replace("’", "'")
    if not _HEALTH.search(statement) and (statement.isascii() or not _CHINESE_HEALTH.search(statement)):
        return False
    return True if _ALLERGY.search(statement) or _MUST_NOT.search(statement) else None


def may_retire(older: str, newer: str) -> bool:
    """Of short ones; allergies, diagnoses, names, birthdays hold until something is said about them."""
    if not is_statement(older) or not is_statement(newer):
        return False
    was, now = normalise(older), normalise(newer)
    for guarded, by in _GUARDED:
        about = set(guarded.findall(was))
        if about:
            releasing = by or _HEALED
            return releasing.search(now) is not None or not about.isdisjoint(guarded.findall(now))
    return True


def is_statement(text: str) -> bool:
    """Whether a text is as short as the statements that the head of changes has learned from."""
    if len(text) > STATEMENT_CHARS:
        return False
    return len(text) + (CHINESE_COUNTS - 1) * len(_CHINESE.findall(text)) <= STATEMENT_CHARS


def stated(content: str) -> str:
    """As the heads have learned statements: without the speaker, and without days that were worked out."""
    return WORKED_OUT.sub("", said_of(content))


def said_of(content: str) -> str:
    """Without its speaker."""
    return content.partition(": ")[2] or content.partition("：")[2] or content
