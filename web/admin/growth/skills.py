"""Skills and workflows: from evidence over pattern, candidate and gate to trust; confirmed, declined, voted on here."""

from __future__ import annotations

from typing import Any, cast, get_args
from uuid import UUID

from flask import Blueprint, url_for
from flask_babel import lazy_gettext
from sqlalchemy import Connection

from jiyi.protocol.artifacts import MAX_REASON_CHARS, ArtifactKind, Sentiment, Status
from models.conversations import entries
from models.db.actions import Action
from models.growth import artifacts, feedback, trajectories
from models.growth.artifacts import SKILL_ACTIONS, WORKFLOW_ACTIONS
from models.memory import agent_reads
from web.admin import frame, inputs
from web.admin.acting import action_form_route
from web.admin.frame import Page, asked
from web.admin.pages import NO_AGENT, Context, listed, page

blueprint = Blueprint("growth", __name__)
PAGES = (Page("growth", lazy_gettext("Skills"), "growth.page"),)

PER_PAGE = 30
#: Of each kind of evidence, of votes, of what happened, and of an agent's patterns and trajectories: the newest.
SHOWN = 20
STATUSES: tuple[Status, ...] = tuple(status for status in get_args(Status) if status != "deleted")
SENTIMENTS: tuple[Sentiment, ...] = get_args(Sentiment)
#: What an address calls the two kinds.
KINDS: dict[str, ArtifactKind] = {"skills": "skill", "workflows": "pipeline"}
ACTIONS = {"skills": SKILL_ACTIONS, "workflows": WORKFLOW_ACTIONS}
NONE = lazy_gettext("Nothing was learned in the group “%(group)s” under %(id)s.")
WITH_REASON = ("accept", "decline", "archive")


@page(blueprint, "/growth", "growth.html", statuses=STATUSES, kinds=KINDS)
def some(connection: Connection, group: str) -> Context:
    """Skills, or workflows, newest first."""
    which, status, agent = inputs.choice("kind", tuple(KINDS)) or "skills", inputs.choice("status", STATUSES), asked("agent")
    before, wanted = inputs.identifier("before"), cast("Status | None", status)
    rows = artifacts.artifact_page(connection, group, KINDS[which], agent_id=agent, status=wanted, before=before, limit=PER_PAGE + 1)
    return {
        "filters": {"kind": which, "status": status, "agent": agent},
        "agents": agent_reads.names(connection, group),
        **listed("rows", rows, PER_PAGE, "id"),
    }


@page(
    blueprint,
    "/growth/<any(skills, workflows):which>/<uuid:artifact_id>",
    "grown.html",
    name="one",
    missing=NONE,
    longest=MAX_REASON_CHARS,
    sentiments=SENTIMENTS,
    with_reason=WITH_REASON,
)
def one(connection: Connection, group: str, which: str, artifact_id: UUID) -> Context | None:
    """One, with all that it rests on and all that happened to it."""
    artifact = artifacts.find_artifact(connection, group, KINDS[which], artifact_id)
    if artifact is None:
        return None
    latest = artifact.evidence[-SHOWN:]
    return {
        "which": which,
        "grown": artifact,
        "pattern": artifacts.pattern_of(connection, group, artifact),
        "memories": entries.memories(connection, group, latest) if which == "skills" else [],
        "trajectories": trajectories.trajectories_by_id(connection, group, latest) if which == "workflows" else [],
        "votes": artifacts.votes_on(connection, group, artifact_id, SHOWN),
        "happened": feedback.evolution_events(connection, group, agent_id=None, artifact_id=artifact_id, before=None, limit=SHOWN),
        "verbs": artifacts.possible_decisions(artifact),
    }


@page(blueprint, "/growth/agents/<name:group>/<name:agent>", "grown_agent.html", name="agent", missing=NO_AGENT)
def of_agent(connection: Connection, group: str, agent: str) -> Context | None:
    """An agent's patterns and latest trajectories."""
    if agent_reads.agent(connection, group, agent) is None:
        return None
    return {
        "agent_id": agent,
        "patterns": artifacts.patterns_of(connection, group, agent, SHOWN),
        "trajectories": trajectories.trajectory_page(connection, group, agent, None, None, SHOWN),
        "trust": artifacts.trust_of_group(connection, group, agent, SHOWN),
    }


def _decision(parts: Context) -> Action[Any, Any]:
    return ACTIONS[parts["which"]][parts["verb"]]


def _decided(known: Context) -> str:
    which = known["which"]
    if known["verb"] == "delete":
        return url_for("growth.page", group=frame.group(), kind=which)
    return url_for("growth.one", which=which, artifact_id=known["artifact_id"], group=frame.group())


ARTIFACT = "/growth/<any(skills, workflows):which>/<uuid:artifact_id>"
VERBS = "<any(accept, decline, enable, disable, archive, delete):verb>"
action_form_route(blueprint, f"{ARTIFACT}/{VERBS}", _decision, _decided, name="decide", field_names={"id": "artifact_id"})
action_form_route(
    blueprint,
    f"{ARTIFACT}/vote",
    artifacts.give_feedback,
    "growth.one",
    name="vote",
    make_fields=lambda fields, parts: {**fields, "artifact": KINDS[parts["which"]]},
)
