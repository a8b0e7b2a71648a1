"""Trajectories: the steps of a session compressed to what matters of them, and how satisfied its user was.

Workflows: chains of tools that worked several times, as YAML that can be run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import BaseModel

from engine.appointments.parse import THANKS, asks_to_act
from engine.growth.skills import ArtifactPattern, SkillCandidate, shorten
from engine.heads.judgements import SATISFACTION, Heads, Judged
from jiyi.chat.pipelines import to_yaml
from jiyi.protocol import artifacts as protocol
from jiyi.protocol.trajectories import CUT, Completion, RequestType, Satisfaction, StepType
from jiyi.text.budget import estimate_tokens
from jiyi.text.words import Language, language_of, normalise, text_digest

#: What the latest user messages, oldest first, say of how satisfied the user is; None without messages.
Judge = Callable[[Sequence[str]], Satisfaction | None]

#: Links of a chain: more say nothing more.
MAX_LINKS = 100
#: Steps of what was put into a prompt.
BEFORE = ("retrieval", "skill")
#: Latest user messages by which it is judged whether the user is satisfied.
JUDGED = 3

_QUESTION = re.compile(
    (
        r"[?？]|^\s{0,9}(?:who|what|when|where|why|how|which|is|are|do|does|did|can|could)\b"
        r"|[吗呢]\s{0,9}$|什么|怎么|为什么|多少|哪"
    ),
    re.IGNORECASE,
)
_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_REQUEST = re.compile(
    (
        r"^\s{0,9}(?:please|write|make|create|find|fix|send|show|book|open|list|update|help)\b|[请帮]"
        r"|[写做找修查发订改]一?下?"
    ),
    re.IGNORECASE,
)


class Link(BaseModel, frozen=True):
    """A step that matters; the same tool several times in a row is one link."""

    step_type: StepType
    tool: str | None = None
    input: str = ""
    output: str = ""
    ok: bool | None = None
    ms: int | None = None
    times: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TrajectoryStep:
    """One step; ``ok`` is None where nobody said whether it worked."""

    event_id: UUID
    step_index: int
    step_type: StepType
    occurred_at: datetime
    tool: str | None = None
    input: str = ""
    output: str = ""
    ok: bool | None = None
    tokens: int | None = None
    ms: int | None = None


def in_order(steps: Iterable[TrajectoryStep]) -> list[TrajectoryStep]:
    """By their numbers, whenever they came; a step that was reported twice comes once."""
    unique: dict[tuple[object, ...], TrajectoryStep] = {}
    for step in sorted(steps, key=lambda step: (step.step_index, step.occurred_at, step.event_id)):
        unique.setdefault((step.step_index, step.step_type, step.tool, step.input, step.output), step)
    return list(unique.values())


class Trajectory(BaseModel, frozen=True):
    """What a conversation's steps come to."""

    request_type: RequestType
    request: str
    tools_used: list[str]
    outcome: Completion
    satisfaction: Satisfaction | None
    tokens: int
    steps: int
    duration_ms: int
    execution_chain: list[Link]
    started_at: datetime
    ended_at: datetime

    @property
    def worked(self) -> bool:
        """Whether it is an example to follow: it ended as asked, and nobody was dissatisfied."""
        return self.outcome == "success" and self.satisfaction != "negative"


def compress(steps: Iterable[TrajectoryStep], judge: Judge) -> Trajectory | None:
    """The trajectory of a conversation's steps, in whatever order they came; None if there are none."""
    ordered = in_order(steps)
    if not ordered:
        return None
    requests = [step.input for step in ordered if step.step_type == "user_request" and step.input]
    satisfaction = judge(requests[-JUDGED:])
    used = (step.tool for step in ordered if step.step_type not in BEFORE)
    tools = list(dict.fromkeys(tool for tool in used if tool is not None))
    return Trajectory(
        request_type=classify(requests[0] if requests else "", tools=bool(tools)),
        request=requests[0] if requests else "",
        tools_used=tools,
        outcome=outcome(ordered, satisfaction),
        satisfaction=satisfaction,
        tokens=sum(_tokens(step) for step in ordered),
        steps=len(ordered),
        duration_ms=sum(step.ms or 0 for step in ordered),
        execution_chain=chain(ordered)[:MAX_LINKS],
        started_at=min(step.occurred_at for step in ordered),
        ended_at=max(step.occurred_at for step in ordered),
    )


