"""How values look in the templates."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from flask import Flask

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def age(seconds: float | None) -> str:
    """``3 s``, ``5 min``, ``2 h``, ``4 d``: the largest unit that fits."""
    if seconds is None:
        return "–"
    size, unit = next(((size, unit) for size, unit in _UNITS if seconds >= size), (1, "s"))
    return f"{int(seconds // size)} {unit}"


def ago(then: datetime | None) -> str:
    return "–" if then is None else f"{age(seconds_since(then))} ago"


def seconds_since(then: datetime) -> float:
    return max(0.0, (datetime.now(UTC) - then).total_seconds())


def moment(then: datetime | None) -> str:
    return "–" if then is None else then.astimezone(UTC).strftime("%Y-%m-%d %H:%M")


def number(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.0f}" if value == int(value) else f"{value:,.1f}"


def pretty_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2, default=str)


def readable_body(body: str | None) -> str:
    """A refused message as it came; indented if it is JSON (whole, not cut)."""
    try:
        return pretty_json(json.loads(body or ""))
    except (ValueError, RecursionError):
        return body or ""


def summary(value: Mapping[str, Any]) -> str:
    """What a job did, without what it found none of."""
    parts = (f"{name.replace('_', ' ')}: {_plain(item)}" for name, item in value.items() if item)
    return ", ".join(parts) or "nothing to do"


def _plain(item: Any) -> str:
    if isinstance(item, list):
        return str(len(item))
    return ", ".join(f"{name} {count}" for name, count in item.items()) if isinstance(item, Mapping) else str(item)


def register(app: Flask) -> None:
    app.jinja_env.filters.update(
        age=age, ago=ago, moment=moment, number=number, pretty_json=pretty_json, readable_body=readable_body,
        summary=summary,
    )  # fmt: skip
