"""What becomes of a candidate: by the gate, by its evidence, by what somebody decided."""

from __future__ import annotations

from dataclasses import dataclass

from jiyi.protocol.growth.skill_types import GateReport, Status

#: A declined candidate returns when its evidence has grown so many times.
RETURNS_AT = 2


@dataclass(frozen=True, slots=True)
class Decided:
    """What is known of a pattern's artifact: its status, and how much evidence there was when that was decided."""

    status: Status
    evidence_count: int


def next_status(known: Decided | None, report: GateReport, evidence_count: int, *, auto_mode: bool) -> Status:
    """The status that the artifact has from now on. Nothing that somebody accepted or archived changes by itself."""
    if known is not None and known.status in ("pending", "accepted", "archived"):
        return known.status
    if known is not None and known.status in ("declined", "deleted") and evidence_count < RETURNS_AT * max(known.evidence_count, 1):
        return known.status
    if not report.passed:
        return "refused" if known is None else known.status
    return "accepted" if auto_mode and (known is None or known.status == "refused") else "pending"
