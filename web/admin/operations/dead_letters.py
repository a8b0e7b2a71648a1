"""Dead letters: what could not be done, and what is to become of it."""

from __future__ import annotations

from typing import Any, Literal, get_args
from uuid import UUID

from flask import Blueprint, Response, abort, render_template, request
from flask_babel import gettext as _
from flask_babel import lazy_gettext, ngettext
from sqlalchemy import Connection

from jiyi.protocol.queries import ResolveQuery
from models.memory import overview
from models.queue import dead_letters
from web.accounts.identity import need, who
from web.admin import frame, inputs
from web.admin.acting import chosen_ids, have_done
from web.admin.frame import Page, across_groups, asked
from web.answers import answer
from web.show import number
from web.sources import from_database

blueprint = Blueprint("letters", __name__)
PAGES = (Page("running", lazy_gettext("Dead letters"), "letters.page"),)

PER_PAGE = 50
STATES = ("open", "replayed", "discarded")
Action = Literal["replay", "discard"]
ACTIONS: tuple[Action, ...] = get_args(Action)
#: Characters of a search in the reasons.
MAX_WORDS = 200


@blueprint.get("/dead")
@blueprint.get("/dead.json", endpoint="json")
def page() -> Response:
    return answer("letters.html", data=_found(inputs.identifier("before")), states=STATES)


@blueprint.get("/dead/rows")
def rows() -> str:
    return render_template("_letters.html", **_found(inputs.identifier("before")))


@blueprint.get("/dead/<uuid:letter_id>")
@blueprint.get("/dead/<uuid:letter_id>.json", endpoint="one_json")
def one(letter_id: UUID) -> Response:
    group = frame.group()
    with across_groups():
        letter = from_database(lambda connection: dead_letters.find(connection, group, letter_id))
    if letter is None:
        abort(404, _("There is no dead letter %(id)s in the group “%(group)s”.", id=letter_id, group=group))
    return answer("letter.html", data={"group": group, "letter": letter})


@blueprint.post("/dead/resolve")
def resolve() -> str:
    """Replay or discard: those chosen, or all open ones of a kind. A worker does it, as for `jiyi dead`.

    Safe to repeat because only an open letter is closed, once.
    """
    actor, group = need("admin").actor, frame.group()
    action, kind, ids = request.form.get("action", ""), request.form.get("all_of") or None, chosen_ids("letter")
    if action not in ACTIONS:
        abort(400, f"action: must be one of {', '.join(ACTIONS)}.")
    if bool(ids) == (kind is not None):
        abort(400, _("Choose letters first."))
    frame.storable(kind or "")
    count = _resolve(group, action, ids, kind, actor)
    return render_template("_letters.html", said=_said(action, count, kind), **_found(None))


def _resolve(group: str, action: Action, ids: list[UUID], kind: str | None, actor: str) -> int:
    """The letters are found here, where nobody sees others than their own; a worker sees those of no known group, too."""
    with across_groups():
        visible = from_database(lambda connection: dead_letters.open_ids(connection, group, ids, kind))
    if not visible:
        return 0
    query = ResolveQuery(group_id=group, action=action, letter_ids=visible, kind=kind, actor=actor)
    return int(have_done("resolve", query)["resolved"])


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
    return str(said) + (" " + _("There may be more of this kind.") if kind and count >= dead_letters.MAX_RESOLVED else "")


def _found(before: UUID | None) -> dict[str, Any]:
    group, kind, words = frame.group(), asked("kind", 100), asked("words", MAX_WORDS)
    state = inputs.choice("state", STATES) or "open"

    def question(connection: Connection) -> dict[str, Any]:
        found = dead_letters.letters(connection, group, state, kind, before, PER_PAGE + 1, words)
        shown = found[:PER_PAGE]
        return {
            "open": overview.open_dead_letters(connection, group),
            "kinds": dead_letters.kinds(connection, group),
            "letters": shown,
            "next": shown[-1]["letter_id"] if len(found) > PER_PAGE else None,
        }

    with across_groups():
        found = from_database(question)
    filters = {"group": group, "state": state, "kind": kind, "words": words}
    return {**filters, "filters": filters, "before": before, "may_decide": who().may("admin"), **found}
