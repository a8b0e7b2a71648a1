"""Experiences: what is told of the same problem is one, with all its steps and its best outcome."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import BaseModel

from jiyi.protocol.conversations.types import MAX_STEPS, OUTCOMES, PROFILE_ENTRIES, ExtractedExperience, Outcome
from jiyi.text.words import Language, content_digest, language_of, normalise


class StoredExperience(BaseModel):
    """An experience as it is kept."""

    pain_pattern: str
    context: str = ""
    solution_steps: list[str] = []
    outcome: Outcome = "partial"
    confidence: float = 0.0
    #: How often it was told again, or put before an answer.
    reuse_count: int = 0
    tools_used: list[str] = []
    industry_context: str | None = None


def pattern_hash(pain_pattern: str) -> bytes:
    """What experiences of the same problem are merged by."""
    return content_digest(pain_pattern)


def merged(known: StoredExperience | None, told: ExtractedExperience) -> StoredExperience:
    """All steps of both in the order in which they came, the better outcome; told again, it was used again."""
    if known is None:
        return StoredExperience(**told.model_dump(include=StoredExperience.model_fields.keys() & ExtractedExperience.model_fields.keys()))
    return StoredExperience(
        pain_pattern=known.pain_pattern,
        context=told.context or known.context,
        solution_steps=_union(known.solution_steps, told.solution_steps)[:MAX_STEPS],
        outcome=max(known.outcome, told.outcome, key=OUTCOMES.index),
        confidence=max(known.confidence, told.confidence),
        reuse_count=known.reuse_count + 1,
        tools_used=_union(known.tools_used, told.tools_used)[:PROFILE_ENTRIES],
        industry_context=told.industry_context or known.industry_context,
    )


def text_of(experience: StoredExperience) -> str:
    """The experience in one text, in the language of its problem: what it is found by, and what is injected."""
    labels = _LABELS[language_of(experience.pain_pattern)]
    parts = [experience.pain_pattern]
    if experience.context:
        parts.append(f"{labels['context']}{experience.context}")
    if experience.solution_steps:
        parts.append(labels["steps"] + "; ".join(f"{number}. {step}" for number, step in enumerate(experience.solution_steps, 1)))
    parts.append(labels["outcome"] + labels[experience.outcome])
    return " | ".join(parts)


_LABELS: dict[Language, dict[str, str]] = {
    "en": {
        "context": "Context: ",
        "steps": "Steps: ",
        "outcome": "Outcome: ",
        "success": "success",
        "partial": "partial",
        "failed": "failed",
    },
    "zh": {"context": "背景：", "steps": "步骤：", "outcome": "结果：", "success": "成功", "partial": "部分成功", "failed": "失败"},
}


def _union(first: Iterable[str], second: Iterable[str]) -> list[str]:
    found: dict[str, str] = {}
    for one in (*first, *second):
        found.setdefault(normalise(one).strip(), one)
    return list(found.values())
