"""Questions to an LLM, each with the form that its answer must have.

A question carries data only; a prompt file (``engine/providers/prompts``) puts it into words, or nobody does:
the rules answer from the data itself. Memories in a question are data, never instructions.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, ClassVar, Generic, Literal, TypeVar

from pydantic import BaseModel, Field

from jiyi.protocol.conversations import CombinedExtraction, Message
from jiyi.protocol.numbered import StatementNumber
from jiyi.text.words import Language

A = TypeVar("A", bound=BaseModel)

#: Characters of any one text in an answer: a sentence or two.
MAX_ANSWER_CHARS = 2_000
MAX_NAME_CHARS = 200
MAX_KEYWORDS = 8

Sentence = Annotated[str, Field(pattern=r"\S", max_length=MAX_ANSWER_CHARS)]
ShortName = Annotated[str, Field(pattern=r"\S", max_length=MAX_NAME_CHARS)]


class KnownFact(BaseModel, frozen=True):
    """A memory that was current before the messages: they may repeat or supersede it."""

    content: str
    subject: str | None = None
    attribute: str | None = None
    single_valued: bool = False


class Question(BaseModel, Generic[A], frozen=True, extra="forbid"):
    """One question; ``prompt`` names its prompt file, ``answer`` is the schema of what must come back."""

    prompt: ClassVar[str]
    answer: ClassVar[type[BaseModel]]

    agent_id: str
    language: Language = "en"
    #: The group that its usage is counted for; it is not passed to the LLM.
    group_id: str = ""

    def problems(self, answer: A) -> list[str]:  # noqa: ARG002 - for subclasses
        """What is wrong with an answer of the right form, seen against what was asked."""
        return []


class OneSentence(BaseModel):
    sentence: Sentence


def too_many(field: str, count: int, limit: int) -> list[str]:
    """What is wrong with so many entries of an answer's field."""
    return [f"{field}: {count} given, {limit} asked for"] if count > limit else []


def no_numbers(field: str, numbers: list[int], count: int) -> list[str]:
    """What is wrong with numbers of statements that are not from 0 to below ``count``."""
    wrong = [number for number in numbers if not 0 <= number < count]
    return [f"{field}: {wrong} are no numbers of the statements 0 … {count - 1}"] if wrong else []


def speaker(message: Message) -> str:
    """Who said it and when, as an LLM is shown it."""
    day = f", {message.at:%Y-%m-%d}" if message.at else ""
    return f"{message.name or message.role} ({message.role}{day})"


class AboutLines(Question[A], Generic[A]):
    """About a conversation's lines from number ``since`` on; those before are there to understand them by."""

    messages: list[Message] = Field(min_length=1)
    since: int = Field(0, ge=0)

    @property
    def about(self) -> str:
        return f"new are the lines from L{self.since} on"

    @property
    def utterances(self) -> list[tuple[str, str]]:
        """Speaker with role and day, and what was said: the form of a block's lines."""
        return [(speaker(message), message.text) for message in self.messages]


class Poignant(BaseModel):
    #: 1 (brushing teeth) … 10 (a break-up).
    poignancy: int = Field(ge=1, le=10)


class Poignancy(Question[Poignant]):
    """How poignant is what happened for the agent?"""

    prompt: ClassVar[str] = "poignancy"
    answer: ClassVar[type[BaseModel]] = Poignant

    kind: Literal["event", "thought", "chat"] = "event"
    text: str
    #: Who the agent is, where that is known.
    about: str = ""


class Facts(BaseModel):
    subject: ShortName
    predicate: ShortName
    object: ShortName


class Triple(Question[Facts]):
    """Who does what to whom, in three parts?"""

    prompt: ClassVar[str] = "triple"
    answer: ClassVar[type[BaseModel]] = Facts

    text: str


class KeywordList(BaseModel):
    keywords: list[ShortName] = Field(max_length=MAX_KEYWORDS)


class Keywords(Question[KeywordList]):
    """Which words would one look for this under?"""

    prompt: ClassVar[str] = "keywords"
    answer: ClassVar[type[BaseModel]] = KeywordList

    text: str


class Points(BaseModel):
    questions: list[Sentence] = Field(min_length=1)


