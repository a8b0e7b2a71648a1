"""Actions on a group's tiers: promote, demote and edit knowledge, delete from quarantine; and its live
events.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from pydantic import ValidationError
from sqlalchemy import Connection, insert
from uuid6 import uuid7

from engine.tiers.quarantine import PlannedPiece, knowledge_id
from jiyi.errors import InvalidRequest, NotFound, problems_of
from jiyi.protocol.base import Rows
from jiyi.protocol.knowledge import (
    MAX_IDS,
    CheckBody,
    DeleteEntries,
    DemoteBody,
    EditKnowledge,
    KnowledgeDetail,
    Piece,
    PromoteBody,
    Promoted,
)
from jiyi.text.budget import estimate_tokens
from jiyi.text.words import content_digest
from jiyi.tiers.retrieval_node import NodeEvent
from models.db.actions import Context, action, by_worker
from models.queue import stream
from models.queue.stream import LiveEvent
from models.tiers import digests, knowledge, quarantine, quarantine_reads, working
from models.tiers.knowledge import EMBED_KNOWLEDGE, NewPiece, PieceDetail, detail
from models.tiers.quarantine import INGRESS
from models.tiers.quarantine_reads import EntryDetail
from models.tiers.tables import KnowledgeChange


@action("knowledge.promote")
def promote(context: Context, request: PromoteBody) -> Promoted:
    """Make verified knowledge of what was said.

    Of entries of quarantine by their ids, of a text, or of a text that says what entries do. It is split into
    pieces of at most 500 characters, each found for good by the group's agents, or by one of them. All or
    nothing; knowledge that exists already stays unchanged, so that promoting again changes nothing. With
    preview nothing is stored.
    """
    connection, group_id = context.connection, context.group_id
    if request.preview:
        return preview(connection, group_id, request)
    knowledge.lock_group(connection, group_id)
    now = datetime.now(UTC)
    sources, new, existing = _planned(connection, group_id, request, now)
    fresh = {piece.planned.knowledge_id: piece for piece in new if piece.planned.knowledge_id not in existing}
    for new_id, piece in fresh.items():
        knowledge.store(connection, group_id, request.agent_id, piece, now)
        _record(context, new_id, "promoted", request.reason, None, piece.planned.content)
    context.enqueue(EMBED_KNOWLEDGE, [(new_id, group_id) for new_id in fresh])
    _verify(connection, group_id, request, sources, now)
    marked = [source.entry_id for source in sources if source.promoted_at is None]
    if marked:
        quarantine.mark_promoted(connection, group_id, marked, now)
    if fresh or marked:
        context.audit("knowledge", entry_ids=marked, knowledge_ids=list(fresh), note=request.reason)
    if fresh:
        ids = list(map(str, fresh))[: stream.MAX_IDS]
        details = {"ids": ids, "count": len(fresh), "entries": len(marked)}
        context.after_commit(lambda: stream.publish(group_id, "memory.promoted", **details))
    return _promoted(sources, new, existing).model_copy(update={"entries": marked, "promoted_at": now})


@action("knowledge.demote")
def demote(context: Context, request: DemoteBody) -> Rows[UUID]:
    """Take knowledge back.

    Agents do not find it any more from the next question on, nor what it came from in working memory. It
    stays, with its history, and may be promoted again.
    """
    connection, group_id = context.connection, context.group_id
    knowledge.lock_group(connection, group_id)
    piece_ids = list(dict.fromkeys(request.knowledge_ids))
    pieces = knowledge.find(connection, group_id, piece_ids)
    missing = [str(piece_id) for piece_id in piece_ids if piece_id not in pieces]
    if missing:
        raise NotFound(f"knowledge_ids: the group {group_id!r} has no knowledge {', '.join(missing[:3])}")
    gone = [piece_id for piece_id in piece_ids if pieces[piece_id].demoted_at is None]
    if gone:
        now = datetime.now(UTC)
        knowledge.demote(connection, group_id, gone, now)
        _withdraw(context, [pieces[piece_id] for piece_id in gone], now)
        for piece_id in gone:
            _record(context, piece_id, "demoted", request.reason, pieces[piece_id].content, None)
        context.audit("knowledge", knowledge_ids=gone, reason=request.reason)
    return Rows[UUID](rows=gone)


@action("knowledge.edit")
def edit(context: Context, request: EditKnowledge) -> KnowledgeDetail:
    """Put knowledge into other words.

    A new version replaces the old one, which stays as history; returns the current version, with its history.
    Its id is another one, since ids follow from the content. Knowledge that already says the same is left
    unchanged. The sources of the old version leave working memory.
    """
    connection, group_id, edited = context.connection, context.group_id, request.id
    knowledge.lock_group(connection, group_id)
    piece = knowledge.find(connection, group_id, [edited]).get(edited)
    if piece is None or piece.demoted_at is not None:
        newer = f"; {piece.replaced_by} has taken its place" if piece and piece.replaced_by else ""
        raise NotFound(f"id: the group {group_id!r} has no knowledge {edited} that is current{newer}")
    content = request.content.strip()
    if content == piece.content:
        return detail(connection, group_id, edited)
    digest, now = content_digest(content), datetime.now(UTC)
    new_id = knowledge_id(group_id, piece.agent_id, digest)
    if new_id == edited:  # other capitals or spaces only: the same piece
        knowledge.reword(connection, group_id, edited, content)
    else:
        knowledge.demote(connection, group_id, [edited], now, replaced_by=new_id)
        planned = PlannedPiece(new_id, content, digest, {**piece.metadata, "edited_from": str(edited)})
        version = NewPiece(planned, piece.kind, piece.session_id)
        if not knowledge.current_ids(connection, group_id, [version]):
            knowledge.store(connection, group_id, piece.agent_id, version, piece.promoted_at)
    _withdraw(context, [piece], now)
    for piece_id in dict.fromkeys((new_id, edited)):
        _record(context, piece_id, "edited", request.reason, piece.content, content)
    context.enqueue(EMBED_KNOWLEDGE, [(new_id, group_id)])
    context.audit("knowledge", knowledge_id=edited, became=new_id, reason=request.reason)
    return detail(connection, group_id, new_id)


@action("quarantine.delete")
def delete(context: Context, request: DeleteEntries) -> Rows[UUID]:
    """Take entries of quarantine out of sight, and out of working memory.

    Their rows stay for the audit; an erasure is what deletes them for good. What is deleted already is passed
    over.
    """
    connection, group_id, now = context.connection, context.group_id, datetime.now(UTC)
    quarantine.lock_group(connection, group_id)
    gone = quarantine.mark_deleted(connection, group_id, request.entry_ids, now)
    if gone:
        quarantine.mark_left(connection, group_id, gone, now)
        working.remove(group_id, gone)
        context.audit("quarantine_logs", entry_ids=gone, reason=request.reason)
    return Rows[UUID](rows=gone)


@action("quarantine.check")
def check(context: Context, request: CheckBody) -> Rows[UUID]:
    """Say what a check of entries came to.

    For fact checks: `true` takes the marks of an open claim and of a runaway loop off, `refuted` keeps the
    entries out. The filters then look at them again, so that they enter working memory, or leave it. Said
    again, it changes nothing.
    """
    connection, group_id = context.connection, context.group_id
    quarantine.lock_group(connection, group_id)
    checked = quarantine.mark_checked(connection, group_id, request.entry_ids, true=request.verdict == "true")
    if checked:
        context.enqueue(INGRESS, [(entry_id, group_id) for entry_id in checked])
        context.audit("quarantine_logs", entry_ids=checked, verdict=request.verdict, reason=request.reason)
    return Rows[UUID](rows=checked)


#: What is published of the memory-retrieval node's state.
STATE_FIELDS = ("status", "context_length", "context_tokens", "skipped")
make_digest = by_worker("digests.make")


def preview(connection: Connection, group_id: str, request: PromoteBody) -> Promoted:
    """The pieces that a promotion would store, each with whether the group knows it. Changes nothing.

    Raises:
        NotFound: one of the entries is not in the group's quarantine.
    """
    return _promoted(*_planned(connection, group_id, request, datetime.now(UTC)))


def _planned(
    connection: Connection, group_id: str, request: PromoteBody, now: datetime
) -> tuple[list[EntryDetail], list[NewPiece], set[UUID]]:
    """The entries, the pieces, and the ids of those that are known already."""
    sources = entries_of(connection, group_id, request.entry_ids)
    new = knowledge.planned_pieces(group_id, request, sources, now)
    return sources, new, knowledge.current_ids(connection, group_id, new)


def _promoted(sources: Sequence[EntryDetail], new: Sequence[NewPiece], existing: set[UUID]) -> Promoted:
    pieces = [
        Piece(
            content=piece.planned.content,
            tokens=estimate_tokens(piece.planned.content),
            knowledge_id=piece.planned.knowledge_id,
            known=piece.planned.knowledge_id in existing,
        )
        for piece in new
    ]
    return Promoted(pieces=pieces, already=[entry.entry_id for entry in sources if entry.promoted_at])


def _verify(
    connection: Connection, group_id: str, request: PromoteBody, sources: Sequence[EntryDetail], now: datetime
) -> None:
    """What is promoted in its own words is verified in working memory, too, and a verdict there."""
    quarantine.lock_group(connection, group_id)
    if request.text is None:
        kinds = {source.entry_id: knowledge.kind_of(request, source) for source in sources}
    else:
        kinds = dict.fromkeys(quarantine.saying(connection, group_id, [request.text], now), request.kind)
    quarantine.mark_verified(connection, group_id, kinds)


def _withdraw(context: Context, pieces: Sequence[PieceDetail], now: datetime) -> None:
    """Take out of working memory what these pieces of knowledge came from, and what says the same."""
    connection, group_id = context.connection, context.group_id
    quarantine.lock_group(connection, group_id)
    entry_ids = {entry_id for piece in pieces for entry_id in piece.entry_ids}
    entry_ids |= set(quarantine.saying(connection, group_id, [piece.content for piece in pieces], now))
    quarantine.withdraw(connection, group_id, list(entry_ids), now)


def _record(
    context: Context, knowledge_id: UUID, change: str, reason: str, before: str | None, after: str | None
) -> None:
    """Note in a piece's history who did what to it, and what it said before and after."""
    whose = {"history_id": uuid7(), "group_id": context.group_id, "knowledge_id": knowledge_id}
    fields = {"actor": context.actor.name, "reason": reason, "before": before, "after": after}
    context.connection.execute(insert(KnowledgeChange).values(**whose, **fields, action=change))


