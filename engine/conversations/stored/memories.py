"""What was extracted, as the events that it becomes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID, uuid5

from engine.conversations.stored.experiences import StoredExperience, pattern_hash, text_of
from jiyi.protocol import events as wire
from jiyi.protocol.conversations.types import CombinedExtraction, ExtractedExperience, ExtractedMemory, Message, Outcome
from jiyi.protocol.conversations.uris import uri_of
from jiyi.protocol.events import Event, MemoryObserved
from jiyi.text.tokens import tokens
from jiyi.text.words import content_digest

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


def worth_keeping(found: CombinedExtraction, injected: Sequence[str]) -> CombinedExtraction:
    """Without what matters little, is uncertain, or only repeats what was put before the answer."""
    repeated = [set(tokens(text)) for text in injected]
    memories = [memory for memory in found.memories if memory.importance >= LEAST_IMPORTANCE and not _repeats(memory.content, repeated)]
    experiences = [one for one in found.experiences if one.confidence >= LEAST_CONFIDENCE]
    return found.model_copy(update={"memories": memories, "experiences": experiences})


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


def experience_event(made: StoredExperience, told: ExtractedExperience, source: Source, before: Sequence[UUID] = ()) -> MemoryObserved:
    """An experience as the event of its memory, at the address of its problem; ``before``: turns that told of it earlier."""
    turns = sorted(set(told.turns))
    evidence = list(dict.fromkeys([*before, *(source.turn_ids[turn] for turn in turns)]))
    key = pattern_hash(made.pain_pattern).hex()
    event = wire.build(
        {
            "type": "memory.observed",
            "event_id": memory_id(evidence, text_of(made)),
            "occurred_at": said_at(source.messages, turns),
            "group_id": source.group_id,
            "agent_id": source.agent_id,
            "payload": {
                "node_type": "event",
                "description": text_of(made),
                "keywords": made.tools_used,
                "poignancy": EXPERIENCE_IMPORTANCE[made.outcome],
                "evidence": evidence,
                "provenance": {"session": source.session_id, "llm": source.llm, "prompt": source.prompt, "outcome": made.outcome},
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
