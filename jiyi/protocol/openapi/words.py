"""Schemas in a few words, as the page for people tells them."""

from __future__ import annotations

from jiyi.protocol.openapi.document import Json, not_null


def fields_of(schema: Json, schemas: Json) -> list[Json]:
    """The fields of a body, of its shortest form if it has several: name, type, whether required, text."""
    schema = _resolved(schema, schemas)
    while options := schema.get("oneOf") or schema.get("anyOf"):
        schema = _resolved(options[-1], schemas)
    return [
        {
            "name": name,
            "type": type_of(property_, schemas),
            "required": name in schema.get("required", []),
            "description": property_.get("description", ""),
        }
        for name, property_ in schema.get("properties", {}).items()
    ]


def type_of(schema: Json, schemas: Json) -> str:
    """A schema in a few words."""
    schema = _resolved(not_null(schema), schemas)
    if "enum" in schema:
        return " | ".join(map(str, schema["enum"]))
    if schema.get("type") == "array":
        return f"list of {type_of(schema['items'], schemas)}" if "items" in schema else "list"
    if options := schema.get("anyOf") or schema.get("oneOf"):
        return " or ".join(dict.fromkeys(type_of(option, schemas) for option in options))
    return str(schema.get("format") or schema.get("const") or schema.get("type", "any"))


def _resolved(schema: Json, schemas: Json) -> Json:
    while "$ref" in schema:
        schema = schemas[schema["$ref"].rpartition("/")[2]]
    return schema