def screened(group_id: str, accepted: Sequence[UUID], refused: Mapping[str, int], fallen_out: int) -> None:
    """Outputs have, or have not, become working memory."""
    events: list[LiveEvent] = []
    if accepted:
        ids = [str(entry_id) for entry_id in accepted[: stream.MAX_IDS]]
        events.append(
            (group_id, "wm.accepted", {"ids": ids, "count": len(accepted), "fallen_out": fallen_out})
        )
    if refused:
        events.append((group_id, "wm.rejected", {"count": sum(refused.values()), "reasons": dict(refused)}))
    stream.publish_all(events)


def publish_node_event(group_id: str, event: NodeEvent, node_id: str, session_id: str | None) -> None:
    """Publish what the node said: counts and names only, as an error may quote what was asked."""
    data: dict[str, Any] = {"node": node_id, "session": session_id}
    match event["event"]:
        case "node_state_change":
            data |= {name: event["data"][name] for name in STATE_FIELDS if name in event["data"]}
            stream.publish(group_id, "node_state_change", **data)
        case "memory_retrieved":
            stream.publish(group_id, "memory.retrieved", **data | event["data"])
        case "memory_retrieval_error":
            stream.publish(group_id, "memory.retrieval_error", **data, tier=event["data"].get("tier"))


