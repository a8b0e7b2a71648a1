"""Skills: patterns of experiences, candidates, the gate they must pass, and what becomes of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import BaseModel, Field

from engine.conversations.memories import StoredExperience, pattern_hash
from engine.text.keywords import words_of
from jiyi.protocol import artifacts as protocol
from jiyi.protocol.identity import override_in
from jiyi.protocol.proposals import Status
from jiyi.text.prompt import Line, Section
from jiyi.text.prompting import one_line, quoted, quoted_to_tokens
from jiyi.text.words import Language, beginning, content_digest, language_of, stem, tokens

#: Share of all words of two wordings that both have, from which on they say the same.
SAME_WORDS = 0.6
COMPARED_CHARS = 500
#: Share of the experiences that have a step in common.
SHARED_BY = 0.5
#: A pattern is worth a skill when its experiences were used again so often together.
MIN_REUSE = 3
#: A pattern, and a candidate, is worth a question to people from this confidence on.
MIN_CONFIDENCE = 0.7


class ArtifactPattern(BaseModel, frozen=True):
    """What experiences of one problem, or runs of one chain of tools, have in common."""

    kind: protocol.ArtifactKind
    #: Known again by these, the oldest first (SHA-256).
    hashes: list[bytes] = Field(min_length=1)
    title: str
    #: Different wordings of the same.
    wordings: list[str]
    common_steps: list[str]
    tools_used: list[str] = []
    industry_context: str | None = None
    #: How often it was reported or used again; of a chain: successful runs.
    total_reuse: int
    #: How many sessions it is known from; 0 where that is not counted.
    sessions: int = 0
    confidence: float
    #: Memories, or trajectories, that it rests on, the oldest first.
    evidence: list[UUID]
    #: The user who reported it in private, the only one it is visible to; None: visible to all.
    user_id: str | None = None


class SkillCandidate(BaseModel, frozen=True):
    """A proposed skill; with the tools' chain as YAML for a body it is a workflow."""

    name: protocol.Title
    description: str = Field("", max_length=protocol.MAX_DESCRIPTION_CHARS)
    triggers: list[protocol.Line] = Field([], max_length=protocol.MAX_TRIGGERS)
    tools: list[protocol.Title] = Field([], max_length=protocol.MAX_TOOLS)
    body: str = Field(max_length=protocol.MAX_BODY_CHARS)
    #: 0 … 1; what is above is capped by the gate.
    confidence: float = Field(ge=0)


@dataclass(frozen=True, slots=True)
class GateReport:
    """What the gate found of a candidate; ``confidence`` is at most 1."""

    candidate: SkillCandidate
    issues: list[str]
    confidence: float

    @property
    def passed(self) -> bool:
        return not self.issues


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownArtifact:
    """An artifact of the agent that is there already, with what a candidate is compared by."""

    artifact_id: UUID
    pattern_hash: bytes = b""
    name: str = ""
    description: str = ""
    triggers: Sequence[str] = ()
    body: str = ""
    status: Status = "pending"
    #: How much evidence there was when its status was decided.
    decided_evidence: int = 0
    #: Cosine of both; None if not measured.
    similarity: float | None = None


@dataclass(frozen=True, slots=True)
class LivedExperience:
    """An experience, its memory, and since when it is known; ``user_id`` None: visible to all."""

    node_id: UUID
    created_at: datetime
    experience: StoredExperience
    user_id: str | None = None


def aggregate(lived: Iterable[LivedExperience]) -> list[ArtifactPattern]:
    """Patterns of what worked, at least in part, the most used first. The same experiences give the same, in
    any order.

    No pattern mixes experiences that are visible to different users.
    """
    worked = [item for item in lived if item.experience.outcome != "failed"]
    groups: list[tuple[frozenset[str], list[LivedExperience]]] = []
    for item in sorted(worked, key=lambda item: (item.created_at, item.node_id)):
        problem = item.experience.pain_pattern
        words = _tokens(problem)
        for group_words, members in groups:
            first = members[0].experience.pain_pattern
            same = is_same_wording(group_words, words) or pattern_hash(first) == pattern_hash(problem)
            if same and members[0].user_id == item.user_id:
                members.append(item)
                break
        else:
            groups.append((words, [item]))
    patterns = [_pattern(members) for _, members in groups]
    return sorted(patterns, key=lambda pattern: (-pattern.total_reuse, pattern.hashes[0]))


def is_due(pattern: ArtifactPattern) -> bool:
    """Whether it is worth a candidate: used often enough, sure enough, and it says what to do."""
    enough = pattern.total_reuse >= MIN_REUSE and pattern.confidence >= MIN_CONFIDENCE
    return enough and bool(pattern.common_steps)


