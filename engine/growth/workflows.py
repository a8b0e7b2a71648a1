"""Workflows: chains of tools that worked several times, as YAML that can be run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

from engine.growth.skills import shorten
from engine.growth.trajectories import Trajectory
from jiyi.chat.pipelines import to_yaml
from jiyi.protocol.artifacts import (
    MAX_BODY_CHARS,
    MAX_DESCRIPTION_CHARS,
    MAX_EVIDENCE,
    MAX_NAME_CHARS,
    MAX_TRIGGERS,
    Pattern,
    SkillCandidate,
)
from jiyi.text.words import language_of, text_digest

#: Steps that a workflow has at least; runs, and sessions, that a chain is known from.
MIN_STEPS, MIN_RUNS, MIN_SESSIONS = 2, 3, 2
#: Steps at most: a longer chain is a program.
MAX_STEPS = 20
#: Between a chain's tools.
ARROW = " → "


@dataclass(frozen=True, slots=True)
class TrajectoryRun:
    """A trajectory with its id and session."""

    trajectory_id: UUID
    session_id: str
    trajectory: Trajectory


def tools_of(trajectory: Trajectory) -> tuple[str, ...]:
    """The tools that worked, in order; a tool several times in a row counts once, and one that failed does not."""
    tools: list[str] = []
    for link in trajectory.execution_chain:
        if link.step_type == "tool_call" and link.tool is not None and link.ok is not False and tools[-1:] != [link.tool]:
            tools.append(link.tool)
    return tuple(tools)


def chains(runs: Iterable[TrajectoryRun]) -> list[Pattern]:
    """Chains that enough successful trajectories of enough sessions have in common, the most used first."""
    by_chain: dict[tuple[str, ...], list[TrajectoryRun]] = {}
    for run in sorted(runs, key=lambda run: (run.trajectory.started_at, run.trajectory_id)):
        tools = tools_of(run.trajectory)
        if run.trajectory.worked and MIN_STEPS <= len(tools) <= MAX_STEPS:
            by_chain.setdefault(tools, []).append(run)
    patterns = [_pattern(tools, same) for tools, same in by_chain.items()]
    enough = [pattern for pattern in patterns if pattern.total_reuse >= MIN_RUNS and pattern.sessions >= MIN_SESSIONS]
    return sorted(enough, key=lambda pattern: (-pattern.total_reuse, pattern.hashes[0]))


def draft_workflow(pattern: Pattern, runs: Sequence[TrajectoryRun]) -> SkillCandidate:
    """The workflow of a chain: each step with the input that it had most often; a step that fails ends the run."""
    inputs = _inputs(pattern, runs)
    zh = language_of(pattern.title + "".join(pattern.wordings)) == "zh"
    name = shorten(ARROW.join(pattern.common_steps), MAX_NAME_CHARS)
    triggers = [shorten(wording, MAX_DESCRIPTION_CHARS) for wording in pattern.wordings[:MAX_TRIGGERS]]
    steps = [
        {"tool": tool, "inputs": {"input": given} if given else {}, "on_error": "stop"}
        for tool, given in zip(pattern.common_steps, inputs, strict=True)
    ]
    about = f"{pattern.total_reuse} 次成功的工具链：{name}" if zh else f"A chain of tools that worked {pattern.total_reuse} times: {name}"
    return SkillCandidate(
        name=name,
        description=shorten(about, MAX_DESCRIPTION_CHARS),
        triggers=triggers,
        tools=list(dict.fromkeys(shorten(tool, MAX_NAME_CHARS) for tool in pattern.common_steps)),
        body=to_yaml({"name": name, "triggers": triggers, "steps": steps})[:MAX_BODY_CHARS],
        confidence=pattern.confidence,
    )


def runs_of(pattern: Pattern, runs: Iterable[TrajectoryRun]) -> list[TrajectoryRun]:
    """Those that have the pattern's chain."""
    return [run for run in runs if tools_of(run.trajectory) == tuple(pattern.common_steps)]


def _pattern(tools: tuple[str, ...], runs: Sequence[TrajectoryRun]) -> Pattern:
    requests = list(dict.fromkeys(run.trajectory.request for run in runs if run.trajectory.request))
    return Pattern(
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
        evidence=[run.trajectory_id for run in runs][-MAX_EVIDENCE:],
    )


def _inputs(pattern: Pattern, runs: Sequence[TrajectoryRun]) -> list[str]:
    """Of each step what every run gave it; empty where they differ, because then the caller has to say."""
    given: list[set[str]] = [set() for _ in pattern.common_steps]
    for run in runs:
        calls = [link for link in run.trajectory.execution_chain if link.step_type == "tool_call" and link.ok is not False]
        place = -1
        for number, link in enumerate(calls):
            if number == 0 or calls[number - 1].tool != link.tool:
                place += 1
            if place < len(given):
                given[place].add(link.input)
    return [next(iter(values)) if len(values) == 1 else "" for values in given]
