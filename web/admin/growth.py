"""What agents learned, what hurts users, and the files that say who an agent is: read, and decided on."""

from __future__ import annotations

from typing import cast, get_args
from uuid import UUID

from flask import url_for
from flask_babel import lazy_gettext
from sqlalchemy import Connection

from jiyi.protocol import limits
from jiyi.protocol.artifacts import MAX_REASON_CHARS, ArtifactKind, Sentiment
from jiyi.protocol.artifacts import Status as ArtifactStatus
from jiyi.protocol.growth import ListPains
from jiyi.protocol.growth import Status as PainStatus
from jiyi.protocol.identity import FILES, PROPOSABLE, File, IdentityProposal, ListProposals, diff
from models.growth import artifacts, evolution, identity, identity_actions, pain_actions, pains, trajectories
from models.memory import agents
from models.memory.reads import nodes_of
from web.admin import frame, inputs
from web.admin.acting import action_form_route, checked
from web.admin.frame import Page, Pages, asked
from web.admin.pages import NO_AGENT, Context, listed, page

growth_pages = Pages("growth", __name__, Page("skills", lazy_gettext("Skills"), "growth.page"))

ARTIFACTS_PER_PAGE = 30
#: Of each kind of evidence, of votes, of what happened, and of an agent's patterns and trajectories: the newest.
LATEST = 20
ARTIFACT_STATUSES: tuple[ArtifactStatus, ...] = tuple(status for status in get_args(ArtifactStatus) if status != "deleted")
SENTIMENTS: tuple[Sentiment, ...] = get_args(Sentiment)
#: What an address calls the two kinds.
KINDS: dict[str, ArtifactKind] = {"skills": "skill", "workflows": "pipeline"}
NO_ARTIFACT = lazy_gettext("Nothing was learned in the group “%(group)s” under %(id)s.")
WITH_REASON = ("accept", "decline", "archive")


@page(growth_pages, "/growth", "growth.html", statuses=ARTIFACT_STATUSES, kinds=KINDS)
def artifacts_page(connection: Connection, group: str) -> Context:
    """Skills, or workflows, newest first."""
    which, status, agent = inputs.choice("kind", tuple(KINDS)) or "skills", inputs.choice("status", ARTIFACT_STATUSES), asked("agent")
    before, wanted = inputs.identifier("before"), cast("ArtifactStatus | None", status)
    rows = artifacts.artifact_page(
        connection, group, artifact=KINDS[which], agent_id=agent, status=wanted, before=before, limit=ARTIFACTS_PER_PAGE + 1
    )
    return {
        "filters": {"kind": which, "status": status, "agent": agent},
        "agents": agents.agent_names(connection, group),
        **listed("rows", rows, ARTIFACTS_PER_PAGE, "id"),
    }


@page(
    growth_pages,
    "/growth/<any(skills, workflows):which>/<uuid:artifact_id>",
    "grown.html",
    name="one",
    missing=NO_ARTIFACT,
    longest=MAX_REASON_CHARS,
    sentiments=SENTIMENTS,
    with_reason=WITH_REASON,
)
def artifact_page(connection: Connection, group: str, which: str, artifact_id: UUID) -> Context | None:
    """One, with all that it rests on and all that happened to it."""
    artifact = artifacts.find_artifact(connection, group, artifact_id)
    if artifact is None or artifact.artifact != KINDS[which]:
        return None
    latest = artifact.evidence[-LATEST:]
    return {
        "which": which,
        "grown": artifact,
        "pattern": artifacts.pattern_of(connection, group, artifact),
        "memories": nodes_of(connection, group, latest) if which == "skills" else [],
        "trajectories": trajectories.trajectories_by_id(connection, group, latest) if which == "workflows" else [],
        "votes": artifacts.votes_on(connection, group, artifact_id, LATEST),
        "happened": evolution.evolution_events(connection, group, artifact_id, LATEST),
        "verbs": artifacts.possible_decisions(artifact),
    }


@page(growth_pages, "/growth/agents/<name:group>/<name:agent>", "grown_agent.html", name="agent", missing=NO_AGENT)
def learned_by_agent(connection: Connection, group: str, agent: str) -> Context | None:
    """An agent's patterns and latest trajectories."""
    if agents.agent_row(connection, group, agent) is None:
        return None
    return {
        "agent_id": agent,
        "patterns": artifacts.patterns_of(connection, group, agent, LATEST),
        "trajectories": trajectories.latest_trajectories(connection, group, agent, LATEST),
        "trust": artifacts.trust_of_group(connection, group, agent, LATEST),
    }


def _decided(known: Context) -> str:
    which = known["which"]
    if known["verb"] == "delete":
        return url_for("growth.page", group=frame.group(), kind=which)
    return url_for("growth.one", which=which, artifact_id=known["artifact_id"], group=frame.group())


ARTIFACT = "/growth/<any(skills, workflows):which>/<uuid:artifact_id>"
action_form_route(
    growth_pages, f"{ARTIFACT}/<verb>", artifacts.decide, _decided, name="decide", field_names={"id": "artifact_id", "decision": "verb"}
)
action_form_route(
    growth_pages,
    f"{ARTIFACT}/vote",
    artifacts.give_feedback,
    "growth.one",
    name="vote",
    make_fields=lambda fields, parts: {**fields, "artifact": KINDS[parts["which"]]},
)


pain_pages = Pages("pains", __name__, Page("skills", lazy_gettext("Pain points"), "pains.page"))

