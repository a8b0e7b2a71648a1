"""Long-term knowledge: search, vectors, lists for people, single pieces with their history, and what a
promotion, a demotion or an edit stores.

Pieces are stored without a vector, and found by their words until ``embed_knowledge`` has embedded them in
batches; so they are after a change of the embedding model. Changes of one group queue up behind its lock, so
that two promotions of the same text, or an edit and a demotion, cannot cross.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import Field
from sqlalchemy import (
    ColumnElement,
    Connection,
    Double,
    Text,
    bindparam,
    case,
    cast,
    func,
    or_,
    select,
    text,
    type_coerce,
)
from sqlalchemy.dialects.postgresql import ARRAY, insert
from sqlalchemy.types import NullType

from engine.tiers.quarantine import PlannedPiece, plan
from jiyi.errors import InvalidRequest, NotFound
from jiyi.protocol.base import JsonObject
from jiyi.protocol.knowledge import Change, KnowledgeDetail, PromoteBody
from jiyi.protocol.tier_questions import Kind, MemoryQuestion, TierItem
from jiyi.protocol.wire.vectors import Float32
from jiyi.text.words import tokens
from models.db.rows import (
    MAX_LISTED_CHARS,
    Record,
    behind,
    columns,
    equal_if_given,
    fetch,
    has_words,
    records,
)
from models.operations.embedding_models import TextWithoutVector, enqueues_vectors
from models.tiers.quarantine_reads import EntryDetail, Place
from models.tiers.tables import KnowledgeChange, KnowledgeRow

#: Kind of pending work of knowledge without a vector of the active model.
EMBED_KNOWLEDGE = "embed_knowledge"
#: Pieces without a comparable vector that share a word with a question, of which the best are looked for.
MAX_BY_WORDS = 500
_K = KnowledgeRow
#: Whether a list has demoted pieces.
Demoted = Literal["without", "with", "only"]
#: Agents that are offered to be chosen; others can be typed.
MAX_AGENTS = 500
#: Pieces that are shown of one entry.
MAX_PIECES = 200
#: Most versions of a piece whose history is returned.
MAX_VERSIONS = 50


def nearest(
    connection: Connection, group_id: str, question: MemoryQuestion, query: Float32, model: str, limit: int
) -> list[TierItem]:
    """The pieces most like a question, exactly, of those with a vector of the same model.

    No approximate index: a group's knowledge is what people have promoted, thousands at most, and an index
    that is filtered by tenant loses results silently.
    """
    # Materialised: the vectors that are compared are of one model, so of one size.
    vectors = select(*_SHOWN, type_coerce(_K.embedding, NullType()).label("embedding"))
    vectors = vectors.where(*_current(group_id, question), _K.embedding_model == model)
    comparable = vectors.cte("comparable").prefix_with("MATERIALIZED")
    distance = comparable.c.embedding.op("<=>", return_type=Double)(bindparam("query", type_=NullType()))
    without_vector = [column for column in comparable.c if column is not comparable.c.embedding]
    statement = (
        select(*without_vector, (1 - distance).label("score"))
        .order_by(distance, comparable.c.knowledge_id)
        .limit(limit)
    )
    return [_item(row, row.score, row.score) for row in connection.execute(statement, {"query": query})]


def by_words(
    connection: Connection, group_id: str, question: MemoryQuestion, model: str | None
) -> tuple[list[TierItem], int]:
    """Pieces without a vector of the model (None: all) that share a word with the question, and how many such
    there are.

    An item's score is the share of the question's words that it has, those that are rare among these pieces
    counting more.
    """
    words = list(dict.fromkeys(tokens(question.query)))
    not_comparable = [*_current(group_id, question)]
    if model is not None:
        not_comparable.append(_K.embedding_model.is_distinct_from(model))
    counted = select(func.count()).select_from(_K).where(*not_comparable)
    without = int(connection.execute(counted).scalar_one())
    by_word = select(*_SHOWN, _K.tokens).where(*not_comparable, _TERMS.op("&&")(cast(words, ARRAY(Text))))
    latest = by_word.order_by(_K.promoted_at.desc(), _K.knowledge_id).limit(MAX_BY_WORDS)
    rows = connection.execute(latest).all() if without and words else []
    has = [set(row.tokens.split()) for row in rows]
    rarity = {term: 1 / (1 + sum(term in terms for terms in has)) for term in words}
    total = sum(rarity.values())
    items = [
        _item(row, sum(rarity[term] for term in words if term in terms) / total, None)
        for row, terms in zip(rows, has, strict=True)
    ]
    return sorted(items, key=lambda item: -item.score), without


def to_embed(connection: Connection, ids: Sequence[UUID], model: str) -> list[TextWithoutVector]:
    """Current pieces that have no vector of this model, with their texts."""
    rows = connection.execute(_TO_EMBED, {"ids": list(ids), "model": model})
    return [TextWithoutVector(row.knowledge_id, row.content) for row in rows]


def fill(connection: Connection, vectors: Sequence[tuple[TextWithoutVector, Float32]], model: str) -> None:
    """Store vectors. The vector of a piece whose text has changed meanwhile stays pending."""
    rows = [
        {"id": text.subject_id, "content": text.content, "vector": vector, "model": model}
        for text, vector in vectors
    ]
    if rows:
        connection.execute(_FILL, rows)


def _current(group_id: str, question: MemoryQuestion) -> Iterator[ColumnElement[bool]]:
    """What the question may be answered from: the whole group's, and its own agent's."""
    yield _K.group_id == group_id
    yield _K.demoted_at.is_(None)
    yield or_(_K.agent_id.is_(None), _K.agent_id == question.agent_id)
    yield from equal_if_given((_K.session_id, question.session_id))
    if not question.include_verdicts:
        yield _K.kind != "verdict"


def _item(row: Any, score: float, similarity: float | None) -> TierItem:
    return TierItem(
        item_id=str(row.knowledge_id),
        source="cold",
        content=row.content,
        score=score,
        similarity=similarity,
        kind=row.kind,
        created_at=row.promoted_at,
        session_id=row.session_id,
        agent_id=row.agent_id,
        verified=True,
        metadata=row.metadata,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class KnowledgeFilters:
    """Which pieces; None or empty counts for nothing, an ``agent_id`` ``""`` is the whole group's."""

    words: str = ""
    kind: str | None = None
    agent_id: str | None = None
    session_id: str | None = None
    demoted: Demoted = "without"


