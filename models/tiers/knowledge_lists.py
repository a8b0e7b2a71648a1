"""What people see of a group's long-term memory: a list with filters, and what was made of an entry of quarantine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from sqlalchemy import Connection, text

from models.db.conditions import MAX_LISTED_CHARS, Conditions, Row, rows
from models.tiers.quarantine_lists import Place

Demoted = Literal["without", "with", "only"]


@dataclass(frozen=True, kw_only=True, slots=True)
class WantedKnowledge:
    """Which pieces of knowledge; what is None or empty counts for nothing. ``agent_id`` ``""``: the whole group's."""

    words: str = ""
    kind: str | None = None
    agent_id: str | None = None
    session_id: str | None = None
    demoted: Demoted = "without"


def knowledge(connection: Connection, group_id: str, wanted: WantedKnowledge, before: Place | None, limit: int) -> list[Row]:
    """Pieces of long-term memory, those promoted last first."""
    asked = Conditions("k", group_id)
    asked.equal(kind=wanted.kind, session_id=wanted.session_id)
    asked.words(wanted.words)
    if wanted.agent_id is not None:
        asked.only("coalesce(k.agent_id, '') = :agent", agent=wanted.agent_id)
    if wanted.demoted != "with":
        asked.only(f"k.demoted_at IS {'NULL' if wanted.demoted == 'without' else 'NOT NULL'}")
    if before is not None:
        asked.only("(k.promoted_at, k.knowledge_id) < (:at, CAST(:id AS uuid))", at=before[0], id=before[1])
    statement = text(f"""
        SELECT {_PIECE}, left(k.content, :chars) AS content FROM knowledge k
        WHERE {asked.where()} ORDER BY k.promoted_at DESC, k.knowledge_id DESC LIMIT :limit
    """)
    return rows(connection, statement, **asked.given, limit=limit, chars=MAX_LISTED_CHARS)


def agents_with_knowledge(connection: Connection, group_id: str, limit: int) -> list[str]:
    """Agents that have knowledge of their own, by name."""
    return [row["agent_id"] for row in rows(connection, _KNOWING, group=group_id, limit=limit)]


def knowledge_of(connection: Connection, group_id: str, entry_id: UUID) -> list[Row]:
    """What was made of an entry, in the order of the pieces."""
    return rows(connection, _MADE_OF, group=group_id, entry=str(entry_id))


_PIECE = """
    k.knowledge_id, k.agent_id, k.session_id, k.kind, k.embedding_model, k.promoted_at, k.demoted_at, k.replaced_by,
    length(k.content) AS chars
"""
_MADE_OF = text(f"""
    SELECT {_PIECE}, k.content FROM knowledge k
    WHERE k.group_id = :group AND k.metadata -> 'entry_ids' ? :entry
    ORDER BY k.demoted_at IS NOT NULL, k.promoted_at, CAST(k.metadata ->> 'piece' AS int) NULLS LAST, k.knowledge_id LIMIT 200
""")
_KNOWING = text("""
    SELECT DISTINCT agent_id FROM knowledge WHERE group_id = :group AND agent_id IS NOT NULL ORDER BY agent_id LIMIT :limit
""")
