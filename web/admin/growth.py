"""What agents learned, what hurts users, and the files that say who an agent is: read, and decided on."""

from __future__ import annotations

from typing import cast, get_args
from uuid import UUID

from flask import url_for
from flask_babel import lazy_gettext
from sqlalchemy import Connection

from jiyi.protocol import limits
from jiyi.protocol.artifacts import Sentiment
from jiyi.protocol.growth import ListPains
from jiyi.protocol.growth import Status as PainStatus
from jiyi.protocol.identity import FILES, PROPOSABLE, File, diff
from jiyi.protocol.proposals import MAX_NOTE_CHARS, FileProposal, Kind, ListProposals, SkillProposal, Status
from models.growth import (
    artifacts,
    evolution,
    identity,
    pain_actions,
    pains,
    proposal_actions,
    proposals,
    trajectories,
)
from models.memory import agents
from models.memory.reads import nodes_of
from web.admin import frame, inputs
from web.admin.acting import checked, form
from web.admin.frame import MenuPage, parameter
from web.admin.pages import NO_AGENT, Context, Pages, listed

proposal_pages = Pages(
    "proposals", __name__, MenuPage("skills", lazy_gettext("Proposals"), "proposals.page", table="proposals")
)

PROPOSALS_PER_PAGE = 30
#: Of each kind of evidence, of votes, of what happened, and of an agent's patterns and trajectories: the
#: newest.
LATEST = 20
KINDS: tuple[Kind, ...] = get_args(Kind)
STATUSES: tuple[Status, ...] = tuple(status for status in get_args(Status) if status != "deleted")
SENTIMENTS: tuple[Sentiment, ...] = get_args(Sentiment)
#: Decisions for which a reason may be given.
WITH_REASON = ("approve", "reject", "archive")


@proposal_pages.page("/proposals", "proposals.html", kinds=KINDS, statuses=STATUSES)
def proposals_page(connection: Connection, group: str) -> Context:
    """Those of all kinds, the latest first."""
    agent = parameter("agent")
    like = {"kind": inputs.choice("kind", KINDS), "status": inputs.choice("status", STATUSES)}
    place = {"cursor": parameter("cursor"), "limit": PROPOSALS_PER_PAGE}
    rows = proposals.find(connection, group, checked(ListProposals, agent_id=agent, **like, **place))
    return {
        "filters": {**like, "agent": agent},
        "agents": agents.agent_names(connection, group),
        **listed("rows", rows, PROPOSALS_PER_PAGE, "id"),
    }


@proposal_pages.page(
    "/proposals/<uuid:proposal_id>",
    "proposal.html",
    "one",
    longest=MAX_NOTE_CHARS,
    sentiments=SENTIMENTS,
    with_reason=WITH_REASON,
)
def proposal_page(connection: Connection, group: str, proposal_id: UUID) -> Context:
    """One, with all that it rests on, what would differ, and all that happened to it."""
    proposal = proposals.need(connection, group, proposal_id)
    latest, of_steps = proposal.evidence[-LATEST:], proposal.kind == "pipeline"
    context: Context = {
        "proposal": proposal,
        "verbs": proposals.possible(proposal),
        "memories": [] if of_steps else nodes_of(connection, group, latest),
        "trajectories": trajectories.trajectories_by_id(connection, group, latest) if of_steps else [],
    }
    if isinstance(proposal, SkillProposal):
        context["pattern"] = artifacts.pattern_of(connection, group, proposal)
        context["votes"] = artifacts.votes_on(connection, group, proposal_id, LATEST)
        context["happened"] = evolution.evolution_events(connection, group, proposal_id, LATEST)
    if isinstance(proposal, FileProposal):  # against the current file, or the one current at the decision
        current = proposal.current
        if proposal.status == "pending":
            current = identity.current_file(connection, (group, proposal.agent_id), proposal.file).content
        context["lines"] = diff(current, proposal.suggested)
    return context


@proposal_pages.page("/growth/agents/<name:group>/<name:agent>", "grown_agent.html", "agent", NO_AGENT)
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


def _decided(values: Context) -> str:
    if values["verb"] == "delete":
        return url_for("proposals.page", group=frame.group())
    return url_for("proposals.one", proposal_id=values["proposal_id"], group=frame.group())


