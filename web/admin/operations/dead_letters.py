"""Dead letters: what could not be done, and what is to become of it."""

from __future__ import annotations

from typing import get_args
from uuid import UUID

from flask import Blueprint, abort, render_template, request
from flask_babel import gettext as _
from flask_babel import lazy_gettext, ngettext
from sqlalchemy import Connection

from jiyi.protocol.operations import MAX_RESOLVED, LettersRequest, LetterState
from models.operations import reads
from models.queue import actions, dead_letters
from web.accounts.identity import need
from web.admin import inputs
from web.admin.acting import chosen_ids, perform
from web.admin.frame import Page, asked
from web.admin.pages import Context, listed, page
from web.show import number

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
        "open": reads.open_letters(connection, group),
        "kinds": dead_letters.kinds(connection, group),
        **listed("letters", dead_letters.letters(connection, group, wanted, more=1), PER_PAGE, "letter_id"),
        "before": before,
    }


@page(blueprint, "/dead/<uuid:letter_id>", "letter.html", name="one")
def one(letter_id: UUID) -> Context:
    return {"letter": perform(actions.get_letter, letter_id=letter_id)}


@blueprint.post("/dead/resolve")
def resolve() -> str:
    """Replay or discard: those chosen, or all open ones of a kind. Safe to repeat because only an open letter is closed, once."""
    need(actions.resolve_letters.scope)
    form = request.form
    kind, ids = form.get("all_of") or None, chosen_ids("letter")
    if bool(ids) == (kind is not None):
        abort(400, _("Choose letters first."))
    action = form.get("action", "")
    count = perform(actions.resolve_letters, action=action, letter_ids=ids, kind=kind).resolved
    return render_template("_letters.html", said=_said(action, count, kind), **some())


def _said(action: str, count: int, kind: str | None) -> str:
    if action == "replay":
        said = ngettext(
            "%(count)s is tried again. What has been mended since goes through, the rest comes back here.",
            "%(count)s are tried again. What has been mended since goes through, the rest comes back here.",
            count,
            count=number(count),
        )
    else:
        said = ngettext(
            "%(count)s is discarded. It stays among the discarded ones.",
            "%(count)s are discarded. They stay among the discarded ones.",
            count,
            count=number(count),
        )
    return str(said) + (" " + _("There may be more of this kind.") if kind and count >= MAX_RESOLVED else "")
