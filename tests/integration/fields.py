"""Some fields of what was found, named beside the values that they have to have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def check_fields(found: Any, /, **expected: Any) -> None:
    """``found`` is a row, a JSON object or a model, whatever other fields it has."""
    fields = found if isinstance(found, Mapping) else {name: getattr(found, name) for name in expected}
    assert {name: fields[name] for name in expected} == expected