#: Of a piece in a list; ``chars``: characters of the whole text, which may be cut.
_LISTED = (
    *("knowledge_id", "agent_id", "session_id", "kind", "embedding_model", "promoted_at", "demoted_at"),
    *("replaced_by", "chars", "content"),
)


class PieceDetail(KnowledgeDetail):
    """All that is kept of a piece but its vector; ``embedded`` is the model that made that."""

    history: list[Change] = Field(default=[])

    @property
    def entry_ids(self) -> list[UUID]:
        """The entries of quarantine that it was made of."""
        return ids_in(self.metadata.get("entry_ids"))

    @property
    def replaces(self) -> UUID | None:
        """The version that it took the place of."""
        return next(iter(ids_in([self.metadata.get("edited_from")])), None)


def pieces(
    connection: Connection, group_id: str, filters: KnowledgeFilters, before: Place | None, limit: int
) -> list[Record]:
    """Pieces of knowledge, those promoted last first."""
    statement = select(*_columns(MAX_LISTED_CHARS)).where(_K.group_id == group_id, *_conditions(filters))
    latest = behind(statement, before, _K.promoted_at, _K.knowledge_id).limit(limit)
    return records(connection, latest)


def agents_with_knowledge(connection: Connection, group_id: str) -> list[str]:
    """Agents that have knowledge of their own, by name."""
    statement = select(_K.agent_id).distinct().where(_K.group_id == group_id, _K.agent_id.is_not(None))
    agents = connection.execute(statement.order_by(_K.agent_id).limit(MAX_AGENTS)).scalars()
    return [str(agent_id) for agent_id in agents]


def pieces_of(connection: Connection, group_id: str, entry_id: UUID) -> list[Record]:
    """The pieces made of an entry of quarantine: current ones first, in the order of the pieces."""
    statement = select(*_columns()).where(
        _K.group_id == group_id, _K.source_metadata["entry_ids"].has_key(str(entry_id))
    )
    number = _K.source_metadata["piece"].as_integer().nulls_last()
    order = (_K.demoted_at.is_not(None), _K.promoted_at, number, _K.knowledge_id)
    return records(connection, statement.order_by(*order).limit(MAX_PIECES))


