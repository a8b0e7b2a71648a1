"""Evolution events: everything that happens to what was grown, typed, and kept in the audit log."""

from __future__ import annotations

from typing import Literal, get_args
from uuid import UUID

from pydantic import BaseModel, ConfigDict

from jiyi.protocol.growth.skill_types import ArtifactKind
from jiyi.protocol.growth.trust import Recommendation

EvolutionKind = Literal[
    "proposed",
    "refused",
    "registered",
    "returned",
    "accepted",
    "declined",
    "enabled",
    "disabled",
    "archived",
    "deleted",
    "feedback_given",
    "feedback_ignored",
    "recommended",
]
#: In the audit log their names begin so.
PREFIX = "evolution."
KINDS: tuple[EvolutionKind, ...] = get_args(EvolutionKind)


class EvolutionEvent(BaseModel):
    """One change of an artifact, or of how it is trusted. Holds ids and numbers, no texts."""

    model_config = ConfigDict(frozen=True)

    kind: EvolutionKind
    agent_id: str
    artifact: ArtifactKind
    artifact_id: UUID
    evidence_count: int | None = None
    confidence: float | None = None
    #: Issues that the gate found.
    issues: int | None = None
    trust_score: float | None = None
    recommendation: Recommendation | None = None
