"""Pain points by rules: sentences that tell of trouble or that something helped, which are alike, and what to propose."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from uuid import UUID

import numpy as np

from engine.conversations import cues as cue
from engine.text.likeness import ALIKE_BY_WORDS, likeness_by_words
from jiyi.chat.secrets import masked
from jiyi.protocol.conversations import OUTCOMES, Message
from jiyi.protocol.growth import (
    MAX_FOUND,
    MAX_STEP_CHARS,
    MAX_STEPS,
    MAX_SUMMARY_CHARS,
    Category,
    FoundPain,
    FoundPains,
    KnownSolution,
    ProposedSolution,
    Severity,
)
from jiyi.protocol.identity import override_in
from jiyi.text.sections import union
from jiyi.text.splitting import sentences
from jiyi.text.words import Language, telling

_CUES = "pains.txt"
#: Characters of a sentence that are looked at.
SENTENCE_CHARS = 1_000

#: Characters of a word that says what something is about.
LEAST_CHARS = 2

ANNOYED = union("engine.growth", _CUES, "annoyed")
AGAIN = union("engine.growth", _CUES, "again")
CHEER = union("engine.growth", _CUES, "cheer")
UNREAL = union("engine.growth", _CUES, "unreal")
HELPED = union("engine.growth", _CUES, "helped")
NOT_HELPED = union("engine.growth", _CUES, "not_helped")
#: In the order in which they are tried: the first that is told decides.
_CATEGORIES: tuple[Category, ...] = ("slow", "tedious", "unclear", "fault", "wrong")


def tells_of_trouble(sentence: str) -> bool:
    """Whether a sentence of the user tells of trouble that is: not imagined, not over, not a mere question."""
    sentence = CHEER.sub(" ", sentence[:SENTENCE_CHARS])
    if not (cue.TROUBLE.search(sentence) or ANNOYED.search(sentence)):
        return False
    if cue.IMAGINED.search(sentence) or UNREAL.search(sentence) or cue.SOLVED.search(sentence):
        return False
    return AGAIN.search(sentence) is not None or cue.QUESTION_MARK.search(sentence) is None


def says_helped(sentence: str) -> bool:
    """Whether a sentence of the user says that what was advised works."""
    sentence = sentence[:SENTENCE_CHARS]
    return HELPED.search(sentence) is not None and NOT_HELPED.search(sentence) is None


def category_of(sentence: str) -> Category:
    """What kind of trouble it is."""
    sentence = sentence[:SENTENCE_CHARS]
    return next((name for name in _CATEGORIES if union("engine.growth", _CUES, name).search(sentence)), "other")


def severity_of(sentence: str) -> Severity:
    """How grave it is, by its own words; medium where they say nothing."""
    sentence = sentence[:SENTENCE_CHARS]
    if union("engine.growth", _CUES, "grave").search(sentence):
        return "high"
    return "low" if union("engine.growth", _CUES, "mild").search(sentence) else "medium"


def topic_of(sentence: str) -> str:
    """The sentence without the words that only say that it hurts: two troubles are not alike for that."""
    bare = sentence[:SENTENCE_CHARS]
    for pattern in (cue.TROUBLE, ANNOYED, AGAIN):
        bare = pattern.sub(" ", bare)
    return bare if any(len(token) >= LEAST_CHARS for token in telling(bare)) else sentence


def most_alike(summary: str, known: Sequence[str]) -> int | None:
    """The number of the known one that says the same, the most alike; None if none is alike (``engine.text.likeness``)."""
    if not known:
        return None
    likeness = likeness_by_words([topic_of(text) for text in (summary, *known)])[0, 1:]
    best = int(np.argmax(likeness))
    return best if likeness[best] >= ALIKE_BY_WORDS else None


#: Characters of a message that are read.
MESSAGE_CHARS = 4_000


def find_pains(messages: Sequence[Message], since: int = 0) -> FoundPains:
    """What the user's messages from ``since`` on tell; texts handed over, and what is played, are not the user's."""
    pains, helped = [], []
    for turn, sentence in _user_sentences(messages, since):
        if says_helped(sentence):
            helped.append(turn)
        elif tells_of_trouble(sentence):
            pains.append(
                FoundPain(
                    summary=" ".join(masked(sentence).split())[:MAX_SUMMARY_CHARS],
                    category=category_of(sentence),
                    severity=severity_of(sentence),
                    turn=turn,
                )
            )
    return FoundPains(pains=pains[:MAX_FOUND], helped=list(dict.fromkeys(helped))[:MAX_FOUND])


def _user_sentences(messages: Sequence[Message], since: int) -> Iterator[tuple[int, str]]:
    for turn, message in enumerate(messages):
        text = message.text[:MESSAGE_CHARS]
        if turn < since or message.role != "user" or cue.HANDED_OVER.search(text) or cue.ROLE_PLAY.search(text):
            continue
        for sentence in sentences(text):
            if sentence.strip():
                yield turn, sentence.strip()


_LIST_ITEM = re.compile(r"^[^\S\n]*+(?:\d++[.)、]|[-*•])[^\S\n]*+(?P<step>\S.*)$", re.MULTILINE)
#: Characters of an answer that steps are looked for in.
ANSWER_CHARS = 8_000
_TITLES: dict[Language, str] = {"en": "What may help: {pain}", "zh": "也许有用：{pain}"}
#: First steps where nobody knows better: what an attentive assistant would do.
_FIRST_STEPS: dict[Language, dict[Category, tuple[str, ...]]] = {
    "en": {
        "fault": ("Note when it fails, with the exact message", "Try the smallest case that fails", "Undo the latest change and try again"),
        "slow": ("Measure which step takes the time", "Do less in it, or do it ahead of time", "Measure again"),
        "wrong": ("Write down what is wrong and what would be right", "Correct it at its source", "Check the next three results"),
        "tedious": ("Write the steps down once", "Let a template or a script do the ones that never vary", "Do the rest as a list"),
        "unclear": ("Say in one sentence what it is for", "Show one example", "Ask whether that was clear"),
        "other": ("Ask what exactly hurts, and when", "Agree on one thing to change", "Ask again after a week"),
    },
    "zh": {
        "fault": ("记下出错的时间和完整的报错信息", "用最小的例子重现一次", "撤回最近的改动再试"),
        "slow": ("先量一下时间花在哪一步", "减少这一步的工作，或提前做好", "再量一次"),
        "wrong": ("写下哪里不对、应该是什么", "从源头改正", "检查之后的三次结果"),
        "tedious": ("把步骤完整写下来一次", "不变的部分交给模板或脚本", "剩下的列成清单逐项做"),
        "unclear": ("先用一句话说明用途", "给一个例子", "问一问是否清楚"),
        "other": ("问清楚具体是什么、什么时候发生", "商定先改一处", "一周后再问一次"),
    },
}


def advice_in(text: str) -> list[str]:
    """The items of the lists in an assistant's answer."""
    return [match["step"].strip()[:MAX_STEP_CHARS] for match in _LIST_ITEM.finditer(text[:ANSWER_CHARS])][:MAX_STEPS]


