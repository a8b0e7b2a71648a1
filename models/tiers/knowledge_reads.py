"""Lists of a group's long-term memory for people, and single pieces with their history."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import BaseModel
from sqlalchemy import ColumnElement, Connection, func, select, tuple_

from jiyi.protocol.knowledge import Change
from jiyi.protocol.tier_questions import Kind
from jiyi.protocol.tier_requests import KnowledgeDetail
from models.db.conditions import MAX_LISTED_CHARS, has_words
from models.db.rows import columns, fetch, fetch_one
from models.tiers.quarantine_reads import Place
from models.tiers.tables import KnowledgeChange, KnowledgeRow

#: Whether pieces that are out of force are among a list.
Demoted = Literal["without", "with", "only"]
#: Agents that are offered to be chosen; others can be typed.
MAX_AGENTS = 500
#: Pieces that are shown of one entry.
MAX_PIECES = 200
#: Versions of a piece whose history is told.
MAX_VERSIONS = 50


@dataclass(frozen=True, kw_only=True, slots=True)
class WantedKnowledge:
    """Which pieces of knowledge; what is None or empty counts for nothing. ``agent_id`` ``""``: the whole group's."""

    words: str = ""
    kind: str | None = None
    agent_id: str | None = None
    session_id: str | None = None
    demoted: Demoted = "without"


class PieceRow(BaseModel):
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


class PieceDetail(BaseModel):
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

    @property
    def entry_ids(self) -> list[UUID]:
        """The entries of quarantine that it was made of."""
        return _ids(self.metadata.get("entry_ids"))

    @property
    def replaces(self) -> UUID | None:
        """The version that it took the place of."""
        return next(iter(_ids([self.metadata.get("edited_from")])), None)


def pieces(connection: Connection, group_id: str, wanted: WantedKnowledge, before: Place | None, limit: int) -> list[PieceRow]:
    """Pieces of knowledge, those promoted last first."""
    statement = select(*_columns(MAX_LISTED_CHARS)).where(_K.group_id == group_id, *_conditions(wanted))
    if before is not None:
        statement = statement.where(tuple_(_K.promoted_at, _K.knowledge_id) < before)
    return fetch(connection, PieceRow, statement.order_by(_K.promoted_at.desc(), _K.knowledge_id.desc()).limit(limit))


def agents_with_knowledge(connection: Connection, group_id: str, limit: int = MAX_AGENTS) -> list[str]:
    """Agents that have knowledge of their own, by name."""
    statement = select(_K.agent_id).distinct().where(_K.group_id == group_id, _K.agent_id.is_not(None))
    return [str(agent_id) for agent_id in connection.execute(statement.order_by(_K.agent_id).limit(limit)).scalars()]


def pieces_of(connection: Connection, group_id: str, entry_id: UUID) -> list[PieceRow]:
    """What was made of an entry of quarantine: what is in force first, in the order of the pieces."""
    statement = select(*_columns()).where(_K.group_id == group_id, _K.source_metadata["entry_ids"].has_key(str(entry_id)))
    number = _K.source_metadata["piece"].as_integer().nulls_last()
    order = (_K.demoted_at.is_not(None), _K.promoted_at, number, _K.knowledge_id)
    return fetch(connection, PieceRow, statement.order_by(*order).limit(MAX_PIECES))


def find(connection: Connection, group_id: str, knowledge_id: UUID) -> PieceDetail | None:
    """A piece, in force or not."""
    wanted = select(*columns(PieceDetail, _K, embedded=_K.embedding_model))
    return fetch_one(connection, PieceDetail, wanted.where(_K.group_id == group_id, _K.knowledge_id == knowledge_id))


def history(connection: Connection, group_id: str, knowledge_id: UUID) -> list[Change]:
    """What became of a piece of knowledge, oldest first; empty if there is none of this id."""
    of_piece = (KnowledgeChange.group_id == group_id, KnowledgeChange.knowledge_id == knowledge_id)
    return fetch(connection, Change, select(*columns(Change, KnowledgeChange)).where(*of_piece).order_by(KnowledgeChange.history_id))


def detail(connection: Connection, group_id: str, knowledge_id: UUID) -> KnowledgeDetail | None:
    """A piece, in force or not, with what became of it."""
    found = find(connection, group_id, knowledge_id)
    return None if found is None else KnowledgeDetail(**dict(found), history=history(connection, group_id, knowledge_id))


def whole_history(connection: Connection, group_id: str, piece: PieceDetail) -> list[Change]:
    """What became of a piece and of the versions before it, the latest change first; an edit, which stands with both, is told once."""
    changes = {}
    versions: set[UUID] = set()
    at: PieceDetail | None = piece
    while at is not None and at.knowledge_id not in versions and len(versions) < MAX_VERSIONS:
        versions.add(at.knowledge_id)
        found = history(connection, group_id, at.knowledge_id)
        changes.update({(change.action, change.at, change.before, change.after): change for change in found})
        at = None if at.replaces is None else find(connection, group_id, at.replaces)
    return sorted(changes.values(), key=lambda change: change.at, reverse=True)


def _ids(texts: Any) -> list[UUID]:
    """Ids that stand in metadata, as far as they are any: whoever promoted may have written there what they like."""
    found: list[UUID] = []
    for text in texts if isinstance(texts, list) else []:
        try:
            found.append(UUID(text))
        except (ValueError, TypeError, AttributeError):
            continue
    return found


def _columns(chars: int | None = None) -> list[ColumnElement[Any]]:
    content = _K.content if chars is None else func.left(_K.content, chars)
    return columns(PieceRow, _K, chars=func.length(_K.content), content=content)


def _conditions(wanted: WantedKnowledge) -> Iterator[ColumnElement[bool]]:
    yield from has_words(_K.content, wanted.words)
    if wanted.kind is not None:
        yield _K.kind == wanted.kind
    if wanted.session_id is not None:
        yield _K.session_id == wanted.session_id
    if wanted.agent_id is not None:
        yield func.coalesce(_K.agent_id, "") == wanted.agent_id
    if wanted.demoted != "with":
        yield _K.demoted_at.is_(None) if wanted.demoted == "without" else _K.demoted_at.is_not(None)


_K = KnowledgeRow
