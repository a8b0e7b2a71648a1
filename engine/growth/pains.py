"""Pain points by rules: sentences that report trouble or that something helped, which are similar, and what
to propose.

Self-review: when an agent is due to review itself, what its conversations say about it by rules, and which
changes it may propose.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal
from uuid import UUID

import numpy as np
from pydantic import BaseModel, Field

from engine.conversations import attributes as cue
from engine.conversations.pieces import ConversationPiece
from engine.retrieval.corpus import SIMILAR_BY_WORDS, similarity_by_words
from jiyi.chat.secrets import masked
from jiyi.protocol import growth as protocol
from jiyi.protocol.conversations import OUTCOMES, Message, Outcome
from jiyi.protocol.growth import SelfSettings
from jiyi.protocol.identity import File, override_in, problems_of
from jiyi.protocol.numbered import LineNumber
from jiyi.protocol.reflection import SelfTrigger
from jiyi.text.sections import union
from jiyi.text.splitting import sentences
from jiyi.text.words import Language, language_of, telling

_CUES = "pains.txt"
#: Characters of a sentence that are looked at.
SENTENCE_CHARS = 1_000

#: Characters of a word that says what something is about.
LEAST_CHARS = 2

ANNOYED = union(__package__, _CUES, "annoyed")
AGAIN = union(__package__, _CUES, "again")
CHEER = union(__package__, _CUES, "cheer")
UNREAL = union(__package__, _CUES, "unreal")
#: Directly before a word of annoyance: it is denied, or a preference for how to answer ("别太啰嗦", "it's not
#: annoying").
DENIED = union(__package__, _CUES, "denied")
#: Directly before a word of trouble: it is over, or never was ("不再报错了", "it doesn't crash any more").
OVER = union(__package__, _CUES, "over")
HELPED = union(__package__, _CUES, "helped")
NOT_HELPED = union(__package__, _CUES, "not_helped")
#: In the order in which they are tried: the first match decides.
_CATEGORIES: tuple[protocol.Category, ...] = ("slow", "tedious", "unclear", "fault", "wrong")


def reports_trouble(sentence: str) -> bool:
    """Whether a user's sentence reports actual trouble: not imagined, not over, no mere question."""
    sentence = CHEER.sub(" ", sentence[:SENTENCE_CHARS])
    if not (_is_felt(cue.TROUBLE, OVER, sentence) or _is_felt(ANNOYED, DENIED, sentence)):
        return False
    if cue.IMAGINED.search(sentence) or UNREAL.search(sentence) or cue.SOLVED.search(sentence):
        return False
    return AGAIN.search(sentence) is not None or cue.QUESTION_MARK.search(sentence) is None


def _is_felt(words: re.Pattern[str], denied: re.Pattern[str], sentence: str) -> bool:
    return any(denied.search(sentence[: match.start()]) is None for match in words.finditer(sentence))


def says_helped(sentence: str) -> bool:
    """Whether a sentence of the user says that what was advised works."""
    sentence = sentence[:SENTENCE_CHARS]
    return HELPED.search(sentence) is not None and NOT_HELPED.search(sentence) is None


def may_report_trouble(message: Message) -> bool:
    """Whether an LLM is worth asking: a user has a word of trouble, or of something that helped."""
    words = (cue.TROUBLE, ANNOYED, HELPED, *(union(__package__, _CUES, name) for name in _CATEGORIES))
    return message.role == "user" and any(pattern.search(message.text[:MESSAGE_CHARS]) for pattern in words)


#: Lines before one that may report trouble, as context for an LLM.
SHOWN_BEFORE = 2


def of_trouble(piece: ConversationPiece) -> ConversationPiece | None:
    """The new lines of a piece that may report trouble, and those right before them; None without any."""
    places = [place for place, line in enumerate(piece.new) if may_report_trouble(line.message)]
    included = {near for place in places for near in range(max(0, place - SHOWN_BEFORE), place + 1)}
    if not included:
        return None
    before = piece.before[-SHOWN_BEFORE:] if places[0] < SHOWN_BEFORE else ()
    return replace(piece, before=before, new=tuple(piece.new[place] for place in sorted(included)))