PROPOSAL = "/proposals/<uuid:proposal_id>"
form(
    proposal_pages,
    f"{PROPOSAL}/<verb>",
    proposal_actions.decide_proposal,
    _decided,
    name="decide",
    names={"decision": "verb"},
)
form(
    proposal_pages,
    f"{PROPOSAL}/vote",
    artifacts.give_feedback,
    "proposals.one",
    names={"artifact_id": "proposal_id", "id": "id"},  # each vote is one of its own
)


pain_pages = Pages(
    "pains", __name__, MenuPage("skills", lazy_gettext("Pain points"), "pains.page", table="pain_points")
)

PAINS_PER_PAGE, EVIDENCE_SHOWN = 30, 50
PAIN_STATUSES: tuple[PainStatus, ...] = get_args(PainStatus)
NO_PAIN = lazy_gettext("There is no pain point %(id)s in the group “%(group)s”.")


@pain_pages.page("/pains", "pains.html", statuses=PAIN_STATUSES)
def pains_page(connection: Connection, group: str) -> Context:
    """Those felt last first."""
    agent, status = parameter("agent"), inputs.choice("status", PAIN_STATUSES)
    place = {"cursor": parameter("cursor"), "limit": PAINS_PER_PAGE}
    rows = pains.pain_page(connection, group, checked(ListPains, agent_id=agent, status=status, **place))
    return {
        "filters": {"agent": agent, "status": status},
        "agents": agents.agent_names(connection, group),
        **listed("pains", rows, PAINS_PER_PAGE, "pain_id"),
    }


@pain_pages.page("/pains/<uuid:pain_id>", "pain.html", "pain", NO_PAIN)
def pain_page(connection: Connection, group: str, pain_id: UUID) -> Context | None:
    """One pain point, with its evidence and every proposal."""
    pain = pains.find_pain(connection, group, pain_id)
    if pain is None:
        return None
    evidence = pains.quotes(connection, group, pain_id, EVIDENCE_SHOWN)
    return {"pain": pain, "evidence": evidence, "proposals": pains.proposals_of(connection, group, pain_id)}


form(pain_pages, "/pains/<uuid:pain_id>/resolve", pain_actions.resolve_pain, "pains.pain")
form(pain_pages, "/pains/<uuid:pain_id>/propose", pain_actions.propose_solution, "pains.pain")


#: Versions of a file, snapshots, and proposals: the latest.
VERSIONS_SHOWN, SNAPSHOTS_SHOWN, PROPOSALS_SHOWN = 20, 20, 20


@proposal_pages.page(
    "/identity/<name:group>/<name:agent>", "identity.html", "identity", NO_AGENT, proposable=PROPOSABLE
)
def identity_page(connection: Connection, group: str, agent: str) -> Context | None:
    """The four files with their versions, what is proposed, and snapshots to go back to."""
    if agents.agent_row(connection, group, agent) is None:
        return None
    name = (group, agent)
    file, compared = cast("File", inputs.choice("file", FILES) or "SOUL"), inputs.whole("version")
    current = identity.current_file(connection, name, file)
    old = None if compared is None else identity.file_version(connection, name, file, compared)
    query = ListProposals(kind="identity", agent_id=agent, limit=PROPOSALS_SHOWN)
    differs = None if old is None else {"version": old.version, "lines": diff(old.content, current.content)}
    return {
        "agent_id": agent,
        "files": identity.current_files(connection, name),
        "shown": file,
        "history": identity.file_history(connection, name, file, None, VERSIONS_SHOWN),
        "compared": differs,
        "proposals": proposals.find(connection, group, query)[:PROPOSALS_SHOWN],
        "snapshots": identity.snapshot_page(connection, name, None, SNAPSHOTS_SHOWN),
        "max_chars": limits.MAX_IDENTITY_CHARS,
    }


IDENTITY = "/identity/<name:group>/<name:agent>"
for _verb in ("propose", "snapshot", "rollback"):
    _action = getattr(identity, _verb)
    form(proposal_pages, f"{IDENTITY}/{_verb}", _action, "proposals.identity", in_address=["file"])


BLUEPRINTS = (proposal_pages, pain_pages)
