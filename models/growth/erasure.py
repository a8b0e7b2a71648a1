"""Erasure in what agents grew and do by themselves: skills, pain points, identity, appointments.

What rests on something erased goes with it: a trajectory with its steps; a pattern and what came of it with
its evidence; a pain point without other evidence, with its proposals; a proposed change of a file, unless it
was approved. The file ``USER`` follows the profile and goes with it. Growth begins again from what is
left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import Connection, text

from models.erasure.parts import ErasurePart, Scrubbed, register
from models.growth import pains

SCRUBBED = (
    Scrubbed(
        "schedules",
        "schedule_id::text",
        "task_description, natural_description, target_id, session_id, user_id",
    ),
    Scrubbed("alerts", "alert_id::text", "title, content, subject"),
    Scrubbed(
        "trajectory_events", "event_id::text", "agent_id, session_id, tool, input_summary, output_summary"
    ),
    Scrubbed(
        "trajectories",
        "trajectory_id::text",
        "agent_id, session_id, request, array_to_string(tools_used, ' '), execution_chain::text",
    ),
    Scrubbed(
        "patterns",
        "agent_id || '/' || artifact || '/' || encode(pattern_hash, 'hex')",
        "agent_id, title, array_to_string(wordings || common_steps || tools_used, ' '), industry_context",
    ),
    Scrubbed("proposals", "proposal_id::text", "agent_id, content::text, reason, made_by, decided_by, note"),
    Scrubbed("feedback", "feedback_id::text", "agent_id, comment, given_by"),
    Scrubbed("pain_points", "pain_id::text", "agent_id, user_id, summary"),
    Scrubbed("pain_evidence", "pain_id::text || '/' || source_id::text", "quote, session_id"),
    Scrubbed(
        "identity_versions", "agent_id || '/' || file || '/' || version::text", "content, reason, author"
    ),
    Scrubbed("identity_snapshots", "snapshot_id::text", "name, author"),
)


def delete(connection: Connection, group_id: str, ids: Sequence[UUID]) -> Counter[str]:
    """Delete these events and memories, which are still there, and what rests on them; rows a table."""
    these = {"group": group_id, "ids": list(ids)}
    gone: Counter[str] = Counter()
    gone["trajectory_events"] = connection.execute(_STEPS, these).rowcount
    gone["feedback"] = connection.execute(_VOTES, these).rowcount
    trajectories = list(connection.execute(_TRAJECTORIES, these).scalars())
    gone["trajectories"] = len(trajectories)
    evidence = these | {"ids": [*ids, *trajectories]}
    gone["patterns"] = connection.execute(_PATTERNS, evidence).rowcount
    gone["proposals"] = connection.execute(_PROPOSALS, evidence).rowcount
    touched = connection.execute(_EVIDENCE, these).all()
    gone["pain_evidence"] = len(touched)
    for pain_id, agent_id in {(row.pain_id, row.agent_id) for row in touched}:
        pains.recount(connection, (group_id, agent_id), pain_id)
    for table, statement in _DELETE.items():
        gone[table] = connection.execute(statement, these).rowcount
    connection.execute(_FINDINGS, these)
    return gone


_STEPS = text("DELETE FROM trajectory_events WHERE group_id = :group AND event_id = ANY(:ids)")
_VOTES = text("DELETE FROM feedback WHERE group_id = :group AND feedback_id = ANY(:ids)")
_TRAJECTORIES = text(
    "DELETE FROM trajectories WHERE group_id = :group AND step_ids && CAST(:ids AS uuid[]) RETURNING"
    " trajectory_id"
)
_PATTERNS = text("DELETE FROM patterns WHERE group_id = :group AND evidence && CAST(:ids AS uuid[])")
# A change of a file that was approved is a version of it.
_PROPOSALS = text("""
    DELETE FROM proposals WHERE group_id = :group AND evidence && CAST(:ids AS uuid[])
    AND NOT (kind = 'identity' AND status = 'approved')
""")
_EVIDENCE = text("""
    DELETE FROM pain_evidence e USING pain_points p
    WHERE e.group_id = :group AND e.source_id = ANY(:ids) AND p.group_id = e.group_id
    AND p.pain_id = e.pain_id
    RETURNING e.pain_id, p.agent_id
""")
# A pain point that was summed up in words of an erased turn, or that has no evidence left.
_DELETE = {
    "pain_points": text("""
        DELETE FROM pain_points p WHERE p.group_id = :group AND p.agent_id IN (
            SELECT agent_id FROM memory_nodes WHERE group_id = :group AND node_id = ANY(:ids)
        ) AND NOT EXISTS (
            SELECT FROM pain_evidence e WHERE e.group_id = p.group_id AND e.pain_id = p.pain_id
            AND e.quote = p.summary
        )
    """),
    "identity_versions": text("""
        DELETE FROM identity_versions v USING memory_nodes n
        WHERE v.group_id = :group AND v.file = 'USER' AND n.group_id = :group AND n.agent_id = v.agent_id
        AND n.kind = 'session'
          AND n.node_id = ANY(:ids)
    """),
}
_FINDINGS = text("""
    UPDATE reflections r SET findings = NULL WHERE r.group_id = :group AND r.findings IS NOT NULL AND EXISTS (
        SELECT FROM unnest(CAST(:ids AS uuid[])) AS gone(id)
        WHERE position(gone.id::text IN r.findings::text) > 0
    )
""")

register(ErasurePart(scrubbed=SCRUBBED, delete=delete))
