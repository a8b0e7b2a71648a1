"""Knowledge: what a group, or one of its agents, has been given to keep; where it comes from, and what became of it."""

from __future__ import annotations

from typing import Any, get_args
from uuid import UUID

from flask import Blueprint, request, url_for
from flask.typing import ResponseReturnValue
from flask_babel import lazy_gettext
from sqlalchemy import Connection

from jiyi.protocol.tiers.knowledge import Change
from jiyi.protocol.tiers.query import Kind
from jiyi.text.splitting import MOST_SIZE
from models.db.conditions import MAX_WORDS_CHARS
from models.tiers import actions, knowledge_reads, quarantine_reads
from models.tiers.knowledge_reads import Demoted, PieceDetail, PieceRow, WantedKnowledge
from web.accounts.identity import need, who
from web.admin import frame, inputs
from web.admin.acting import perform
from web.admin.frame import Page, asked
from web.admin.memory import marking
from web.admin.pages import page, reads_database, redirect_to, split_page

blueprint = Blueprint("knowledge", __name__)
PAGES = (Page("tiers", lazy_gettext("Knowledge"), "knowledge.page"),)

PER_PAGE = 30
KINDS: tuple[str, ...] = get_args(Kind)
DEMOTED: tuple[Demoted, ...] = get_args(Demoted)
AGENTS_OFFERED = 500
#: Whose knowledge: of the whole group, which no agent can be called.
OF_GROUP = "group"
FILTERS = ("q", "kind", "whose", "agent", "session", "demoted")
#: Entries of quarantine that a piece's page shows as its source.
MAX_SOURCES = 100
#: Versions of a piece whose history its page tells.
MAX_VERSIONS = 50


class MarkedPiece(PieceRow):
    """A piece, and its text with what was searched for marked."""

    marked: list[marking.Piece]


@page(blueprint, "/knowledge", "knowledge.html", rows="_knowledge.html", kinds=KINDS)
@reads_database
def listed(connection: Connection, group: str) -> dict[str, object]:
    wanted = _wanted()
    found = knowledge_reads.pieces(connection, group, wanted, inputs.unpacked(), PER_PAGE + 1)
    pieces, following = split_page(found, PER_PAGE, lambda last: inputs.packed(last.promoted_at, last.knowledge_id))
    return {
        "filters": inputs.given(FILTERS),
        "before": asked("before"),
        "may_change": who().may("admin"),
        "pieces": [MarkedPiece(**dict(piece), marked=marking.pieces(piece.content, wanted.words)) for piece in pieces],
        "agents": knowledge_reads.agents_with_knowledge(connection, group, AGENTS_OFFERED),
        "next": following,
    }


@page(
    blueprint,
    "/knowledge/<uuid:knowledge_id>",
    "piece.html",
    name="one",
    missing=lazy_gettext("The group “%(group)s” has no knowledge %(id)s."),
    longest=MOST_SIZE,
)
@reads_database
def one(connection: Connection, group: str, knowledge_id: UUID) -> dict[str, object] | None:
    found = knowledge_reads.find(connection, group, knowledge_id)
    if found is None:
        return None
    sources = quarantine_reads.some_entries(connection, group, _ids(found.metadata.get("entry_ids"))[:MAX_SOURCES])
    return {"piece": found, "sources": sources, "history": _history(connection, group, found), "replaces": _earlier(found)}


@blueprint.post("/knowledge/<uuid:knowledge_id>/edit")
def edit(knowledge_id: UUID) -> ResponseReturnValue:
    """Other words. Safe to repeat because what says the same already is left as it is."""
    need(actions.edit.scope)
    content = request.form.get("content", "").replace("\r\n", "\n")
    reason = request.form.get("reason", "")
    became = perform(actions.edit, knowledge_id=knowledge_id, content=content, reason=reason).knowledge_id
    return _shown(became, "edited" if became != knowledge_id else None)


@blueprint.post("/knowledge/<uuid:knowledge_id>/demote")
def demote(knowledge_id: UUID) -> ResponseReturnValue:
    """Taken back. Safe to repeat because what is demoted stays so."""
    perform(actions.demote, knowledge_ids=[knowledge_id], reason=request.form.get("reason", ""))
    return _shown(knowledge_id, "demoted")


def _shown(knowledge_id: UUID, done: str | None) -> ResponseReturnValue:
    return redirect_to(url_for("knowledge.one", knowledge_id=knowledge_id, group=frame.group(), done=done))


def _history(connection: Connection, group: str, piece: PieceDetail) -> list[Change]:
    """What became of a piece and of the versions before it, the latest change first."""
    changes = {_told(change): change for change in knowledge_reads.history(connection, group, piece.knowledge_id)}
    seen = {piece.knowledge_id}
    while len(seen) < MAX_VERSIONS and (earlier := _earlier(piece)) is not None and earlier not in seen:
        seen.add(earlier)
        found = knowledge_reads.find(connection, group, earlier)
        if found is None:
            break
        piece = found
        changes.update({_told(change): change for change in knowledge_reads.history(connection, group, earlier)})
    return sorted(changes.values(), key=lambda change: change.at, reverse=True)


def _told(change: Change) -> tuple[Any, ...]:
    """An edit stands with both versions: it is told once."""
    return change.action, change.at, change.before, change.after


def _earlier(piece: PieceDetail) -> UUID | None:
    """The version that a piece took the place of."""
    return next(iter(_ids([piece.metadata.get("edited_from")])), None)


def _ids(texts: Any) -> list[UUID]:
    """Ids that stand in metadata, as far as they are any: whoever promoted may have written there what they like."""
    found: list[UUID] = []
    for text in texts if isinstance(texts, list) else []:
        try:
            found.append(UUID(text))
        except (ValueError, TypeError, AttributeError):
            continue
    return found


def _wanted() -> WantedKnowledge:
    whose = inputs.choice("whose", (OF_GROUP,))
    return WantedKnowledge(
        words=asked("q", MAX_WORDS_CHARS) or "",
        kind=inputs.choice("kind", KINDS),
        agent_id="" if whose else asked("agent"),
        session_id=asked("session"),
        demoted=inputs.choice("demoted", DEMOTED) or "without",  # type: ignore[arg-type]
    )
