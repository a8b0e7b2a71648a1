"""Which older statements hold no longer, by newer ones: the head's judgement, and what it may never decide alone."""

from __future__ import annotations

import re
from collections.abc import Sequence

from engine.heads.judgements import CHANGES, RETIRING, Heads, Judged, Pair
from engine.heads.model import normalise

#: Least probability that a newer statement takes back an older one where a rule says so, too: they are of the same attribute, of which
#: there is one value, or the newer one has a word of change. From .3 to .4 the same is right.
EXPECTED = 0.35
#: Name of the two labels together, see the thresholds of ``changes``.
RETIRE = "retire"

_ALLERGY = re.compile(r"allerg|anaphyla|epi-?pen|intoleran|coeliac|celiac|过敏|不耐受|忌口")
_DIAGNOSIS = re.compile(
    r"\b(?:diagnos\w*|asthma\w*|diabet\w*|epilep\w*|hypertens\w*|blood pressure|cancer|tumou?r|arthritis|migraines?|adhd|autis\w*"
    r"|depress\w*|anxiety|bipolar|anaemi\w*|anemi\w*|pregnan\w*|hiv|hepatitis|thyroid|heart (?:condition|disease|attack)|pacemaker|stroke"
    r"|blood type|colou?r-?blind|deaf|wheelchair)\b"
    r"|确诊|诊断|哮喘|糖尿病|癫痫|高血压|低血压|癌|肿瘤|关节炎|偏头痛|抑郁|焦虑症|贫血|怀孕|肝炎|甲状腺|甲亢|甲减|心脏病|起搏器|中风|血型|色盲|痛风|残疾"
)
_HEALED = re.compile(
    r"\b(?:remission|cured|misdiagnos\w*|all clear|outgr[eo]w\w*|retest\w*|re-?test\w*|biopsy|scan|mri|results?|gave birth|born|due)\b"
    r"|复查|误诊|痊愈|治好|根治|康复|排除|脱敏|结果|生了"
)
_NAME = re.compile(
    r"\b(?:my (?:\w+ )?(?:sur)?name(?:'s| is)|call(?:ed)? me|calling me|i'?m called|changed my (?:sur)?name|my nickname|i go by)\b"
    r"|我(?:的?名字)?叫|叫我|我(?:的?名字|姓|改名|改姓|的?外号|的?小名|的?昵称)"
)
_BIRTH = re.compile(r"\b(?:birthday|born (?:on|in)|birth date|date of birth|dob)\b|生日|出生|生辰")
_OWN = re.compile(r"\b(?:i|i'm|im|i've|ive|my|we|our)\b|[我咱俺]")
#: What an older statement may be about that only a statement about the same takes back.
_GUARDED = ((_ALLERGY, _ALLERGY), (_DIAGNOSIS, None), (_NAME, _NAME), (_BIRTH, _BIRTH))


def retires(heads: Heads, pairs: Sequence[Pair], expected: Sequence[bool] = ()) -> list[bool]:
    """Whether each pair's newer statement replaces or ends the older one, as surely as the heads are asked to be.

    Args:
        heads: the judges.
        pairs: an older statement and a newer one each.
        expected: of which pairs a rule says so already: less is enough (:data:`EXPECTED`). Empty: of none.
    """
    return are_sure(heads, chances(heads, pairs), expected or [False] * len(pairs))


def are_sure(heads: Heads, probabilities: Sequence[float], expected: Sequence[bool]) -> list[bool]:
    """Which of the probabilities (:func:`chances`) are enough, as in :func:`retires`."""
    least = sure(heads)
    return [chance >= (EXPECTED if is_expected else least) for chance, is_expected in zip(probabilities, expected, strict=True)]


def sure(heads: Heads) -> float:
    """The least probability from which on a newer statement takes back the older one."""
    return heads.least(CHANGES, RETIRE, heads.change_precision)


def chances(heads: Heads, pairs: Sequence[Pair]) -> list[float]:
    """How likely each pair's newer statement replaces or ends the older; 0 where it may not (:func:`may_retire`) or nobody knows."""
    places = [place for place, pair in enumerate(pairs) if may_retire(*pair)]
    probabilities = [0.0] * len(pairs)
    for place, judged in zip(places, heads.changes([pairs[place] for place in places]), strict=True):
        probabilities[place] = 0.0 if judged is None else retiring(judged)
    return probabilities


def retiring(judged: Judged) -> float:
    """Probability that the older statement holds no longer."""
    return sum(judged.probabilities[label] for label in RETIRING)


def is_vital(text: str) -> bool:
    """Whether somebody says of themselves, or of their own people, that they have an allergy or an illness: it is never small talk."""
    statement = normalise(text)
    return _OWN.search(statement) is not None and (_ALLERGY.search(statement) is not None or _DIAGNOSIS.search(statement) is not None)


def may_retire(older: str, newer: str) -> bool:
    """Whether a newer statement may take back the older at all: an allergy, a diagnosis, a name, a date of birth hold until something
    is said about that very thing.
    """
    was, now = normalise(older), normalise(newer)
    for guarded, by in _GUARDED:
        about = set(guarded.findall(was))
        if about:
            releasing = by or _HEALED
            return releasing.search(now) is not None or not about.isdisjoint(guarded.findall(now))
    return True


def said_of(content: str) -> str:
    """Without its speaker."""
    return content.partition(": ")[2] or content.partition("：")[2] or content
