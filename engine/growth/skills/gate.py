"""The gate: what a candidate must be before anybody is asked to confirm it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from jiyi.protocol.growth.overrides import override_in
from jiyi.protocol.growth.skill_types import GateReport, SkillCandidate
from jiyi.text.words import content_digest

#: Characters of a body: less says nothing that could be followed.
MIN_BODY_CHARS = 100
#: No more than certain.
MAX_CONFIDENCE = 1.0

_HEADING = re.compile(r"^#{1,6} {1,9}\S", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Known:
    """An artifact of the agent that a candidate is compared with; ``likeness`` is the cosine of both, None if not measured."""

    name: str
    triggers: Sequence[str]
    body: str = ""
    likeness: float | None = None


def inspect(
    candidate: SkillCandidate, known: Sequence[Known] = (), *, min_confidence: float, near_duplicate: float, heading: bool = True
) -> GateReport:
    """What is wrong with a candidate, a sentence each; it passes if nothing is.

    Args:
        candidate: what is proposed.
        known: the agent's other skills, or workflows.
        min_confidence: 0 … 1; below it nobody is asked.
        near_duplicate: cosine from which on two texts say the same (``engine.retrieval.thresholds``).
        heading: whether the body has to have one; YAML has none.
    """
    confidence = min(candidate.confidence, MAX_CONFIDENCE)
    issues = []
    if not candidate.name.strip():
        issues.append("name: missing; give it a title")
    if len(candidate.body.strip()) < MIN_BODY_CHARS:
        issues.append(f"body: {len(candidate.body.strip())} characters are fewer than {MIN_BODY_CHARS}; say what to do")
    if heading and not _HEADING.search(candidate.body):
        issues.append("body: no heading; begin it with a line such as '# Title'")
    if confidence < min_confidence:
        issues.append(f"confidence: {confidence:.2f} is below {min_confidence:.2f}; more evidence is needed")
    if any(override_in(text) for text in (candidate.name, candidate.description, candidate.body, *candidate.triggers)):
        issues.append("body: gives orders to the model, such as to ignore what it was told; no skill may")
    issues += _taken(candidate, known) + _duplicates(candidate, known, near_duplicate)
    return GateReport(passed=not issues, issues=issues, confidence=confidence)


def _taken(candidate: SkillCandidate, known: Sequence[Known]) -> list[str]:
    wanted = {content_digest(trigger): trigger for trigger in candidate.triggers}
    taken = [(wanted[key], one.name) for one in known for key in map(content_digest, one.triggers) if key in wanted]
    return [f"triggers: {trigger!r} is a trigger of {name!r} already" for trigger, name in taken]


def _duplicates(candidate: SkillCandidate, known: Sequence[Known], near_duplicate: float) -> list[str]:
    body = content_digest(candidate.body)
    return [
        f"body: says what {one.name!r} says already"
        for one in known
        if (one.likeness is not None and one.likeness >= near_duplicate) or (one.body and content_digest(one.body) == body)
    ]