def find(connection: Connection, group_id: str, ids: Iterable[UUID]) -> dict[UUID, PieceDetail]:
    """Those of the pieces that the group has, current or demoted, by id."""
    statement = select(*columns(PieceDetail, _K, embedded=_K.embedding_model, history=None))
    rows = fetch(connection, PieceDetail, statement.where(_K.group_id == group_id, _K.knowledge_id.in_(ids)))
    return {row.knowledge_id: row for row in rows}


def find_one(connection: Connection, group_id: str, knowledge_id: UUID) -> PieceDetail:
    """A piece, current or demoted. Raises :class:`NotFound`."""
    matches = find(connection, group_id, [knowledge_id])
    if knowledge_id not in matches:
        raise NotFound(f"id: the group {group_id!r} has no knowledge {knowledge_id}")
    return matches[knowledge_id]


def detail(connection: Connection, group_id: str, knowledge_id: UUID) -> KnowledgeDetail:
    """A piece, current or demoted, with its history. Raises :class:`NotFound`."""
    piece = find_one(connection, group_id, knowledge_id)
    return piece.model_copy(update={"history": history(connection, group_id, knowledge_id)})


def history(connection: Connection, group_id: str, knowledge_id: UUID) -> list[Change]:
    """What became of a piece and the versions before it, oldest first; an edit is in it once."""
    versions: set[UUID] = set()
    at: UUID | None = knowledge_id
    while at is not None and at not in versions and len(versions) < MAX_VERSIONS:
        piece = find(connection, group_id, [at]).get(at)
        if piece is None:
            break
        versions.add(at)
        at = piece.replaces
    changed = KnowledgeChange
    statement = select(*columns(Change, changed)).where(
        changed.group_id == group_id, changed.knowledge_id.in_(versions)
    )
    changes = fetch(connection, Change, statement.order_by(changed.at, changed.history_id))
    return list({(one.action, one.at, one.before, one.after): one for one in changes}.values())


def ids_in(texts: Any) -> list[UUID]:
    """Ids that stand in metadata, as far as they are any: who promotes may write there what they like."""
    ids: list[UUID] = []
    for name in texts if isinstance(texts, list) else []:
        with suppress(ValueError, TypeError, AttributeError):
            ids.append(UUID(name))
    return ids


def _columns(chars: int | None = None) -> list[ColumnElement[Any]]:
    content = _K.content if chars is None else func.left(_K.content, chars)
    return columns(_LISTED, _K, chars=func.length(_K.content), content=content)


def _conditions(filters: KnowledgeFilters) -> Iterator[ColumnElement[bool]]:
    yield from has_words(_K.content, filters.words)
    yield from equal_if_given((_K.kind, filters.kind), (_K.session_id, filters.session_id))
    if filters.agent_id is not None:
        yield func.coalesce(_K.agent_id, "") == filters.agent_id
    if filters.demoted != "with":
        yield _K.demoted_at.is_(None) if filters.demoted == "without" else _K.demoted_at.is_not(None)


@dataclass(frozen=True, slots=True)
class NewPiece:
    planned: PlannedPiece
    kind: Kind
    session_id: str | None


def lock_group(connection: Connection, group_id: str) -> None:
    """Lock the group's knowledge until the end of the transaction."""
    connection.execute(_LOCK_GROUP, {"group": group_id})


def planned_pieces(
    group_id: str, body: PromoteBody, sources: Sequence[EntryDetail], now: datetime
) -> list[NewPiece]:
    """The pieces of the text, if there is one, for which the entries are the evidence; else of each entry."""

    def pieces(
        text: str,
        kind: Kind,
        session_id: str | None,
        entries: Sequence[EntryDetail],
        metadata: JsonObject | None = None,
    ) -> list[NewPiece]:
        planned = plan(
            text,
            group_id=group_id,
            promoted_at=now,
            agent_id=body.agent_id,
            entry_ids=[entry.entry_id for entry in entries],
            metadata=metadata,
        )
        return [NewPiece(one, kind, session_id) for one in planned]

    if body.text is not None:
        sessions = {source.session_id for source in sources}
        session_id = sessions.pop() if len(sessions) == 1 else None  # of several: the group's
        new = pieces(body.text, body.kind, session_id, sources)
    else:
        new = []
        for source in sources:
            origin = {"node_id": source.node_id, "node_type": source.node_type, "said_by": source.agent_id}
            whose = kind_of(body, source), source.session_id, [source]
            new += pieces(source.content, *whose, {**source.metadata, **origin})
    once = list({piece.planned.knowledge_id: piece for piece in reversed(new)}.values())[::-1]
    if not once:
        raise InvalidRequest("text: there is nothing in it to keep")
    return once


