"""Pain points: what hurts users, which turns told of it, what is proposed; decided on here."""

from __future__ import annotations

from typing import get_args
from uuid import UUID

from flask import Blueprint
from flask_babel import lazy_gettext
from sqlalchemy import Connection

from jiyi.protocol.growth import ListPains, Status
from models.growth import pain_actions, pains
from models.memory import agent_reads
from web.admin import inputs
from web.admin.acting import action_form_route, checked
from web.admin.frame import Page, asked
from web.admin.pages import Context, listed, page

blueprint = Blueprint("pains", __name__)
PAGES = (Page("growth", lazy_gettext("Pain points"), "pains.page"),)

PER_PAGE, EVIDENCE_SHOWN = 30, 50
STATUSES: tuple[Status, ...] = get_args(Status)
NONE = lazy_gettext("There is no pain point %(id)s in the group “%(group)s”.")


@page(blueprint, "/pains", "pains.html", statuses=STATUSES)
def some(connection: Connection, group: str) -> Context:
    """Those felt last first."""
    agent, status, before = asked("agent"), inputs.choice("status", STATUSES), inputs.identifier("before")
    rows = pains.pain_page(connection, group, checked(ListPains, agent_id=agent, status=status, before=before, limit=PER_PAGE))
    return {
        "filters": {"agent": agent, "status": status},
        "agents": agent_reads.names(connection, group),
        **listed("pains", rows, PER_PAGE, "pain_id"),
    }


@page(blueprint, "/pains/<uuid:pain_id>", "pain.html", name="pain", missing=NONE)
def one(connection: Connection, group: str, pain_id: UUID) -> Context | None:
    """One, with what told of it and every proposal."""
    pain = pains.find_pain(connection, group, pain_id)
    if pain is None:
        return None
    evidence = pains.quotes(connection, group, pain_id, EVIDENCE_SHOWN)
    return {"pain": pain, "evidence": evidence, "proposals": pains.proposals_of(connection, group, pain_id)}


action_form_route(blueprint, "/pains/<uuid:pain_id>/resolve", pain_actions.resolve_pain, "pains.pain", name="resolve")
action_form_route(blueprint, "/pains/<uuid:pain_id>/propose", pain_actions.propose_solution, "pains.pain", name="propose")
