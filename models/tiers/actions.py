"""What can be done with a group's tiers: promote, demote and edit knowledge, delete from quarantine; and what
is told of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from pydantic import ValidationError
from sqlalchemy import Connection, Row

from engine.tiers.quarantine import PlannedPiece, knowledge_id
from jiyi.errors import InvalidRequest, NotFound, problems_of
from jiyi.protocol.base import Changed
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
from models.queue.stream import News
from models.tiers import digests, pieces, quarantine, quarantine_reads, working
from models.tiers.knowledge import EMBED_KNOWLEDGE, detail, find, ids_in
from models.tiers.pieces import NewPiece, Source
from models.tiers.quarantine import INGRESS
from models.tiers.quarantine_reads import EntryDetail

#: What is told of the memory-retrieval node's state.
STATE_FIELDS = ("status", "context_length", "context_tokens", "skipped")


@action("knowledge.promote")
def promote(context: Context, request: PromoteBody) -> Promoted:
    """Make verified knowledge of what was said.

    Of entries of quarantine by their ids, of a text, or of a text that says what entries do. It is split into
    pieces of at most 500 characters, each found for good by the group's agents, or by one of them. All or
    nothing; what is known already stays as it is, so that promoting again changes nothing. With preview
    nothing is stored.
    """
    connection, group_id = context.connection, context.group_id
    if request.preview:
        return preview(connection, group_id, request)
    pieces.lock_group(connection, group_id)
    now = datetime.now(UTC)
    sources = pieces.sources(connection, group_id, request.entry_ids)
    new = pieces.planned_pieces(group_id, request, sources, now)
    known = pieces.in_force(connection, group_id, new)
    fresh = [piece for piece in new if piece.planned.knowledge_id not in known]
    for piece in fresh:
        pieces.store(connection, group_id, request.agent_id, piece, now)
        _record(context, piece.planned.knowledge_id, "promoted", request.reason, None, piece.planned.content)
    context.enqueue(EMBED_KNOWLEDGE, [(piece.planned.knowledge_id, group_id) for piece in fresh])
    _verify(connection, group_id, request, sources, now)
    marked = [source.entry_id for source in sources if not source.promoted]
    if marked:
        pieces.mark_promoted(connection, group_id, marked, now)
    if fresh or marked:
        ids = [piece.planned.knowledge_id for piece in fresh]
        context.audit("knowledge", entry_ids=marked, knowledge_ids=ids, note=request.reason)
    done = Promoted(
        pieces=[_piece(piece.planned, known=piece.planned.knowledge_id in known) for piece in new],
        entries=marked,
        already=[source.entry_id for source in sources if source.promoted],
        promoted_at=now,
    )
    context.after_commit(lambda: promoted(group_id, done))
    return done


@action("knowledge.demote")
def demote(context: Context, request: DemoteBody) -> Changed:
    """Take knowledge back.

    Agents do not find it any more from the next question on, nor what it came from in working memory. It
    stays, with its history, and may be promoted again.
    """
    pieces.lock_group(context.connection, context.group_id)
    asked = list(dict.fromkeys(request.knowledge_ids))
    rows = pieces.find(context.connection, context.group_id, asked)
    missing = [str(piece_id) for piece_id in asked if piece_id not in rows]
    if missing:
        raise NotFound(
            f"knowledge_ids: the group {context.group_id!r} has no knowledge {', '.join(missing[:3])}"
        )
    gone = [piece_id for piece_id in asked if rows[piece_id].demoted_at is None]
    if gone:
        now = datetime.now(UTC)
        pieces.demote(context.connection, context.group_id, gone, now)
        _withdraw(context, [rows[piece_id] for piece_id in gone], now)
        for piece_id in gone:
            _record(context, piece_id, "demoted", request.reason, rows[piece_id].content, None)
        context.audit("knowledge", knowledge_ids=gone, reason=request.reason)
    return Changed(ids=gone)


@action("knowledge.edit")
def edit(context: Context, request: EditKnowledge) -> KnowledgeDetail:
    """Put knowledge into other words.

    A new version takes the place of the old one, which stays as history; the answer is the version that is in
    force, with its history. Its id is another one, since ids follow from what is said. What says the same
    already is left as it is. What the old one came from leaves working memory.
    """
    connection, group_id, edited = context.connection, context.group_id, request.id
    pieces.lock_group(connection, group_id)
    row = pieces.find(connection, group_id, [edited]).get(edited)
    if row is None or row.demoted_at is not None:
        newer = "" if row is None or row.replaced_by is None else f"; {row.replaced_by} has taken its place"
        raise NotFound(f"id: the group {group_id!r} has no knowledge {edited} in force{newer}")
    content = request.content.strip()
    if content == row.content:
        return detail(connection, group_id, edited)
    digest, now = content_digest(content), datetime.now(UTC)
    new_id = knowledge_id(group_id, row.agent_id, digest)
    if new_id == edited:  # other capitals or spaces only: the same piece
        pieces.reword(connection, group_id, edited, content)
    else:
        pieces.demote(connection, group_id, [edited], now, replaced_by=new_id)
        version = NewPiece(
            PlannedPiece(new_id, content, digest, {**row.metadata, "edited_from": str(edited)}),
            row.kind,
            row.session_id,
        )
        if not pieces.in_force(connection, group_id, [version]):
            pieces.store(connection, group_id, row.agent_id, version, row.promoted_at)
    _withdraw(context, [row], now)
    for piece_id in dict.fromkeys((new_id, edited)):
        _record(context, piece_id, "edited", request.reason, row.content, content)
    context.enqueue(EMBED_KNOWLEDGE, [(new_id, group_id)])
    context.audit("knowledge", knowledge_id=edited, became=new_id, reason=request.reason)
    return detail(connection, group_id, new_id)


@action("quarantine.delete")
def delete(context: Context, request: DeleteEntries) -> Changed:
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
    return Changed(ids=gone)


@action("quarantine.check")
def check(context: Context, request: CheckBody) -> Changed:
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
    return Changed(ids=checked)


make_digest = by_worker("digests.make")


def preview(connection: Connection, group_id: str, request: PromoteBody) -> Promoted:
    """The pieces that a promotion would store, each with whether the group knows it. Changes nothing.

    Raises:
        NotFound: one of the entries is not in the group's quarantine.
    """
    sources = pieces.sources(connection, group_id, request.entry_ids)
    new = pieces.planned_pieces(group_id, request, sources, datetime.now(UTC))
    known = pieces.in_force(connection, group_id, new)
    return Promoted(
        pieces=[_piece(piece.planned, known=piece.planned.knowledge_id in known) for piece in new],
        already=[source.entry_id for source in sources if source.promoted],
    )


def _verify(
    connection: Connection, group_id: str, request: PromoteBody, sources: Sequence[Source], now: datetime
) -> None:
    """What is promoted in its own words is verified in working memory, too, and a verdict there."""
    quarantine.lock_group(connection, group_id)
    if request.text is None:
        kinds = {source.entry_id: pieces.kind_of(request, source) for source in sources}
    else:
        kinds = dict.fromkeys(quarantine.saying(connection, group_id, [request.text], now), request.kind)
    quarantine.mark_verified(connection, group_id, kinds)


def _withdraw(context: Context, rows: Iterable[Row[Any]], now: datetime) -> None:
    """Take out of working memory what these pieces of knowledge came from, and what says the same."""
    connection, group_id, rows = context.connection, context.group_id, list(rows)
    quarantine.lock_group(connection, group_id)
    entry_ids = {entry_id for row in rows for entry_id in ids_in(row.metadata.get("entry_ids"))}
    entry_ids |= set(quarantine.saying(connection, group_id, [row.content for row in rows], now))
    quarantine.withdraw(connection, group_id, list(entry_ids), now)


def _record(
    context: Context, knowledge: UUID, change: str, reason: str, before: str | None, after: str | None
) -> None:
    pieces.record_change(
        context.connection, context.group_id, knowledge, change, context.actor.name, reason, before, after
    )


def _piece(planned: PlannedPiece, *, known: bool) -> Piece:
    return Piece(
        content=planned.content,
        tokens=estimate_tokens(planned.content),
        knowledge_id=planned.knowledge_id,
        known=known,
    )


def screened(group_id: str, accepted: Sequence[UUID], refused: Mapping[str, int], fallen_out: int) -> None:
    """Outputs have, or have not, become working memory."""
    told: list[News] = []
    if accepted:
        ids = [str(entry_id) for entry_id in accepted[: stream.MAX_IDS]]
        told.append((group_id, "wm.accepted", {"ids": ids, "count": len(accepted), "fallen_out": fallen_out}))
    if refused:
        told.append((group_id, "wm.rejected", {"count": sum(refused.values()), "reasons": dict(refused)}))
    stream.publish_all(told)


def promoted(group_id: str, done: Promoted) -> None:
    """Entries, or texts, have become knowledge. A preview, and what was known already, is no news."""
    new = [str(piece.knowledge_id) for piece in done.pieces if not piece.known]
    if new and done.promoted_at is not None:
        told = {"ids": new[: stream.MAX_IDS], "count": len(new), "entries": len(done.entries)}
        stream.publish(group_id, "memory.promoted", **told)


def digested(group_id: str, digest_id: UUID, items: int) -> None:
    """A group's quarantine was digested."""
    stream.publish(group_id, "digest.ready", id=str(digest_id), items=items)


