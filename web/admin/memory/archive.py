"""The archive: memories that no retrieval finds unless it asks for them, why they are there, and the way back."""

from __future__ import annotations

from flask import Blueprint, url_for
from flask_babel import lazy_gettext
from sqlalchemy import Connection

from jiyi.protocol.memory import MAX_RESTORED
from models.memory import actions, reads
from web.admin import frame, inputs
from web.admin.acting import action_form_route
from web.admin.frame import Page, asked
from web.admin.pages import Context, listed, page

blueprint = Blueprint("archive", __name__)
PAGES = (Page("memory", lazy_gettext("Archive"), "archive.page"),)

PER_PAGE = 50
AGENTS_COUNTED = 100
REASONS = ("faded", "expired", "chosen")


@page(blueprint, "/archive", "archive.html", rows="_archive.html", why=REASONS, most=MAX_RESTORED)
def some(connection: Connection, group: str) -> Context:
    agent, reason = asked("agent"), inputs.choice("reason", REASONS)
    archived = reads.archived(connection, group, agent_id=agent, reason=reason, before=inputs.unpacked(), limit=PER_PAGE + 1)
    counts = reads.archived_counts(connection, group, AGENTS_COUNTED)
    nodes = listed("nodes", archived, PER_PAGE, "archived_at", "node_id")
    return {"agent": agent, "reason": reason, "counts": counts, **nodes}


def _restored(known: Context) -> str:
    return url_for("archive.page", group=frame.group(), agent=known.get("back") or None, restored=known["restored"])


NAMED = {"node_ids": "node_id", "agent_id": "agent"}
action_form_route(blueprint, "/archive/<name:group>/restore", actions.restore, _restored, name="restore", field_names=NAMED)
