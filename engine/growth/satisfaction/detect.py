"""Whether a user is content with what the agent did, from their last words, in Chinese and English.

The learned judgement decides where it is sure. Without the local model only a message or clause that is nothing but a verdict counts.
A wrong verdict teaches an agent the wrong thing, so everything else is neutral.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from engine.heads.judgements import SATISFACTION, Heads, Judged
from jiyi.protocol.growth.trajectories import Satisfaction
from jiyi.text.words import normalise

#: Characters of a message that the rules read: who is content says so at once.
READ_CHARS = 2_000


#: Clauses that say nothing else, in whatever context. A question is none of them.
_VERDICTS: Mapping[Satisfaction, re.Pattern[str]] = {
    "positive": re.compile(
        r"(?:现在|终于|都|已经)?(?:解决|搞定|成功|修好|弄好)了|太?完美了?|很好|太?棒了|很有用"
        r"|(?:it|that|this) (?:works|worked)(?: now| perfectly)?|(?:that|this) (?:fixed|solved) it|problem solved|perfect"
    ),
    "negative": re.compile(
        r"(?:还是|又|仍然)?(?:不对|不行|没用|不管用|不好使|没效果|没搞定)了?|(?:又|还是)?(?:失败|错)了|没(?:有)?解决|差太远"
        r"|(?:it |that |this )?(?:still )?(?:doesn't|does not|didn't|did not) (?:work|help)"
        r"|(?:it's |that's |this is )?(?:still )?(?:wrong|broken|not working)"
        r"|it failed(?: again)?"
    ),
}
_CLAUSE = re.compile(r"[^,，。.!！;；\n]+")
_QUESTION = re.compile(r"[?？]|[吗呢么]\s*\Z")


def satisfaction(messages: Sequence[str], heads: Heads | None = None) -> Satisfaction | None:
    """How content the user is who said this, oldest first, by the newest message; None if nothing was said."""
    if not messages:
        return None
    judged = heads.satisfaction([messages])[0] if heads is not None else None
    return _of_words(messages[-1]) if heads is None or judged is None else acted_on(judged, heads)


def acted_on(judged: Judged, heads: Heads) -> Satisfaction:
    """The verdict that the head is sure enough of, else neutral."""
    sides: tuple[Satisfaction, ...] = ("positive", "negative")
    likelier = max(sides, key=lambda side: judged.probabilities[side])
    return likelier if judged.probabilities[likelier] >= heads.least(SATISFACTION, likelier) else "neutral"


def _of_words(message: str) -> Satisfaction:
    """The verdict of the last clause that is one."""
    said = normalise(message[:READ_CHARS]).replace("’", "'")
    if _QUESTION.search(said):
        return "neutral"
    found = [verdict for clause in _CLAUSE.findall(said) for verdict, words in _VERDICTS.items() if words.fullmatch(clause.strip())]
    return found[-1] if found else "neutral"
