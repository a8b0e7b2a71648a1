"""Pieces of long-term knowledge: what a promotion, a demotion or an edit stores.

Changes of one group queue up behind its lock, so that two promotions of the same text, or an edit and a
demotion, cannot cross.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Row, case, text
from sqlalchemy.dialects.postgresql import insert
from uuid6 import uuid7

from engine.tiers.quarantine import PlannedPiece, plan
from jiyi.errors import InvalidRequest, NotFound
from jiyi.protocol.knowledge import PromoteBody
from jiyi.protocol.tier_questions import Kind
from jiyi.text.words import tokens
from models.tiers.tables import KnowledgeChange, KnowledgeRow


@dataclass(frozen=True, slots=True)
class Source:
    """A quarantined entry to be promoted."""

    entry_id: UUID
    session_id: str | None
    agent_id: str
    node_id: str
    node_type: str | None
    kind: Kind
    content: str
    metadata: dict[str, Any]
    promoted: bool


@dataclass(frozen=True, slots=True)
class NewPiece:
    planned: PlannedPiece
    kind: Kind
    session_id: str | None


def lock_group(connection: Connection, group_id: str) -> None:
    """Lock the group's knowledge until the end of the transaction."""
    connection.execute(_LOCK_GROUP, {"group": group_id})


def sources(connection: Connection, group_id: str, entry_ids: Sequence[UUID]) -> list[Source]:
    """In the order asked for."""
    asked = list(dict.fromkeys(entry_ids))
    if not asked:
        return []
    sources = {
        row["entry_id"]: Source(**row)
        for row in connection.execute(_SOURCES, {"group": group_id, "ids": asked}).mappings()
    }
    missing = [str(source_id) for source_id in asked if source_id not in sources]
    if missing:
        raise NotFound(f"entry_ids: the quarantine of the group {group_id!r} has no {', '.join(missing[:3])}")
    return [sources[source_id] for source_id in asked]


def planned_pieces(
    group_id: str, body: PromoteBody, sources: Sequence[Source], now: datetime
) -> list[NewPiece]:
    """The pieces of the text, if there is one, for which the entries are the evidence; else of each entry."""
    if body.text is not None:
        sessions = {source.session_id for source in sources}
        session_id = sessions.pop() if len(sessions) == 1 else None  # of several: the group's
        pieces = plan(
            body.text,
            group_id=group_id,
            promoted_at=now,
            agent_id=body.agent_id,
            entry_ids=[source.entry_id for source in sources],
        )
        new = [NewPiece(planned, body.kind, session_id) for planned in pieces]
    else:
        new = [
            NewPiece(planned, kind_of(body, source), source.session_id)
            for source in sources
            for planned in _pieces_of(source, group_id, body, now)
        ]
    once = list({piece.planned.knowledge_id: piece for piece in reversed(new)}.values())[::-1]
    if not once:
        raise InvalidRequest(["text: there is nothing in it to keep"])
    return once


def kind_of(body: PromoteBody, source: Source) -> Kind:
    """A verdict stays one; whoever promotes may call a statement one."""
    return "verdict" if "verdict" in (source.kind, body.kind) else "statement"


def _pieces_of(source: Source, group_id: str, body: PromoteBody, now: datetime) -> list[PlannedPiece]:
    metadata = {
        **source.metadata,
        "node_id": source.node_id,
        "node_type": source.node_type,
        "said_by": source.agent_id,
    }
    return plan(
        source.content,
        group_id=group_id,
        promoted_at=now,
        agent_id=body.agent_id,
        entry_ids=[source.entry_id],
        metadata=metadata,
    )


def in_force(connection: Connection, group_id: str, new: Sequence[NewPiece]) -> set[UUID]:
    """Those of the pieces that are in force."""
    ids = [piece.planned.knowledge_id for piece in new]
    return {
        row.knowledge_id
        for row in connection.execute(_FIND, {"group": group_id, "ids": ids})
        if row.demoted_at is None
    }


