"""The archive: memories that no retrieval finds unless it asks for them, why they are there, and the way back."""

from __future__ import annotations

from flask import Blueprint, abort, redirect, request, url_for
from flask.typing import ResponseReturnValue
from flask_babel import gettext, lazy_gettext
from sqlalchemy import Connection

from jiyi.protocol.archive import MAX_RESTORED
from models.memory import actions, reads
from web.accounts.identity import need
from web.admin import inputs
from web.admin.acting import chosen_ids, perform
from web.admin.frame import Page, asked
from web.admin.pages import page, reads_database, split_page

blueprint = Blueprint("archive", __name__)
PAGES = (Page("memory", lazy_gettext("Archive"), "archive.page"),)

PER_PAGE = 50
AGENTS_COUNTED = 100
REASONS = ("faded", "expired", "chosen")


@page(blueprint, "/archive", "archive.html", rows="_archive.html", why=REASONS, most=MAX_RESTORED)
@reads_database
def listed(connection: Connection, group: str) -> dict[str, object]:
    agent, reason = asked("agent"), inputs.choice("reason", REASONS)
    found = reads.archived(connection, group, agent_id=agent, reason=reason, before=inputs.unpacked(), limit=PER_PAGE + 1)
    nodes, following = split_page(found, PER_PAGE, lambda last: inputs.packed(last.archived_at, last.node_id))
    counts = reads.archived_counts(connection, group, AGENTS_COUNTED)
    return {"agent": agent, "reason": reason, "before": asked("before"), "counts": counts, "nodes": nodes, "next": following}


@blueprint.post("/archive/<name:group>/restore")
def restore(group: str) -> ResponseReturnValue:
    """Bring back the chosen memories, or all of an agent. Safe to repeat because only what is archived is restored."""
    need(actions.restore.scope)
    agent, chosen = request.form.get("agent") or None, chosen_ids("node_id", MAX_RESTORED)
    if (agent is None) == (not chosen):
        abort(400, gettext("Choose memories, or an agent all of whose memories are to come back."))
    restored = perform(actions.restore, node_ids=chosen, agent_id=agent).restored
    return redirect(url_for("archive.page", group=group, agent=request.form.get("back") or None, restored=restored), 303)
