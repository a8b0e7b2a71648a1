"""Quarantine: everything that workflows' nodes said, what the filters made of it, and the way to promotion.

Nothing here is ever shown to an agent: it is for people who audit and promote.
"""

from __future__ import annotations

from typing import get_args
from uuid import UUID

from flask import Blueprint, abort
from flask_babel import gettext as _
from flask_babel import lazy_gettext
from sqlalchemy import Connection

from models.db.rows import MAX_WORDS_CHARS
from models.tiers import actions, knowledge, quarantine_reads
from models.tiers.quarantine_reads import State, WantedEntries
from web.admin import frame, inputs
from web.admin.acting import Part, action_form_route
from web.admin.frame import Page, asked
from web.admin.pages import Context, listed, page
from web.admin.tiers import words

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
    return {"entry": found[0], "knowledge": knowledge.pieces_of(connection, group, entry_id)} if found else None


def _chosen(fields: Context, _parts: Context) -> Context:
    return fields if fields["entry_ids"] else abort(400, _("Choose entries first."))


ENTRIES = {"entry_ids": "entry"}
action_form_route(
    blueprint, "/quarantine/delete", actions.delete, Part("_quarantine.html", some), name="delete", field_names=ENTRIES, make_fields=_chosen
)
action_form_route(
    blueprint, "/quarantine/<uuid:entry_id>/check", actions.check, "quarantine.one", name="check", field_names={"entry_ids": "entry_id"}
)


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
