"""Turns, extracted memories and experiences as the events that they become; experiences of the same problem are one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID, uuid5

from pydantic import BaseModel

from engine.providers.questions import Poignancy
from engine.rules import poignancy
from jiyi.protocol import events as wire
from jiyi.protocol.conversations import (
    MAX_STEPS,
    OUTCOMES,
    PROFILE_ENTRIES,
    CombinedExtraction,
    ExtractedExperience,
    ExtractedMemory,
    Message,
    Outcome,
    uri_of,
)
from jiyi.protocol.events import Event, MemoryObserved, Observation, TurnRecorded
from jiyi.text.words import Language, content_digest, language_of, normalise, tokens

#: Less important memories, and less certain experiences, are dropped.
LEAST_IMPORTANCE, LEAST_CONFIDENCE = 3, 0.6
#: Share of words from which on a text says the same as one that was injected: that comes back, and is nothing new.
SAME_WORDS = 0.85


#: What worked matters more than what did not.
EXPERIENCE_IMPORTANCE: dict[Outcome, float] = {"success": 7, "partial": 6, "failed": 5}


@dataclass(frozen=True, slots=True)
class Source:
    """The messages that were looked through, with the ids of their turns, and by what."""

    group_id: str
    agent_id: str
    session_id: str
    messages: Sequence[Message]
    turn_ids: Sequence[UUID]
    #: Which LLM, by which prompt; ``fallback`` if the rules stood in for one that was away.
    llm: str
    prompt: str
    fallback: bool = False


def worth_keeping(extraction: CombinedExtraction, injected: Sequence[str]) -> CombinedExtraction:
    """Without what matters little, is uncertain, or only repeats what was put before the answer."""
    repeated = [set(tokens(text)) for text in injected]
    memories = [
        memory for memory in extraction.memories if memory.importance >= LEAST_IMPORTANCE and not _repeats(memory.content, repeated)
    ]
    experiences = [experience for experience in extraction.experiences if experience.confidence >= LEAST_CONFIDENCE]
    return extraction.model_copy(update={"memories": memories, "experiences": experiences})


def event_of(memory: ExtractedMemory, source: Source) -> Event:
    """The memory as an event like any other. Its id follows from its turns and its content: the same in each attempt.

    Raises:
        InvalidEvent: it holds what cannot be stored.
    """
    turns = sorted(set(memory.turns))
    evidence = [source.turn_ids[turn] for turn in turns]
    category = (memory.attribute or memory.category).partition(":")[0]
    provenance = {
        "session": source.session_id,
        "llm": source.llm,
        "prompt": source.prompt,
        "category": memory.category,
        "single_valued": memory.single_valued,
    }
    if source.fallback:
        provenance["fallback"] = True
    if memory.negative:
        provenance["negative"] = True
    return wire.build(
        {
            "type": "memory.observed",
            "event_id": memory_id(evidence, memory.content),
            "occurred_at": said_at(source.messages, turns),
            "group_id": source.group_id,
            "agent_id": source.agent_id,
            "payload": {
                "node_type": "event",
                "description": memory.content,
                "subject": memory.subject,
                "predicate": memory.attribute,
                "keywords": list(dict.fromkeys(memory.keywords)),
                "poignancy": memory.importance,
                "evidence": evidence,
                "provenance": provenance,
                "kind": memory.type,
                "uri": uri_of(source.agent_id, memory.type, category),
            },
        }
    )


def experience_event(merged: StoredExperience, told: ExtractedExperience, source: Source, before: Sequence[UUID] = ()) -> MemoryObserved:
    """An experience as the event of its memory, at the address of its problem; ``before``: turns that told of it earlier."""
    turns = sorted(set(told.turns))
    evidence = list(dict.fromkeys([*before, *(source.turn_ids[turn] for turn in turns)]))
    key = pattern_hash(merged.pain_pattern).hex()
    event = wire.build(
        {
            "type": "memory.observed",
            "event_id": memory_id(evidence, text_of(merged)),
            "occurred_at": said_at(source.messages, turns),
            "group_id": source.group_id,
            "agent_id": source.agent_id,
            "payload": {
                "node_type": "event",
                "description": text_of(merged),
                "keywords": merged.tools_used,
                "poignancy": EXPERIENCE_IMPORTANCE[merged.outcome],
                "evidence": evidence,
                "provenance": {"session": source.session_id, "llm": source.llm, "prompt": source.prompt, "outcome": merged.outcome},
                "kind": "experience",
                "uri": uri_of(source.agent_id, "experience", key),
            },
        }
    )
    assert isinstance(event, MemoryObserved)
    return event


def memory_id(evidence: Sequence[UUID], content: str) -> UUID:
    """The id of what was extracted from these turns."""
    return uuid5(evidence[-1], f"{'/'.join(map(str, evidence))} {content_digest(content).hex()}")


def said_at(messages: Sequence[Message], turns: Sequence[int]) -> datetime:
    """When the last of the turns was said."""
    return max(at for turn in turns if (at := messages[turn].at) is not None)


def waves(memories: Sequence[ExtractedMemory]) -> list[list[ExtractedMemory]]:
    """Memories in parts that are stored one after the other: what is said of the same attribute again comes in a later one."""
    parts: list[list[ExtractedMemory]] = []
    seen: dict[tuple[str, str], int] = {}
    for memory in memories:
        place = 0
        if memory.attribute is not None and memory.single_valued:
            name = (memory.subject, memory.attribute)
            place = seen[name] = seen.get(name, -1) + 1
        while len(parts) <= place:
            parts.append([])
        parts[place].append(memory)
    return parts


def _repeats(content: str, repeated: Sequence[set[str]]) -> bool:
    words = set(tokens(content))
    return any(words and len(words & other) >= SAME_WORDS * len(words | other) for other in repeated)


class StoredExperience(BaseModel):
    """An experience as it is kept."""

    pain_pattern: str
    context: str = ""
    solution_steps: list[str] = []
    outcome: Outcome = "partial"
    confidence: float = 0.0
    #: How often it was told again, or put before an answer.
    reuse_count: int = 0
    tools_used: list[str] = []
    industry_context: str | None = None


def pattern_hash(pain_pattern: str) -> bytes:
    """What experiences of the same problem are merged by."""
    return content_digest(pain_pattern)


def merged(known: StoredExperience | None, told: ExtractedExperience) -> StoredExperience:
    """All steps of both in the order in which they came, the better outcome; told again, it was used again."""
    if known is None:
        return StoredExperience(**told.model_dump(include=StoredExperience.model_fields.keys() & ExtractedExperience.model_fields.keys()))
    return StoredExperience(
        pain_pattern=known.pain_pattern,
        context=told.context or known.context,
        solution_steps=_union(known.solution_steps, told.solution_steps)[:MAX_STEPS],
        outcome=max(known.outcome, told.outcome, key=OUTCOMES.index),
        confidence=max(known.confidence, told.confidence),
        reuse_count=known.reuse_count + 1,
        tools_used=_union(known.tools_used, told.tools_used)[:PROFILE_ENTRIES],
        industry_context=told.industry_context or known.industry_context,
    )


def text_of(experience: StoredExperience) -> str:
    """The experience in one text, in the language of its problem: what it is found by, and what is injected."""
    labels = _LABELS[language_of(experience.pain_pattern)]
    parts = [experience.pain_pattern]
    if experience.context:
        parts.append(f"{labels['context']}{experience.context}")
    if experience.solution_steps:
        parts.append(labels["steps"] + "; ".join(f"{number}. {step}" for number, step in enumerate(experience.solution_steps, 1)))
    parts.append(labels["outcome"] + labels[experience.outcome])
    return " | ".join(parts)


_LABELS: dict[Language, dict[str, str]] = {
    "en": {
        "context": "Context: ",
        "steps": "Steps: ",
        "outcome": "Outcome: ",
        "success": "success",
        "partial": "partial",
        "failed": "failed",
    },
    "zh": {"context": "背景：", "steps": "步骤：", "outcome": "结果：", "success": "成功", "partial": "部分成功", "failed": "失败"},
}


def _union(first: Iterable[str], second: Iterable[str]) -> list[str]:
    union: dict[str, str] = {}
    for entry in (*first, *second):
        union.setdefault(normalise(entry).strip(), entry)
    return list(union.values())


def memory_of(event: MemoryObserved | TurnRecorded) -> MemoryObserved:
    """The memory that the event becomes. A turn does not bring a reflection nearer; what is extracted from it will."""
    if isinstance(event, MemoryObserved):
        return event
    turn = event.payload
    payload = Observation.model_construct(
        description=f"{turn.name}: {turn.text}" if turn.name else turn.text,
        subject=turn.name or turn.role,
        keywords=[],
        poignancy=float(poignancy.weigh(Poignancy.model_construct(agent_id=event.agent_id, text=turn.text)).poignancy),
        historic=True,
        kind="session",
        uri=uri_of(event.agent_id, "session", event.session_id or ""),
        provenance={**turn.provenance, "role": turn.role},
    )
    envelope = {name: getattr(event, name) for name in type(event).model_fields if name not in ("type", "payload")}
    return MemoryObserved.model_construct(**envelope, payload=payload)