class FoundPain(BaseModel):
    """Trouble that a message reports."""

    summary: protocol.Summary
    category: protocol.Category = "other"
    severity: protocol.Severity = "medium"
    #: Number of the message, from 0.
    turn: LineNumber = Field(ge=0)


class FoundPains(BaseModel):
    """Trouble that a conversation's new messages report, and which of them say that something helped."""

    pains: list[FoundPain] = Field([], max_length=protocol.MAX_FOUND)
    #: Numbers of messages in which the user says that what was advised works.
    helped: list[LineNumber] = Field([], max_length=protocol.MAX_FOUND)


class KnownSolution(BaseModel):
    """An experience that may help: what was done about a problem like this one, and how that ended."""

    problem: str
    steps: list[str]
    outcome: Outcome


class ProposedSolution(BaseModel):
    """What might be done about a pain point, step by step."""

    title: protocol.Summary
    steps: list[protocol.StepText] = Field(min_length=1, max_length=protocol.MAX_STEPS)


def category_of(sentence: str) -> protocol.Category:
    """What kind of trouble it is."""
    sentence = sentence[:SENTENCE_CHARS]
    return next((name for name in _CATEGORIES if union(__package__, _CUES, name).search(sentence)), "other")


def severity_of(sentence: str) -> protocol.Severity:
    """How grave it is, by its own words; medium where they say nothing."""
    sentence = sentence[:SENTENCE_CHARS]
    if union(__package__, _CUES, "grave").search(sentence):
        return "high"
    return "low" if union(__package__, _CUES, "mild").search(sentence) else "medium"


def topic_of(sentence: str) -> str:
    """The sentence without words that only say that it hurts: these make no two troubles similar."""
    bare = sentence[:SENTENCE_CHARS]
    for pattern in (cue.TROUBLE, ANNOYED, AGAIN):
        bare = pattern.sub(" ", bare)
    return bare if any(len(token) >= LEAST_CHARS for token in telling(bare)) else sentence


def most_similar(summary: str, others: Sequence[str]) -> int | None:
    """The index of the most similar known one; None if none is similar (``engine.retrieval.corpus``)."""
    if not others:
        return None
    similarities = similarity_by_words([topic_of(text) for text in (summary, *others)])[0, 1:]
    best = int(np.argmax(similarities))
    return best if similarities[best] >= SIMILAR_BY_WORDS else None


#: Characters of a message that are read.
MESSAGE_CHARS = 4_000


def find_pains(messages: Sequence[Message], since: int = 0) -> FoundPains:
    """Pains and help in the user's own messages from ``since`` on, without pasted texts and role play."""
    pains, helped = [], []
    for turn, sentence in _user_sentences(messages, since):
        if says_helped(sentence):
            helped.append(turn)
        elif reports_trouble(sentence):
            pains.append(
                FoundPain(
                    summary=" ".join(masked(sentence).split())[: protocol.MAX_SUMMARY_CHARS],
                    category=category_of(sentence),
                    severity=severity_of(sentence),
                    turn=turn,
                )
            )
    return FoundPains(
        pains=pains[: protocol.MAX_FOUND], helped=list(dict.fromkeys(helped))[: protocol.MAX_FOUND]
    )


def _user_sentences(messages: Sequence[Message], since: int) -> Iterator[tuple[int, str]]:
    for turn, message in enumerate(messages):
        text = message.text[:MESSAGE_CHARS]
        own = message.role == "user" and not (cue.HANDED_OVER.search(text) or cue.ROLE_PLAY.search(text))
        if own and turn >= since:
            yield from ((turn, sentence) for sentence in filter(None, map(str.strip, sentences(text))))


