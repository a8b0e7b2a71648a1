"""Reflection: thoughts of a higher level, each with the memories it rests on (Park et al. 2023, §4.2).

Pure: the LLM and the retrieval are passed in. The order of the questions is that of the original's
``run_reflect``: focal points; for each the insights; for each of these its triple and its poignancy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID, uuid5

from pydantic import BaseModel

from engine.memory import THOUGHT_LIFETIME
from engine.providers.llm_prompts import signature
from engine.providers.llms import LLM
from engine.providers.questions import FocalPoints, Insights, Memo, Planning, Poignancy, Triple
from jiyi.client.perceive import IDLE_POIGNANCY
from jiyi.protocol import events as wire
from jiyi.protocol.agents import AgentSettings
from jiyi.protocol.base import LATEST
from jiyi.protocol.events import Event
from jiyi.protocol.memory import AgentState
from jiyi.settings import Settings
from jiyi.text.words import Language, is_idle, language_of

#: Focal points of one reflection: ``generate_focal_points(persona, 3)``.
FOCAL_POINTS = 3
#: Memories retrieved for each: ``new_retrieve(persona, focal_points)`` with its default ``n_count=30``.
RETRIEVED = 30
#: Insights from each focal point's memories, at most: ``generate_insights_and_evidence(persona, nodes, 5)``.
INSIGHTS = 5
#: At or below this the importance that is left calls for a reflection: ``reflection_trigger``.
TRIGGERED = 0
#: Statements shown for the focal points, at most. Ours: many mundane events must not outgrow an LLM's
#: context.
MAX_STATEMENTS = 200
#: Utterances of a conversation that are shown, the last ones. Ours, for the same reason.
MAX_UTTERANCES = 200

#: What a conversation leaves behind (``reflect``, chat end).
PLANNING_THOUGHT: dict[Language, str] = {
    "en": "For {agent}'s planning: {sentence}",
    "zh": "{agent}接下来要记着：{sentence}",
}
MEMO_THOUGHT: dict[Language, str] = {"en": "{agent} {sentence}", "zh": "{agent}{sentence}"}


@dataclass(frozen=True, slots=True)
class MemoryStatement:
    """A memory as the LLM sees it: its embedding key, as in the original."""

    node_id: UUID
    text: str
    at: datetime | None = None
    is_thought: bool = False
    #: The only user it is visible to.
    user_id: str | None = None


@dataclass(frozen=True, slots=True)
class ReflectionResult:
    focal_points: list[str]
    thoughts: list[Thought]


#: The memories that matter for each text, best first; all texts are asked about at once.
Retrieve = Callable[[list[str]], list[list[MemoryStatement]]]


#: Of the users whose memories are new, those with the most are thought about in one reflection.
MAX_USERS = 5


def by_user(statements: Sequence[MemoryStatement]) -> dict[str | None, list[MemoryStatement]]:
    """Memories visible to all, and those visible to one user alone, of the users with the most: no thought is
    to mix them.
    """
    users: dict[str | None, list[MemoryStatement]] = {}
    for statement in statements:
        users.setdefault(statement.user_id, []).append(statement)
    most = sorted(users, key=lambda user: (user is not None, -len(users[user])))[
        : MAX_USERS + (None in users)
    ]
    return {user: users[user] for user in most}


def visible_thoughts(thoughts: Sequence[Thought], users: Mapping[UUID, str]) -> list[Thought]:
    """The thoughts, each visible to those who see its evidence; without thoughts from private evidence of two
    users.

    ``users``: evidence visible to one user alone → that user.
    """
    of_each = [
        (thought, {users[node_id] for node_id in thought.evidence if node_id in users})
        for thought in thoughts
    ]
    return [replace(thought, user_id=next(iter(of), None)) for thought, of in of_each if len(of) <= 1]


def is_due(importance_trigger_curr: float) -> bool:
    return importance_trigger_curr <= TRIGGERED


def window(importance_ele_n: int, *, original: bool) -> int:
    """How many of the latest memories raise the focal points: as many as there were events since the last
    reflection.

    With none the original takes all of them (its slice ``[-0:]``, Q10); we take as many as are retrieved.
    """
    if importance_ele_n:
        return min(importance_ele_n, MAX_STATEMENTS)
    return MAX_STATEMENTS if original else RETRIEVED


def counters_after(
    now: tuple[float, int], at_start: tuple[float, int], maximum: float, *, original: bool
) -> tuple[float, int]:
    """(what is left until the next reflection, events since this one), given the same at its beginning
    (``seen``).

    What happened while it was thought about counts towards the next one; the original sets both back.
    """
    if original:
        return maximum, 0
    return min(maximum, maximum + now[0] - at_start[0]), max(0, now[1] - at_start[1])


def reflect(
    agent_id: str,
    statements: Sequence[MemoryStatement],
    llm: LLM,
    retrieve: Retrieve,
    *,
    original: bool = False,
) -> ReflectionResult:
    """Thoughts that follow from the latest memories. ``original`` keeps the original's rule of idle memories,
    and repeated insights.

    Raises:
        LLMUnavailable, BadReply: from ``llm``; nothing of the reflection is to be kept.
    """
    texts = [statement.text for statement in statements]
    language = language_of("\n".join(texts))
    question = FocalPoints(agent_id=agent_id, language=language, statements=texts, count=FOCAL_POINTS)
    points = llm.ask(question).questions
    # A point that was given twice is thought about once.
    retrieved = dict(zip(points, retrieve(points), strict=True))
    thoughts: list[Thought] = []
    for point, memories in retrieved.items():
        for text, evidence in _insights(agent_id, language, point, memories, llm):
            duplicate = next((thought for thought in thoughts if thought.description == text), None)
            if duplicate is None or original:
                prompt = signature(Insights, language)
                thought = thought_of(llm, agent_id, text, evidence, prompt, original=original)
                thoughts.append(replace(thought, focal_point=point))
            else:  # it answers two of the questions: one thought, with the evidence of both
                duplicate.evidence.extend(
                    node_id for node_id in evidence if node_id not in duplicate.evidence
                )
    return ReflectionResult(points, thoughts)


def reflect_on_conversation(
    agent_id: str,
    chat_ids: Sequence[UUID],
    utterances: Sequence[tuple[str, str]],
    llm: LLM,
    *,
    original: bool = False,
) -> list[Thought]:
    """What the agent takes along from a conversation: one thought for its planning, one of what was
    interesting. Raises as :func:`reflect` does.
    """
    spoken = list(utterances)[-MAX_UTTERANCES:]
    language = language_of("\n".join(text for _, text in spoken))
    thoughts = []
    asks: tuple[tuple[type[Planning | Memo], dict[Language, str]], ...] = (
        (Planning, PLANNING_THOUGHT),
        (Memo, MEMO_THOUGHT),
    )
    for question, form in asks:
        sentence = llm.ask(question(agent_id=agent_id, language=language, utterances=spoken)).sentence.strip()
        # The original has "Maria Maria found it interesting" where the LLM had named her already.
        sentence = sentence.removeprefix(agent_id).strip() or sentence
        text, prompt = form[language].format(agent=agent_id, sentence=sentence), signature(question, language)
        thoughts.append(thought_of(llm, agent_id, text, list(chat_ids), prompt, original=original))
    return thoughts


def _insights(
    agent_id: str, language: Language, point: str, memories: Sequence[MemoryStatement], llm: LLM
) -> Iterator[tuple[str, list[UUID]]]:
    """(insight, its evidence); the same insight given twice is one, with the evidence of both (Q12)."""
    if not memories:
        return
    texts = [memory.text for memory in memories]
    times = [memory.at for memory in memories if memory.at is not None]
    question = Insights(
        agent_id=agent_id,
        language=language,
        focal_point=point,
        statements=texts,
        times=times if len(times) == len(texts) else [],
        thoughts=[number for number, memory in enumerate(memories) if memory.is_thought],
        count=INSIGHTS,
    )
    united: dict[str, dict[UUID, None]] = {}
    for insight in llm.ask(question).insights:
        united.setdefault(insight.text.strip(), {}).update(
            dict.fromkeys(memories[i].node_id for i in insight.evidence)
        )
    for text, evidence in united.items():
        yield text, list(evidence)


def thought_of(
    llm: LLM,
    agent_id: str,
    text: str,
    evidence: list[UUID],
    prompt: str,
    *,
    original: bool = False,
    poignancy: float | None = None,
    group_id: str = "",
) -> Thought:
    """A thought of a text: its triple, then its poignancy, unless that is known, as the original asks."""
    about: dict[str, Any] = {"agent_id": agent_id, "group_id": group_id, "language": language_of(text)}
    facts = llm.ask(Triple(**about, text=text))
    if poignancy is None and ("is idle" in text if original else is_idle(text)):
        poignancy = IDLE_POIGNANCY
    elif poignancy is None:
        poignancy = float(llm.ask(Poignancy(**about, kind="thought", text=text)).poignancy)
    return Thought(
        description=text,
        subject=facts.subject,
        predicate=facts.predicate,
        object=facts.object,
        poignancy=poignancy,
        evidence=evidence,
        prompt=prompt,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Thought:
    description: str
    subject: str
    predicate: str
    object: str
    poignancy: float
    #: In the order in which the LLM named it, each once.
    evidence: list[UUID]
    #: The question that it answers: ``insights@1``, ``planning@1``, ``memo@1``.
    prompt: str
    focal_point: str = ""
    #: The only user it is visible to.
    user_id: str | None = None

    @property
    def keywords(self) -> list[str]:
        return list(dict.fromkeys((self.subject, self.predicate, self.object)))


@dataclass(frozen=True, kw_only=True, slots=True)
class Origin:
    """Whose thoughts they are, when they were thought, in which reflection, and with which LLM."""

    group_id: str
    agent_id: str
    now: datetime
    reflection_id: UUID
    llm: str
    session_id: str | None = None


def thought_id(reflection_id: UUID, position: int) -> UUID:
    """The event id of a reflection's thought: the same in each attempt, so that none is stored twice."""
    return uuid5(reflection_id, str(position))


