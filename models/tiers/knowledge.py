"""Long-term knowledge: promoted, demoted, edited and looked for (CN-32…CN-37, CN-41, CN-50).

Promotion needs no model: pieces are stored at once, found by their words until ``embed_knowledge`` has embedded them in
batches, and again after a move to another model until it has embedded them anew. Changes of one group queue up behind its
lock, so that two promotions of the same text, or an edit and a demotion, cannot cross.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, bindparam, text
from sqlalchemy.dialects.postgresql import JSONB
from uuid6 import uuid7

from jiyi.errors import InvalidRequest, NotFound
from jiyi.protocol.knowledge import Change, DemoteBody, EditBody, Piece, PromoteBody, Promoted
from jiyi.protocol.tiers import Item, Kind, MemoryQuestion
from jiyi.protocol.vectors import Float32
from jiyi.text.budget import estimate_tokens
from jiyi.text.tokens import tokens
from jiyi.tiers.promotion import Planned, knowledge_id, plan
from jiyi.tiers.screening import digest_of
from models.accounts import audit
from models.queue import pending_work

#: The kind of work that knowledge without a vector of the active model owes.
EMBED_KNOWLEDGE = "embed_knowledge"
#: Pieces without a comparable vector that share a word with a question, of which the best are looked for.
MAX_BY_WORDS = 500


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
class _New:
    planned: Planned
    kind: Kind
    session_id: str | None


def preview(connection: Connection, group_id: str, body: PromoteBody, now: datetime | None = None) -> Promoted:
    """The pieces that a promotion would store, each with whether the group knows it. Changes nothing.

    Raises:
        NotFound: one of the entries is not in the group's quarantine.
    """
    sources = _sources(connection, group_id, body.entry_ids)
    new = _planned(group_id, body, sources, now or datetime.now(UTC))
    known = _known(connection, group_id, new)
    return Promoted(
        pieces=[_piece(one.planned, known=one.planned.knowledge_id in known) for one in new],
        already=[source.entry_id for source in sources if source.promoted],
    )


def promote(connection: Connection, group_id: str, body: PromoteBody, actor: str) -> Promoted:
    """Make knowledge of entries or a text, in the caller's transaction; after it ``wake(EMBED_KNOWLEDGE)``, and tell
    ``models.queue.news.promoted``. With ``preview`` set it only looks.

    All or nothing (CN-36). Safe to repeat because a piece's id follows from its content: what is known stays as it is.

    Raises:
        NotFound: one of the entries is not in the group's quarantine.
    """
    if body.preview:
        return preview(connection, group_id, body)
    _hold(connection, group_id)
    now = datetime.now(UTC)
    sources = _sources(connection, group_id, body.entry_ids)
    new = _planned(group_id, body, sources, now)
    known = _known(connection, group_id, new)
    fresh = [one for one in new if one.planned.knowledge_id not in known]
    for one in fresh:
        _store(connection, group_id, body.agent_id, one, now)
        _note(connection, group_id, one.planned.knowledge_id, "promoted", actor, body.note, None, one.planned.content)
    pending_work.owe(connection, EMBED_KNOWLEDGE, [(one.planned.knowledge_id, group_id) for one in fresh])
    marked = [source.entry_id for source in sources if not source.promoted]
    if marked:
        connection.execute(_MARK, {"group": group_id, "ids": marked, "now": now})
    if fresh or marked:
        audit.record(
            connection,
            group_id=group_id,
            actor=actor,
            action="promote",
            target="knowledge",
            entry_ids=marked,
            knowledge_ids=[one.planned.knowledge_id for one in fresh],
            note=body.note,
        )
    return Promoted(
        pieces=[_piece(one.planned, known=one.planned.knowledge_id in known) for one in new],
        entries=marked,
        already=[source.entry_id for source in sources if source.promoted],
        promoted_at=now,
    )


def demote(connection: Connection, group_id: str, body: DemoteBody, actor: str) -> list[UUID]:
    """Take knowledge back; returns what was in force. The rows stay, with their history, and can be promoted again.

    Raises:
        NotFound: the group has, or had, no such knowledge.
    """
    _hold(connection, group_id)
    asked = list(dict.fromkeys(body.knowledge_ids))
    rows = {row.knowledge_id: row for row in connection.execute(_FIND, {"group": group_id, "ids": asked})}
    missing = [str(one) for one in asked if one not in rows]
    if missing:
        raise NotFound(f"knowledge_ids: the group {group_id!r} has no knowledge {', '.join(missing[:3])}")
    gone = [one for one in asked if rows[one].demoted_at is None]
    if gone:
        connection.execute(_DEMOTE, {"group": group_id, "ids": gone, "now": datetime.now(UTC), "by": None})
        for one in gone:
            _note(connection, group_id, one, "demoted", actor, body.reason, rows[one].content, None)
        audit.record(
            connection, group_id=group_id, actor=actor, action="demote", target="knowledge", knowledge_ids=gone, reason=body.reason
        )
    return gone


def edit(connection: Connection, group_id: str, edited: UUID, body: EditBody, actor: str) -> UUID:
    """Put knowledge into other words; returns the id of the version that is in force from now on.

    After it ``wake(EMBED_KNOWLEDGE)``. The old version stays, demoted, and names the new one. Safe to repeat because
    what says the same already is left as it is.

    Raises:
        NotFound: the group has no such knowledge in force.
    """
    _hold(connection, group_id)
    now = datetime.now(UTC)
    row = connection.execute(_FIND, {"group": group_id, "ids": [edited]}).one_or_none()
    if row is None or row.demoted_at is not None:
        newer = "" if row is None or row.replaced_by is None else f"; {row.replaced_by} has taken its place"
        raise NotFound(f"knowledge_id: the group {group_id!r} has no knowledge {edited} in force{newer}")
    content = body.content.strip()
    if content == row.content:
        return edited
    digest = digest_of(content)
    new_id = knowledge_id(group_id, row.agent_id, digest)
    if new_id == edited:  # other capitals or spaces only: the same piece
        connection.execute(_REWORD, {"group": group_id, "id": edited, "content": content, "tokens": _tokens(content)})
    else:
        connection.execute(_DEMOTE, {"group": group_id, "ids": [edited], "now": now, "by": new_id})
        planned = Planned(new_id, content, digest, {**row.metadata, "edited_from": str(edited)})
        if not _known(connection, group_id, [_New(planned, row.kind, row.session_id)]):
            _store(connection, group_id, row.agent_id, _New(planned, row.kind, row.session_id), row.promoted_at)
    _note(connection, group_id, new_id, "edited", actor, body.reason, row.content, content)
    if new_id != edited:
        _note(connection, group_id, edited, "edited", actor, body.reason, row.content, content)
    pending_work.owe(connection, EMBED_KNOWLEDGE, [(new_id, group_id)])
    audit.record(
        connection,
        group_id=group_id,
        actor=actor,
        action="edit knowledge",
        target="knowledge",
        knowledge_id=edited,
        became=new_id,
        reason=body.reason,
    )
    return new_id


def history(connection: Connection, group_id: str, knowledge: UUID) -> list[Change]:
    """What became of a piece of knowledge, oldest first; empty if there is none of this id."""
    return [Change(**row) for row in connection.execute(_HISTORY, {"group": group_id, "id": knowledge}).mappings()]


def find(connection: Connection, group_id: str, knowledge: UUID) -> dict[str, Any] | None:
    """All that is kept of a piece, in force or not, but its vector; ``embedded`` is the model that made that."""
    row = connection.execute(_ONE, {"group": group_id, "id": knowledge}).mappings().one_or_none()
    return None if row is None else dict(row)


# Looking for it


def nearest(
    connection: Connection, group_id: str, question: MemoryQuestion, now: datetime, query: Float32, model: str, limit: int
) -> list[Item]:
    """The pieces most like a question, exactly, of those with a vector of the same model (CN-41, CN-50).

    No approximate index: a group's knowledge is what people have promoted, thousands at most, and an index that is filtered
    by tenant loses results silently.
    """
    rows = connection.execute(_NEAREST, {**_filters(group_id, question, now), "query": query, "model": model, "limit": limit})
    return [_item(row, row.score, row.score) for row in rows]


def by_words(connection: Connection, group_id: str, question: MemoryQuestion, now: datetime, model: str | None) -> tuple[list[Item], int]:
    """Pieces without a vector of the model (None: all) that share a word with the question, and how many such there are.

    An item's score is the share of the question's words that it has, those that are rare among these pieces counting more.
    """
    wanted = list(dict.fromkeys(tokens(question.query)))
    parameters = {**_filters(group_id, question, now), "model": model, "limit": MAX_BY_WORDS, "terms": wanted}
    without = int(connection.execute(_WITHOUT, parameters).scalar_one())
    rows = connection.execute(_BY_WORDS, parameters).all() if without and wanted else []
    has = [set(row.tokens.split()) for row in rows]
    rarity = {term: 1 / (1 + sum(term in one for one in has)) for term in wanted}
    total = sum(rarity.values())
    found = [_item(row, sum(rarity[term] for term in wanted if term in one) / total, None) for row, one in zip(rows, has, strict=True)]
    return sorted(found, key=lambda item: -item.score), without


def to_embed(connection: Connection, ids: Sequence[UUID], model: str) -> list[tuple[UUID, str]]:
    """Those in force that have no vector of this model, with their texts."""
    rows = connection.execute(_TO_EMBED, {"ids": list(ids), "model": model})
    return [(row.knowledge_id, row.content) for row in rows]


def fill(connection: Connection, vectors: Sequence[tuple[UUID, str, Float32]], model: str) -> None:
    """(id, text, vector) each. A piece whose text has changed meanwhile keeps owing its vector to whoever changed it."""
    rows = [{"id": one, "content": content, "vector": vector, "model": model} for one, content, vector in vectors]
    if rows:
        connection.execute(_FILL, rows)


def owe_all(connection: Connection, model: str) -> int:
    """Owe a vector to every piece without one of this model: after a move to it. In the scope of the whole service."""
    return connection.execute(_OWE_ALL, {"kind": EMBED_KNOWLEDGE, "model": model}).rowcount


def _filters(group_id: str, question: MemoryQuestion, now: datetime) -> dict[str, Any]:
    return {
        "group": group_id,
        "agent": question.agent_id,
        "session": question.session_id,
        "since": question.since(now),
        "verdicts": question.include_verdicts,
    }


def _item(row: Any, score: float, similarity: float | None) -> Item:
    return Item(
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


# Changing it


def _hold(connection: Connection, group_id: str) -> None:
    connection.execute(_HOLD, {"group": group_id})


def _sources(connection: Connection, group_id: str, entry_ids: Sequence[UUID]) -> list[Source]:
    """In the order asked for."""
    asked = list(dict.fromkeys(entry_ids))
    if not asked:
        return []
    found = {row["entry_id"]: Source(**row) for row in connection.execute(_SOURCES, {"group": group_id, "ids": asked}).mappings()}
    missing = [str(one) for one in asked if one not in found]
    if missing:
        raise NotFound(f"entry_ids: the quarantine of the group {group_id!r} has no {', '.join(missing[:3])}")
    return [found[one] for one in asked]


def _planned(group_id: str, body: PromoteBody, sources: Sequence[Source], now: datetime) -> list[_New]:
    """The pieces of the text, if there is one, for which the entries are the evidence; else of each entry."""
    if body.text is not None:
        sessions = {source.session_id for source in sources}
        session_id = sessions.pop() if len(sessions) == 1 else None  # of several: the group's
        pieces = plan(
            body.text, group_id=group_id, promoted_at=now, agent_id=body.agent_id, entry_ids=[source.entry_id for source in sources]
        )
        new = [_New(planned, body.kind, session_id) for planned in pieces]
    else:
        new = [
            _New(planned, _kind(body, source), source.session_id)
            for source in sources
            for planned in _pieces_of(source, group_id, body, now)
        ]
    once = list({one.planned.knowledge_id: one for one in reversed(new)}.values())[::-1]
    if not once:
        raise InvalidRequest(["text: there is nothing in it to keep"])
    return once


def _kind(body: PromoteBody, source: Source) -> Kind:
    """A verdict stays one; whoever promotes may call a statement one."""
    return "verdict" if "verdict" in (source.kind, body.kind) else "statement"


def _pieces_of(source: Source, group_id: str, body: PromoteBody, now: datetime) -> list[Planned]:
    said = {**source.metadata, "node_id": source.node_id, "node_type": source.node_type, "said_by": source.agent_id}
    return plan(source.content, group_id=group_id, promoted_at=now, agent_id=body.agent_id, entry_ids=[source.entry_id], metadata=said)


def _known(connection: Connection, group_id: str, new: Sequence[_New]) -> set[UUID]:
    """Those of the pieces that are in force."""
    ids = [one.planned.knowledge_id for one in new]
    return {row.knowledge_id for row in connection.execute(_FIND, {"group": group_id, "ids": ids}) if row.demoted_at is None}


def _store(connection: Connection, group_id: str, agent_id: str | None, new: _New, now: datetime) -> None:
    planned = new.planned
    connection.execute(
        _STORE,
        {
            "id": planned.knowledge_id,
            "group": group_id,
            "agent": agent_id,
            "session": new.session_id,
            "kind": new.kind,
            "content": planned.content,
            "hash": planned.content_hash,
            "tokens": _tokens(planned.content),
            "metadata": planned.metadata,
            "now": now,
        },
    )


def _note(
    connection: Connection, group_id: str, knowledge: UUID, action: str, actor: str, reason: str, before: str | None, after: str | None
) -> None:
    connection.execute(
        _NOTE,
        {
            "history": uuid7(),
            "group": group_id,
            "id": knowledge,
            "action": action,
            "actor": actor,
            "reason": reason,
            "before": before,
            "after": after,
        },
    )


def _piece(planned: Planned, *, known: bool) -> Piece:
    return Piece(content=planned.content, tokens=estimate_tokens(planned.content), knowledge_id=planned.knowledge_id, known=known)


def _tokens(content: str) -> str:
    return " ".join(tokens(content))


_HOLD = text("SELECT pg_advisory_xact_lock(hashtextextended('jiyi.protocol.knowledge.' || :group, 0))")
_SOURCES = text("""
    SELECT entry_id, session_id, agent_id, node_id, node_type, kind, content, metadata, promoted_at IS NOT NULL AS promoted
    FROM quarantine_logs WHERE group_id = :group AND entry_id = ANY(:ids) AND deleted_at IS NULL
