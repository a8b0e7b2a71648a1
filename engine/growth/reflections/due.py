"""When an agent is to look at itself."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from jiyi.protocol.growth.reflections import SelfTrigger


@dataclass(frozen=True, slots=True)
class Rhythm:
    """An agent's settings of it, and how far it has come. 0: this is no reason."""

    conversations: int
    hours: int
    #: Conversations that have ended since the last look, and when that was.
    ended: int
    last_at: datetime
    #: Whether anything was said since.
    anything_new: bool
    #: Somebody asked for it.
    asked: bool = False


def due(rhythm: Rhythm, now: datetime) -> SelfTrigger | None:
    """Why it is due at ``now``; None if it is not."""
    if rhythm.conversations and rhythm.ended >= rhythm.conversations:
        return "conversations"
    if rhythm.hours and rhythm.anything_new and now - rhythm.last_at >= timedelta(hours=rhythm.hours):
        return "hours"
    return None


def due_at(rhythm: Rhythm) -> datetime | None:
    """When the hours are over; None where they are no reason."""
    return rhythm.last_at + timedelta(hours=rhythm.hours) if rhythm.hours else None
