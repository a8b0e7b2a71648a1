"""Questions on conversations: summaries of memories, compaction, extraction."""

from __future__ import annotations

from typing import ClassVar

from pydantic import BaseModel, Field

from engine.providers.llms.questions.base import OneSentence, Question, Sentence, ShortName, speaker
from jiyi.protocol.conversations.types import CombinedExtraction, KnownFact, Message


class Summarised(BaseModel):
    #: One or two sentences (L1), and three to five keywords (L0).
    overview: Sentence
    keywords: list[ShortName] = Field(min_length=1, max_length=5)


class Summary(Question[Summarised]):
    """What does a text come to, in one or two sentences and in keywords, in its own language?"""

    prompt: ClassVar[str] = "summary"
    answer: ClassVar[type[BaseModel]] = Summarised

    text: str


class Compaction(Question[OneSentence]):
    """What of this part of a conversation has to be known to go on with it?"""

    prompt: ClassVar[str] = "compaction"
    answer: ClassVar[type[BaseModel]] = OneSentence

    #: What the summary of the part before it says.
    text: str = ""
    utterances: list[tuple[str, str]] = Field(min_length=1)


class Extraction(Question[CombinedExtraction]):
    """What do the new messages of a conversation tell that is worth remembering?

    Messages before ``since`` were asked about before: they are there to understand the others by.
    """

    prompt: ClassVar[str] = "extraction"
    answer: ClassVar[type[BaseModel]] = CombinedExtraction

    messages: list[Message] = Field(min_length=1)
    since: int = Field(0, ge=0)
    #: What is in force already: not to be told again, perhaps to be superseded.
    known: list[KnownFact] = Field(default_factory=list)

    @property
    def about(self) -> str:
        return f"new are the lines from {self.since} on"

    @property
    def statements(self) -> list[str]:
        return [fact.content for fact in self.known]

    @property
    def utterances(self) -> list[tuple[str, str]]:
        """Speaker with role and day, and what was said: the form of a block's lines."""
        return [(speaker(message), message.text) for message in self.messages]

    def problems(self, answer: CombinedExtraction) -> list[str]:
        found = []
        given = {"memories": [one.turns for one in answer.memories], "experiences": [one.turns for one in answer.experiences]}
        for field, turns in given.items():
            for place, numbers in enumerate(turns):
                wrong = [turn for turn in numbers if not self.since <= turn < len(self.messages)]
                if wrong:
                    found.append(f"{field}.{place}.turns: {wrong} are no numbers of new lines {self.since} … {len(self.messages) - 1}")
        for place, memory in enumerate(answer.memories):
            wrong = [number for number in memory.supersedes if not 0 <= number < len(self.known)]
            if wrong:
                found.append(f"memories.{place}.supersedes: {wrong} are no numbers of the statements 0 … {len(self.known) - 1}")
        return found