def store(connection: Connection, group_id: str, agent_id: str | None, new: NewPiece, now: datetime) -> None:
    """Put a piece in force. What was demoted, and is promoted again, is the same piece: it keeps its vector
    if it says the same.
    """
    planned = new.planned
    row = {
        "knowledge_id": planned.knowledge_id,
        "content": planned.content,
        "content_hash": planned.content_hash,
        "agent_id": agent_id,
        "session_id": new.session_id,
        "kind": new.kind,
        "promoted_at": now,
        "tokens": _tokens(planned.content),
    }
    stored = insert(_K).values(group_id=group_id, source_metadata=planned.metadata, **row)
    excluded, same = stored.excluded, _K.content == stored.excluded.content
    again = {
        name: excluded[name]
        for name in ("promoted_at", "session_id", "kind", "content", "tokens", "metadata")
    }
    kept = {name: case((same, _K.__table__.c[name])) for name in ("embedding", "embedding_model")}
    anew = {"demoted_at": None, "replaced_by": None, **again, **kept}
    connection.execute(
        stored.on_conflict_do_update(
            index_elements=["knowledge_id"], set_=anew, where=_K.demoted_at.is_not(None)
        )
    )


def record_change(
    connection: Connection,
    group_id: str,
    knowledge: UUID,
    action: str,
    actor: str,
    reason: str,
    before: str | None,
    after: str | None,
) -> None:
    """Note in a piece's history who did what to it, and what it said before and after."""
    change = {"action": action, "actor": actor, "reason": reason, "before": before, "after": after}
    connection.execute(
        insert(KnowledgeChange).values(
            history_id=uuid7(), group_id=group_id, knowledge_id=knowledge, **change
        )
    )


def find(connection: Connection, group_id: str, ids: Sequence[UUID]) -> dict[UUID, Row[Any]]:
    """Those of the pieces that the group has, in force or not, by id."""
    return {row.knowledge_id: row for row in connection.execute(_FIND, {"group": group_id, "ids": list(ids)})}


def mark_promoted(connection: Connection, group_id: str, entry_ids: Sequence[UUID], now: datetime) -> None:
    """Note of entries of quarantine that they were promoted."""
    connection.execute(_MARK, {"group": group_id, "ids": list(entry_ids), "now": now})


def demote(
    connection: Connection, group_id: str, ids: Sequence[UUID], now: datetime, replaced_by: UUID | None = None
) -> None:
    """Put pieces out of force; they stay, with their history."""
    connection.execute(_DEMOTE, {"group": group_id, "ids": list(ids), "now": now, "by": replaced_by})


def reword(connection: Connection, group_id: str, knowledge_id: UUID, content: str) -> None:
    """Write a piece with other capitals or spaces; it needs its vector anew."""
    connection.execute(
        _REWORD, {"group": group_id, "id": knowledge_id, "content": content, "tokens": _tokens(content)}
    )


def _tokens(content: str) -> str:
    return " ".join(tokens(content))


_K = KnowledgeRow
_LOCK_GROUP = text("SELECT pg_advisory_xact_lock(hashtextextended('jiyi.knowledge.' || :group, 0))")
_SOURCES = text("""
    SELECT entry_id, session_id, agent_id, node_id, node_type, kind, content, metadata, promoted_at IS NOT
    NULL AS promoted
    FROM quarantine_logs WHERE group_id = :group AND entry_id = ANY(:ids) AND deleted_at IS NULL
""")
_FIND = text("""
    SELECT knowledge_id, agent_id, session_id, kind, content, metadata, promoted_at, demoted_at, replaced_by
    FROM knowledge
    WHERE group_id = :group AND knowledge_id = ANY(:ids)
""")
_MARK = text("""
    UPDATE quarantine_logs SET promoted_at = :now WHERE group_id = :group AND entry_id = ANY(:ids)
    AND promoted_at IS NULL
""")
_DEMOTE = text("""
    UPDATE knowledge SET demoted_at = :now, replaced_by = CAST(:by AS uuid)
    WHERE group_id = :group AND knowledge_id = ANY(:ids) AND demoted_at IS NULL
""")
_REWORD = text("""
    UPDATE knowledge SET content = :content, tokens = :tokens, embedding = NULL, embedding_model = NULL
    WHERE group_id = :group AND knowledge_id = :id
""")
