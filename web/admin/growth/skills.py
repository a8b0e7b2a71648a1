"""Skills and workflows: from evidence over pattern, candidate and gate to trust; confirmed, declined, voted on here."""

from __future__ import annotations

from typing import Any, get_args
from uuid import UUID

from flask import Blueprint, abort, request, url_for
from flask.typing import ResponseReturnValue
from flask_babel import lazy_gettext
from sqlalchemy import Connection

from jiyi.growth.feedback.trust import Sentiment
from jiyi.growth.skills.types import ArtifactKind, Status
from jiyi.protocol.growth.artifacts import MAX_REASON_CHARS, ArtifactState
from models.conversations import entries
from models.db.actions import Action
from models.growth.artifacts import actions as shared
from models.growth.artifacts import evolution, reads
from models.growth.skills import actions as skills
from models.growth.trajectories import actions as trajectories
from models.growth.workflows import actions as workflows
from models.memory.agents import reads as agent_reads
from web.accounts.identity import need
from web.admin import frame, inputs
from web.admin.acting import perform
from web.admin.frame import Page, asked
from web.admin.pages import page, reads_database, redirect_to, split_page

blueprint = Blueprint("growth", __name__)
PAGES = (Page("growth", lazy_gettext("Skills"), "growth.page"),)

PER_PAGE, AGENTS_OFFERED = 30, 500
#: Of each kind of evidence, of votes, of what happened, and of an agent's patterns and trajectories: the newest.
SHOWN = 20
STATUSES: tuple[Status, ...] = tuple(one for one in get_args(Status) if one != "deleted")
SENTIMENTS: tuple[Sentiment, ...] = get_args(Sentiment)
#: What an address calls the two kinds.
KINDS: dict[str, ArtifactKind] = {"skills": "skill", "workflows": "pipeline"}
#: What may be done from which status; each asks for a reason if it takes one.
VERBS: dict[Status, tuple[str, ...]] = {
    "refused": ("delete",),
    "pending": ("accept", "decline", "delete"),
    "accepted": ("enable", "disable", "archive", "delete"),
    "declined": ("delete",),
    "archived": ("delete",),
}
ACTIONS: dict[ArtifactKind, dict[str, Action[Any, Any]]] = {
    kind: {
        "accept": module.accept,
        "decline": module.decline,
        "enable": module.enable,
        "disable": module.disable,
        "archive": module.archive,
        "delete": module.delete,
    }
    for kind, module in zip(get_args(ArtifactKind), (skills, workflows), strict=True)
}
WITH_REASON = ("accept", "decline", "archive")


@page(blueprint, "/growth", "growth.html", statuses=STATUSES, kinds=KINDS)
@reads_database
def listed(connection: Connection, group: str) -> dict[str, object]:
    """Skills, or workflows, newest first."""
    which, status, agent = inputs.choice("kind", tuple(KINDS)) or "skills", inputs.choice("status", STATUSES), asked("agent")
    before = inputs.identifier("before")
    found = reads.artifacts(connection, group, KINDS[which], agent_id=agent, status=_status(status), before=before, limit=PER_PAGE + 1)
    rows, following = split_page(found, PER_PAGE, lambda last: last.id)
    return {
        "filters": {"kind": which, "status": status, "agent": agent},
        "before": before,
        "agents": agent_reads.names(connection, group, AGENTS_OFFERED),
        "rows": rows,
        "next": following,
    }


@page(
    blueprint,
    "/growth/<any(skills, workflows):which>/<uuid:artifact_id>",
    "grown.html",
    name="one",
    missing=lazy_gettext("Nothing was learned in the group “%(group)s” under %(id)s."),
    longest=MAX_REASON_CHARS,
    sentiments=SENTIMENTS,
    with_reason=WITH_REASON,
)
@reads_database
def one(connection: Connection, group: str, which: str, artifact_id: UUID) -> dict[str, object] | None:
    """One, with all that it rests on and all that happened to it."""
    kind = KINDS[which]
    found = reads.artifact(connection, group, kind, artifact_id)
    if found is None:
        return None
    latest = found.evidence[-SHOWN:]
    patterns = reads.patterns(connection, group, found.agent_id, AGENTS_OFFERED)
    return {
        "which": which,
        "grown": found,
        "pattern": next((one for one in patterns if one.artifact == kind and set(one.evidence) & set(found.evidence)), None),
        "memories": entries.some(connection, group, latest) if kind == "skill" else [],
        "trajectories": trajectories.some(connection, group, latest) if kind == "pipeline" else [],
        "votes": reads.votes(connection, group, artifact_id, SHOWN),
        "happened": evolution.events(connection, group, agent_id=None, artifact_id=artifact_id, before=None, limit=SHOWN),
        "verbs": _verbs(found),
    }


@page(
    blueprint,
    "/growth/agents/<name:group>/<name:agent>",
    "grown_agent.html",
    name="agent",
    missing=lazy_gettext("There is no agent “%(agent)s” in the group “%(group)s”."),
)
@reads_database
def of_agent(connection: Connection, group: str, agent: str) -> dict[str, object] | None:
    """An agent's patterns and latest trajectories."""
    if agent_reads.agent(connection, group, agent) is None:
        return None
    return {
        "agent_id": agent,
        "patterns": reads.patterns(connection, group, agent, SHOWN),
        "trajectories": trajectories.page(connection, group, agent, None, None, SHOWN),
        "trust": reads.trust(connection, group, agent, SHOWN),
    }


@blueprint.post("/growth/<any(skills, workflows):which>/<uuid:artifact_id>/<any(accept, decline, enable, disable, archive, delete):verb>")
def decide(which: str, artifact_id: UUID, verb: str) -> ResponseReturnValue:
    """A decision. Safe to repeat because a second one of the same is refused."""
    reason: dict[str, Any] = {"reason": request.form.get("reason") or None} if verb in WITH_REASON else {}
    perform(ACTIONS[KINDS[which]][verb], id=artifact_id, **reason)
    if verb == "delete":
        return redirect_to(url_for("growth.page", group=frame.group(), kind=which))
    return _shown(which, artifact_id)


@blueprint.post("/growth/<any(skills, workflows):which>/<uuid:artifact_id>/vote")
def vote(which: str, artifact_id: UUID) -> ResponseReturnValue:
    """A vote; sent again it is another one."""
    need("publish")
    sentiment = request.form.get("sentiment", "")
    if sentiment not in SENTIMENTS:
        abort(400, f"sentiment: must be one of {', '.join(SENTIMENTS)}.")
    perform(shared.give, artifact=KINDS[which], artifact_id=artifact_id, sentiment=sentiment, comment=request.form.get("comment") or None)
    return _shown(which, artifact_id)


def _verbs(found: ArtifactState) -> list[str]:
    """What may be done with it now."""
    idle = "disable" if not found.enabled else "enable"
    return [verb for verb in VERBS.get(found.status, ()) if verb != idle]


def _status(chosen: str | None) -> Status | None:
    return next((one for one in STATUSES if one == chosen), None)


def _shown(which: str, artifact_id: UUID) -> ResponseReturnValue:
    return redirect_to(url_for("growth.one", which=which, artifact_id=artifact_id, group=frame.group()))
