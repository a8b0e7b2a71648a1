"""Requests and answers of the commands on who an agent is."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated
from uuid import UUID

from pydantic import AfterValidator, BaseModel, Field, model_validator

from jiyi.protocol import limits
from jiyi.protocol.events import Name
from jiyi.protocol.growth.diffs import DiffLine
from jiyi.protocol.growth.identity_files import PROPOSABLE, File, FileName, ProposalStatus, problems_of, tidy
from jiyi.protocol.queries import CHANGES, DEFAULT_PAGE, QUEUE, Number, PageSize, Request

MAX_REASON_CHARS = 2_000
#: Tokens of the files in a prompt, unless asked otherwise, and at most.
PROMPT_TOKENS, MAX_PROMPT_TOKENS = 2_000, 32_000


def _writable(content: str) -> str:
    made = tidy(content)
    if problems := problems_of(made, limits.MAX_IDENTITY_CHARS):
        raise ValueError("; ".join(problems))
    return made


def _proposable(file: File) -> File:
    if file not in PROPOSABLE:
        raise ValueError("USER follows the profile; use identity_update_user for what people add to it")
    return file


#: A text that may become a file.
Content = Annotated[str, AfterValidator(_writable)]
ProposableFile = Annotated[FileName, AfterValidator(_proposable)]
Reason = Annotated[str, Field(pattern=r"\S", max_length=MAX_REASON_CHARS)]
Version = Annotated[int, Field(ge=1, le=2_147_483_647)]


class IdentityFile(BaseModel):
    """A file of an agent; version 0 and empty where nothing was written yet."""

    file: File
    version: int
    content: str
    reason: str = ""
    author: str = ""
    created_at: datetime | None = None


class FileState(BaseModel):
    """A file as a list shows it."""

    file: File
    version: int
    characters: int
    updated_at: datetime | None
    pending: int


class OfAgent(Request):
    """Which agent."""

    agent_id: Name


class FileStates(BaseModel):
    """The four files, and how many characters each may have."""

    agent_id: str
    files: list[FileState]
    max_chars: int


class GetFile(OfAgent):
    """Which file; the version in force unless one is named."""

    file: FileName
    version: Version | None = None


class ComposePrompt(OfAgent):
    """The files as they belong before an answer."""

    max_tokens: int = Field(PROMPT_TOKENS, ge=50, le=MAX_PROMPT_TOKENS, description="Most tokens, by our estimate.")


class ComposedPrompt(BaseModel):
    """Empty where no file says anything."""

    prompt: str
    tokens: int


class FileHistory(OfAgent):
    """Which file's versions."""

    file: FileName
    before: Version | None = Field(None, description="Only versions before this one.")
    limit: PageSize = DEFAULT_PAGE


class VersionBrief(BaseModel):
    """A version without its text."""

    version: int
    reason: str
    author: str
    characters: int
    proposal_id: UUID | None
    created_at: datetime


class VersionPage(BaseModel):
    """Newest first; ``next`` is what to pass on as ``before``."""

    versions: list[VersionBrief]
    next: int | None = None


class DiffFiles(OfAgent):
    """Which two texts: two versions of a file (the one before unless named, and the latest), or a proposal and what is in force."""

    file: FileName | None = None
    old: Number | None = Field(None, description="A version; 0 is the empty file.")
    new: Version | None = None
    proposal_id: UUID | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> DiffFiles:
        if (self.file is None) == (self.proposal_id is None):
            raise ValueError("file: give a file, or a proposal_id, not both")
        return self


class Difference(BaseModel):
    """The lines that differ; none where the texts are the same."""

    file: File
    old: int
    #: None: a proposal.
    new: int | None
    lines: list[DiffLine]


class ProposeChange(OfAgent):
    """A file as somebody would have it, and why."""

    file: ProposableFile
    suggested: Content
    reason: Reason
    base_version: Number | None = Field(None, description="The version that was read; the one in force unless given.")


class IdentityProposal(BaseModel):
    """A change that waits for somebody, or was decided on. ``stale``: the file has changed since."""

    proposal_id: UUID
    agent_id: str
    file: File
    reason: str
    base_version: int
    current: str
    suggested: str
    status: ProposalStatus
    stale: bool
    author: str
    evidence: list[UUID]
    reflection_id: UUID | None
    created_at: datetime
    decided_at: datetime | None
    decided_by: str | None
    note: str


class ListProposals(Request):
    """Which proposals; the latest first."""

    agent_id: Name | None = None
    file: FileName | None = None
    status: ProposalStatus | None = None
    before: UUID | None = Field(None, description="Go on after this one.")
    limit: PageSize = DEFAULT_PAGE


class ProposalPage(BaseModel):
    """``next`` is what to pass on as ``before``."""

    proposals: list[IdentityProposal]
    next: UUID | None = None


class DecideProposal(Request):
    """Which proposal, and what is to be said about it."""

    proposal_id: UUID
    note: str = Field("", max_length=MAX_REASON_CHARS)


class UpdateUser(OfAgent):
    """What people add to what the profile says of the user, in their own words; blank: nothing."""

    notes: Content


class TakeSnapshot(OfAgent):
    """What the snapshot is called."""

    name: Name


class Snapshot(BaseModel):
    """Which version of each file was in force."""

    snapshot_id: UUID
    agent_id: str
    name: str
    versions: dict[str, int]
    author: str
    created_at: datetime


class ListSnapshots(OfAgent):
    """Whose snapshots; the latest first."""

    before: UUID | None = Field(None, description="Go on after this one.")
    limit: PageSize = DEFAULT_PAGE


class SnapshotPage(BaseModel):
    """``next`` is what to pass on as ``before``."""

    snapshots: list[Snapshot]
    next: UUID | None = None


class Rollback(OfAgent):
    """What to go back to: a version of a file, or a snapshot of all. It is written as a new version."""

    file: FileName | None = None
    version: Number | None = Field(None, description="0 empties the file.")
    snapshot_id: UUID | None = None
    base_version: Number | None = Field(None, description="The version that was read: if another is in force, nothing is changed.")
    reason: str = Field("", max_length=MAX_REASON_CHARS)

    @model_validator(mode="after")
    def _one_of_both(self) -> Rollback:
        if (self.snapshot_id is None) == (self.file is None or self.version is None):
            raise ValueError("file: give a file with a version, or a snapshot_id, not both")
        return self


class ChangedFiles(BaseModel):
    """The files as they are now; those that were so already are not among them."""

    files: list[IdentityFile]


#: Name → request, result, queue.
COMMANDS: dict[str, tuple[type[BaseModel], type[BaseModel], str]] = {
    "identity_list": (OfAgent, FileStates, QUEUE),
    "identity_get": (GetFile, IdentityFile, QUEUE),
    "identity_prompt": (ComposePrompt, ComposedPrompt, QUEUE),
    "identity_history": (FileHistory, VersionPage, QUEUE),
    "identity_diff": (DiffFiles, Difference, QUEUE),
    "identity_propose": (ProposeChange, IdentityProposal, CHANGES),
    "identity_proposals": (ListProposals, ProposalPage, QUEUE),
    "identity_approve": (DecideProposal, IdentityFile, CHANGES),
    "identity_reject": (DecideProposal, IdentityProposal, CHANGES),
    "identity_update_user": (UpdateUser, IdentityFile, CHANGES),
    "identity_snapshot": (TakeSnapshot, Snapshot, CHANGES),
    "identity_versions": (ListSnapshots, SnapshotPage, QUEUE),
    "identity_rollback": (Rollback, ChangedFiles, CHANGES),
}
