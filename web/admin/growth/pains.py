"""Pain points: what hurts users, which turns told of it, what is proposed; decided on here (ZC-138, ZC-57)."""

from __future__ import annotations

from typing import get_args
from uuid import UUID

from flask import Blueprint, request, url_for
from flask.typing import ResponseReturnValue
from flask_babel import lazy_gettext
from sqlalchemy import Connection

from jiyi.growth.pains.types import Status
from jiyi.protocol.growth.pains import ListPains
from models.growth.pains import actions, pains, proposals, reads
from models.memory.agents import reads as agent_reads
from web.accounts.identity import need
from web.admin import frame, inputs
from web.admin.acting import checked, perform
from web.admin.frame import Page, asked
from web.admin.pages import page, reads_database, redirect_to, split_page

blueprint = Blueprint("pains", __name__)
PAGES = (Page("growth", lazy_gettext("Pain points"), "pains.page"),)

PER_PAGE, AGENTS_OFFERED, EVIDENCE_SHOWN = 30, 500, 50
STATUSES: tuple[Status, ...] = get_args(Status)


@page(blueprint, "/pains", "pains.html", statuses=STATUSES)
@reads_database
def listed(connection: Connection, group: str) -> dict[str, object]:
    """Those felt last first."""
    agent, status, before = asked("agent"), inputs.choice("status", STATUSES), inputs.identifier("before")
    found = reads.page(connection, group, checked(ListPains, agent_id=agent, status=status, before=before, limit=PER_PAGE))
    rows, following = split_page(found, PER_PAGE, lambda last: last.pain_id)
    return {
        "filters": {"agent": agent, "status": status},
        "before": before,
        "agents": agent_reads.names(connection, group, AGENTS_OFFERED),
        "pains": rows,
        "next": following,
    }


@page(
    blueprint,
    "/pains/<uuid:pain_id>",
    "pain.html",
    name="pain",
    missing=lazy_gettext("There is no pain point %(id)s in the group “%(group)s”."),
)
@reads_database
def one(connection: Connection, group: str, pain_id: UUID) -> dict[str, object] | None:
    """One, with what told of it and every proposal."""
    found = pains.find(connection, group, pain_id)
    if found is None:
        return None
    return {
        "pain": found,
        "evidence": pains.quotes(connection, group, pain_id, EVIDENCE_SHOWN),
        "proposals": proposals.of_pain(connection, group, pain_id),
    }


@blueprint.post("/pains/<uuid:pain_id>/resolve")
def resolve(pain_id: UUID) -> ResponseReturnValue:
    """In conflict for whoever comes second."""
    need(actions.resolve_pain.scope)
    form = request.form
    perform(actions.resolve_pain, pain_id=pain_id, resolution=form.get("resolution"), proposal_id=form.get("proposal_id") or None)
    return redirect_to(url_for("pains.pain", group=frame.group(), pain_id=pain_id))


@blueprint.post("/pains/<uuid:pain_id>/propose")
def propose(pain_id: UUID) -> ResponseReturnValue:
    """A line a step; none: the agent thinks of some."""
    need(actions.propose_solution.scope)
    steps = [line.strip() for line in request.form.get("steps", "").splitlines() if line.strip()]
    perform(actions.propose_solution, pain_id=pain_id, steps=steps)
    return redirect_to(url_for("pains.pain", group=frame.group(), pain_id=pain_id))
