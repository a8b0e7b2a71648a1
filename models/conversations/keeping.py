"""What extraction found, stored in one transaction: memories, what they supersede, experiences, the profile, the cursor."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import Connection

from engine.conversations.stored.memories import Source, event_of, waves
from jiyi.errors import InvalidEvent
from jiyi.protocol.conversations.types import CombinedExtraction, ExtractedMemory
from jiyi.protocol.events import Event
from models.conversations import experiences, extractions, profiles
from models.conversations.extractions import StoredTurn
from models.growth import owing
from models.growth.artifacts.growing import AGGREGATE
from models.growth.tracking import tallies
from models.memory.agents.agents import AgentName, lock_agents
from models.memory.ingestion.inbox import Stored, store
from models.queue import pending_work

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Extracted:
    """What one session's turns told, and ids of the facts that were known when it was asked."""

    source: Source
    found: CombinedExtraction
    known: Sequence[UUID]


def keep(
    connection: Connection, name: AgentName, seen: int, turns: Sequence[StoredTurn], found: Sequence[Extracted], now: datetime
) -> Stored:
    """Store it all and move the cursor; nothing if another run has looked through the turns meanwhile."""
    agents = lock_agents(connection, [name])  # whoever stores a turn waits until it is decided what is due next
    stored = Stored()
    if turns and not extractions.move_cursor(connection, name, seen, turns[-1].node_count):
        return stored
    for one in found:
        _keep_memories(connection, name, one, stored, now)
        for experience in one.found.experiences:
            stored.add(experiences.keep(connection, name, experience, one.source, now))
        profiles.update(connection, name, one.found.profile_signals, now)
    if turns:
        stored.owed.update(owing.after_extraction(connection, agents[name].agent_key, name))
    if any(one.found.experiences for one in found):
        pending_work.enqueue(connection, AGGREGATE, [(agents[name].agent_key, name[0])])
        stored.owed[AGGREGATE] += 1
    tallies.note(connection, name, "memory", grown=len(stored.nodes))  # last: who holds the count waits for nothing else
    return stored


def _event(memory: ExtractedMemory, source: Source) -> Event | None:
    """None for what cannot be stored, which must not hold up the others."""
    try:
        return event_of(memory, source)
    except InvalidEvent as error:
        log.warning("a memory that was extracted for %s cannot be stored: %s", source.agent_id, error)
        return None


def _keep_memories(connection: Connection, name: AgentName, one: Extracted, stored: Stored, now: datetime) -> None:
    for wave in waves(one.found.memories):
        made = [(memory, event) for memory in wave if (event := _event(memory, one.source)) is not None]
        stored.add(store(connection, [event for _, event in made]))
        for memory, event in made:
            extractions.supersede(connection, name, [one.known[number] for number in memory.supersedes], event.event_id)
            if memory.attribute is not None and memory.single_valued:
                extractions.supersede_same_attribute(connection, name, event.event_id, now)
