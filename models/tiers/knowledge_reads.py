"""Lists of a group's long-term memory for people, and single pieces with their history (CN-32, K-22)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from sqlalchemy import Connection, text

from jiyi.protocol.tiers.knowledge import Change
from jiyi.protocol.tiers.query import Kind
from models.db.conditions import MAX_LISTED_CHARS, Conditions, columns, typed
from models.tiers.quarantine_reads import Place

#: Whether pieces that are out of force are among a list.
Demoted = Literal["without", "with", "only"]
#: Pieces that are shown of one entry.
MAX_PIECES = 200


@dataclass(frozen=True, kw_only=True, slots=True)
class WantedKnowledge:
    """Which pieces of knowledge; what is None or empty counts for nothing. ``agent_id`` ``""``: the whole group's."""

    words: str = ""
    kind: str | None = None
    agent_id: str | None = None
    session_id: str | None = None
    demoted: Demoted = "without"


@dataclass(frozen=True, kw_only=True)
class PieceRow:
    """A piece of knowledge in a list; its text may be cut."""

    knowledge_id: UUID
    agent_id: str | None
    session_id: str | None
    kind: Kind
    embedding_model: str | None
    promoted_at: datetime
    demoted_at: datetime | None
    replaced_by: UUID | None
    #: Characters of the whole text.
    chars: int
    content: str


@dataclass(frozen=True, kw_only=True)
class PieceDetail:
    """All that is kept of a piece but its vector; ``embedded`` is the model that made that."""

    knowledge_id: UUID
    group_id: str
    agent_id: str | None
    session_id: str | None
    kind: Kind
    content: str
    metadata: dict[str, Any]
    created_at: datetime
    promoted_at: datetime
    demoted_at: datetime | None
    replaced_by: UUID | None
    embedded: str | None


def pieces(connection: Connection, group_id: str, wanted: WantedKnowledge, before: Place | None, limit: int) -> list[PieceRow]:
    """Pieces of knowledge, those promoted last first."""
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
        SELECT {_columns("left(k.content, :chars)")} FROM knowledge k
        WHERE {asked.where()} ORDER BY k.promoted_at DESC, k.knowledge_id DESC LIMIT :limit
    """)
    return typed(connection, PieceRow, statement, **asked.given, limit=limit, chars=MAX_LISTED_CHARS)


def agents_with_knowledge(connection: Connection, group_id: str, limit: int) -> list[str]:
    """Agents that have knowledge of their own, by name."""
    return list(connection.execute(_AGENTS, {"group": group_id, "limit": limit}).scalars())


def pieces_of(connection: Connection, group_id: str, entry_id: UUID) -> list[PieceRow]:
    """What was made of an entry, in the order of the pieces."""
    return typed(connection, PieceRow, _PIECES_OF, group=group_id, entry=str(entry_id), limit=MAX_PIECES)


def find(connection: Connection, group_id: str, knowledge_id: UUID) -> PieceDetail | None:
    """A piece, in force or not."""
    return next(iter(typed(connection, PieceDetail, _ONE, group=group_id, id=knowledge_id)), None)


def history(connection: Connection, group_id: str, knowledge_id: UUID) -> list[Change]:
    """What became of a piece of knowledge, oldest first; empty if there is none of this id."""
    return [Change(**row) for row in connection.execute(_HISTORY, {"group": group_id, "id": knowledge_id}).mappings()]


def _columns(content: str) -> str:
    return columns(PieceRow, "k", chars="length(k.content)", content=content)


_PIECES_OF = text(f"""
    SELECT {_columns("k.content")} FROM knowledge k
    WHERE k.group_id = :group AND k.metadata -> 'entry_ids' ? :entry
    ORDER BY k.demoted_at IS NOT NULL, k.promoted_at, CAST(k.metadata ->> 'piece' AS int) NULLS LAST, k.knowledge_id LIMIT :limit
""")
_AGENTS = text("""
    SELECT DISTINCT agent_id FROM knowledge WHERE group_id = :group AND agent_id IS NOT NULL ORDER BY agent_id LIMIT :limit
""")
_ONE = text(f"""
    SELECT {columns(PieceDetail, "k", embedded="k.embedding_model")} FROM knowledge k
    WHERE k.group_id = :group AND k.knowledge_id = :id
""")
_HISTORY = text("""
    SELECT action, actor, at, reason, before, after FROM knowledge_history
    WHERE group_id = :group AND knowledge_id = :id ORDER BY history_id
""")
