"""Erasure in what is kept beside the memories: experiences, profiles, notes of injections and retrievals, words of a trade.

What was told by an erased turn goes with it: memories name their turns. A profile does not; it goes if any turn of its agent does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import Connection, text

from models.erasure.parts import Scrubbed

SCRUBBED: tuple[Scrubbed, ...] = (
    ("injections", "injection_id::text", "query, session_id, reasons::text", "group_id = :group", "DELETE FROM injections"),
    (
        "retrievals",
        "retrieval_id::text",
        "array_to_string(focal_texts, ' '), options::text, asked_by",
        "group_id = :group",
        "DELETE FROM retrievals",
    ),
    (
        "user_profiles",
        "agent_id || '/' || user_id",
        "user_id, industry, role, expertise_level, array_to_string(recent_topics || pain_points || preferred_tools, ' ')",
        "group_id = :group",
        "DELETE FROM user_profiles",
    ),
    ("industry_keywords", "industry", "industry, keywords::text", "group_id = :group", "DELETE FROM industry_keywords"),
)


def delete(connection: Connection, group_id: str, ids: Sequence[UUID]) -> Counter[str]:
    """What rests on these memories, while they are still there.

    What they superseded stays superseded, by nobody; what replaced them no longer says what it replaced.
    """
    these = {"group": group_id, "ids": list(ids)}
    newer = list(connection.execute(_REPLACED_BY, these).scalars())
    if newer:
        for statement in _FORGET_REPLACED:
            connection.execute(statement, {**these, "newer": newer})
    gone = Counter({table: connection.execute(statement, these).rowcount for table, statement in _DELETE.items()})
    connection.execute(_UNLINK, these)
    return gone


_DELETE = {
    "experiences": text("DELETE FROM experiences WHERE group_id = :group AND node_id = ANY(:ids)"),
    "injections": text("DELETE FROM injections WHERE group_id = :group AND node_ids && CAST(:ids AS uuid[])"),
    "retrievals": text("DELETE FROM retrievals WHERE group_id = :group AND node_ids && CAST(:ids AS uuid[])"),
    "user_profiles": text("""
        DELETE FROM user_profiles p USING memory_nodes n
        WHERE p.group_id = :group AND n.group_id = :group AND n.agent_id = p.agent_id AND n.kind = 'session' AND n.node_id = ANY(:ids)
    """),
}
_REPLACED_BY = text("""
    SELECT DISTINCT superseded_by FROM memory_nodes WHERE group_id = :group AND node_id = ANY(:ids) AND superseded_by IS NOT NULL
""")
_FORGET_REPLACED = (
    text("""
        UPDATE memory_nodes SET provenance = provenance - 'replaces', changed_xid = pg_current_xact_id()
        WHERE group_id = :group AND node_id = ANY(:newer) AND provenance ->> 'replaces' = ANY(CAST(CAST(:ids AS uuid[]) AS text[]))
    """),
    text("""
        UPDATE events SET payload = payload #- '{provenance,replaces}'
        WHERE group_id = :group AND (event_id = ANY(:newer) OR node_id = ANY(:newer))
          AND payload #>> '{provenance,replaces}' = ANY(CAST(CAST(:ids AS uuid[]) AS text[]))
    """),
)
_UNLINK = text("""
    UPDATE memory_nodes SET superseded_by = NULL, changed_xid = pg_current_xact_id()
    WHERE group_id = :group AND superseded_by = ANY(:ids)
""")
