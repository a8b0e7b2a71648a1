"""Proposals: skills, workflows, changes of files and solutions, none of which is used before somebody
approves it.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from pydantic import BaseModel, Field

from jiyi.protocol.artifacts import ArtifactKind, Recommendation
from jiyi.protocol.base import ById, Name, Paged
from jiyi.protocol.identity import File

#: What is proposed: a skill, a workflow (``pipeline``), a change of a file of an agent's identity, what helps
#: with a pain point.
Kind = Literal["skill", "pipeline", "identity", "solution"]
#: ``refused`` by the gate; ``pending`` until somebody decides; of skills and workflows only: ``archived``,
#: once approved and now out of use; ``deleted``, its texts are gone.
Status = Literal["refused", "pending", "approved", "rejected", "archived", "deleted"]
#: What can be decided; of what is no skill or workflow the first two.
Verb = Literal["approve", "reject", "enable", "disable", "archive", "delete"]
#: Characters of the note on a decision.
MAX_NOTE_CHARS = 2_000


class ListProposals(Paged):
    """Which proposals; the latest first."""

    kind: Kind | None = None
    agent_id: Name | None = None
    status: Status | None = None


class Deciding(ById):
    """What is decided about which one, and why."""

    decision: Verb
    reason: str = Field("", max_length=MAX_NOTE_CHARS)


class ProposalState(BaseModel):
    """What every proposal has."""

    id: UUID
    agent_id: str
    user_id: str | None = Field(description="Who said in private what it rests on: nobody else sees it.")
    reason: str
    status: Status
    #: Memories, or trajectories, that it rests on, and how many there were when it was made, or seen last.
    evidence: list[UUID]
    evidence_count: int
    made_by: str
    created_at: datetime
    updated_at: datetime
    decided_at: datetime | None
    decided_by: str | None
    #: The note on the decision.
    note: str


class SkillProposal(ProposalState):
    """A skill, or a workflow (``pipeline``); only what is approved and enabled is meant to be used."""

    kind: ArtifactKind
    name: str
    description: str
    triggers: list[str]
    tools: list[str]
    #: Of a skill Markdown, of a workflow YAML.
    body: str
    confidence: float
    #: What the gate found.
    issues: list[str]
    enabled: bool
    #: None without votes.
    trust_score: float | None
    votes: int
    recommendation: Recommendation | None


class FileProposal(ProposalState):
    """A file as somebody, or the agent itself, would have it. ``stale``: the file has changed since."""

    kind: Literal["identity"]
    file: File
    base_version: int
    current: str
    suggested: str
    stale: bool
    reflection_id: UUID | None = None
    version: int | None = Field(None, description="The version of the file that it became.")


class SolutionProposal(ProposalState):
    """What might be done about a pain point, step by step."""

    kind: Literal["solution"]
    pain_id: UUID
    title: str
    steps: list[str]
    experience: str | None = Field(None, description="The address of the memory that it became.")


Proposal = Annotated[SkillProposal | FileProposal | SolutionProposal, Field(discriminator="kind")]