PAINS_PER_PAGE, EVIDENCE_SHOWN = 30, 50
PAIN_STATUSES: tuple[PainStatus, ...] = get_args(PainStatus)
NO_PAIN = lazy_gettext("There is no pain point %(id)s in the group “%(group)s”.")


@page(pain_pages, "/pains", "pains.html", statuses=PAIN_STATUSES)
def pains_page(connection: Connection, group: str) -> Context:
    """Those felt last first."""
    agent, status, before = asked("agent"), inputs.choice("status", PAIN_STATUSES), inputs.identifier("before")
    rows = pains.pain_page(connection, group, checked(ListPains, agent_id=agent, status=status, before=before, limit=PAINS_PER_PAGE))
    return {
        "filters": {"agent": agent, "status": status},
        "agents": agents.agent_names(connection, group),
        **listed("pains", rows, PAINS_PER_PAGE, "pain_id"),
    }


@page(pain_pages, "/pains/<uuid:pain_id>", "pain.html", name="pain", missing=NO_PAIN)
def pain_page(connection: Connection, group: str, pain_id: UUID) -> Context | None:
    """One, with what told of it and every proposal."""
    pain = pains.find_pain(connection, group, pain_id)
    if pain is None:
        return None
    evidence = pains.quotes(connection, group, pain_id, EVIDENCE_SHOWN)
    return {"pain": pain, "evidence": evidence, "proposals": pains.proposals_of(connection, group, pain_id)}


action_form_route(pain_pages, "/pains/<uuid:pain_id>/resolve", pain_actions.resolve_pain, "pains.pain", name="resolve")
action_form_route(pain_pages, "/pains/<uuid:pain_id>/propose", pain_actions.propose_solution, "pains.pain", name="propose")


identity_pages = Pages("identity", __name__, Page("skills", lazy_gettext("Identity"), "identity.page"))

PROPOSALS_PER_PAGE = 20
#: Versions of a file, snapshots, and proposals that were decided on: the latest.
VERSIONS_SHOWN, SNAPSHOTS_SHOWN, DECIDED_SHOWN = 20, 20, 20


@page(identity_pages, "/identity", "identities.html")
def proposals_page(connection: Connection, group: str) -> Context:
    """Proposals that wait for somebody, the latest first; and the agents."""
    before = inputs.identifier("before")
    wanted = checked(ListProposals, agent_id=asked("agent"), status="pending", before=before, limit=PROPOSALS_PER_PAGE)
    listing = listed("proposals", identity.proposal_page(connection, group, wanted), PROPOSALS_PER_PAGE, "proposal_id")
    shown = [_with_difference(connection, group, proposal) for proposal in listing["proposals"]]
    return {"agents": agents.agent_names(connection, group), **listing, "proposals": shown}


@page(identity_pages, "/identity/<name:group>/<name:agent>", "identity.html", name="agent", missing=NO_AGENT, proposable=PROPOSABLE)
def identity_page(connection: Connection, group: str, agent: str) -> Context | None:
    """The four files with their versions, what is proposed, and snapshots to go back to."""
    if agents.agent_row(connection, group, agent) is None:
        return None
    name = (group, agent)
    latest = identity.proposal_page(connection, group, ListProposals(agent_id=agent, limit=DECIDED_SHOWN))
    shown, compared = cast("File", inputs.choice("file", FILES) or "SOUL"), inputs.whole("version")
    current = identity.current_file(connection, name, shown)
    old = None if compared is None else identity.file_version(connection, name, shown, compared)
    return {
        "agent_id": agent,
        "files": identity.current_files(connection, name),
        "shown": shown,
        "history": identity.file_history(connection, name, shown, None, VERSIONS_SHOWN),
        "compared": None if old is None else {"version": old.version, "lines": diff(old.content, current.content)},
        "proposals": [_with_difference(connection, group, proposal) for proposal in latest],
        "snapshots": identity.snapshot_page(connection, name, None, SNAPSHOTS_SHOWN),
        "max_chars": limits.MAX_IDENTITY_CHARS,
    }


IDENTITY = "/identity/<name:group>/<name:agent>"
AGENT, FILE = {"agent_id": "agent"}, ["file"]
for _verb in ("propose", "snapshot", "rollback"):
    _action = getattr(identity_actions, _verb)
    action_form_route(identity_pages, f"{IDENTITY}/{_verb}", _action, "identity.agent", name=_verb, field_names=AGENT, kept_fields=FILE)


def _decided_on(known: Context) -> str:
    """To the page on which somebody decided: of the agent, or of all that waits."""
    agent = known.get("agent")
    return url_for("identity.agent", group=frame.group(), agent=agent) if agent else url_for("identity.page", group=frame.group())


action_form_route(
    identity_pages,
    "/identity/proposals/<uuid:proposal_id>/<any(approve, reject):verb>",
    {"approve": identity_actions.approve, "reject": identity_actions.reject},
    _decided_on,
    name="decide",
)


def _with_difference(connection: Connection, group: str, proposal: IdentityProposal) -> Context:
    """A proposal with what would differ: from what is in force, or was when it was decided on."""
    current = proposal.current
    if proposal.status == "pending":
        current = identity.current_file(connection, (group, proposal.agent_id), proposal.file).content
    return {**dict(proposal), "lines": diff(current, proposal.suggested)}


BLUEPRINTS = (growth_pages, pain_pages, identity_pages)
