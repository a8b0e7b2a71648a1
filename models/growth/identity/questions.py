"""What can be asked about the files that say who an agent is."""

from __future__ import annotations

from engine.growth.identity.prompt import compose
from jiyi.errors import NotFound
from jiyi.protocol import limits
from jiyi.protocol.growth.diffs import diff
from jiyi.protocol.growth.identity import (
    ComposedPrompt,
    ComposePrompt,
    Difference,
    DiffFiles,
    FileHistory,
    FileStates,
    GetFile,
    IdentityFile,
    ListProposals,
    ListSnapshots,
    OfAgent,
    ProposalPage,
    SnapshotPage,
    VersionPage,
)
from jiyi.protocol.growth.identity_files import File
from jiyi.text.budget import estimate_tokens
from models.db.actions import Context, action
from models.growth.identity import proposals, snapshots, versions
from models.memory.agents.agents import AgentName, key_of, no_agent


@action("identity_list", scope="read", mutates=False)
def list_files(context: Context, request: OfAgent) -> FileStates:
    """List an agent's files.

    SOUL, AGENTS, USER and HEARTBEAT: the version in force, how long it is, and how many proposals wait.
    """
    name = _there(context, request.agent_id)
    return FileStates(agent_id=name[1], files=versions.states(context.connection, name), max_chars=limits.MAX_IDENTITY_CHARS)


@action("identity_get", scope="read", mutates=False)
def get_file(context: Context, request: GetFile) -> IdentityFile:
    """Get a file.

    In force, or the version named; version 0 and empty where nothing was written yet.
    """
    name = _there(context, request.agent_id)
    if request.version is None:
        return versions.current(context.connection, name, request.file)
    return _version(context, name, request.file, request.version)


@action("identity_prompt", scope="read", mutates=False)
def prompt(context: Context, request: ComposePrompt) -> ComposedPrompt:
    """Compose the files for a prompt.

    SOUL and AGENTS as they stand, USER as quoted data, within a budget of tokens.
    """
    files = versions.everything(context.connection, _there(context, request.agent_id))
    made = compose({file: one.content for file, one in files.items()}, request.max_tokens)
    return ComposedPrompt(prompt=made, tokens=estimate_tokens(made))


@action("identity_history", scope="read", mutates=False)
def history(context: Context, request: FileHistory) -> VersionPage:
    """List a file's versions.

    Newest first, each with who wrote it and why.
    """
    name = _there(context, request.agent_id)
    found = versions.history(context.connection, name, request.file, request.before, request.limit + 1)
    more = len(found) > request.limit
    return VersionPage(versions=found[: request.limit], next=found[request.limit - 1].version if more else None)


@action("identity_diff", scope="read", mutates=False)
def compare(context: Context, request: DiffFiles) -> Difference:
    """Compare two versions of a file, or a proposal with what is in force.

    The lines that were added and removed, with those around them.
    """
    name = _there(context, request.agent_id)
    if request.file is not None:
        new = versions.current(context.connection, name, request.file)
        if request.new is not None:
            new = _version(context, name, request.file, request.new)
        old = _version(context, name, request.file, max(0, new.version - 1) if request.old is None else request.old)
        return Difference(file=request.file, old=old.version, new=new.version, lines=diff(old.content, new.content))
    proposal = proposals.find(context.connection, context.group_id, request.proposal_id)
    if proposal is None or proposal.agent_id != request.agent_id:
        raise NotFound(f"proposal_id: the agent {request.agent_id!r} has no proposal {request.proposal_id}; see identity_proposals")
    base = versions.current(context.connection, name, proposal.file) if proposal.status == "pending" else None
    before, number = (base.content, base.version) if base else (proposal.current, proposal.base_version)
    return Difference(file=proposal.file, old=number, new=None, lines=diff(before, proposal.suggested))


@action("identity_proposals", scope="read", mutates=False)
def list_proposals(context: Context, request: ListProposals) -> ProposalPage:
    """List proposals.

    The latest first, with reason, current and suggested text, and whether the file has changed since.
    """
    found = proposals.page(context.connection, context.group_id, request)
    more = len(found) > request.limit
    return ProposalPage(proposals=found[: request.limit], next=found[request.limit - 1].proposal_id if more else None)


@action("identity_versions", scope="read", mutates=False)
def list_snapshots(context: Context, request: ListSnapshots) -> SnapshotPage:
    """List snapshots.

    The latest first, each with the version of each file that was in force.
    """
    name = _there(context, request.agent_id)
    found = snapshots.page(context.connection, name, request.before, request.limit + 1)
    more = len(found) > request.limit
    return SnapshotPage(snapshots=found[: request.limit], next=found[request.limit - 1].snapshot_id if more else None)


def _there(context: Context, agent_id: str) -> AgentName:
    name = (context.group_id, agent_id)
    if key_of(context.connection, *name) is None:
        raise no_agent(*name)
    return name


def _version(context: Context, name: AgentName, file: File, number: int) -> IdentityFile:
    found = versions.version(context.connection, name, file, number)
    if found is None:
        raise NotFound(f"version: {file} of {name[1]!r} has no version {number}; see identity_history")
    return found