def common_steps(experiences: Sequence[StoredExperience]) -> list[str]:
    """Steps that at least half of the experiences have, in the words and order of the first with each."""
    steps: list[tuple[frozenset[str], str, set[int]]] = []
    for number, experience in enumerate(experiences):
        for step in experience.solution_steps:
            words = _tokens(step)
            for step_words, _, havers in steps:
                if is_same_wording(step_words, words):
                    havers.add(number)
                    break
            else:
                steps.append((words, step, {number}))
    return [step for _, step, havers in steps if len(havers) >= SHARED_BY * len(experiences)]


def is_same_wording(words: frozenset[str], other: frozenset[str]) -> bool:
    """Whether two texts say the same, by their words."""
    return bool(words) and len(words & other) >= SAME_WORDS * len(words | other)


def _tokens(text: str) -> frozenset[str]:
    return frozenset(tokens(text[:COMPARED_CHARS]))


def _pattern(members: Sequence[LivedExperience]) -> ArtifactPattern:
    experiences, user_id = [item.experience for item in members], members[0].user_id
    problems = list(dict.fromkeys(experience.pain_pattern for experience in experiences))
    tools = dict.fromkeys(tool for experience in experiences for tool in experience.tools_used)
    contexts = (experience.industry_context for experience in experiences)
    return ArtifactPattern(
        kind="skill",
        user_id=user_id,
        hashes=list(dict.fromkeys(pattern_hash(problem, user_id) for problem in problems)),
        title=problems[0],
        wordings=problems,
        common_steps=common_steps(experiences),
        tools_used=list(tools)[: protocol.MAX_TOOLS],
        industry_context=next(filter(None, contexts), None),
        total_reuse=sum(experience.reuse_count for experience in experiences) + len(experiences) - 1,
        confidence=sum(experience.confidence for experience in experiences) / len(experiences),
        evidence=[item.node_id for item in members][-protocol.MAX_EVIDENCE :],
    )


#: Evidence that a body names, the newest.
NAMED_EVIDENCE = 10

_WORDS: dict[Language, dict[str, str]] = {
    "en": {
        "name": "Handle: {}",
        "does": "What helped with: {}",
        "known": "Used {} times before; different wordings: {}; confidence {:.2f}.",
        "when": "When",
        "steps": "Steps",
        "tools": "Tools",
        "evidence": "Evidence",
    },
    "zh": {
        "name": "处理：{}",
        "does": "曾经有效的做法：{}",
        "known": "此前用过 {} 次，有 {} 种说法；把握 {:.2f}。",
        "when": "何时使用",
        "steps": "步骤",
        "tools": "工具",
        "evidence": "依据",
    },
}


def draft_skill(pattern: ArtifactPattern) -> SkillCandidate:
    """The skill of a pattern, in the language of its problem; it says nothing that the experiences do not."""
    words = _WORDS[language_of(pattern.title)]
    title, wordings = one_line(pattern.title), [*map(one_line, pattern.wordings[: protocol.MAX_TRIGGERS])]
    name = shorten(words["name"].format(title), protocol.MAX_NAME_CHARS)
    sections = [
        f"# {name}",
        words["known"].format(pattern.total_reuse, len(pattern.wordings), pattern.confidence),
        f"## {words['when']}",
        "\n".join(f"- {wording}" for wording in wordings),
        f"## {words['steps']}",
        "\n".join(f"{number}. {one_line(step)}" for number, step in enumerate(pattern.common_steps, 1)),
    ]
    if pattern.tools_used:
        sections += [f"## {words['tools']}", ", ".join(map(one_line, pattern.tools_used))]
    sections += [
        f"## {words['evidence']}",
        "\n".join(f"- {node_id}" for node_id in pattern.evidence[-NAMED_EVIDENCE:]),
    ]
    return SkillCandidate(
        name=name,
        description=shorten(words["does"].format(title), protocol.MAX_DESCRIPTION_CHARS),
        triggers=[shorten(wording, protocol.MAX_DESCRIPTION_CHARS) for wording in wordings],
        tools=[shorten(tool, protocol.MAX_NAME_CHARS) for tool in pattern.tools_used],
        body="\n\n".join(sections)[: protocol.MAX_BODY_CHARS],
        confidence=pattern.confidence,
    )


def shorten(text: str, most: int) -> str:
    """The text in at most ``most`` characters, with an ellipsis where it was cut."""
    return text if len(text) <= most else text[: most - 1] + "…"


#: Characters of a body: less says nothing that could be followed.
MIN_BODY_CHARS = 100

_HEADING = re.compile(r"^#{1,6} {1,9}\S", re.MULTILINE)


