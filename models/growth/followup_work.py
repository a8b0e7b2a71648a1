"""What follows from conversations: work that is owed in their transaction, and what is counted of them."""

from __future__ import annotations

from collections import Counter

from sqlalchemy import Connection, text

from models.conversations.follow_ups import Extraction, after_extraction, after_injection
from models.growth import self_review_schedule, tracking
from models.growth.work import AGGREGATE, FOLLOW_PROFILE, MERGE_PAINS
from models.memory.agents import AgentName
from models.queue import pending_work


@after_extraction
def owe_growth(connection: Connection, done: Extraction) -> Counter[str]:
    """The agent's turns are looked through for pain, its file ``USER`` follows the profile, and the hours to its next look count."""
    kinds = [MERGE_PAINS, FOLLOW_PROFILE] if done.turns else []
    if done.turns:
        self_review_schedule.ensure_schedule(connection, done.name)
    if done.experiences:
        kinds.append(AGGREGATE)
    for kind in kinds:
        pending_work.enqueue(connection, kind, [(done.agent_key, done.name[0])])
    tracking.note(connection, done.name, "memory", grown=done.memories)  # last: who holds the count waits for nothing else
    return Counter(kinds)


@after_injection
def count_use(connection: Connection, name: AgentName, memories: int, experiences: int) -> None:
    """What was used is counted; experiences that were used again may make a pattern."""
    if experiences:
        connection.execute(_AGGREGATE, {"group": name[0], "agent": name[1], "kind": AGGREGATE})
    tracking.note(connection, name, "memory", used=memories)  # last: who holds the count waits for nothing else


# The reconciler wakes for it: nobody waits for a pattern. The update waits for who has it in hand, and may not have seen this.
_AGGREGATE = text("""
    INSERT INTO pending_work (kind, subject_id, group_id)
    SELECT :kind, agent_key, group_id FROM agents WHERE group_id = :group AND agent_id = :agent
    ON CONFLICT (kind, subject_id, group_id) DO UPDATE SET due_at = least(pending_work.due_at, excluded.due_at)
""")
