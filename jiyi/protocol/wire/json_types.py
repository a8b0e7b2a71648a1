"""Values of JSON that pydantic would take for another type: ``true`` for the number 1, the number 60000 for a time in 1970."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from pydantic import BaseModel

#: Bodies' models whose schemas are kept: more than there are.
MODELS = 512
NUMBERS = {"number", "integer"}


def wrong_types(model: type[BaseModel], value: Any) -> Iterator[str]:
    """A sentence for each boolean in a JSON value for which the model wants a number, and each number for which it wants a text.

    It begins with the path: ``max_results: must be a number, not true or false``.

    Where the model leaves the choice between several objects, only a choice of one is looked into.
    """
    schema = _schema(model)
    return _found(schema, schema.get("$defs", {}), value, "")


@lru_cache(MODELS)
def _schema(model: type[BaseModel]) -> Mapping[str, Any]:
    return model.model_json_schema()


def _found(schema: Mapping[str, Any], shared: Mapping[str, Any], value: Any, path: str) -> Iterator[str]:
    forms = [*_forms(schema, shared)]
    types = {form.get("type") for form in forms} - {"null"}
    if isinstance(value, bool):
        if types and types <= NUMBERS:
            yield f"{path}: must be a number, not true or false"
    elif isinstance(value, (int, float)):
        if types == {"string"}:
            yield f"{path}: must be a text in quotes, not a number"
    elif isinstance(value, dict):
        objects = [form for form in forms if form.get("type") == "object"]
        fields = objects[0].get("properties", {}) if len(objects) == 1 else {}
        for name, part in value.items():
            if name in fields:
                yield from _found(fields[name], shared, part, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        items = [form["items"] for form in forms if isinstance(form.get("items"), dict)]
        for place, part in enumerate(value if len(items) == 1 else ()):
            yield from _found(items[0], shared, part, f"{path}.{place}")


def _forms(schema: Mapping[str, Any], shared: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """What the schema accepts, one form after the other, references followed."""
    if "$ref" in schema:
        yield from _forms(shared[schema["$ref"].rpartition("/")[2]], shared)
    elif choices := schema.get("anyOf") or schema.get("oneOf"):
        for choice in choices:
            yield from _forms(choice, shared)
    else:
        yield schema
