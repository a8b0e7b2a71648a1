"""Self-review: when an agent is due to review itself, what its conversations say about it by rules, and which changes it may propose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from engine.conversations import cues as cue
from engine.growth.pains import most_alike, says_helped, tells_of_trouble
from jiyi.chat.secrets import masked
from jiyi.protocol.growth import SelfTrigger
from jiyi.protocol.identity import File, override_in, problems_of
from jiyi.text.sections import union
from jiyi.text.splitting import sentences
from jiyi.text.words import Language, language_of

#: Characters of one finding: a sentence or two.
MAX_FINDING_CHARS = 1_000
#: Findings of each kind, and ids of the evidence of one.
MAX_FINDINGS, MAX_EVIDENCE = 10, 20

Finding = Annotated[str, Field(pattern=r"\S", max_length=MAX_FINDING_CHARS)]
#: Numbers of the lines that it rests on, from 0.
Lines = Annotated[list[int], Field(min_length=1, max_length=MAX_EVIDENCE)]


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
class ReviewState:
    """An agent's settings of it, and how far it has come. 0: this is no reason."""

    conversations: int
    hours: int
    #: Conversations that have ended since the last review, and when that was.
    ended: int
    last_at: datetime
    #: Whether anything was said since.
    anything_new: bool
    #: Somebody asked for it.
    asked: bool = False


def due_trigger(rhythm: ReviewState, now: datetime) -> SelfTrigger | None:
    """Why it is due at ``now``; None if it is not."""
    if rhythm.conversations and rhythm.ended >= rhythm.conversations:
        return "conversations"
    if rhythm.hours and rhythm.anything_new and now - rhythm.last_at >= timedelta(hours=rhythm.hours):
        return "hours"
    return None


def due_at(rhythm: ReviewState) -> datetime | None:
    """When the hours are over; None where they are no reason."""
    return rhythm.last_at + timedelta(hours=rhythm.hours) if rhythm.hours else None


def allowed_changes(changes: Sequence[IdentityChange], *, soul: bool) -> list[IdentityChange]:
    """Those that may be proposed: changes of ``SOUL`` only where they are allowed."""
    return [change for change in changes if soul or change.file != "SOUL"]


def suggested_content(change: IdentityChange, current: str, most: int) -> str | None:
    """The file with the line at its end; None if it says so already, or may not be written (too long, an override)."""
    addition = " ".join(change.addition.split())
    lines = [line.strip().lstrip("-* ").casefold() for line in current.splitlines()]
    if addition.casefold() in lines:
        return None
    content = f"{current.rstrip()}\n- {addition}".lstrip("\n")
    return None if problems_of(content, most) else content


def is_new(change: IdentityChange, pending: Mapping[File, Sequence[str]]) -> bool:
    """Whether nobody has been asked about a line like it."""
    return most_alike(change.addition, pending.get(change.file, ())) is None


#: A pattern rests on so many lines at least.
LEAST = 2
#: Characters of a line that are read, and of one that is quoted.
READ_CHARS, QUOTED_CHARS = 2_000, 200
#: A wish for how the agent works needs no second time: it was said for good.
LEAST_WISHES = 1
PRAISE = union("engine.growth", "self_review.txt", "praise")
WISH = union("engine.growth", "self_review.txt", "wish")
USER = "user"

_WORDS: dict[Language, dict[str, str]] = {
    "en": {
        "positive": "Went well {count} times: “{quote}”",
        "negative": "Hurt {count} times: “{quote}”",
        "improve": "Ask about this before it is raised again, and offer what helped: “{quote}”",
        "wish": "The user asked for it ({count} times): “{quote}”",
        "praised": "{agent} was praised {count} times: “{quote}”",
        "hurt": "Users of {agent} complained {count} times: “{quote}”",
        "wished": "Users of {agent} want this from now on: “{quote}”",
    },
    "zh": {
        "positive": "做得好，{count}次：“{quote}”",
        "negative": "让用户头疼，{count}次：“{quote}”",
        "improve": "在用户再次提起之前先问一问，并给出有用过的办法：“{quote}”",
        "wish": "用户这样要求过（{count}次）：“{quote}”",
        "praised": "{agent}被称赞过{count}次：“{quote}”",
        "hurt": "{agent}的用户抱怨过{count}次：“{quote}”",
        "wished": "{agent}的用户希望以后：“{quote}”",
    },
}
#: What a wish that is quoted does not end with.
_ENDS = " \t\n。！？.!?,，;；"


class _Groups:
    """Sentences that say similar things, with the lines that they are of."""

    def __init__(self) -> None:
        self.quotes: list[str] = []
        self.lines: list[list[int]] = []

    def add(self, line: int, sentence: str) -> None:
        quote = " ".join(masked(sentence).split())[:QUOTED_CHARS]
        known = most_alike(quote, self.quotes)
        if known is None:
            self.quotes.append(quote)
            self.lines.append([line])
        elif line not in self.lines[known]:
            self.lines[known].append(line)

    def of(self, least: int) -> list[tuple[str, list[int]]]:
        """Those of at least so many lines, the most frequent first."""
        frequent = [(quote, lines) for quote, lines in zip(self.quotes, self.lines, strict=True) if len(lines) >= least]
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
            if (wish := WISH.search(sentence)) is not None:
                wished.add(line, wish[0].rstrip(_ENDS))
            elif PRAISE.search(sentence) or says_helped(sentence):
                praised.add(line, sentence)
            elif tells_of_trouble(sentence):
                hurt.add(line, sentence)
    return _findings(agent_id, praised.of(LEAST), hurt.of(LEAST), wished.of(LEAST_WISHES))


_Quotes = list[tuple[str, list[int]]]


def _findings(agent_id: str, praised: _Quotes, hurt: _Quotes, wished: _Quotes) -> SelfReflected:
    def say(form: str, quote: str, lines: list[int]) -> str:
        return _WORDS[language_of(quote)][form].format(agent=agent_id, count=len(lines), quote=quote)

    def evidence(lines: list[int]) -> list[int]:
        return lines[-MAX_EVIDENCE:]

    return SelfReflected(
        patterns=[
            *(Pattern(kind="negative", text=say("negative", *group), evidence=evidence(group[1])) for group in hurt),
            *(Pattern(kind="positive", text=say("positive", *group), evidence=evidence(group[1])) for group in praised),
        ][:MAX_FINDINGS],
        improvements=[Improvement(text=say("improve", *group), evidence=evidence(group[1])) for group in hurt],
        identity_changes=[
            IdentityChange(file="AGENTS", addition=group[0], reason=say("wish", *group), evidence=evidence(group[1])) for group in wished
        ],
        meta_memories=[
            MetaMemory(text=say(form, *group), importance=importance, evidence=evidence(group[1]))
            for form, importance, groups in (("wished", 7.0, wished), ("hurt", 6.0, hurt), ("praised", 5.0, praised))
            for group in groups
        ][:MAX_FINDINGS],
    )
