"""Tools for LLMs, made of the operations, and the document for Dify (``docs/integrations.md``).

Dify reads the first server, wants an ``operationId``, follows a reference only for a whole body, makes one
parameter of each property at the top of a body and knows text, number and boolean.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, Field

from jiyi import __version__
from jiyi.protocol.events import CONTENT_TYPE
from jiyi.protocol.openapi import document as openapi
from jiyi.protocol.openapi.document import Operation
from jiyi.protocol.wire.signatures import KeyScope

Json = dict[str, Any]

#: What all names of tools begin with: hosts that have several servers do not prefix them themselves.
PREFIX = "memory_"
#: Tool → operation. In the order in which an LLM needs them.
OFFERED = {
    f"{PREFIX}{name}": operation_id
    for name, operation_id in {
        "retrieve": "retrieve_memories",
        "observe": "observe",
        "context": "recall_context",
        "list": "list_memories",
        "get": "get_memory",
        "why": "explain_memory",
        "update": "update_memory",
        "reinstate": "reinstate_memory",
        "forget": "forget_memories",
        "delete": "erase_memory",
        "list_agents": "list_agents",
        "end_session": "end_session",
        "query_knowledge": "query_memory",
        "list_knowledge": "list_knowledge",
        "working_memory": "working_memory",
        "ingest": "ingest_memory",
        "promote": "promote_memory",
        "edit_knowledge": "edit_knowledge",
        "demote": "demote_memory",
    }.items()
}
_NAMES = {operation_id: name for name, operation_id in OFFERED.items()}
#: Descriptions speak of each other by the operations' ids; an LLM knows the tools' names.
_OPERATION = re.compile(rf"\b(?:{'|'.join(_NAMES)})\b")
#: What fields are that speak for themselves in a document, and not to an LLM.
_WORDS = {
    "agent_id": "The agent.",
    "subject": "Who or what the memory is about.",
    "predicate": "What the subject does or is.",
    "object": "What it does it to.",
}
#: Seconds for which what a model says again is the same: a minute beyond the time that a call may take
#: (``jiyi.integrations.mcp``).
ONCE_SECONDS = 100
#: Parameters that no model need know, and what they are.
FIXED = {"once": str(ONCE_SECONDS)}
#: Those that take something away.
DESTRUCTIVE = {f"{PREFIX}delete", f"{PREFIX}forget", f"{PREFIX}demote"}


def tools(operations: Sequence[Operation]) -> list[tuple[Tool, KeyScope | None]]:
    """The tools in their order, each with the right that it needs."""
    document = openapi.document("", operations)
    by_id = {operation.id: operation for operation in operations}
    return [
        (_tool(name, by_id[of], document), by_id[of].scope) for name, of in OFFERED.items() if of in by_id
    ]


def _tool(name: str, operation: Operation, document: Json) -> Tool:
    schemas = document["components"]["schemas"]
    parameter_schemas = document["paths"][operation.url][operation.method.lower()]["parameters"]
    fixed = {
        parameter["name"]: FIXED[parameter["name"]]
        for parameter in parameter_schemas
        if parameter["name"] in FIXED
    }
    parameters = [
        parameter
        for parameter in parameter_schemas
        if parameter["in"] in ("path", "query") and parameter["name"] not in fixed
    ]
    properties = {
        argument["name"]: {**argument["schema"], "description": argument.get("description", "")}
        for argument in parameters
    }
    required = [argument["name"] for argument in parameters if argument["required"]]
    body = operation.flat_body or operation.body
    if body is not None:
        schema = schemas[body.__name__]
        for field, property_ in schema["properties"].items():
            if operation.flat is None or field in operation.flat:
                properties[field] = openapi.not_null(property_)
        required += [field for field in schema.get("required", []) if field in properties]
        required += [field for field in operation.needed if field not in required]
    for field, property_ in properties.items():
        property_.setdefault("description", _WORDS.get(field, ""))
    used: Json = {}
    arguments = {
        "type": "object",
        "properties": _local(properties, schemas, used),
        "required": required,
        "additionalProperties": False,
    }
    return Tool(
        name=name,
        title=operation.summary,
        description=_OPERATION.sub(
            lambda match: _NAMES[match.group()], f"{operation.summary}. {operation.description}"
        ),
        input_schema={**arguments, **({"$defs": used} if used else {})},
        output_schema=_output(
            document["paths"][operation.url][operation.method.lower()]["responses"][str(operation.status)],
            schemas,
        ),
        method=operation.method,
        path=operation.url,
        in_path=[argument["name"] for argument in parameters if argument["in"] == "path"],
        in_query=[argument["name"] for argument in parameters if argument["in"] == "query"],
        fixed=fixed,
        read_only=operation.scope == "read",
        idempotent=operation.scope == "read" or operation.method == "DELETE",
        destructive=name in DESTRUCTIVE,
    )


def _output(response: Json, schemas: Json) -> Json:
    """The schema of an answer in which nulls are left out."""
    used: Json = {}
    (root,) = _local([response["content"][CONTENT_TYPE]["schema"]], schemas, used)
    definitions = {name: _absent(schema) for name, schema in used.items()}
    answer = definitions.pop(root["$ref"].rpartition("/")[2])
    return {**answer, **({"$defs": definitions} if definitions else {})}


def _absent(schema: Any) -> Any:
    """With fields that may be absent where they may be null."""
    if isinstance(schema, list):
        return [_absent(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    copied = {name: _absent(value) for name, value in schema.items() if name != "properties"}
    if isinstance(properties := schema.get("properties"), dict):
        copied["properties"] = {
            name: openapi.not_null(_absent(property_)) for name, property_ in properties.items()
        }
        copied["required"] = [
            name for name in schema.get("required", []) if not _may_be_null(properties[name])
        ]
    return copied


def _may_be_null(schema: Json) -> bool:
    options = [schema, *schema.get("anyOf", [])]
    return any(option.get("type") == "null" or not option.keys() & _SAYS_WHAT for option in options)


#: Keywords without any of which a schema takes everything.
_SAYS_WHAT = {"type", "anyOf", "oneOf", "allOf", "$ref", "enum", "const"}


def _local(schema: Any, schemas: Json, used: Json) -> Any:
    """With its references to ``$defs``, into which what they refer to is put."""
    if isinstance(schema, list):
        return [_local(item, schemas, used) for item in schema]
    if not isinstance(schema, dict):
        return schema
    copied = {
        name: _local(value, schemas, used)
        for name, value in schema.items()
        if name not in ("$ref", "discriminator")
    }
    if isinstance(reference := schema.get("$ref"), str):
        model = reference.rpartition("/")[2]
        copied["$ref"] = f"#/$defs/{model}"
        if model not in used:
            used[model] = {}  # it may refer to itself
            used[model] = _local(schemas[model], schemas, used)
    return copied


class Tool(BaseModel, use_attribute_docstrings=True):
    """One tool, and how to call it over HTTP."""

    name: str
    title: str
    description: str
    input_schema: dict[str, Any] = Field(description="JSON schema of its arguments.")
    output_schema: dict[str, Any] = {"type": "object"}
    """JSON schema of its answer, in which nulls are left out."""
    method: str
    path: str = Field(description="With the names of arguments in braces.")
    in_path: list[str]
    """Arguments that take the place of the path's braces, percent-encoded."""
    in_query: list[str]
    """Arguments behind the question mark; all others are fields of the body."""
    fixed: dict[str, str] = Field({}, description="What else stands behind the question mark of each call.")
    read_only: bool
    idempotent: bool = False
    """Whether a second call with the same arguments changes nothing more."""
    destructive: bool


