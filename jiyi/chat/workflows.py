"""An agent's enabled workflows as tools of its model, run with the program's own functions."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from threading import Lock
from typing import Any
from uuid import uuid4

from jiyi.chat import pipelines
from jiyi.errors import InvalidRequest
from jiyi.protocol.base import JsonMapping, JsonObject
from jiyi.protocol.proposals import SkillProposal
from jiyi.text.prompting import one_line, quoted_to_tokens

#: Approved workflows that are looked at, and offered; characters of arguments, and of an answer.
LOOKED_AT, MAX_TOOLS, MAX_CHARS = 100, 20, 100_000
#: Tokens of a trigger in a description, and triggers that it names.
_TRIGGER_TOKENS, _TRIGGERS = 30, 3
_TYPES = {"str": "string", "int": "integer", "float": "number", "bool": "boolean"}


class WorkflowTools:
    """Offers and runs enabled workflows all of whose tools the program has functions for. Thread-safe.

    Args:
        enabled: an agent's approved workflows.
        functions: the program's functions by the names of their tools.
        put: takes an event to be published: each run is a vote on its workflow.
        group_id: whose workflows they are.
    """

    def __init__(
        self,
        enabled: Callable[[str], Iterable[SkillProposal]],
        functions: Mapping[str, pipelines.Tool],
        put: Callable[[JsonMapping], None],
        group_id: str,
    ) -> None:
        self._enabled, self._functions, self._put, self._group_id = enabled, dict(functions), put, group_id
        self._offered: dict[tuple[str, str], SkillProposal] = {}
        self._lock = Lock()

    def schemas(self, agent_id: str) -> list[JsonObject]:
        """The workflows as chat APIs take functions."""
        runnable = [
            state
            for state in self._enabled(agent_id)
            if state.enabled and set(state.tools) <= self._functions.keys()
        ][:MAX_TOOLS]
        with self._lock:
            self._offered = {key: state for key, state in self._offered.items() if key[0] != agent_id}
            self._offered |= {(agent_id, function_name(state)): state for state in runnable}
        return [self._schema(state) for state in runnable]

    def call(self, agent_id: str, name: str, arguments: str | JsonMapping) -> JsonObject:
        """What a call comes to: ``completed``, ``output`` of the last step, ``steps``, perhaps ``error``.

        Raises:
            InvalidRequest: no such workflow is enabled, or the arguments are none: nothing was run.
        """
        if (agent_id, name) not in self._offered:
            self.schemas(agent_id)
        with self._lock:
            state = self._offered.get((agent_id, name))
            names = sorted(other for agent, other in self._offered if agent == agent_id)
        if state is None:
            why = f"{name[:80]!r} is no enabled workflow of {agent_id!r}"
            raise InvalidRequest([f"name: {why}; there are: {', '.join(names) or 'none'}"])
        run = pipelines.run(state.body, self._functions, inputs=_inputs(arguments, state.tools))
        self._vote(agent_id, state, worked=run.completed)
        steps = [
            {"tool": step.tool, "state": step.state, **({"error": step.error} if step.error else {})}
            for step in run.steps
        ]
        output = run.output if len(_json(run.output)) <= MAX_CHARS else _json(run.output)[:MAX_CHARS] + "…"
        answer: JsonObject = {"completed": run.completed, "output": output, "steps": steps}
        failed = [step for step in run.steps if step.state in ("failed", "timed_out")]
        return answer | ({"error": f"{failed[0].tool}: {failed[0].error}"} if failed else {})

    def _schema(self, state: SkillProposal) -> JsonObject:
        inputs_by_tool: dict[str, set[str]] = {}
        for step in pipelines.from_yaml(state.body).steps:
            inputs_by_tool[step.tool] = inputs_by_tool.get(step.tool, set(step.inputs)) & set(step.inputs)
        properties = {
            tool: schema
            for tool, inputs in inputs_by_tool.items()
            if (schema := _parameters(self._functions[tool], inputs))["properties"]
        }
        triggers = [quoted_to_tokens(trigger, _TRIGGER_TOKENS) for trigger in state.triggers[:_TRIGGERS]]
        usage = f" It was used for: {', '.join(triggers)}" if triggers else ""
        description = f"Runs {one_line(state.name)}, step by step.{usage}"
        required = [tool for tool, schema in properties.items() if schema["required"]]
        parameters = {"type": "object", "properties": properties, "required": required}
        function = {"name": function_name(state), "description": description, "parameters": parameters}
        return {"type": "function", "function": function}

    def _vote(self, agent_id: str, state: SkillProposal, *, worked: bool) -> None:
        payload = {"artifact": "pipeline", "artifact_id": str(state.id), "signal": "completion_rate"}
        self._put(
            {
                "type": "feedback.given",
                "event_id": uuid4(),
                "group_id": self._group_id,
                "agent_id": agent_id,
                "occurred_at": datetime.now(UTC),
                "payload": payload | {"sentiment": "positive" if worked else "negative"},
            }
        )


def function_name(state: SkillProposal) -> str:
    """The name of a workflow among a model's functions: its own in ASCII, and the end of its id."""
    words = re.sub(r"[^A-Za-z0-9]+", "_", state.name)[:40].strip("_")
    return f"{words or 'workflow'}_{state.id.hex[-8:]}"


def _parameters(function: pipelines.Tool, inputs: set[str]) -> JsonObject:
    """What a function takes, as JSON Schema; what the workflow gives it need not be given."""
    properties: dict[str, JsonObject] = {}
    required = []
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            continue
        json_type = _TYPES.get(getattr(parameter.annotation, "__name__", parameter.annotation))
        properties[name] = {} if json_type is None else {"type": json_type}
        if parameter.default is parameter.empty and name not in inputs and name != pipelines.PREVIOUS:
            required.append(name)
    return {"type": "object", "properties": properties, "required": required}


def _inputs(arguments: str | JsonMapping, tools: Iterable[str]) -> dict[str, dict[str, Any]]:
    """The arguments of a call by the tools that they are for."""
    if isinstance(arguments, str):
        if len(arguments) > MAX_CHARS:
            why = f"{len(arguments):,} characters are more than {MAX_CHARS:,}; give less to the tools"
            raise InvalidRequest([f"arguments: {why}"])
        try:
            arguments = json.loads(arguments or "{}")
        except ValueError as error:
            why = f"no JSON: {error}; give an object of each tool's arguments"
            raise InvalidRequest([f"arguments: {why}"]) from None
    if not isinstance(arguments, Mapping):
        why = f"{type(arguments).__name__} is no object; give one of each tool's arguments"
        raise InvalidRequest([f"arguments: {why}"])
    names = sorted(tools)
    inputs = {tool: dict(values) for tool, values in arguments.items() if isinstance(values, Mapping)}
    problems = [
        f"arguments.{tool}: no tool of this workflow; its tools are {', '.join(names)}"
        for tool in arguments
        if tool not in names
    ]
    problems += [
        f"arguments.{tool}: no object of arguments by name" for tool in arguments if tool not in inputs
    ]
    if problems:
        raise InvalidRequest(problems)
    return inputs


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
