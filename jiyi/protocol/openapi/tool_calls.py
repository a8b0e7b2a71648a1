"""A tool's call made a request, and its answer made what a model reads: the same for MCP and for function calling."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic_core import to_json

from jiyi.errors import InvalidRequest
from jiyi.protocol.openapi.tools import PREFIX, Tool
from jiyi.text.budget import cut_to_tokens, estimate_tokens

Json = dict[str, Any]

RETRIEVE = f"{PREFIX}retrieve"
#: Tokens of a short answer, and of one memory in it.
SHORT_TOKENS, MEMORY_TOKENS = 1_500, 200
DETAIL = {"type": "string", "enum": ["short", "full"], "default": "short", "description": "`full`: with every score explained."}
#: The form of a short answer.
SHORT = {
    "type": "object",
    "properties": {
        "memories": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "text": {"type": "string"},
                    "node_id": {"type": "string", "format": "uuid"},
                    "kind": {"type": "string"},
                    "created_at": {"type": "string", "format": "date-time"},
                    "superseded_at": {"type": "string", "format": "date-time"},
                    "score": {"type": "number"},
                },
                "required": ["text", "node_id", "score"],
                "additionalProperties": False,
            },
        },
        "left_out": {"type": "integer", "description": "Memories that were found and do not fit."},
        "message": {"type": "string", "description": "Why there are none."},
    },
    "required": ["memories", "left_out"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked of the tool's operation."""

    #: In place of the path's braces, not yet percent-encoded.
    parts: dict[str, str]
    query: dict[str, str]
    #: None: it has no body.
    body: Json | None


def asked(tool: Tool, arguments: Mapping[str, Any]) -> Asked:
    """The request that a call is. A null says that an argument is not given, at any depth.

    Raises:
        InvalidRequest: an argument is missing, or there is no such one.
    """
    given: Json = {field: value for field, value in without_nulls(arguments).items() if not (tool.name == RETRIEVE and field == "detail")}
    if missing := [field for field in tool.in_path if field not in given]:
        raise InvalidRequest([f"missing: {', '.join(missing)}"])
    body = {tool.renamed.get(field, field): value for field, value in given.items() if field not in (*tool.in_path, *tool.in_query)}
    has_body = tool.method not in ("GET", "DELETE")
    if body and not has_body:
        raise InvalidRequest([f"unknown arguments: {', '.join(body)}"])
    return Asked(
        {field: str(given[field]) for field in tool.in_path},
        {field: _text(given[field]) for field in tool.in_query if field in given},
        body if has_body else None,
    )


def in_its_words(tool: Tool, refusal: str) -> str:
    """What the service refused, with the names that the tool has for the body's fields."""
    for name, field in tool.renamed.items():
        refusal = re.sub(rf"\b{field}\b", name, refusal)
    return refusal


def told(tool: Tool, arguments: Mapping[str, Any], answer: Any) -> Any:
    """What the model is told of an operation's answer: without nulls, and of a retrieval the short form unless it asked for more."""
    answer = without_nulls(answer)
    return shortened(answer) if tool.name == RETRIEVE and arguments.get("detail") != "full" else answer


def offered(tool: Tool) -> Tool:
    """The tool as models are offered it: with the choice between a short answer and a full one."""
    if tool.name != RETRIEVE:
        return tool
    arguments = {**tool.input_schema, "properties": {**tool.input_schema["properties"], "detail": DETAIL}}
    full = {name: value for name, value in tool.output_schema.items() if name != "$defs"}
    either = {"type": "object", "anyOf": [SHORT, full], "$defs": tool.output_schema.get("$defs", {})}
    return tool.model_copy(update={"input_schema": arguments, "output_schema": either})


def shortened(answer: Mapping[str, Any]) -> Json:
    """A retrieval's answer in at most ``SHORT_TOKENS``: each memory once, the best first."""
    rest = {"memories": [], "left_out": 0, **({"message": answer["message"]} if answer.get("message") else {})}
    room = SHORT_TOKENS - estimate_tokens(to_json(rest).decode())
    nodes = {node["node_id"]: node for group in answer["groups"] for node in group["retrieved_nodes"]}
    memories: list[Json] = []
    for node in nodes.values():
        brief = {name: node[name] for name in ("node_id", "kind", "created_at", "superseded_at") if node.get(name) is not None}
        memory = {"text": cut_to_tokens(node["description"], MEMORY_TOKENS), **brief, "score": round(node["score"], 3)}
        room -= estimate_tokens(to_json(memory).decode()) + 1
        if room < 0:
            break
        memories.append(memory)
    return {**rest, "memories": memories, "left_out": len(nodes) - len(memories)}


def without_nulls(value: Any) -> Any:
    """A JSON value without the fields that are null; in lists nulls keep their places."""
    if isinstance(value, Mapping):
        return {name: without_nulls(part) for name, part in value.items() if part is not None}
    return [without_nulls(part) for part in value] if isinstance(value, list) else value


def _text(value: Any) -> str:
    """A parameter as it stands behind a question mark."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)
