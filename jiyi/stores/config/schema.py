"""The JSON Schema of declarations, for editors and user interfaces: types with their summaries, fields with their bounds."""

from __future__ import annotations

from jiyi.protocol.wire.json_values import JsonObject
from jiyi.stores.config.attachments import MemoryAttachmentConfig
from jiyi.stores.config.registry import StoreType, store_types
from jiyi.stores.config.stages import ALIASES, Stage


def schema() -> JsonObject:
    """A document for a graph's file: ``memory`` and ``nodes``."""
    types = store_types()
    attachment = MemoryAttachmentConfig.model_json_schema()
    definitions = attachment.pop("$defs", {})
    definitions["Stage"] = {"type": "string", "enum": [*Stage, *ALIASES], "description": "When the store is searched."}
    stores = [_store(one, definitions) for one in types.values()]
    names = [one.name for one in types.values()]
    kinds = {"enum": names, "enum_options": [{"value": one.name, "description": one.summary} for one in types.values()]}
    node = {
        "type": "object",
        "properties": {"id": {"type": "string"}, "memories": {"type": "array", "items": attachment}},
        "required": ["id"],
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Stores of a graph",
        "type": "object",
        "properties": {
            "memory": {"type": "array", "items": {"properties": {"type": kinds}, "oneOf": stores}},
            "nodes": {"type": "array", "items": node},
        },
        "$defs": definitions,
    }


def _store(one: StoreType, definitions: JsonObject) -> JsonObject:
    config = one.config_cls.model_json_schema()
    definitions.update(config.pop("$defs", {}))
    properties = {"name": {"type": "string", "maxLength": 200}, "type": {"const": one.name, "description": one.summary}, "config": config}
    return {
        "type": "object",
        "description": one.summary,
        "properties": properties,
        "required": ["name", "type", "config"],
        "additionalProperties": False,
    }
