"""JSON that parsers take for something else: keys given twice in an object, booleans for numbers, numbers for
texts.

Of a key that is given twice parsers take the first or the last, so that who checks and who acts may see
different things. pydantic takes ``true`` for the number 1, and the number 60000 for a time in 1970.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from jiyi.errors import readable_part
from jiyi.once import once_each
from jiyi.protocol.base import JsonObject

_COLON_APART = re.compile(rb'"\s+:')


class Repeating(dict[str, Any]):
    """An object of which the text gave ``repeated`` more than once."""

    repeated = ""


def load(text: bytes | str) -> Any:
    """The value of a JSON text, with objects that give a key twice marked. Raises as :func:`json.loads`."""
    return json.loads(_unicode(text), object_pairs_hook=_noted)


def repeated_key(text: bytes | str) -> str | None:
    """A key that an object in the text gives twice; None if there is none, or the text is no JSON."""
    try:
        return repeated_in(load(text))
    except (ValueError, RecursionError):
        return None


def _unicode(text: bytes | str) -> str:
    """Never UTF-16, which :func:`json.loads` would guess: the bytes were counted as something else."""
    return text if isinstance(text, str) else text.decode("utf-8-sig", "surrogatepass")


def gives_each_once(text: bytes, keys: int) -> bool:
    """Whether a parsed JSON text gives no key twice, without another look at each of them; False if that is
    not certain. ``keys``: how many its objects have in all.

    Where nothing stands between a key and its colon there is a ``":`` for each, and perhaps some more within
    strings.
    """
    return text.count(b'":') == keys and _COLON_APART.search(text) is None


def keys_in(value: Any) -> int:
    """The keys of all objects in a parsed value."""
    if isinstance(value, dict):
        return len(value) + sum(map(keys_in, value.values()))
    return sum(map(keys_in, value)) if isinstance(value, list | tuple) else 0


def repeated_in(value: Any) -> str | None:
    """The same of a value that :func:`load` gave."""
    waiting = [value]  # no recursion: how deep it is nested is somebody else's choice
    while waiting:
        one = waiting.pop()
        if isinstance(one, Repeating):
            return one.repeated
        waiting += one.values() if isinstance(one, dict) else one if isinstance(one, list) else ()
    return None


def sentence(key: str) -> str:
    """What is wrong with it."""
    return f"{readable_part(key)}: given twice in one object; give it once"


def _noted(pairs: list[tuple[str, Any]]) -> JsonObject:
    mapping = dict(pairs)
    if len(mapping) == len(pairs):
        return mapping
    noted = Repeating(mapping)
    noted.repeated = _repeated(pairs)
    return noted


def _repeated(pairs: list[tuple[str, Any]]) -> str:
    earlier: set[str] = set()
    for key, _ in pairs:
        if key in earlier:
            return key
        earlier.add(key)
    raise AssertionError("it was called for pairs of which two have the same key")


#: Bodies' models whose schemas are kept: more than there are.
MODELS = 512
NUMBERS = {"number", "integer"}


def wrong_types(model: type[BaseModel], value: Any) -> Iterator[str]:
    """A sentence for each boolean in a JSON value for which the model wants a number, and each number for
    which it wants a text.

    It begins with the path: ``max_results: must be a number, not true or false``.

    Where the model leaves the choice between several objects, only a choice of one is looked into.
    """
    schema = schema_of(model)
    return _found(schema, schema.get("$defs", {}), value, "")


@once_each(MODELS)
def schema_of(model: type[BaseModel]) -> Mapping[str, Any]:
    """Its JSON schema, made once however many threads ask for it first."""
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
