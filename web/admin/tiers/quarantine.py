"""Quarantine: everything that workflows' nodes said, what the filters made of it, and the way to promotion.

Nothing here is ever shown to an agent: it is for people who audit and promote.
"""

from __future__ import annotations

from typing import get_args
from uuid import UUID

from flask import Blueprint, abort, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue
from flask_babel import gettext as _
from flask_babel import lazy_gettext, ngettext
from sqlalchemy import Connection

from jiyi.protocol.tiers.quarantine import MAX_IDS
from models.db.conditions import MAX_WORDS_CHARS
from models.tiers import actions, knowledge_reads, quarantine_reads
from models.tiers.quarantine_reads import Entry, State, WantedEntries
from web.accounts.identity import need, who
from web.admin import frame, inputs
from web.admin.acting import chosen_ids, perform
from web.admin.frame import Page, asked
from web.admin.memory import marking
from web.admin.pages import page, reads_database, split_page
from web.admin.tiers import words
from web.show import number

blueprint = Blueprint("quarantine", __name__)
words.register(blueprint)
PAGES = (Page("tiers", lazy_gettext("Quarantine"), "quarantine.page"),)

PER_PAGE = 30
STATES: tuple[State, ...] = get_args(State)
#: Sessions and nodes that the form offers: those that spoke last; others can be typed.
OFFERED = 100
FILTERS = ("q", "session", "node", "agent", "state", "reason", "at_least", "below", "unscored")


class MarkedEntry(Entry):
    """An entry, and its text with what was searched for marked."""

    pieces: list[marking.Piece]


@page(blueprint, "/quarantine", "quarantine.html", rows="_quarantine.html", states=STATES, reasons=words.REASONS)
@reads_database
def listed(connection: Connection, group: str) -> dict[str, object]:
    wanted = _wanted()
    found = quarantine_reads.entries(connection, group, wanted, inputs.unpacked(), PER_PAGE + 1)
    entries, following = split_page(found, PER_PAGE, lambda last: inputs.packed(last.created_at, last.entry_id))
    return {
        "filters": inputs.given(FILTERS),
        "before": asked("before"),
        "may_change": who().may("admin"),
        "entries": [MarkedEntry(**dict(entry), pieces=marking.pieces(entry.content, wanted.words)) for entry in entries],
        "next": following,
        **_offered(connection, group),
    }


@page(
    blueprint,
    "/quarantine/<uuid:entry_id>",
    "quarantined.html",
    name="one",
    missing=lazy_gettext("There is no entry %(id)s in the quarantine of the group “%(group)s”."),
    like=lambda data: _like(data["entry"]),
)
@reads_database
def one(connection: Connection, group: str, entry_id: UUID) -> dict[str, object] | None:
    found = quarantine_reads.some_entries(connection, group, [entry_id])
    return {"entry": found[0], "knowledge": knowledge_reads.pieces_of(connection, group, entry_id)} if found else None


@blueprint.post("/quarantine/delete")
def delete() -> str:
    """Take entries out of sight. Safe to repeat because what is deleted is not found."""
    need(actions.delete.scope)
    ids = chosen_ids("entry", MAX_IDS)
    if not ids:
        abort(400, _("Choose entries first."))
    gone = perform(actions.delete, entry_ids=ids, reason=request.form.get("reason", "")).deleted
    said = ngettext(
        "%(count)s entry is deleted: out of sight here, and out of working memory.",
        "%(count)s entries are deleted: out of sight here, and out of working memory.",
        len(gone),
        count=number(len(gone)),
    )
    return render_template("_quarantine.html", said=said, **listed())


@blueprint.post("/quarantine/<uuid:entry_id>/check")
def check(entry_id: UUID) -> ResponseReturnValue:
    """Put down what a check came to. Safe to repeat because said again it changes nothing."""
    need(actions.check.scope)
    form = request.form
    perform(actions.check, entry_ids=[entry_id], verdict=form.get("verdict"), reason=form.get("reason", ""))
    return redirect(url_for("quarantine.one", entry_id=entry_id, group=frame.group()), 303)


def _like(entry: Entry) -> str | None:
    """The id of the entry that this one repeats, if that is why it was kept out."""
    try:
        return str(UUID(str(entry.rejected_details.get("entry"))))
    except ValueError:
        return None


def _offered(connection: Connection, group: str) -> dict[str, list[str]]:
    """What the form offers, which stands on the whole page only."""
    if frame.wants_fragment():
        return {}
    return {"sessions": quarantine_reads.sessions(connection, group, OFFERED), "nodes": quarantine_reads.nodes(connection, group, OFFERED)}


def _wanted() -> WantedEntries:
    state = inputs.choice("state", STATES)
    return WantedEntries(
        words=asked("q", MAX_WORDS_CHARS) or "",
        state=state,  # type: ignore[arg-type]
        reason=asked("reason", 40),
        session_id=asked("session"),
        node_id=asked("node"),
        agent_id=asked("agent"),
        at_least=inputs.decimal("at_least", 0, 1),
        below=inputs.decimal("below", 0, 1),
        unscored=inputs.choice("unscored", ("1",)) is not None,
    )