def kind_of(body: PromoteBody, source: EntryDetail) -> Kind:
    """A verdict stays one; who promotes may call a statement one."""
    return "verdict" if "verdict" in (source.kind, body.kind) else "statement"


def current_ids(connection: Connection, group_id: str, new: Sequence[NewPiece]) -> set[UUID]:
    """The ids of those of the pieces that are current."""
    matches = find(connection, group_id, [piece.planned.knowledge_id for piece in new])
    return {knowledge_id for knowledge_id, piece in matches.items() if piece.demoted_at is None}


def store(connection: Connection, group_id: str, agent_id: str | None, new: NewPiece, now: datetime) -> None:
    """Make a piece current. One that was demoted keeps its vector if it says the same."""
    planned = new.planned
    row = {
        "knowledge_id": planned.knowledge_id,
        "content": planned.content,
        "content_hash": planned.content_hash,
        "agent_id": agent_id,
        "session_id": new.session_id,
        "kind": new.kind,
        "promoted_at": now,
        "tokens": " ".join(tokens(planned.content)),
    }
    statement = insert(_K).values(group_id=group_id, source_metadata=planned.metadata, **row)
    excluded, same = statement.excluded, _K.content == statement.excluded.content
    again = {
        name: excluded[name]
        for name in ("promoted_at", "session_id", "kind", "content", "tokens", "metadata")
    }
    vectors = {name: case((same, _K.__table__.c[name])) for name in ("embedding", "embedding_model")}
    changes = {"demoted_at": None, "replaced_by": None, **again, **vectors}
    connection.execute(
        statement.on_conflict_do_update(
            index_elements=["knowledge_id"], set_=changes, where=_K.demoted_at.is_not(None)
        )
    )


def demote(
    connection: Connection, group_id: str, ids: Sequence[UUID], now: datetime, replaced_by: UUID | None = None
) -> None:
    """Demote pieces; they stay, with their history."""
    connection.execute(_DEMOTE, {"group": group_id, "ids": list(ids), "now": now, "by": replaced_by})


def reword(connection: Connection, group_id: str, knowledge_id: UUID, content: str) -> None:
    """Write a piece with other capitals or spaces; it needs a new vector."""
    texts = {"content": content, "tokens": " ".join(tokens(content))}
    connection.execute(_REWORD, {"group": group_id, "id": knowledge_id, **texts})


_SHOWN = (
    _K.knowledge_id,
    _K.agent_id,
    _K.session_id,
    _K.kind,
    _K.content,
    _K.source_metadata.label("metadata"),
    _K.promoted_at,
)
_TERMS = func.string_to_array(_K.tokens, " ")
_LOCK_GROUP = text("SELECT pg_advisory_xact_lock(hashtextextended('jiyi.knowledge.' || :group, 0))")
_DEMOTE = text("""
    UPDATE knowledge SET demoted_at = :now, replaced_by = CAST(:by AS uuid)
    WHERE group_id = :group AND knowledge_id = ANY(:ids) AND demoted_at IS NULL
""")
_REWORD = text("""
    UPDATE knowledge SET content = :content, tokens = :tokens, embedding = NULL, embedding_model = NULL
    WHERE group_id = :group AND knowledge_id = :id
""")
_TO_EMBED = text("""
    SELECT knowledge_id, content FROM knowledge
    WHERE knowledge_id = ANY(:ids) AND demoted_at IS NULL AND embedding_model IS DISTINCT FROM :model
""")
_FILL = text("""
    UPDATE knowledge SET embedding = :vector, embedding_model = :model WHERE knowledge_id = :id
    AND content = :content
""")
enqueues_vectors(
    EMBED_KNOWLEDGE,
    "SELECT knowledge_id, group_id FROM knowledge"
    " WHERE demoted_at IS NULL AND embedding_model IS DISTINCT FROM :model",
)