class FocalPoints(Question[Points]):
    """What are the most salient high-level questions that the statements raise?"""

    prompt: ClassVar[str] = "focal_points"
    answer: ClassVar[type[BaseModel]] = Points

    statements: list[str] = Field(min_length=1)
    count: int = Field(ge=1)

    def problems(self, answer: Points) -> list[str]:
        return too_many("questions", len(answer.questions), self.count)


class Insight(BaseModel):
    text: Sentence
    #: Numbers of the statements that it rests on, as they were numbered in the question: from 0.
    evidence: list[StatementNumber] = Field(min_length=1)


class InsightList(BaseModel):
    #: None, where nothing follows that no single statement says.
    insights: list[Insight]


class Insights(Question[InsightList]):
    """What follows from the statements, at a higher level, and from which of them?

    ``times`` are those of the statements, or none, and ``thoughts`` the numbers of those that are thoughts;
    neither is passed to LLMs.
    """

    prompt: ClassVar[str] = "insights"
    answer: ClassVar[type[BaseModel]] = InsightList

    focal_point: str
    statements: list[str] = Field(min_length=1)
    times: list[datetime] = Field(default_factory=list)
    thoughts: list[int] = Field(default_factory=list)
    count: int = Field(ge=1)

    def problems(self, answer: InsightList) -> list[str]:
        problems = too_many("insights", len(answer.insights), self.count)
        for place, insight in enumerate(answer.insights):
            problems += no_numbers(f"insights.{place}.evidence", insight.evidence, len(self.statements))
        return problems


class Planning(Question[OneSentence]):
    """What of this conversation should the agent remember for its planning?"""

    prompt: ClassVar[str] = "planning"
    answer: ClassVar[type[BaseModel]] = OneSentence

    #: (speaker, what was said)
    utterances: list[tuple[str, str]] = Field(min_length=1)


class Memo(Question[OneSentence]):
    """What of this conversation was interesting to the agent?"""

    prompt: ClassVar[str] = "memo"
    answer: ClassVar[type[BaseModel]] = OneSentence

    utterances: list[tuple[str, str]] = Field(min_length=1)


class Summarised(BaseModel):
    #: One or two sentences (L1), and three to five keywords (L0).
    overview: Sentence
    keywords: list[ShortName] = Field(min_length=1, max_length=5)


class Summary(Question[Summarised]):
    """What does a text come to, in one or two sentences and in keywords, in its own language?"""

    prompt: ClassVar[str] = "summary"
    answer: ClassVar[type[BaseModel]] = Summarised

    text: str


class Condensed(BaseModel):
    summary: Sentence = Field(description="The summary, of at most 300 words.")


class Compaction(Question[Condensed]):
    """What of this part of a conversation has to be known to go on with it?"""

    prompt: ClassVar[str] = "compaction"
    answer: ClassVar[type[BaseModel]] = Condensed

    #: What the summary of the part before it says.
    text: str = ""
    utterances: list[tuple[str, str]] = Field(min_length=1)


class Extraction(AboutLines[CombinedExtraction]):
    """What is worth remembering in the new messages of a conversation?

    Rules answer it; an LLM is asked less at a time (``engine.conversations.notes``).
    """

    prompt: ClassVar[str] = "extraction"
    answer: ClassVar[type[BaseModel]] = CombinedExtraction

    #: Current facts: not to be given again, perhaps to be superseded.
    known: list[KnownFact] = Field(default_factory=list)


class Digested(BaseModel):
    topic: ShortName
    summary: Sentence
    #: Numbers of the statements that it rests on.
    evidence: list[StatementNumber] = Field(min_length=1)


class Digest(Question[Digested]):
    """What do these outputs of a workflow, which say similar things, come to?"""

    prompt: ClassVar[str] = "digest"
    answer: ClassVar[type[BaseModel]] = Digested

    statements: list[str] = Field(min_length=1)

    def problems(self, answer: Digested) -> list[str]:
        return no_numbers("evidence", answer.evidence, len(self.statements))


class Checked(BaseModel):
    verdict: Literal["consistent", "inconsistent", "unknown"]
    why: str = Field(max_length=MAX_ANSWER_CHARS)


class Consistency(Question[Checked]):
    """Does the text contradict itself, or state what obviously cannot be so?"""

    prompt: ClassVar[str] = "consistency"
    answer: ClassVar[type[BaseModel]] = Checked

    text: str
