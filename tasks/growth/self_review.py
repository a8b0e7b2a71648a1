"""Self-review as a part of a reflection (``tasks.reflection``); the file ``USER`` follows the profile."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime

from sqlalchemy import Connection

from engine.growth.pains import ReviewSchedule, SelfReflected
from engine.growth.questions import SelfReflectionQuestion
from engine.providers.llm_prompts import signature
from engine.providers.llms import LLM
from engine.reflection import Thought, thought_of
from engine.rules.provider import Rules
from jiyi.protocol.reflection import SELF_TRIGGERS
from jiyi.text.words import language_of
from models.conversations.extractions import StoredTurn
from models.db.connection import unit_of_work
from models.growth import identity, self_review
from models.growth.work import FOLLOW_PROFILE
from models.memory import agents
from models.memory.agents import AgentName, lock_agents
from models.reflection.reflections import StartedReflection
from tasks.framework.work import Batch, or_by_rules, work_task
from tasks.reflection import LOOKS

#: Latest turns that one self-review takes in.
MAX_TURNS = 200


@dataclass(slots=True)
class SelfReview:
    """A self-review (:class:`tasks.reflection.Look`): what it starts from, and what came of it."""

    name: AgentName
    schedule: ReviewSchedule
    turns: list[StoredTurn]
    files: str
    answer: SelfReflected = field(default_factory=SelfReflected)

    @property
    def anything(self) -> bool:
        """Whether it has found anything."""
        return self.answer != SelfReflected()

    def ask(self, llm: LLM) -> list[Thought]:
        """What the turns say about the agent. Raises as ``llm`` does, where the rules may not stand in."""
        if not self.turns:
            return []
        own = self.schedule.settings
        return or_by_rules(llm if own.use_llm else Rules(), self._thoughts, fallback=own.fallback)[0]

    def _thoughts(self, llm: LLM) -> list[Thought]:
        utterances = [(turn.message.role, turn.message.text) for turn in self.turns]
        language = language_of("\n".join(text for _, text in utterances))
        question = SelfReflectionQuestion(
            agent_id=self.name[1],
            group_id=self.name[0],
            language=language,
            text=self.files,
            utterances=utterances,
        )
        self.answer = llm.ask(question)
        (group_id, agent_id), prompt = self.name, signature(question, language)
        return [
            thought_of(
                llm,
                agent_id,
                found.text,
                [self.turns[line].node_id for line in dict.fromkeys(found.evidence)],
                prompt,
                poignancy=found.importance,
                group_id=group_id,
            )
            for found in self.answer.meta_memories
        ]

    def finish(self, connection: Connection, begun: StartedReflection) -> bool:
        """Store what was found; whether the next look is due already. Call it under the agent's lock."""
        self_review.store_findings(
            connection, self.name, begun.reflection_id, self.answer, self.turns, self.schedule.settings
        )
        seen_to = self.turns[-1].node_count if self.turns else self.schedule.seen_to
        return self_review.finish_review(connection, self.name, self.schedule, seen_to)


class SelfReviews:
    """How agents come to review themselves (:class:`tasks.reflection.LookKind`)."""

    triggers = SELF_TRIGGERS

    def begin(self, connection: Connection, name: AgentName, *, called_for: bool) -> SelfReview | None:
        """None if the agent is not to review itself now: neither called for, nor asked, nor due."""
        schedule = self_review.find_schedule(connection, name)
        if not (called_for or schedule.asked or schedule.due(datetime.now(UTC))):
            return None
        turns = self_review.turns_since(connection, name, schedule.seen_to, MAX_TURNS)
        return SelfReview(name, schedule, turns, self_review.files_text(connection, name))

    def lock(self, connection: Connection, name: AgentName) -> None:
        self_review.lock_schedule(connection, name)


LOOKS.append(SelfReviews())


@work_task(FOLLOW_PROFILE, batch=20, time_limit=60)
def follow_profile(batch: Batch) -> None:
    """Write what an agent's profile says of its user into the file ``USER``.

    Safe to repeat because the version and the receipt are one transaction, and a file that says the same
    stays unchanged.
    """
    with unit_of_work() as connection:
        names = {
            key: name for key in batch.subject_ids if (name := agents.name_of(connection, key)) is not None
        }
    with batch.finish() as (connection, pending):
        lock_agents(connection, [names[key] for key in pending if key in names])
        for key in pending:
            if key in names and agents.key_of(connection, *names[key]) == key:
                identity.follow_profile(connection, names[key])
