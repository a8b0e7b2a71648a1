"""Workflows as YAML: written, and read with every mistake told."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from jiyi.errors import InvalidRequest, problems_of
from jiyi.protocol.wire.json_values import JsonMapping
from jiyi.text.yaml_reading import YamlError, read_yaml

#: Characters of a workflow, and steps.
MAX_YAML_CHARS, MAX_STEPS = 100_000, 100

Text = Annotated[str, Field(pattern=r"\S", max_length=500)]


class WorkflowStep(BaseModel):
    """One step: a tool, what it gets, and what happens if it fails."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tool: Text
    inputs: dict[str, Any] = {}
    #: ``stop`` the run, ``skip`` the step, or ``retry`` it once and then stop.
    on_error: Literal["stop", "skip", "retry"] = "stop"


class Workflow(BaseModel):
    """A workflow as its YAML says it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Text
    triggers: list[Text] = []
    steps: list[WorkflowStep] = Field(min_length=1, max_length=MAX_STEPS)


def to_yaml(workflow: JsonMapping) -> str:
    """A workflow as YAML, in the order of its fields."""
    written: str = yaml.safe_dump(workflow, allow_unicode=True, sort_keys=False, width=10_000)
    return written


def from_yaml(text: str) -> Workflow:
    """The workflow that a YAML text says.

    Raises:
        InvalidRequest: it is none: a sentence for each mistake.
    """
    try:
        read = read_yaml(text, MAX_YAML_CHARS)
    except YamlError as error:
        raise InvalidRequest([f"yaml: {error}"]) from None
    try:
        return Workflow.model_validate(read)
    except ValidationError as error:
        raise InvalidRequest(problems_of(error)) from None