_LIST_ITEM = re.compile(r"^[^\S\n]*+(?:\d++[.)、]|[-*•])[^\S\n]*+(?P<step>\S.*)$", re.MULTILINE)
#: Characters of an answer that steps are looked for in.
ANSWER_CHARS = 8_000
_TITLES: dict[Language, str] = {"en": "What may help: {pain}", "zh": "也许有用：{pain}"}
#: First steps where nobody knows better: what an attentive assistant would do.
_FIRST_STEPS: dict[Language, dict[protocol.Category, tuple[str, ...]]] = {
    "en": {
        "fault": (
            "Note when it fails, with the exact message",
            "Try the smallest case that fails",
            "Undo the latest change and try again",
        ),
        "slow": (
            "Measure which step takes the time",
            "Do less in it, or do it ahead of time",
            "Measure again",
        ),
        "wrong": (
            "Write down what is wrong and what would be right",
            "Correct it at its source",
            "Check the next three results",
        ),
        "tedious": (
            "Write the steps down once",
            "Let a template or a script do the ones that never vary",
            "Do the rest as a list",
        ),
        "unclear": ("Say in one sentence what it is for", "Show one example", "Ask whether that was clear"),
        "other": (
            "Ask what exactly hurts, and when",
            "Agree on one thing to change",
            "Ask again after a week",
        ),
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
    return [
        match["step"].strip()[: protocol.MAX_STEP_CHARS] for match in _LIST_ITEM.finditer(text[:ANSWER_CHARS])
    ][: protocol.MAX_STEPS]


def propose_solution(
    pain: str,
    category: protocol.Category,
    language: Language,
    *,
    experiences: Sequence[KnownSolution] = (),
    advice: Sequence[str] = (),
) -> ProposedSolution:
    """What helped in the most similar experience, else what was advised, else first steps of its kind."""
    worked = [experience for experience in experiences if experience.outcome != OUTCOMES[0]]
    usable = [experience for experience in worked if _clean(experience.steps)]
    place = most_similar(pain, [experience.problem for experience in usable])
    steps = _clean(advice if place is None else usable[place].steps)
    title = _TITLES[language].format(pain=pain)[: protocol.MAX_SUMMARY_CHARS]
    return ProposedSolution(title=title, steps=steps or list(_FIRST_STEPS[language][category]))


def _clean(steps: Sequence[str]) -> list[str]:
    """Without steps that are blank, or that override the agent's instructions."""
    good = [" ".join(step.split()) for step in steps if step.strip() and override_in(step) is None]
    return list(dict.fromkeys(step[: protocol.MAX_STEP_CHARS] for step in good))[: protocol.MAX_STEPS]


#: Messages before the user's words that are looked at for a proposal.
CONTEXT = 6
#: Share of a step's telling words that an answer needs to count as advising it; of a pain's that the user
#: needs to have named it.
ADVISED_SHARE, NAMED_SHARE = 0.6, 0.6
#: With fewer telling words a step could match by chance.
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
    """The offer that the user's message ``turn`` confirms, by what was said before it; None if none was made
    there.

    Of several the best match, of equals the first.
    """
    before = messages[max(0, turn - CONTEXT) : turn]
    answers = [message.text[:CONFIRMATION_CHARS] for message in before if message.role == "assistant"]
    advised = [set(telling(answer)) for answer in answers]
    own = set(telling(messages[turn].text[:CONFIRMATION_CHARS]))
    scored = [(_score(offer, advised, own), offer) for offer in offers]
    best, offer = max(scored, key=lambda item: item[0], default=(0.0, None))
    return offer.proposal_id if offer is not None and best > 0 else None


def _score(offer: Offer, advised: Sequence[set[str]], own: set[str]) -> float:
    """The share of its steps that were advised, plus 1 if the user named the pain; 0 if neither."""
    steps = [words for step in offer.steps if len(words := set(telling(step))) >= LEAST_WORDS]
    advised_steps = sum(
        any(len(words & answer) >= ADVISED_SHARE * len(words) for answer in advised) for words in steps
    )
    pain = set(telling(topic_of(offer.pain)))
    names_pain = len(pain) >= LEAST_WORDS and len(pain & own) >= NAMED_SHARE * len(pain)
    return advised_steps / len(steps) + names_pain if steps else float(names_pain)


#: Characters of one finding: a sentence or two.
MAX_FINDING_CHARS = 1_000
#: Findings of each kind, and ids of the evidence of one.
MAX_FINDINGS, MAX_EVIDENCE = 10, 20

Finding = Annotated[str, Field(pattern=r"\S", max_length=MAX_FINDING_CHARS)]
#: Numbers of the lines that it rests on, from 0.
Lines = Annotated[list[LineNumber], Field(min_length=1, max_length=MAX_EVIDENCE)]


class Pattern(BaseModel):
    """What went well, or wrong, more than once."""

    kind: Literal["positive", "negative"]
    text: Finding
    evidence: Lines


class Improvement(BaseModel):
    """What the agent could do better."""

    text: Finding
    evidence: Lines


class IdentityChange(BaseModel):
    """A line that is to be added to one of the agent's files."""

    file: Literal["SOUL", "AGENTS", "HEARTBEAT"]
    addition: Finding
    reason: Finding
    evidence: Lines


class MetaMemory(BaseModel):
    """What the agent should remember about itself."""

    text: Finding
    #: 1 mundane … 10 vital.
    importance: float = Field(5, ge=1, le=10)
    evidence: Lines


class SelfReflected(BaseModel):
    """All that one review gives; each finding names the lines that it rests on."""

    patterns: list[Pattern] = Field([], max_length=MAX_FINDINGS)
    improvements: list[Improvement] = Field([], max_length=MAX_FINDINGS)
    identity_changes: list[IdentityChange] = Field([], max_length=MAX_FINDINGS)
    meta_memories: list[MetaMemory] = Field([], max_length=MAX_FINDINGS)


@dataclass(frozen=True, slots=True)
class ReviewSchedule:
    """An agent's settings of self-review (0: no reason), and how far it has come since the last one."""

    settings: SelfSettings
    last_at: datetime
    #: Conversations that have ended.
    ended: int = 0
    #: ``node_count`` of the last turn that was seen, and whether anything was said after it.
    seen_to: int = 0
    anything_new: bool = False
    #: Somebody asked for it.
    asked: bool = False

    @property
    def due_at(self) -> datetime | None:
        """When the hours are over; None where they are no reason."""
        return self.last_at + timedelta(hours=self.settings.hours) if self.settings.hours else None

    def due(self, now: datetime) -> SelfTrigger | None:
        """Why it is due; None if it is not."""
        if self.settings.conversations and self.ended >= self.settings.conversations:
            return "conversations"
        return "hours" if self.anything_new and self.due_at is not None and now >= self.due_at else None


def allowed_changes(changes: Sequence[IdentityChange], *, soul: bool) -> list[IdentityChange]:
    """Those that may be proposed: changes of ``SOUL`` only where they are allowed."""
    return [change for change in changes if soul or change.file != "SOUL"]


def suggested_content(change: IdentityChange, current: str, most: int) -> str | None:
    """The file with the line at its end; None if it says so already, or may not be written."""
    addition = " ".join(change.addition.split())
    lines = [line.strip().lstrip("-* ").casefold() for line in current.splitlines()]
    if addition.casefold() in lines:
        return None
    content = f"{current.rstrip()}\n- {addition}".lstrip("\n")
    return None if problems_of(content, most) else content


def is_new(change: IdentityChange, pending: Mapping[File, Sequence[str]]) -> bool:
    """Whether nobody has been asked about a line like it."""
    return most_similar(change.addition, pending.get(change.file, ())) is None


#: A pattern rests on so many lines at least.
LEAST = 2
#: Characters of a line that are read, and of one that is quoted.
READ_CHARS, QUOTED_CHARS = 2_000, 200
#: A preference for how the agent works needs no second time: it was said for good.
LEAST_PREFERENCES = 1
PRAISE = union(__package__, "self_review.txt", "praise")
PREFERENCE = union(__package__, "self_review.txt", "preference")
USER = "user"

_WORDS: dict[Language, dict[str, str]] = {
    "en": {
        "positive": "Went well {count} times: “{quote}”",
        "negative": "Hurt {count} times: “{quote}”",
        "improve": "Ask about this before it is raised again, and offer what helped: “{quote}”",
        "preference": "The user asked for it ({count} times): “{quote}”",
        "praised": "{agent} was praised {count} times: “{quote}”",
        "hurt": "Users of {agent} complained {count} times: “{quote}”",
        "wished": "Users of {agent} want this from now on: “{quote}”",
    },
    "zh": {
        "positive": "做得好，{count}次：“{quote}”",
        "negative": "让用户头疼，{count}次：“{quote}”",
        "improve": "在用户再次提起之前先问一问，并给出有用过的办法：“{quote}”",
        "preference": "用户这样要求过（{count}次）：“{quote}”",
        "praised": "{agent}被称赞过{count}次：“{quote}”",
        "hurt": "{agent}的用户抱怨过{count}次：“{quote}”",
        "wished": "{agent}的用户希望以后：“{quote}”",
    },
}
#: What a quoted preference does not end with.
_ENDS = " \t\n。！？.!?,，;；"


class _Groups:
    """Sentences that say similar things, with the lines that they are of."""

    def __init__(self) -> None:
        self.quotes: list[str] = []
        self.lines: list[list[int]] = []

    def add(self, line: int, sentence: str) -> None:
        quote = " ".join(masked(sentence).split())[:QUOTED_CHARS]
        index = most_similar(quote, self.quotes)
        if index is None:
            self.quotes.append(quote)
            self.lines.append([line])
        elif line not in self.lines[index]:
            self.lines[index].append(line)

    def of(self, least: int) -> list[tuple[str, list[int]]]:
        """Those of at least so many lines, the most frequent first."""
        groups = zip(self.quotes, self.lines, strict=True)
        frequent = [(quote, lines) for quote, lines in groups if len(lines) >= least]
        return sorted(frequent, key=lambda group: -len(group[1]))[:MAX_FINDINGS]


def review(agent_id: str, utterances: Sequence[tuple[str, str]]) -> SelfReflected:
    """What (role, words) of its conversations say about an agent."""
    praised, hurt, wished = _Groups(), _Groups(), _Groups()
    for line, (speaker, words) in enumerate(utterances):
        text = words[:READ_CHARS]
        if speaker != USER or override_in(text) or cue.HANDED_OVER.search(text) or cue.ROLE_PLAY.search(text):
            continue
        for sentence in filter(None, map(str.strip, sentences(text))):
            if cue.IMAGINED.search(sentence):
                continue
            if (preference := PREFERENCE.search(sentence)) is not None:
                wished.add(line, preference[0].rstrip(_ENDS))
            elif PRAISE.search(sentence) or says_helped(sentence):
                praised.add(line, sentence)
            elif reports_trouble(sentence):
                hurt.add(line, sentence)
    return _findings(agent_id, praised.of(LEAST), hurt.of(LEAST), wished.of(LEAST_PREFERENCES))


_Quotes = list[tuple[str, list[int]]]


def _findings(agent_id: str, praised: _Quotes, hurt: _Quotes, wished: _Quotes) -> SelfReflected:
    def finding(form: str, quote: str, lines: list[int]) -> Mapping[str, Any]:
        text = _WORDS[language_of(quote)][form].format(agent=agent_id, count=len(lines), quote=quote)
        return {"text": text, "evidence": lines[-MAX_EVIDENCE:]}

    patterns = [Pattern(kind="negative", **finding("negative", *group)) for group in hurt]
    patterns += [Pattern(kind="positive", **finding("positive", *group)) for group in praised]
    memories = [
        MetaMemory(importance=importance, **finding(form, *group))
        for form, importance, groups in (("wished", 7, wished), ("hurt", 6, hurt), ("praised", 5, praised))
        for group in groups
    ]
    changes = []
    for quote, lines in wished:
        fields = finding("preference", quote, lines)
        about = {"reason": fields["text"], "evidence": fields["evidence"]}
        changes.append(IdentityChange(file="AGENTS", addition=quote, **about))
    return SelfReflected(
        patterns=patterns[:MAX_FINDINGS],
        improvements=[Improvement(**finding("improve", *group)) for group in hurt],
        identity_changes=changes,
        meta_memories=memories[:MAX_FINDINGS],
    )