""")
_FIND = text("""
    SELECT knowledge_id, agent_id, session_id, kind, content, metadata, promoted_at, demoted_at, replaced_by FROM knowledge
    WHERE group_id = :group AND knowledge_id = ANY(:ids)
""")
_ONE = text("""
    SELECT knowledge_id, group_id, agent_id, session_id, kind, content, metadata, created_at, promoted_at, demoted_at,
        replaced_by, embedding_model AS embedded
    FROM knowledge WHERE group_id = :group AND knowledge_id = :id
""")
# What was demoted, and is promoted again, is the same piece.
_STORE = text("""
    INSERT INTO knowledge (knowledge_id, group_id, agent_id, session_id, kind, content, content_hash, tokens, metadata,
        promoted_at)
    VALUES (:id, :group, :agent, :session, :kind, :content, :hash, :tokens, :metadata, :now)
    ON CONFLICT (knowledge_id) DO UPDATE SET demoted_at = NULL, replaced_by = NULL, promoted_at = excluded.promoted_at,
        session_id = excluded.session_id, kind = excluded.kind, content = excluded.content, tokens = excluded.tokens,
        metadata = excluded.metadata,
        embedding = CASE WHEN knowledge.content = excluded.content THEN knowledge.embedding END,
        embedding_model = CASE WHEN knowledge.content = excluded.content THEN knowledge.embedding_model END
    WHERE knowledge.demoted_at IS NOT NULL
