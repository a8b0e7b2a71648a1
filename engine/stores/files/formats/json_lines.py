"""JSON as text: an object of plain values a line, each value with its name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic_core import from_json

from engine.stores.files.formats.limited import joined
from engine.stores.files.states import Unusable

#: Characters of a name in the path of a value: a few long ones, nested, would make a path that is written once for each value.
MAX_NAME_CHARS = 200


def json_text(text: str) -> str:
    """The values of a document, as ``users[0]: name: Mia; city: Berlin``; a list of objects needs no path to be understood.

    Raises:
        Unusable: ``malformed`` if it is no JSON, or nested too deeply to be read.
    """
    try:
        document = from_json(text)
    except ValueError as error:
        raise Unusable("malformed", f"it is no JSON: {error}") from None
    return joined(_lines(document, ""))


def _lines(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, dict):
        plain = "; ".join(f"{name}: {_word(inner)}" for name, inner in value.items() if not isinstance(inner, (dict, list)))
        if plain:
            yield f"{path}: {plain}" if path else plain
        for name, inner in value.items():
            if isinstance(inner, (dict, list)):
                yield from _lines(inner, f"{path}.{name[:MAX_NAME_CHARS]}" if path else name[:MAX_NAME_CHARS])
    elif isinstance(value, list):
        plain = ", ".join(_word(inner) for inner in value if not isinstance(inner, (dict, list)))
        if plain:
            yield f"{path}: {plain}" if path else plain
        for place, inner in enumerate(value):
            if isinstance(inner, (dict, list)):
                yield from _lines(inner, f"{path}[{place}]" if path else "")
    else:
        yield _word(value)


def _word(value: Any) -> str:
    if isinstance(value, str):
        return value
    return _NAMES[value] if value is None or isinstance(value, bool) else str(value)


_NAMES = {True: "true", False: "false", None: "null"}