def events_of(thoughts: Sequence[Thought], origin: Origin) -> list[Event]:
    """The thoughts as events like any other. Raises ``InvalidEvent`` for what cannot be stored."""
    return [_event(position, thought, origin) for position, thought in enumerate(thoughts)]


def _event(position: int, thought: Thought, origin: Origin) -> Event:
    expires_at = min(origin.now + THOUGHT_LIFETIME, LATEST)
    provenance = {"reflection": str(origin.reflection_id), "llm": origin.llm, "prompt": thought.prompt}
    if thought.focal_point:
        provenance["focal_point"] = thought.focal_point
    return wire.build(
        {
            "type": "memory.observed",
            "event_id": thought_id(origin.reflection_id, position),
            "occurred_at": origin.now,
            "group_id": origin.group_id,
            "agent_id": origin.agent_id,
            "session_id": origin.session_id,
            "correlation_id": str(origin.reflection_id),
            "payload": {
                "node_type": "thought",
                "description": thought.description,
                "subject": thought.subject,
                "predicate": thought.predicate,
                "object": thought.object,
                "keywords": thought.keywords,
                "poignancy": thought.poignancy,
                "evidence": thought.evidence,
                "expires_at": expires_at,
                "provenance": provenance,
                "user_id": thought.user_id,
            },
        }
    )


class Progress(BaseModel):
    """The sum of the events' importance, and the sum that is needed; ``owed``: it is reached."""

    gathered: float
    max: int | float  # as the setting has it
    owed: bool


class AgentOnItsWay(AgentState):
    """An agent, and how far it is."""

    reflection: Progress


def with_progress(agent: AgentState, settings: Settings) -> AgentOnItsWay:
    most = AgentSettings(**agent.settings).over(settings).importance_trigger_max
    gathered = most - agent.importance_trigger_curr
    return AgentOnItsWay(
        **dict(agent), reflection=Progress(gathered=gathered, max=most, owed=gathered >= most)
    )
