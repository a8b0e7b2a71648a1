"""What extraction found, stored in one transaction: memories, what they supersede, experiences, the profile, the cursor."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import Connection

from engine.conversations.memories import Source, event_of, waves
from jiyi.errors import InvalidEvent
from jiyi.protocol.conversations import CombinedExtraction, ExtractedMemory
from jiyi.protocol.events import Event
from models.conversations import experiences, extractions, follow_ups, profiles
from models.conversations.extractions import StoredTurn
from models.conversations.follow_ups import Extraction
from models.memory.agents import AgentName, lock_agents
from models.memory.inbox import Stored, store

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Extracted:
    """What one session's turns told, and ids of the facts that were known when it was asked."""

    source: Source
    extraction: CombinedExtraction
    known: Sequence[UUID]


def store_extracted(
    connection: Connection, name: AgentName, seen: int, turns: Sequence[StoredTurn], extracted: Sequence[Extracted], now: datetime
) -> Stored:
    """Store it all and move the cursor; nothing if another run has looked through the turns meanwhile."""
    agents = lock_agents(connection, [name])  # whoever stores a turn waits until it is decided what is due next
    stored = Stored()
    if turns and not extractions.move_cursor(connection, name, seen, turns[-1].node_count):
        return stored
    for session in extracted:
        _keep_memories(connection, name, session, stored, now)
        for experience in session.extraction.experiences:
            stored.add(experiences.keep(connection, name, experience, session.source, now))
        profiles.update(connection, name, session.extraction.profile_signals, now)
    experiences_told = sum(len(session.extraction.experiences) for session in extracted)
    done = Extraction(name, agents[name].agent_key, turns=len(turns), memories=len(stored.nodes), experiences=experiences_told)
    stored.owed.update(follow_ups.extracted(connection, done))  # last: counts of other subjects
    return stored


def _event(memory: ExtractedMemory, source: Source) -> Event | None:
    """None for what cannot be stored, which must not hold up the others."""
    try:
        return event_of(memory, source)
    except InvalidEvent as error:
        log.warning("a memory that was extracted for %s cannot be stored: %s", source.agent_id, error)
        return None


def _keep_memories(connection: Connection, name: AgentName, session: Extracted, stored: Stored, now: datetime) -> None:
    for wave in waves(session.extraction.memories):
        events = [(memory, event) for memory in wave if (event := _event(memory, session.source)) is not None]
        stored.add(store(connection, [event for _, event in events]))
        for memory, event in events:
            extractions.supersede(connection, name, [session.known[number] for number in memory.supersedes], event.event_id)
            if memory.attribute is not None and memory.single_valued:
                extractions.supersede_same_attribute(connection, name, event.event_id, now)
