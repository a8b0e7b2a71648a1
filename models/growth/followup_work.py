"""Work that follows from stored turns, owed in their transaction."""

from __future__ import annotations

from collections import Counter
from uuid import UUID

from sqlalchemy import Connection

from models.growth import self_review_schedule
from models.memory.agents import AgentName
from models.queue import pending_work

#: Kinds of work. Subject of the first two: an agent's key; of the third a pain point.
MERGE_PAINS, FOLLOW_PROFILE, SOLVE_PAIN = "merge_pains", "follow_profile", "solve_pain"
#: Owed by an agent whose new turns were looked through.
AFTER_EXTRACTION = (MERGE_PAINS, FOLLOW_PROFILE)


def after_extraction(connection: Connection, agent_key: UUID, name: AgentName) -> Counter[str]:
    """The agent's turns are looked through for pain, its file ``USER`` follows the profile, and the hours to its next look count."""
    self_review_schedule.ensure_schedule(connection, name)
    for kind in AFTER_EXTRACTION:
        pending_work.enqueue(connection, kind, [(agent_key, name[0])])
    return Counter(AFTER_EXTRACTION)