@dataclass(frozen=True, slots=True)
class PromotionDraft:
    """Entries of quarantine, and the knowledge to make of them; or a text alone."""

    entries: list[EntryDetail]
    text: str = ""
    kind: str = "statement"
    agent_id: str | None = None
    note: str = ""

    def body(self) -> PromoteBody | None:
        """None if it is empty. An entry whose words were left as they are is promoted itself, with all that
        is known of it.

        Raises:
            InvalidRequest: it cannot be promoted like this.
        """
        words = self.text.strip()
        if not words and not self.entries:
            return None
        own = len(self.entries) == 1 and self.entries[0].content.strip() == words
        ids = [entry.entry_id for entry in self.entries]
        fields = {"kind": self.kind, "agent_id": self.agent_id, "reason": self.note}
        try:
            return PromoteBody.model_validate(
                {"entry_ids": ids, "text": None if own or not words else words, **fields}
            )
        except ValidationError as error:
            raise InvalidRequest(problems_of(error)) from None


def of_entries(connection: Connection, group_id: str, ids: Sequence[UUID]) -> PromotionDraft:
    """What one entry says, or several that somebody has to put into words. Raises :class:`NotFound`."""
    entries = entries_of(connection, group_id, ids)
    verdicts = bool(entries) and all(entry.kind == "verdict" for entry in entries)
    text = entries[0].content if len(entries) == 1 else ""
    return PromotionDraft(entries, text, "verdict" if verdicts else "statement")


def of_digest(connection: Connection, group_id: str, digest_id: UUID, number: int) -> PromotionDraft:
    """A cluster of a digest, in the digest's words. Raises :class:`NotFound`."""
    matches = digests.listed(connection, group_id, digest_id)
    item = next((item for item in matches[0].items if item.number == number), None) if matches else None
    if item is None:
        raise NotFound(f"the group {group_id!r} has no such digest")
    drafted = of_entries(connection, group_id, item.entry_ids[:MAX_IDS])
    return PromotionDraft(drafted.entries, item.summary or drafted.text, drafted.kind)


def of_knowledge(connection: Connection, group_id: str, knowledge_id: UUID) -> PromotionDraft:
    """What was demoted, once more. Raises :class:`NotFound`."""
    piece = knowledge.find_one(connection, group_id, knowledge_id)
    return PromotionDraft([], piece.content, piece.kind, piece.agent_id)


def entries_of(connection: Connection, group_id: str, ids: Sequence[UUID]) -> list[EntryDetail]:
    """These entries of quarantine. Raises :class:`NotFound` if one is not there."""
    rows = quarantine_reads.some_entries(connection, group_id, ids)
    missing = [str(one) for one in set(ids) - {row.entry_id for row in rows}]
    if missing:
        raise NotFound(f"entry_ids: the quarantine of the group {group_id!r} has no {', '.join(missing[:3])}")
    return rows