""").bindparams(bindparam("metadata", type_=JSONB))
_MARK = text("""
    UPDATE quarantine_logs SET promoted_at = :now WHERE group_id = :group AND entry_id = ANY(:ids) AND promoted_at IS NULL
""")
_DEMOTE = text("""
    UPDATE knowledge SET demoted_at = :now, replaced_by = CAST(:by AS uuid)
    WHERE group_id = :group AND knowledge_id = ANY(:ids) AND demoted_at IS NULL
""")
_REWORD = text("""
    UPDATE knowledge SET content = :content, tokens = :tokens, embedding = NULL, embedding_model = NULL
    WHERE group_id = :group AND knowledge_id = :id
""")
_NOTE = text("""
    INSERT INTO knowledge_history (history_id, group_id, knowledge_id, action, actor, reason, before, after)
    VALUES (:history, :group, :id, :action, :actor, :reason, :before, :after)
""")
_HISTORY = text("""
    SELECT action, actor, at, reason, before, after FROM knowledge_history
    WHERE group_id = :group AND knowledge_id = :id ORDER BY history_id
""")
_IN_FORCE = """
    group_id = :group AND demoted_at IS NULL AND (agent_id IS NULL OR agent_id = CAST(:agent AS text))
    AND (CAST(:session AS text) IS NULL OR session_id = :session)
    AND (CAST(:since AS timestamptz) IS NULL OR promoted_at >= :since) AND (:verdicts OR kind <> 'verdict')
