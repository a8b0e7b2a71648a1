"""Erasure in what grew: steps, trajectories, patterns, skills and workflows, votes.

What rests on something erased goes with it: a trajectory with its steps, a pattern and what came of it with its evidence. It grows
again from what is left, when that is next looked at.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import Connection, text

#: Tables that are looked through for names: table, key, texts, whose rows, what becomes of those that are found.
SCRUBBED = (
    (
        "trajectory_events",
        "event_id::text",
        "agent_id, session_id, tool, input_summary, output_summary",
        "group_id = :group",
        "DELETE FROM trajectory_events",
    ),
    (
        "trajectories",
        "trajectory_id::text",
        "agent_id, session_id, request, array_to_string(tools_used, ' '), execution_chain::text",
        "group_id = :group",
        "DELETE FROM trajectories",
    ),
    (
        "patterns",
        "agent_id || '/' || artifact || '/' || encode(pattern_hash, 'hex')",
        "agent_id, title, array_to_string(wordings || common_steps || tools_used, ' '), industry_context",
        "group_id = :group",
        "DELETE FROM patterns",
    ),
    (
        "artifacts",
        "artifact_id::text",
        "agent_id, name, description, array_to_string(triggers || tools, ' '), body, issues::text, decided_by",
        "group_id = :group",
        "DELETE FROM artifacts",
    ),
    ("feedback", "feedback_id::text", "agent_id, comment, given_by", "group_id = :group", "DELETE FROM feedback"),
)


def delete(connection: Connection, group_id: str, ids: Sequence[UUID]) -> Counter[str]:
    """What these events and memories are, and what rests on them."""
    these = {"group": group_id, "ids": list(ids)}
    gone: Counter[str] = Counter()
    gone["trajectory_events"] = connection.execute(_STEPS, these).rowcount
    gone["feedback"] = connection.execute(_VOTES, these).rowcount
    trajectories = list(connection.execute(_TRAJECTORIES, these).scalars())
    gone["trajectories"] = len(trajectories)
    evidence = these | {"ids": [*ids, *trajectories]}
    gone["patterns"] = connection.execute(_PATTERNS, evidence).rowcount
    gone["artifacts"] = connection.execute(_ARTIFACTS, evidence).rowcount
    return gone


_STEPS = text("DELETE FROM trajectory_events WHERE group_id = :group AND event_id = ANY(:ids)")
_VOTES = text("DELETE FROM feedback WHERE group_id = :group AND feedback_id = ANY(:ids)")
_TRAJECTORIES = text("DELETE FROM trajectories WHERE group_id = :group AND step_ids && CAST(:ids AS uuid[]) RETURNING trajectory_id")
_PATTERNS = text("DELETE FROM patterns WHERE group_id = :group AND evidence && CAST(:ids AS uuid[])")
_ARTIFACTS = text("DELETE FROM artifacts WHERE group_id = :group AND evidence && CAST(:ids AS uuid[])")
