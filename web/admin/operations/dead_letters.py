"""Dead letters: what could not be done, and what is to become of it."""

from __future__ import annotations

from typing import get_args
from uuid import UUID

from flask import Blueprint, abort, request
from flask_babel import gettext as _
from flask_babel import lazy_gettext
from sqlalchemy import Connection

from jiyi.protocol.operations import MAX_RESOLVED, LettersRequest, LetterState
from models.operations import numbers
from models.queue import actions, dead_letters
from web.admin import inputs
from web.admin.acting import Part, action_form_route, perform
from web.admin.frame import Page, asked
from web.admin.pages import Context, listed, page

blueprint = Blueprint("letters", __name__)
PAGES = (Page("running", lazy_gettext("Dead letters"), "letters.page"),)

PER_PAGE = 50
STATES: tuple[LetterState, ...] = get_args(LetterState)
#: Characters of a search in the reasons.
MAX_WORDS = 200


@page(blueprint, "/dead", "letters.html", rows="_letters.html", states=STATES, across_groups=True)
def some(connection: Connection, group: str) -> Context:
    """Whoever has just decided about some is shown the first page."""
    kind, words = asked("kind", 100), asked("words", MAX_WORDS)
    before = inputs.identifier("before") if request.method == "GET" else None
    wanted = LettersRequest(state=inputs.choice("state", STATES) or "open", kind=kind, words=words, before=before, limit=PER_PAGE)
    filters = {"group": group, "state": wanted.state, "kind": kind, "words": words}
    return {
        **filters,
        "filters": filters,
        "open": numbers.open_letters(connection, group),
        "kinds": dead_letters.kinds(connection, group),
        **listed("letters", dead_letters.letters(connection, group, wanted, more=1), PER_PAGE, "letter_id"),
        "before": before,
    }


@page(blueprint, "/dead/<uuid:letter_id>", "letter.html", name="one")
def one(letter_id: UUID) -> Context:
    return {"letter": perform(actions.get_letter, letter_id=letter_id)}


def _chosen(fields: Context, _parts: Context) -> Context:
    """Those chosen, or all open ones of a kind."""
    if bool(fields["letter_ids"]) == ("kind" in fields):
        abort(400, _("Choose letters first."))
    return fields


action_form_route(
    blueprint,
    "/dead/resolve",
    actions.resolve_letters,
    Part("_letters.html", some, {"most": MAX_RESOLVED}),
    name="resolve",
    field_names={"letter_ids": "letter", "kind": "all_of"},
    make_fields=_chosen,
)
