"""Identity: the files that say who an agent is, their versions, and proposals to change them with what would differ."""

from __future__ import annotations

from typing import Any, cast

from flask import Blueprint, url_for
from flask_babel import lazy_gettext
from sqlalchemy import Connection

from jiyi.protocol import limits
from jiyi.protocol.identity import FILES, PROPOSABLE, File, IdentityProposal, ListProposals, diff
from models.db.actions import Action
from models.growth import identity, identity_actions
from models.memory import agent_reads
from web.admin import frame, inputs
from web.admin.acting import action_form_route, checked
from web.admin.frame import Page, asked
from web.admin.pages import NO_AGENT, Context, listed, page

blueprint = Blueprint("identity", __name__)
PAGES = (Page("growth", lazy_gettext("Identity"), "identity.page"),)

PER_PAGE = 20
#: Versions of a file, snapshots, and proposals that were decided on: the latest.
VERSIONS_SHOWN, SNAPSHOTS_SHOWN, DECIDED_SHOWN = 20, 20, 20
AGENT = {"agent_id": "agent"}


@page(blueprint, "/identity", "identities.html")
def some(connection: Connection, group: str) -> Context:
    """Proposals that wait for somebody, the latest first; and the agents."""
    before = inputs.identifier("before")
    wanted = checked(ListProposals, agent_id=asked("agent"), status="pending", before=before, limit=PER_PAGE)
    listing = listed("proposals", identity.proposal_page(connection, group, wanted), PER_PAGE, "proposal_id")
    shown = [_shown(connection, group, proposal) for proposal in listing["proposals"]]
    return {"agents": agent_reads.names(connection, group), **listing, "proposals": shown}


@page(blueprint, "/identity/<name:group>/<name:agent>", "identity.html", name="agent", missing=NO_AGENT, proposable=PROPOSABLE)
def of_agent(connection: Connection, group: str, agent: str) -> Context | None:
    """The four files with their versions, what is proposed, and snapshots to go back to."""
    if agent_reads.agent(connection, group, agent) is None:
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
        "proposals": [_shown(connection, group, proposal) for proposal in latest],
        "snapshots": identity.snapshot_page(connection, name, None, SNAPSHOTS_SHOWN),
        "max_chars": limits.MAX_IDENTITY_CHARS,
    }


def _of_agent(path: str, action: Action[Any, Any]) -> None:
    action_form_route(
        blueprint,
        f"/identity/<name:group>/<name:agent>/{path}",
        action,
        "identity.agent",
        name=path,
        field_names=AGENT,
        kept_fields=["file"],
    )


_of_agent("propose", identity_actions.propose)
_of_agent("snapshot", identity_actions.snapshot)
_of_agent("rollback", identity_actions.rollback)


def _back(known: Context) -> str:
    """To the page on which somebody decided: of the agent, or of all that waits."""
    agent = known.get("agent")
    return url_for("identity.agent", group=frame.group(), agent=agent) if agent else url_for("identity.page", group=frame.group())


action_form_route(
    blueprint,
    "/identity/proposals/<uuid:proposal_id>/<any(approve, reject):verb>",
    {"approve": identity_actions.approve, "reject": identity_actions.reject},
    _back,
    name="decide",
)


def _shown(connection: Connection, group: str, proposal: IdentityProposal) -> Context:
    """A proposal with what would differ: from what is in force, or was when it was decided on."""
    current = proposal.current
    if proposal.status == "pending":
        current = identity.current_file(connection, (group, proposal.agent_id), proposal.file).content
    return {**dict(proposal), "lines": diff(current, proposal.suggested)}