def node_told(group_id: str, event: NodeEvent, node_id: str, session_id: str | None) -> None:
    """The memory-retrieval node told something: counts and names only, as what an error says may quote what
    was asked.
    """
    data, own = event["data"], {"node": node_id, "session": session_id}
    match event["event"]:
        case "node_state_change":
            stream.publish(
                group_id,
                "node_state_change",
                **own,
                **{name: data[name] for name in STATE_FIELDS if name in data},
            )
        case "memory_retrieved":
            stream.publish(group_id, "memory.retrieved", **own | data)
        case "memory_retrieval_error":
            stream.publish(group_id, "memory.retrieval_error", **own, tier=data.get("tier"))


@dataclass(frozen=True, slots=True)
class Draft:
    """Entries of quarantine, and what is to be known of them; or a text by itself."""

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


def of_entries(connection: Connection, group_id: str, ids: Sequence[UUID]) -> Draft:
    """What one entry says, or several that somebody has to put into words. Raises :class:`NotFound` if one is
    not there.
    """
    entries = entries_of(connection, group_id, ids)
    verdicts = bool(entries) and all(entry.kind == "verdict" for entry in entries)
    return Draft(
        entries, entries[0].content if len(entries) == 1 else "", "verdict" if verdicts else "statement"
    )


def of_digest(connection: Connection, group_id: str, digest_id: UUID, number: int) -> Draft:
    """A cluster of a digest, in the digest's words. Raises :class:`NotFound`."""
    listed = digests.listed(connection, group_id, digest_id)
    item = next((item for item in listed[0].items if item.number == number), None) if listed else None
    if item is None:
        raise NotFound(f"the group {group_id!r} has no such digest")
    drafted = of_entries(connection, group_id, item.entry_ids[:MAX_IDS])
    return Draft(drafted.entries, item.summary or drafted.text, drafted.kind)


def of_knowledge(connection: Connection, group_id: str, knowledge_id: UUID) -> Draft:
    """What was demoted, once more. Raises :class:`NotFound`."""
    piece = find(connection, group_id, knowledge_id)
    if piece is None:
        raise NotFound(f"the group {group_id!r} has no knowledge {knowledge_id}")
    return Draft([], piece.content, piece.kind, piece.agent_id)


def entries_of(connection: Connection, group_id: str, ids: Sequence[UUID]) -> list[EntryDetail]:
    """These entries of quarantine. Raises :class:`NotFound` if one is not there."""
    rows = quarantine_reads.some_entries(connection, group_id, ids)
    if len(rows) < len(set(ids)):
        raise NotFound(f"entry: the quarantine of the group {group_id!r} does not have all of these")
    return rows
