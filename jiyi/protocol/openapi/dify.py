"""The document for Dify's custom tools: fewer operations, and only what its import understands.

Dify reads the first server, wants an ``operationId``, follows a reference only for a whole body, makes one parameter of
each property at the top of a body and knows text, number and boolean (docs/integrations.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jiyi import __version__
from jiyi.protocol.events import CONTENT_TYPE
from jiyi.protocol.openapi import document as openapi
from jiyi.protocol.openapi.operations import Operation

Json = dict[str, Any]

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
    kept = operation.flat or ()
    parameters = [
        {**parameter, "schema": flat(parameter["schema"], schemas)}
        for parameter in openapi.parameters(operation, schemas)
        if parameter["in"] == "path" or parameter["name"] in kept
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
        properties = {name: flat(property_, schemas) for name, property_ in schema["properties"].items() if name in kept}
        required = [name for name in kept if name in schema.get("required", []) or name == "focal_text"]
        content = {"schema": {"type": "object", "properties": properties, "required": required}}
        described["requestBody"] = {"required": True, "content": {CONTENT_TYPE: content}}
    return described


def flat(schema: Json, schemas: Json) -> Json:
    """A simple type, without null: what may be left out is left out."""
    schema = openapi.not_null(schema)
    if "$ref" in schema:
        schema = {**schemas[schema["$ref"].rpartition("/")[2]], **schema}
    kept = {name: schema[name] for name in KEPT if schema.get(name) is not None}
    if kept.get("type") not in SIMPLE:
        kept = {"type": "string", "description": kept.get("description", "")}
    return kept
