"""Identity: the files that say who an agent is, their versions, and proposals to change them with what would differ (ZC-131…ZC-133)."""

from __future__ import annotations

from typing import Any, cast
from uuid import UUID

from flask import Blueprint, request, url_for
from flask.typing import ResponseReturnValue
from flask_babel import lazy_gettext
from sqlalchemy import Connection

from jiyi.growth.identity.diffs import diff
from jiyi.growth.identity.files import FILES, PROPOSABLE, File
from jiyi.protocol.growth.identity import IdentityProposal, ListProposals
from jiyi.settings import get_settings
from models.db.actions import Action
from models.growth.identity import actions, proposals, snapshots, versions
from models.memory.agents import reads as agent_reads
from web.accounts.identity import need
from web.admin import frame, inputs
from web.admin.acting import checked, perform
from web.admin.frame import Page, asked
from web.admin.pages import page, reads_database, redirect_to, split_page

blueprint = Blueprint("identity", __name__)
PAGES = (Page("growth", lazy_gettext("Identity"), "identity.page"),)

PER_PAGE, AGENTS_OFFERED = 20, 500
#: Versions of a file, snapshots, and proposals that were decided on: the latest.
VERSIONS_SHOWN, SNAPSHOTS_SHOWN, DECIDED_SHOWN = 20, 20, 20
NO_AGENT = lazy_gettext("There is no agent “%(agent)s” in the group “%(group)s”.")


@page(blueprint, "/identity", "identities.html")
@reads_database
def listed(connection: Connection, group: str) -> dict[str, object]:
    """Proposals that wait for somebody, the latest first; and the agents."""
    before = inputs.identifier("before")
    wanted = checked(ListProposals, agent_id=asked("agent"), status="pending", before=before, limit=PER_PAGE)
    rows, following = split_page(proposals.page(connection, group, wanted), PER_PAGE, lambda last: last.proposal_id)
    return {
        "before": before,
        "agents": agent_reads.names(connection, group, AGENTS_OFFERED),
        "proposals": [_shown(connection, group, one) for one in rows],
        "next": following,
    }


@page(blueprint, "/identity/<name:group>/<name:agent>", "identity.html", name="agent", missing=NO_AGENT, proposable=PROPOSABLE)
@reads_database
def of_agent(connection: Connection, group: str, agent: str) -> dict[str, object] | None:
    """The four files with their versions, what is proposed, and snapshots to go back to."""
    if agent_reads.agent(connection, group, agent) is None:
        return None
    name = (group, agent)
    latest = proposals.page(connection, group, ListProposals(agent_id=agent, limit=DECIDED_SHOWN))
    shown, compared = cast("File", inputs.choice("file", FILES) or "SOUL"), inputs.whole("version")
    current = versions.current(connection, name, shown)
    old = None if compared is None else versions.version(connection, name, shown, compared)
    return {
        "agent_id": agent,
        "files": versions.everything(connection, name),
        "shown": shown,
        "history": versions.history(connection, name, shown, None, VERSIONS_SHOWN),
        "compared": None if old is None else {"version": old.version, "lines": diff(old.content, current.content)},
        "proposals": [_shown(connection, group, one) for one in latest],
        "snapshots": snapshots.page(connection, name, None, SNAPSHOTS_SHOWN),
        "max_chars": get_settings().identity_max_chars,
    }


@blueprint.post("/identity/<name:group>/<name:agent>/propose")
def propose(group: str, agent: str) -> ResponseReturnValue:
    """With the version that was read, where the form has it: in conflict if another is in force."""
    return _done(actions.propose, group, agent, file=request.form.get("file"), **_given("suggested", "reason", "base_version"))


@blueprint.post("/identity/<name:group>/<name:agent>/snapshot")
def snapshot(group: str, agent: str) -> ResponseReturnValue:
    """Which versions are in force now."""
    return _done(actions.snapshot, group, agent, name=request.form.get("name"))


@blueprint.post("/identity/<name:group>/<name:agent>/rollback")
def rollback(group: str, agent: str) -> ResponseReturnValue:
    """To a version of a file, or to a snapshot."""
    return _done(actions.rollback, group, agent, **_given("file", "version", "snapshot_id", "base_version", "reason"))


@blueprint.post("/identity/proposals/<uuid:proposal_id>/<any(approve, reject):verdict>")
def decide(proposal_id: UUID, verdict: str) -> ResponseReturnValue:
    """In conflict for whoever comes second, and if the file has changed since."""
    action: Action[Any, Any] = actions.approve if verdict == "approve" else actions.reject
    need(action.scope)
    perform(action, proposal_id=proposal_id, note=request.form.get("note", ""))
    back = request.form.get("agent")
    return redirect_to(
        url_for("identity.agent", group=frame.group(), agent=back) if back else url_for("identity.page", group=frame.group())
    )


def _done(action: Action[Any, Any], group: str, agent: str, **fields: Any) -> ResponseReturnValue:
    need(action.scope)
    perform(action, agent_id=agent, **fields)
    return redirect_to(url_for("identity.agent", group=group, agent=agent, file=request.form.get("file") or None))


def _given(*names: str) -> dict[str, str]:
    """What the form has of these, without what was left blank."""
    return {name: value for name in names if (value := request.form.get(name, "").strip())}


def _shown(connection: Connection, group: str, proposal: IdentityProposal) -> dict[str, object]:
    """A proposal with what would differ: from what is in force, or was when it was decided on."""
    current = proposal.current
    if proposal.status == "pending":
        current = versions.current(connection, (group, proposal.agent_id), proposal.file).content
    return {**dict(proposal), "lines": diff(current, proposal.suggested)}
