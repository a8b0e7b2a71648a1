"""Knowledge: what a group, or one of its agents, has been given to keep; where it comes from, and what became of it."""

from __future__ import annotations

from typing import get_args
from uuid import UUID

from flask import Blueprint, request, url_for
from flask_babel import lazy_gettext
from sqlalchemy import Connection

from jiyi.protocol.tier_questions import Kind
from jiyi.text.splitting import MOST_SIZE
from models.db.conditions import MAX_WORDS_CHARS
from models.tiers import actions, knowledge_reads, quarantine_reads
from models.tiers.knowledge_reads import Demoted, WantedKnowledge
from web.admin import frame, inputs
from web.admin.acting import action_form_route
from web.admin.frame import Page, asked
from web.admin.pages import Context, listed, page

blueprint = Blueprint("knowledge", __name__)
PAGES = (Page("tiers", lazy_gettext("Knowledge"), "knowledge.page"),)

PER_PAGE = 30
KINDS: tuple[str, ...] = get_args(Kind)
DEMOTED: tuple[Demoted, ...] = get_args(Demoted)
#: Whose knowledge: of the whole group, which no agent can be called.
OF_GROUP = "group"
FILTERS = ("q", "kind", "whose", "agent", "session", "demoted")
#: Entries of quarantine that a piece's page shows as its source.
MAX_SOURCES = 100
NONE = lazy_gettext("The group “%(group)s” has no knowledge %(id)s.")


@page(blueprint, "/knowledge", "knowledge.html", rows="_knowledge.html", kinds=KINDS)
def some(connection: Connection, group: str) -> Context:
    found = knowledge_reads.pieces(connection, group, _wanted(), inputs.unpacked(), PER_PAGE + 1)
    return {
        "filters": inputs.given(FILTERS),
        **listed("pieces", found, PER_PAGE, "promoted_at", "knowledge_id"),
        "agents": knowledge_reads.agents_with_knowledge(connection, group),
    }


@page(blueprint, "/knowledge/<uuid:knowledge_id>", "piece.html", name="one", missing=NONE, longest=MOST_SIZE)
def one(connection: Connection, group: str, knowledge_id: UUID) -> Context | None:
    found = knowledge_reads.find(connection, group, knowledge_id)
    if found is None:
        return None
    sources = quarantine_reads.some_entries(connection, group, found.entry_ids[:MAX_SOURCES])
    history = knowledge_reads.whole_history(connection, group, found)
    return {"piece": found, "sources": sources, "history": history, "replaces": found.replaces}


def _edited(known: Context) -> str:
    became, changed = known["knowledge_id"], known["knowledge_id"] != (request.view_args or {}).get("knowledge_id")
    return url_for("knowledge.one", knowledge_id=became, group=frame.group(), done="edited" if changed else None)


def _demoted(known: Context) -> str:
    return url_for("knowledge.one", knowledge_id=known["knowledge_id"], group=frame.group(), done="demoted")


action_form_route(blueprint, "/knowledge/<uuid:knowledge_id>/edit", actions.edit, _edited, name="edit")
action_form_route(
    blueprint,
    "/knowledge/<uuid:knowledge_id>/demote",
    actions.demote,
    _demoted,
    name="demote",
    field_names={"knowledge_ids": "knowledge_id"},
)


def _wanted() -> WantedKnowledge:
    whose = inputs.choice("whose", (OF_GROUP,))
    return WantedKnowledge(
        words=asked("q", MAX_WORDS_CHARS) or "",
        kind=inputs.choice("kind", KINDS),
        agent_id="" if whose else asked("agent"),
        session_id=asked("session"),
        demoted=inputs.choice("demoted", DEMOTED) or "without",  # type: ignore[arg-type]
    )