def classify(request: str, *, tools: bool = False) -> RequestType:
    """What kind of request it is: one that tools were used for, a question, another request, or talk."""
    if tools:
        return "tool_task"
    if _QUESTION.search(request):
        return "question"
    return "request" if _REQUEST.search(request) else "chat"


def outcome(ordered: Sequence[TrajectoryStep], satisfaction: Satisfaction | None) -> Completion:
    """How it ended, by each tool's last result, whether there was an answer, and what the user said."""
    last = {step.tool: step.ok for step in ordered if step.step_type == "tool_result" and step.ok is not None}
    if last and not any(last.values()):
        return "failed"
    if satisfaction == "negative":
        return "partial" if last else "failed"
    requested = max(
        (place for place, step in enumerate(ordered) if step.step_type == "user_request"), default=-1
    )
    if all(step.step_type in ("user_request", "tool_call", *BEFORE) for step in ordered[requested:]):
        content = requested > 0 and (
            satisfaction == "positive" or _only_thanks(ordered[:requested], ordered[requested].input)
        )
        return "success" if content and all(last.values()) else "abandoned"
    return "success" if all(last.values()) else "partial"


def _only_thanks(before: Sequence[TrajectoryStep], message: str) -> bool:
    """Whether a message after an answer thanks for it, and neither objects nor asks for more."""
    text = normalise(message[:JUDGED_CHARS]).replace("’", "'")
    if _ASKS.search(text) or _BUT.search(text) or not any(step.step_type == "generation" for step in before):
        return False
    clauses = [clause.strip() for clause in _CLAUSE.findall(text)]
    others = [clause for clause in clauses if THANKS.search(clause) is None]
    return len(others) < len(clauses) and not any(asks_to_act(clause) for clause in others)


def chain(ordered: Sequence[TrajectoryStep]) -> list[Link]:
    """The steps that matter, in order: requests, each use of a tool with how it ended, answers."""
    links: list[Link] = []
    for step in ordered:
        before = links[-1] if links else None
        was = before and (before.step_type, before.tool)
        if before is not None and step.step_type == "tool_result" and was == ("tool_call", step.tool):
            took = (before.ms or 0) + (step.ms or 0) or None
            links[-1] = before.model_copy(update={"output": step.output, "ok": step.ok, "ms": took})
        elif before is not None and was == (step.step_type, step.tool) and before.input == step.input:
            again = {"times": before.times + 1, "output": step.output or before.output}
            links[-1] = before.model_copy(update=again)
        else:
            links.append(Link.model_validate(step, from_attributes=True))
    return links


def skills_used(steps: Iterable[TrajectoryStep]) -> list[UUID]:
    """The skills that were in the prompts."""
    ids = (step.tool or "" for step in steps if step.step_type == "skill")
    return [UUID(skill_id) for skill_id in dict.fromkeys(filter(_ID.fullmatch, ids))]


def verdict(trajectory: Trajectory) -> protocol.Sentiment:
    """What a conversation says of a skill in its prompts: an answer alone says nothing."""
    if trajectory.outcome == "failed" or trajectory.satisfaction == "negative":
        return "negative"
    evidence = trajectory.tools_used or trajectory.satisfaction == "positive"
    return "positive" if trajectory.outcome == "success" and evidence else "neutral"


def _tokens(step: TrajectoryStep) -> int:
    if step.tokens is not None:
        return step.tokens
    return estimate_tokens(step.input) + estimate_tokens(step.output)


#: Characters of a message that the rules read: who is content says so at once.
JUDGED_CHARS = 2_000