def propose_solution(
    pain: str, category: Category, language: Language, *, experiences: Sequence[KnownSolution] = (), advice: Sequence[str] = ()
) -> ProposedSolution:
    """The steps of the experience most like the pain that did not fail, else what was advised, else first steps of its kind."""
    usable = [experience for experience in experiences if experience.outcome != OUTCOMES[0] and _clean(experience.steps)]
    place = most_alike(pain, [experience.problem for experience in usable])
    steps = _clean(advice if place is None else usable[place].steps)
    title = _TITLES[language].format(pain=pain)[:MAX_SUMMARY_CHARS]
    return ProposedSolution(title=title, steps=steps or list(_FIRST_STEPS[language][category]))


def _clean(steps: Sequence[str]) -> list[str]:
    """Without steps that are blank, or that talk the agent out of what it was told."""
    told = [" ".join(step.split())[:MAX_STEP_CHARS] for step in steps if step.strip() and override_in(step) is None]
    return list(dict.fromkeys(told))[:MAX_STEPS]


#: Messages before the user's words that are looked at for a proposal.
CONTEXT = 6
#: Share of a step's telling words that an answer must have to have told it, and of a pain's for the user to have named it.
TOLD, NAMED = 0.6, 0.6
#: With fewer telling words a step could be told by chance.
LEAST_WORDS = 2
#: Characters of each message that are read.
CONFIRMATION_CHARS = 8_000


@dataclass(frozen=True, slots=True)
class Offer:
    """A proposal that nobody has decided on."""

    proposal_id: UUID
    pain: str
    steps: Sequence[str]


def confirmed_proposal(messages: Sequence[Message], turn: int, offers: Sequence[Offer]) -> UUID | None:
    """The offer that the user's message ``turn`` confirms, by what was said before it; None if none was told there.

    Of several the one told best, of equals the first.
    """
    before = messages[max(0, turn - CONTEXT) : turn]
    advised = [set(telling(message.text[:CONFIRMATION_CHARS])) for message in before if message.role == "assistant"]
    own = set(telling(messages[turn].text[:CONFIRMATION_CHARS]))
    scored = [(_score(offer, advised, own), offer) for offer in offers]
    best, offer = max(scored, key=lambda item: item[0], default=(0.0, None))
    return offer.proposal_id if offer is not None and best > 0 else None


def _score(offer: Offer, advised: Sequence[set[str]], own: set[str]) -> float:
    """How many of its steps were told, and whether the user named the pain; 0 if neither."""
    steps = [words for step in offer.steps if len(words := set(telling(step))) >= LEAST_WORDS]
    told = sum(any(len(words & answer) >= TOLD * len(words) for answer in advised) for words in steps)
    pain = set(telling(topic_of(offer.pain)))
    named = len(pain) >= LEAST_WORDS and len(pain & own) >= NAMED * len(pain)
    return told / len(steps) + named if steps else float(named)
