"""Patterns: experiences of the same problem, and the steps that half of them share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from engine.conversations.memories import StoredExperience, pattern_hash
from jiyi.protocol.growth.skill_types import MAX_EVIDENCE, MAX_TOOLS, Pattern
from jiyi.text.tokens import tokens

#: Share of all words of two wordings that both have, from which on they say the same.
SAME_WORDS = 0.6
#: Characters of a wording that are compared.
COMPARED_CHARS = 500
#: Share of the experiences that have a step in common.
SHARED_BY = 0.5


@dataclass(frozen=True, slots=True)
class Lived:
    """An experience with the memory that says it, and since when it is known."""

    node_id: UUID
    created_at: datetime
    experience: StoredExperience


def aggregate(lived: Iterable[Lived]) -> list[Pattern]:
    """Patterns of what worked, at least in part, the most used first. The same experiences give the same, in any order."""
    worked = [one for one in lived if one.experience.outcome != "failed"]
    groups: list[tuple[frozenset[str], list[Lived]]] = []
    for one in sorted(worked, key=lambda each: (each.created_at, each.node_id)):
        words = _words(one.experience.pain_pattern)
        for known, members in groups:
            if alike(known, words) or pattern_hash(members[0].experience.pain_pattern) == pattern_hash(one.experience.pain_pattern):
                members.append(one)
                break
        else:
            groups.append((words, [one]))
    found = [_pattern(members) for _, members in groups]
    return sorted(found, key=lambda pattern: (-pattern.total_reuse, pattern.hashes[0]))


def is_due(pattern: Pattern, *, min_reuse: int, min_confidence: float) -> bool:
    """Whether it is worth a candidate: used often enough, sure enough, and it says what to do."""
    return bool(pattern.common_steps) and pattern.total_reuse >= min_reuse and pattern.confidence >= min_confidence


def common_steps(experiences: Sequence[StoredExperience]) -> list[str]:
    """Steps that at least half of the experiences have, in the words and the order of the first that has each."""
    steps: list[tuple[frozenset[str], str, set[int]]] = []
    for number, experience in enumerate(experiences):
        for step in experience.solution_steps:
            words = _words(step)
            for known, _, havers in steps:
                if alike(known, words):
                    havers.add(number)
                    break
            else:
                steps.append((words, step, {number}))
    return [step for _, step, havers in steps if len(havers) >= SHARED_BY * len(experiences)]


def alike(one: frozenset[str], other: frozenset[str]) -> bool:
    """Whether two texts say the same, by their words."""
    return bool(one) and len(one & other) >= SAME_WORDS * len(one | other)


def _words(text: str) -> frozenset[str]:
    return frozenset(tokens(text[:COMPARED_CHARS]))


def _pattern(members: Sequence[Lived]) -> Pattern:
    told = [one.experience for one in members]
    hashes = list(dict.fromkeys(pattern_hash(one.pain_pattern) for one in told))
    return Pattern(
        kind="skill",
        hashes=hashes,
        title=told[0].pain_pattern,
        wordings=list(dict.fromkeys(one.pain_pattern for one in told)),
        common_steps=common_steps(told),
        tools_used=list(dict.fromkeys(tool for one in told for tool in one.tools_used))[:MAX_TOOLS],
        industry_context=next((one.industry_context for one in told if one.industry_context), None),
        total_reuse=sum(one.reuse_count for one in told) + len(told) - 1,
        confidence=sum(one.confidence for one in told) / len(told),
        evidence=[one.node_id for one in members][-MAX_EVIDENCE:],
    )
