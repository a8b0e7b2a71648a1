"""Workflows as YAML, and running one with the caller's own tools: each step within its time, each failure
reported.

from jiyi.chat import pipelines

result = pipelines.run(workflow.body, {"search": search, "mail": mail}, inputs={"mail": {"to": "mia"}})
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as TookTooLong
from dataclasses import dataclass, field
from threading import Thread
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, Field, ValidationError

from jiyi.errors import InvalidRequest, kind_and_words, problems_of
from jiyi.protocol.base import JsonMapping
from jiyi.text.yaml_reading import YamlError, read_yaml

#: Characters of a workflow, and steps.
MAX_YAML_CHARS, MAX_STEPS = 100_000, 100

Text = Annotated[str, Field(pattern=r"\S", max_length=500)]


class WorkflowStep(BaseModel, frozen=True, extra="forbid"):
    """One step: a tool, what it gets, and what happens if it fails."""

    tool: Text
    inputs: dict[str, Any] = {}
    #: ``stop`` the run, ``skip`` the step, or ``retry`` it once and then stop.
    on_error: Literal["stop", "skip", "retry"] = "stop"


class Workflow(BaseModel, frozen=True, extra="forbid"):
    """A workflow as its YAML says it."""

    name: Text
    triggers: list[Text] = []
    steps: list[WorkflowStep] = Field(min_length=1, max_length=MAX_STEPS)


def to_yaml(workflow: JsonMapping) -> str:
    """A workflow as YAML, in the order of its fields."""
    text: str = yaml.safe_dump(workflow, allow_unicode=True, sort_keys=False, width=10_000)
    return text


def from_yaml(text: str) -> Workflow:
    """The workflow that a YAML text says.

    Raises:
        InvalidRequest: it is none: a sentence for each mistake.
    """
    try:
        content = read_yaml(text, MAX_YAML_CHARS)
    except YamlError as error:
        raise InvalidRequest([f"yaml: {error}"]) from None
    try:
        return Workflow.model_validate(content)
    except ValidationError as error:
        raise InvalidRequest(problems_of(error)) from None


#: Seconds that one step may take, by default and at most.
STEP_SECONDS, MAX_SECONDS = 30.0, 3_600.0
#: As this argument a step's function gets what the step before it gave.
PREVIOUS = "previous"

Tool = Callable[..., Any]
StepState = Literal["done", "skipped", "failed", "timed_out"]


@dataclass(frozen=True, slots=True)
class StepRun:
    """How one step went; ``ms`` is how long it took."""

    tool: str
    state: StepState
    output: Any = None
    error: str | None = None
    ms: int = 0


@dataclass(frozen=True, slots=True)
class PipelineRun:
    """How a workflow went: ``completed`` if no step ended it."""

    name: str
    completed: bool
    steps: list[StepRun] = field(default_factory=list)

    @property
    def output(self) -> Any:
        """What the last step that was done gave."""
        return next((step.output for step in reversed(self.steps) if step.state == "done"), None)


def run(
    yaml: str,
    tools: Mapping[str, Tool],
    *,
    inputs: Mapping[str, Mapping[str, Any]] | None = None,
    step_seconds: float = STEP_SECONDS,
) -> PipelineRun:
    """Run the steps one after the other, each with its own function of ``tools``.

    A step's inputs are keyword arguments: those of the workflow, over them those of ``inputs`` by the tool's
    name. The text ``"$previous"`` stands for what the step before gave. A function that takes longer than
    ``step_seconds`` is left behind in its thread: what it gives later counts no more.

    Raises:
        InvalidRequest: the text is no workflow, names a tool that is not among ``tools``, or the time is out
            of bounds: nothing was run.
    """
    workflow = from_yaml(yaml)
    missing = sorted({step.tool for step in workflow.steps} - tools.keys())
    problems = [f"tools: {name!r} is missing; pass a function of that name" for name in missing]
    if not 0 < step_seconds <= MAX_SECONDS:
        problems.append(f"step_seconds: {step_seconds:g} is not above 0 and at most {MAX_SECONDS:g}")
    if problems:
        raise InvalidRequest(problems)
    runs: list[StepRun] = []
    previous: Any = None
    for step in workflow.steps:
        step_inputs = {**step.inputs, **dict((inputs or {}).get(step.tool, {}))}
        arguments = {
            name: previous if value == f"${PREVIOUS}" else value for name, value in step_inputs.items()
        }
        step_run = _attempt(step, tools[step.tool], arguments, step_seconds)
        runs.append(step_run)
        if step_run.state == "done":
            previous = step_run.output
        elif step_run.state != "skipped":
            return PipelineRun(workflow.name, completed=False, steps=runs)
    return PipelineRun(workflow.name, completed=True, steps=runs)


def _attempt(step: WorkflowStep, tool: Tool, arguments: JsonMapping, seconds: float) -> StepRun:
    step_run = _once(step.tool, tool, arguments, seconds)
    if (
        step_run.state == "failed" and step.on_error == "retry"
    ):  # one that hangs is not asked again: it may still be at it
        step_run = _once(step.tool, tool, arguments, seconds)
    if step_run.state != "done" and step.on_error == "skip":
        return StepRun(step_run.tool, "skipped", error=step_run.error, ms=step_run.ms)
    return step_run


def _once(name: str, tool: Tool, arguments: JsonMapping, seconds: float) -> StepRun:
    future: Future[Any] = Future()

    def work() -> None:
        try:
            future.set_result(tool(**arguments))
        # Whatever the caller's function raises is the step's failure.
        except Exception as error:  # noqa: BLE001
            future.set_exception(error)

    began = time.monotonic()
    Thread(target=work, name=f"jiyi-step-{name}", daemon=True).start()
    try:
        output = future.result(timeout=seconds)
    except TookTooLong:
        if not future.done():
            return StepRun(name, "timed_out", error=f"took longer than {seconds:g} s", ms=_ms(began))
        return StepRun(name, "failed", error="TimeoutError", ms=_ms(began))
    except Exception as error:  # noqa: BLE001 – as above
        return StepRun(name, "failed", error=kind_and_words(error)[:500], ms=_ms(began))
    return StepRun(name, "done", output=output, ms=_ms(began))


def _ms(began: float) -> int:
    return round(1_000 * (time.monotonic() - began))
