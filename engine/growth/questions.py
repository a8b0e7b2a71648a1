"""What growth asks of an LLM, and the rules that answer where there is none.

The files that say who an agent is: as the part of a prompt, and ``USER`` as it follows the profile.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from pydantic import BaseModel, Field

from engine.conversations.gate import GATES, shared_words
from engine.conversations.memories import lines
from engine.growth.pains import (
    FoundPains,
    KnownSolution,
    ProposedSolution,
    SelfReflected,
    find_pains,
    propose_solution,
    review,
)
from engine.growth.skills import ArtifactPattern, SkillCandidate, draft_skill
from engine.providers.questions import AboutLines, Question
from engine.rules.provider import RULES
from jiyi.chat.secrets import masked
from jiyi.protocol.conversations import Profile
from jiyi.protocol.growth import Category
from jiyi.protocol.identity import File, tidy
from jiyi.text.prompt import Line, PromptStyle, Section, compose
from jiyi.text.prompting import visible
from jiyi.text.words import Language, language_of


class SkillDraft(Question[SkillCandidate]):
    """Which skill comes of what helped with the same problem several times?"""

    prompt: ClassVar[str] = "skill"
    answer: ClassVar[type[BaseModel]] = SkillCandidate

    pattern: ArtifactPattern

    @property
    def text(self) -> str:
        return self.pattern.title

    @property
    def about(self) -> str:
        return "; ".join([*self.pattern.wordings[1:], *(f"tool: {tool}" for tool in self.pattern.tools_used)])

    @property
    def statements(self) -> list[str]:
        return self.pattern.common_steps

    def problems(self, answer: SkillCandidate) -> list[str]:
        unknown = [tool for tool in answer.tools if tool not in self.pattern.tools_used]
        return [f"tools: {unknown} were not used; name only tools of the data"] if unknown else []


class PainQuestion(AboutLines[FoundPains]):
    """Which trouble do the new messages of a conversation report, and which say that something helped?"""

    prompt: ClassVar[str] = "pains"
    answer: ClassVar[type[BaseModel]] = FoundPains


class Solution(Question[ProposedSolution]):
    """What might be done about a pain point?"""

    prompt: ClassVar[str] = "solution"
    answer: ClassVar[type[BaseModel]] = ProposedSolution

    text: str
    category: Category = "other"
    #: What users said of it.
    quotes: list[str] = Field(default_factory=list)
    experiences: list[KnownSolution] = Field(default_factory=list)
    #: What was advised after they said so.
    advice: list[str] = Field(default_factory=list)

    @property
    def statements(self) -> list[str]:
        quotes = [f"said: {quote}" for quote in self.quotes]
        experiences = [
            f"known: {it.problem}: {'; '.join(it.steps)} ({it.outcome})" for it in self.experiences
        ]
        return [*quotes, *experiences, *(f"advised: {step}" for step in self.advice)]


class SelfReflectionQuestion(Question[SelfReflected]):
    """What do an agent's conversations say about the agent itself? ``text``: its files as they are."""

    prompt: ClassVar[str] = "self_reflection"
    answer: ClassVar[type[BaseModel]] = SelfReflected

    text: str = ""
    #: (role, what was said)
    utterances: list[tuple[str, str]] = Field(min_length=1)


def _of_lines(question: PainQuestion, answer: FoundPains) -> FoundPains | str:
    """The answer without pain points that no new user message mentions; if none is left, the problem."""
    new = list(enumerate(question.messages))[question.since :]
    own = {number: message.text for number, message in new if message.role == "user"}
    pains = [pain for pain in answer.pains if shared_words(pain.summary, own.get(pain.turn, ""))]
    if answer.pains and not pains:
        return "no new line of a user says any of it"
    helped = [turn for turn in answer.helped if turn in own]
    return answer.model_copy(update={"pains": pains, "helped": helped})


def _of_evidence(question: SelfReflectionQuestion, answer: SelfReflected) -> SelfReflected | str:
    """Of findings those that rest on lines that there are; an answer that has only others is none."""
    there = range(len(question.utterances))
    supported = {
        field: [one for one in getattr(answer, field) if all(line in there for line in one.evidence)]
        for field in SelfReflected.model_fields
    }
    if answer != SelfReflected() and not any(supported.values()):
        return "no line says any of it"
    return answer.model_copy(update=supported)


GATES[PainQuestion] = _of_lines
GATES[SelfReflectionQuestion] = _of_evidence


def _solution(question: Solution) -> ProposedSolution:
    return propose_solution(
        question.text,
        question.category,
        question.language,
        experiences=question.experiences,
        advice=question.advice,
    )


RULES[SkillDraft] = lambda question: draft_skill(question.pattern)
RULES[PainQuestion] = lambda question: find_pains(question.messages, question.since)
RULES[Solution] = _solution
RULES[SelfReflectionQuestion] = lambda question: review(question.agent_id, question.utterances)


#: In this order, the first ones first where not all fit.
SHOWN: tuple[File, ...] = ("SOUL", "AGENTS", "USER")


def compose_prompt(files: Mapping[File, str], most: int) -> str:
    """The files in at most ``most`` tokens, without those that are empty or do not fit."""
    language = language_of(files.get("USER", ""))
    sections = [replace(file_section(file, files.get(file, "")), opens=False) for file in SHOWN]
    return compose(sections, most, PromptStyle(language, apart="\n\n")).text


def file_section(file: File, content: str, item: Any = None) -> Section:
    """One of an agent's files. SOUL and AGENTS are instructions, and open a prompt; USER is data."""
    own = file != "USER"
    lines = [Line(text, item=item) for text in ([visible(content)] if own else content.splitlines())]
    return Section(f"<{file}>", lines, name=file, own=own, opens=own, shortens=own, end=f"</{file}>")


#: What stands below is people's own and is kept unchanged.
HEADING = "## Notes"
_TITLE: dict[Language, str] = {"en": "# User", "zh": "# 用户"}


def notes_of(content: str) -> str:
    """What people added to a file ``USER``."""
    _, heading, notes = f"\n{content}".partition(f"\n{HEADING}\n")
    return notes.strip() if heading else ""


def render_user_file(profile: Profile | None, notes: str, most: int) -> str:
    """The file; the profile is cut first where both do not fit into ``most`` characters."""
    values = "\n".join(str(value) for value in (profile or Profile()).model_dump(exclude_none=True).values())
    language = language_of(values)
    facts = (
        []
        if profile is None
        else [f"- {masked(' '.join(line.split()))}" for line in lines(profile, language)]
    )
    below = f"\n\n{HEADING}\n{tidy(notes)}" if notes.strip() else ""
    above = "\n".join([_TITLE[language], *facts])
    return (above[: max(0, most - len(below))].rstrip() + below)[:most] if facts or below else ""
