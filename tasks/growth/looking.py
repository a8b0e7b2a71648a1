"""The part of a reflection in which an agent looks at itself; the task is ``tasks.reflection.reflect``."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID

from sqlalchemy import Connection

from engine.growth.reflections.types import MetaMemory, SelfReflected
from engine.providers.llms import LLM
from engine.providers.llms.prompts import signature
from engine.providers.llms.questions import A, Question, SelfReflection, Triple
from engine.providers.llms.rules import Rules
from engine.reflection.thoughts import Thought
from jiyi.errors import LLMUnavailable
from jiyi.text.words import language_of
from models.conversations.extractions import StoredTurn
from models.growth.reflections import findings, rhythm
from models.growth.reflections.rhythm import Known
from models.memory.agents.agents import AgentName
from models.reflection.reflections import StartedReflection

#: Latest turns that one self-review takes in.
MAX_TURNS = 200

log = logging.getLogger(__name__)


@dataclass(slots=True)
class SelfLook:
    """What it starts from, and what came of it."""

    name: AgentName
    known: Known
    turns: list[StoredTurn]
    files: str
    found: SelfReflected = field(default_factory=SelfReflected)
    thoughts: list[Thought] = field(default_factory=list)

    @property
    def anything(self) -> bool:
        """Whether there is something to be told of it."""
        return self.found != SelfReflected()


def begin(connection: Connection, name: AgentName, *, called_for: bool) -> SelfLook | None:
    """None if the agent is not to look at itself now: neither called for, nor asked, nor due."""
    known = rhythm.find(connection, name)
    if not (called_for or known.rhythm.asked or known.due):
        return None
    turns = findings.turns(connection, name, known.seen_to, MAX_TURNS)
    return SelfLook(name, known, turns, findings.files_text(connection, name))


def think(look: SelfLook, llm: LLM) -> None:
    """Ask what the turns say about the agent. Raises as ``llm`` does, where the rules may not stand in."""
    if not look.turns:
        return
    asked = _Asked(look.known, llm)
    said = [(turn.message.role, turn.message.text) for turn in look.turns]
    language = language_of("\n".join(text for _, text in said))
    question = SelfReflection(agent_id=look.name[1], group_id=look.name[0], language=language, text=look.files, utterances=said)
    look.found = asked.ask(question)
    look.thoughts = [_thought(asked, look, one, signature(question, language)) for one in look.found.meta_memories]


def finish(connection: Connection, look: SelfLook, begun: StartedReflection) -> bool:
    """Store what was found, and count anew. Whether the next look is due already. Call it under the agent's lock."""
    findings.keep(connection, look.name, begun.reflection_id, look.found, look.turns, look.known.settings)
    seen_to = look.turns[-1].node_count if look.turns else look.known.seen_to
    return rhythm.looked(connection, look.name, look.known, seen_to)


def _thought(asked: _Asked, look: SelfLook, one: MetaMemory, prompt: str) -> Thought:
    facts = asked.ask(Triple(agent_id=look.name[1], group_id=look.name[0], language=language_of(one.text), text=one.text))
    return Thought(
        description=one.text,
        subject=facts.subject,
        predicate=facts.predicate,
        object=facts.object,
        poignancy=one.importance,
        evidence=_ids(look.turns, one.evidence),
        prompt=prompt,
    )


def _ids(turns: Sequence[StoredTurn], lines: Sequence[int]) -> list[UUID]:
    return [turns[line].node_id for line in dict.fromkeys(lines)]


class _Asked:
    """The agent's LLM: the rules where it wants none, or where they may stand in for one that is away."""

    def __init__(self, known: Known, llm: LLM) -> None:
        self._settings = known.settings
        self._llm: LLM = llm if known.settings.use_llm else Rules()

    def ask(self, question: Question[A]) -> A:
        try:
            return self._llm.ask(question)
        except LLMUnavailable as error:
            if not self._settings.fallback:
                raise
            log.warning("the LLM is away (%s): answered by rules", error)
            return Rules().ask(question)
