"""Quarantine: everything that workflows' nodes said, what the filters made of it, and the way to promotion.

Nothing here is ever shown to an agent: it is for people who audit and promote.
"""

from __future__ import annotations

from typing import get_args
from uuid import UUID

from flask import Blueprint, abort, render_template, request
from flask_babel import gettext as _
from flask_babel import lazy_gettext, ngettext
from sqlalchemy import Connection

from jiyi.protocol.tiers.quarantine import MAX_IDS
from models.db.conditions import MAX_WORDS_CHARS
from models.tiers import actions, knowledge_reads, quarantine_reads
from models.tiers.quarantine_reads import State, WantedEntries
from web.accounts.identity import need
from web.admin import frame, inputs
from web.admin.acting import chosen_ids, door, perform
from web.admin.frame import Page, asked
from web.admin.pages import Context, listed, page
from web.admin.tiers import words
from web.show import number

blueprint = Blueprint("quarantine", __name__)
words.register(blueprint)
PAGES = (Page("tiers", lazy_gettext("Quarantine"), "quarantine.page"),)

PER_PAGE = 30
STATES: tuple[State, ...] = get_args(State)
#: Sessions and nodes that the form offers: those that spoke last; others can be typed.
OFFERED = 100
NONE = lazy_gettext("There is no entry %(id)s in the quarantine of the group “%(group)s”.")
FILTERS = ("q", "session", "node", "agent", "state", "reason", "at_least", "below", "unscored")


@page(blueprint, "/quarantine", "quarantine.html", rows="_quarantine.html", states=STATES, reasons=words.REASONS)
def some(connection: Connection, group: str) -> Context:
    found = quarantine_reads.entries(connection, group, _wanted(), inputs.unpacked(), PER_PAGE + 1)
    return {"filters": inputs.given(FILTERS), **listed("entries", found, PER_PAGE, "created_at", "entry_id"), **_offered(connection, group)}


@page(blueprint, "/quarantine/<uuid:entry_id>", "quarantined.html", name="one", missing=NONE, like=lambda data: data["entry"].like)
def one(connection: Connection, group: str, entry_id: UUID) -> Context | None:
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
    return render_template("_quarantine.html", said=said, **some())


door(blueprint, "/quarantine/<uuid:entry_id>/check", actions.check, "quarantine.one", name="check", named={"entry_ids": "entry_id"})


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