#: Clauses that say nothing else, in whatever context. A question is none of them.
_VERDICTS: Mapping[Satisfaction, re.Pattern[str]] = {
    "positive": re.compile(
        r"(?:现在|终于|都|已经)?(?:解决|搞定|成功|修好|弄好)了|太?完美了?|很好|太?棒了|很有用"
        r"|(?:it|that|this) (?:works|worked)(?: now| perfectly)?|(?:that|this) (?:fixed|solved) it|problem"
        r" solved|perfect"
    ),
    "negative": re.compile(
        r"(?:还是|又|仍然)?(?:不对|不行|没用|不管用|不好使|没效果|没搞定)了?|(?:又|还是)?(?:失败|错)了|没(?:有)?解决|差太远"
        r"|(?:it |that |this )?(?:still )?(?:doesn't|does not|didn't|did not) (?:work|help)"
        r"|(?:it's |that's |this is )?(?:still )?(?:wrong|broken|not working)"
        r"|it failed(?: again)?"
    ),
}
_CLAUSE = re.compile(r"[^,，。.!！;；\n]+")
_ASKS = re.compile(r"[?？]|[吗呢么]\s*\Z")
#: Beside thanks: an objection, or more to do.
_BUT = re.compile(r"\b(?:but|though|except|also|another)\b|但|不过|可是|只是|再(?!见)|顺便|另外|还[有要]")


def satisfaction(messages: Sequence[str], heads: Heads | None = None) -> Satisfaction | None:
    """How content the user is, by the newest of these messages; None without any."""
    if not messages:
        return None
    judged = heads.satisfaction([messages])[0] if heads is not None else None
    sure = "neutral" if heads is None or judged is None else acted_on(judged, heads)
    return _of_words(messages[-1]) if sure == "neutral" else sure


def acted_on(judged: Judged, heads: Heads) -> Satisfaction:
    """The verdict that the head is sure enough of, else neutral."""
    sides: tuple[Satisfaction, ...] = ("positive", "negative")
    likelier = max(sides, key=lambda side: judged.probabilities[side])
    return likelier if judged.probabilities[likelier] >= heads.least(SATISFACTION, likelier) else "neutral"


def _of_words(message: str) -> Satisfaction:
    """The verdict of the last clause that is one."""
    text = normalise(message[:JUDGED_CHARS]).replace("’", "'")
    if _ASKS.search(text):
        return "neutral"
    for clause in reversed(_CLAUSE.findall(text)):
        for label, words in _VERDICTS.items():
            if words.fullmatch(clause.strip()):
                return label
    return "neutral"


#: Steps that a workflow has at least; runs, and sessions, that a chain is known from.
MIN_STEPS, MIN_RUNS, MIN_SESSIONS = 2, 3, 2
#: Steps at most: a longer chain is a program.
MAX_STEPS = 20
#: Between a chain's tools.
ARROW = " → "
_ABOUT: dict[Language, str] = {
    "en": "A chain of tools that worked {} times: {}",
    "zh": "{} 次成功的工具链：{}",
}


@dataclass(frozen=True, slots=True)
class TrajectoryRun:
    """A trajectory with its id and session."""

    trajectory_id: UUID
    session_id: str
    trajectory: Trajectory


def wordless(trajectory: Trajectory) -> Trajectory:
    """The same without what was asked and what tools were given."""
    chain = [link.model_copy(update={"input": ""}) for link in trajectory.execution_chain]
    return trajectory.model_copy(update={"request": "", "execution_chain": chain})


def tools_of(trajectory: Trajectory) -> tuple[str, ...]:
    """The tools that worked, in order; one several times in a row counts once."""
    tools: list[str] = []
    for link in _calls(trajectory):
        if link.tool is not None and tools[-1:] != [link.tool]:
            tools.append(link.tool)
    return tuple(tools)


def _calls(trajectory: Trajectory) -> list[Link]:
    """The calls that did not fail."""
    calls = (link for link in trajectory.execution_chain if link.step_type == "tool_call")
    return [link for link in calls if link.ok is not False]


