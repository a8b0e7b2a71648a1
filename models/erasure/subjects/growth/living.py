"""Erasure in what an agent grew by itself: pain points, identity, what looks at itself found.

What a turn told of a pain goes with the turn; a pain point that nothing else tells of goes as a whole, with its proposals. The file
``USER`` follows the profile, and goes with it; changes that were proposed because of a turn go with that, unless they were approved.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import Connection, text

from models.growth.pains import pains

#: Tables that are looked through for names: table, key, texts, whose rows, what becomes of those that are found.
SCRUBBED = (
    ("pain_points", "pain_id::text", "agent_id, user_id, summary", "group_id = :group", "DELETE FROM pain_points"),
    ("pain_evidence", "pain_id::text || '/' || source_id::text", "quote, session_id", "group_id = :group", "DELETE FROM pain_evidence"),
    ("proposals", "proposal_id::text", "title, made_by, decided_by", "group_id = :group", "DELETE FROM proposals"),
    ("proposal_steps", "proposal_id::text || '/' || number::text", "step", "group_id = :group", "DELETE FROM proposal_steps"),
    (
        "identity_versions",
        "agent_id || '/' || file || '/' || version::text",
        "content, reason, author",
        "group_id = :group",
        "DELETE FROM identity_versions",
    ),
    (
        "identity_proposals",
        "proposal_id::text",
        "reason, current, suggested, author, decided_by, note",
        "group_id = :group",
        "DELETE FROM identity_proposals",
    ),
    ("identity_snapshots", "snapshot_id::text", "name, author", "group_id = :group", "DELETE FROM identity_snapshots"),
)


def delete(connection: Connection, group_id: str, ids: Sequence[UUID]) -> Counter[str]:
    """What rests on these memories, while they are still there."""
    these = {"group": group_id, "ids": list(ids)}
    touched = connection.execute(_EVIDENCE, these).all()
    gone = Counter({"pain_evidence": len(touched)})
    for pain_id, agent_id in {(row.pain_id, row.agent_id) for row in touched}:
        pains.recount(connection, (group_id, agent_id), pain_id)
    for table, statement in _DELETE.items():
        gone[table] = connection.execute(statement, these).rowcount
    connection.execute(_FINDINGS, these)
    return gone


_EVIDENCE = text("""
    DELETE FROM pain_evidence e USING pain_points p
    WHERE e.group_id = :group AND e.source_id = ANY(:ids) AND p.group_id = e.group_id AND p.pain_id = e.pain_id
    RETURNING e.pain_id, p.agent_id
""")
# A pain point that was summed up in words of a turn that is gone, or of which nothing tells any more.
_DELETE = {
    "pain_points": text("""
        DELETE FROM pain_points p WHERE p.group_id = :group AND p.agent_id IN (
            SELECT agent_id FROM memory_nodes WHERE group_id = :group AND node_id = ANY(:ids)
        ) AND NOT EXISTS (
            SELECT FROM pain_evidence e WHERE e.group_id = p.group_id AND e.pain_id = p.pain_id AND e.quote = p.summary
        )
    """),
    "identity_versions": text("""
        DELETE FROM identity_versions v USING memory_nodes n
        WHERE v.group_id = :group AND v.file = 'USER' AND n.group_id = :group AND n.agent_id = v.agent_id AND n.kind = 'session'
          AND n.node_id = ANY(:ids)
    """),
    "identity_proposals": text("""
        DELETE FROM identity_proposals WHERE group_id = :group AND evidence && CAST(:ids AS uuid[]) AND status <> 'approved'
    """),
}
_FINDINGS = text("""
    UPDATE reflections r SET findings = NULL WHERE r.group_id = :group AND r.findings IS NOT NULL AND EXISTS (
        SELECT FROM unnest(CAST(:ids AS uuid[])) AS gone(id) WHERE position(gone.id::text IN r.findings::text) > 0
    )
""")