DESCRIPTION = "Long-term memory: remember what happened, recall what matters."
SIMPLE = ("string", "integer", "number", "boolean")
#: Keywords of a schema that Dify, or the LLM behind it, makes something of.
KEPT = ("type", "description", "default", "enum", "format", "minimum", "maximum", "maxLength")


def document(root: str, operations: Sequence[Operation]) -> Json:
    """The document of the service at ``root``, for Dify."""
    schemas: Json = openapi.document(root, operations)["components"]["schemas"]
    paths: dict[str, Json] = {}
    for operation in operations:
        if operation.flat is not None:
            paths.setdefault(operation.url, {})[operation.method.lower()] = _operation(operation, schemas)
    return {
        "openapi": "3.0.3",
        "info": {"title": "Jiyi", "version": __version__, "description": DESCRIPTION},
        "servers": [{"url": root.rstrip("/")}],
        "paths": paths,
        "components": {"securitySchemes": {"key": {"type": "http", "scheme": "bearer"}}},
        "security": [{"key": []}],
    }


def _operation(operation: Operation, schemas: Json) -> Json:
    shown_fields = operation.flat or ()
    parameters = [
        {**parameter, "schema": flat(parameter["schema"], schemas)}
        for parameter in openapi.parameters(operation, schemas)
        if parameter["in"] == "path" or parameter["name"] in shown_fields
    ]
    described: Json = {
        "operationId": operation.id,
        "summary": operation.summary,
        "description": operation.description,
        "parameters": parameters,
        "responses": {str(operation.status): {"description": operation.summary}},
    }
    body = operation.flat_body or operation.body
    if body is not None:
        schema = schemas[body.__name__]
        properties = {
            name: flat(property_, schemas)
            for name, property_ in schema["properties"].items()
            if name in shown_fields
        }
        required = [
            name for name in shown_fields if name in schema.get("required", []) or name in operation.needed
        ]
        content = {"schema": {"type": "object", "properties": properties, "required": required}}
        described["requestBody"] = {"required": True, "content": {CONTENT_TYPE: content}}
    return described


def flat(schema: Json, schemas: Json) -> Json:
    """A simple type, without null: what may be left out is left out."""
    schema = openapi.not_null(schema)
    if "$ref" in schema:
        schema = {**schemas[schema["$ref"].rpartition("/")[2]], **schema}
    simple = {name: schema[name] for name in KEPT if schema.get(name) is not None}
    if simple.get("type") not in SIMPLE:
        simple = {"type": "string", "description": simple.get("description", "")}
    return simple