def chains(runs: Iterable[TrajectoryRun]) -> list[ArtifactPattern]:
    """Chains that enough successful trajectories of enough sessions have in common, the most used first."""
    by_chain: dict[tuple[str, ...], list[TrajectoryRun]] = {}
    for run in sorted(runs, key=lambda run: (run.trajectory.started_at, run.trajectory_id)):
        tools = tools_of(run.trajectory)
        if run.trajectory.worked and MIN_STEPS <= len(tools) <= MAX_STEPS:
            by_chain.setdefault(tools, []).append(run)
    patterns = [_pattern(tools, same) for tools, same in by_chain.items()]
    often = [pattern for pattern in patterns if pattern.total_reuse >= MIN_RUNS]
    enough = [pattern for pattern in often if pattern.sessions >= MIN_SESSIONS]
    return sorted(enough, key=lambda pattern: (-pattern.total_reuse, pattern.hashes[0]))


def draft_workflow(pattern: ArtifactPattern, runs: Sequence[TrajectoryRun]) -> SkillCandidate:
    """The workflow of a chain: each step with its usual input; a step that fails ends the run."""
    inputs = _inputs(pattern, runs)
    name = shorten(ARROW.join(pattern.common_steps), protocol.MAX_NAME_CHARS)
    wordings = pattern.wordings[: protocol.MAX_TRIGGERS]
    triggers = [shorten(wording, protocol.MAX_DESCRIPTION_CHARS) for wording in wordings]
    steps = [
        {"tool": tool, "inputs": _as_arguments(text), "on_error": "stop"}
        for tool, text in zip(pattern.common_steps, inputs, strict=True)
    ]
    about = _ABOUT[language_of(pattern.title + "".join(pattern.wordings))]
    return SkillCandidate(
        name=name,
        description=shorten(about.format(pattern.total_reuse, name), protocol.MAX_DESCRIPTION_CHARS),
        triggers=triggers,
        tools=list(dict.fromkeys(shorten(tool, protocol.MAX_NAME_CHARS) for tool in pattern.common_steps)),
        body=to_yaml({"name": name, "triggers": triggers, "steps": steps})[: protocol.MAX_BODY_CHARS],
        confidence=pattern.confidence,
    )


def _as_arguments(text: str) -> dict[str, Any]:
    """A step's input, given as JSON, by the names of its function's arguments; none where it was cut."""
    if text.endswith(CUT):
        return {}
    with suppress(ValueError):
        arguments = json.loads(text)
        if isinstance(arguments, dict):
            return arguments
    return {"input": text} if text else {}


def runs_of(pattern: ArtifactPattern, runs: Iterable[TrajectoryRun]) -> list[TrajectoryRun]:
    """Those that have the pattern's chain."""
    return [run for run in runs if tools_of(run.trajectory) == tuple(pattern.common_steps)]


def _pattern(tools: tuple[str, ...], runs: Sequence[TrajectoryRun]) -> ArtifactPattern:
    requests = list(dict.fromkeys(run.trajectory.request for run in runs if run.trajectory.request))
    return ArtifactPattern(
        kind="pipeline",
        hashes=[text_digest("\x00".join(tools))],
        title=ARROW.join(tools),
        wordings=requests,
        common_steps=list(tools),
        tools_used=list(dict.fromkeys(tools)),
        total_reuse=len(runs),
        sessions=len({run.session_id for run in runs}),
        # (positive + 1) / (total + 2), as trust is: three runs that worked are .8 sure.
        confidence=(len(runs) + 1) / (len(runs) + 2),
        evidence=[run.trajectory_id for run in runs][-protocol.MAX_EVIDENCE :],
    )


def _inputs(pattern: ArtifactPattern, runs: Sequence[TrajectoryRun]) -> list[str]:
    """Of each step what every run gave it; empty where they differ, because then the caller has to say."""
    inputs: list[set[str]] = [set() for _ in pattern.common_steps]
    for run in runs:
        calls = _calls(run.trajectory)
        place = -1
        for number, link in enumerate(calls):
            if number == 0 or calls[number - 1].tool != link.tool:
                place += 1
            if place < len(inputs):
                inputs[place].add(link.input)
    return [next(iter(values)) if len(values) == 1 else "" for values in inputs]
