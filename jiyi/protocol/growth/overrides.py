"""Attempts to talk an agent out of what it was told, such as "ignore previous instructions": recognised by their words."""

from __future__ import annotations

from jiyi.text.sections import union

#: Characters that are quoted.
QUOTED = 80
_OVERRIDE = union(__package__, "overrides.txt", "")


def override_in(text: str) -> str | None:
    """The words of the first such attempt in a text, or None."""
    match = _OVERRIDE.search(text)
    return None if match is None else " ".join(match[0].split())[:QUOTED]