"""
_COLUMNS = "knowledge_id, agent_id, session_id, kind, content, metadata, promoted_at"
# Materialised: the vectors that are compared are of one model, so of one size.
_NEAREST = text(f"""
    WITH comparable AS MATERIALIZED (
        SELECT {_COLUMNS}, embedding FROM knowledge WHERE {_IN_FORCE} AND embedding_model = :model
    )
    SELECT {_COLUMNS}, 1 - (embedding <=> :query) AS score FROM comparable
    ORDER BY embedding <=> :query, knowledge_id LIMIT :limit
""")
_NOT_COMPARABLE = f"{_IN_FORCE} AND (CAST(:model AS text) IS NULL OR embedding_model IS DISTINCT FROM :model)"
_WITHOUT = text(f"SELECT count(*) FROM knowledge WHERE {_NOT_COMPARABLE}")
_BY_WORDS = text(f"""
    SELECT {_COLUMNS}, tokens FROM knowledge
    WHERE {_NOT_COMPARABLE} AND string_to_array(tokens, ' ') && CAST(:terms AS text[])
    ORDER BY promoted_at DESC, knowledge_id LIMIT :limit
""")
_TO_EMBED = text("""
    SELECT knowledge_id, content FROM knowledge
    WHERE knowledge_id = ANY(:ids) AND demoted_at IS NULL AND embedding_model IS DISTINCT FROM :model
""")
_FILL = text("""
    UPDATE knowledge SET embedding = :vector, embedding_model = :model WHERE knowledge_id = :id AND content = :content
""")
_OWE_ALL = text("""
    INSERT INTO pending_work (kind, subject_id, group_id)
    SELECT :kind, knowledge_id, group_id FROM knowledge
    WHERE demoted_at IS NULL AND embedding_model IS DISTINCT FROM CAST(:model AS text)
    ON CONFLICT DO NOTHING
""")