def inspect_candidate(
    candidate: SkillCandidate,
    others: Sequence[KnownArtifact] = (),
    *,
    near_duplicate: float,
    heading: bool = True,
) -> GateReport:
    """What is wrong with a candidate, a sentence each; it passes if nothing is.

    Args:
        candidate: what is proposed.
        others: the agent's other skills, or workflows.
        near_duplicate: cosine from which on two texts say the same (``engine.providers.embedder_specs``).
        heading: whether the body has to have one; YAML has none.
    """
    confidence = min(candidate.confidence, 1.0)
    issues = []
    if not candidate.name.strip():
        issues.append("name: missing; give it a title")
    if len(candidate.body.strip()) < MIN_BODY_CHARS:
        issues.append(
            f"body: {len(candidate.body.strip())} characters are fewer than {MIN_BODY_CHARS}; say what to do"
        )
    if heading and not _HEADING.search(candidate.body):
        issues.append("body: no heading; begin it with a line such as '# Title'")
    if confidence < MIN_CONFIDENCE:
        issues.append(f"confidence: {confidence:.2f} is below {MIN_CONFIDENCE:.2f}; more evidence is needed")
    texts = (candidate.name, candidate.description, candidate.body, *candidate.triggers)
    if any(map(override_in, texts)):
        issues.append("body: gives orders to the model, such as to ignore its instructions; no skill may")
    triggers = {content_digest(trigger): trigger for trigger in candidate.triggers}
    issues += [
        f"triggers: {triggers[key]!r} is a trigger of {other.name!r} already"
        for other in others
        for key in map(content_digest, other.triggers)
        if key in triggers
    ]
    body = content_digest(candidate.body)
    issues += [
        f"body: says the same as {other.name!r}"
        for other in others
        if (other.similarity is not None and other.similarity >= near_duplicate)
        or (other.body and content_digest(other.body) == body)
    ]
    return GateReport(candidate, issues, confidence)


#: A rejected candidate returns when its evidence has grown so many times.
RETURNS_AT = 2


def next_status(
    existing: KnownArtifact | None, report: GateReport, evidence_count: int, *, auto_mode: bool
) -> Status:
    """The artifact's status from now on. What somebody approved or archived never changes automatically."""
    if existing is not None and existing.status in ("pending", "approved", "archived"):
        return existing.status
    doubled = existing is None or evidence_count >= RETURNS_AT * max(existing.decided_evidence, 1)
    if existing is not None and existing.status in ("rejected", "deleted") and not doubled:
        return existing.status
    if not report.passed:
        return "refused" if existing is None else existing.status
    return "approved" if auto_mode and (existing is None or existing.status == "refused") else "pending"


#: Share of the words of a message, or of a trigger, that the other has where the message fits the trigger;
#: and so many at least.
FITS, LEAST_FITTING = 0.5, 2
#: Triggers of a skill that its line in the index names, and tokens of each.
NAMED_TRIGGERS, TRIGGER_TOKENS = 3, 20
_TITLE: dict[Language, str] = {"en": "## Skill: ", "zh": "## 技能："}
_OF_EVIDENCE = re.compile(
    rf"^#{{1,6}} (?:{'|'.join(words['evidence'] for words in _WORDS.values())})\s*$(?:.|\n)*", re.MULTILINE
)


def fit(triggers: Iterable[str], message: str) -> float:
    """How well a message fits the best of a skill's triggers: 0 where it does not, else up to 1."""
    message_words = _words(message)
    best = 0.0
    for trigger in triggers:
        trigger_words = _words(trigger)
        shared, fewer = len(trigger_words & message_words), min(len(trigger_words), len(message_words))
        if shared >= LEAST_FITTING and shared >= FITS * fewer:
            best = max(best, shared / fewer)
    return best


def _words(text: str) -> set[str]:
    """The words of a text that name something, by their stems."""
    return set(map(stem, words_of(beginning(text))))


def index_line(name: str, triggers: Sequence[str], item: Any) -> Line:
    """A skill in the list of those that there are: its name, and when it helps."""
    helps = ", ".join(quoted_to_tokens(trigger, TRIGGER_TOKENS) for trigger in triggers[:NAMED_TRIGGERS])
    return Line(name, behind=f": {helps}", item=item)


def skill_section(name: str, body: str, item: Any) -> Section:
    """A skill's text for a prompt, line by line; all skills have their share of it together."""
    lines = [Line(line, item=item) for line in _OF_EVIDENCE.sub("", body).splitlines()[1:]]
    return Section(_TITLE[language_of(body)] + quoted(name), lines, name="skills", shortens=True)
