"""The archive: memories that no retrieval finds unless it asks for them, why they are there, and the way back."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response, abort, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue
from flask_babel import gettext, lazy_gettext
from sqlalchemy import Connection

from jiyi.protocol.archive import MAX_RESTORED, RestoreRequest
from models.memory import actions, reads
from web.accounts.identity import need
from web.admin import frame, inputs
from web.admin.acting import checked, chosen_ids, perform
from web.admin.frame import Page, asked
from web.answers import answer
from web.sources import from_database

blueprint = Blueprint("archive", __name__)
PAGES = (Page("memory", lazy_gettext("Archive"), "archive.page"),)

PER_PAGE = 50
AGENTS_COUNTED = 100
REASONS = ("faded", "expired", "chosen")


@blueprint.get("/archive")
@blueprint.get("/archive.json", endpoint="page_json")
def page() -> Response:
    return answer("archive.html", data=_data(), why=REASONS, most=MAX_RESTORED)


@blueprint.get("/archive/rows")
def rows() -> str:
    """The following ones, to be put in the place of the button that asked for them."""
    return render_template("_archive.html", **_data())


def _data() -> dict[str, Any]:
    group, agent, before = frame.group(), asked("agent"), inputs.unpacked()
    reason = inputs.choice("reason", REASONS)

    def question(connection: Connection) -> dict[str, Any]:
        found = reads.archived(connection, group, agent_id=agent, reason=reason, before=before, limit=PER_PAGE + 1)
        last = found[PER_PAGE - 1] if len(found) > PER_PAGE else None
        return {
            "counts": reads.archived_counts(connection, group, AGENTS_COUNTED),
            "nodes": found[:PER_PAGE],
            "next": None if last is None else inputs.packed(last.archived_at, last.node_id),
        }

    return {"group": group, "agent": agent, "reason": reason, "before": asked("before"), **from_database(question)}


@blueprint.post("/archive/<name:group>/restore")
def restore(group: str) -> ResponseReturnValue:
    """Bring back the chosen memories, or all of an agent. Safe to repeat because only what is archived is restored."""
    need(actions.restore.scope)
    agent, chosen = request.form.get("agent") or None, chosen_ids("node_id", MAX_RESTORED)
    if (agent is None) == (not chosen):
        abort(400, gettext("Choose memories, or an agent all of whose memories are to come back."))
    restored = perform(actions.restore, checked(RestoreRequest, node_ids=chosen, agent_id=agent)).restored
    return redirect(url_for("archive.page", group=group, agent=request.form.get("back") or None, restored=restored), 303)
