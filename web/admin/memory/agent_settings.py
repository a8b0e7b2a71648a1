"""The form of an agent's settings: what it shows, and what it changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from flask_babel import lazy_gettext

from jiyi.protocol.agents import AgentSettings
from jiyi.settings import Dedupe, Derive, DeriveKeywords, Mode, get_settings

#: Setting → its choices (empty: a number), its title, what it does.
FIELDS: dict[str, tuple[tuple[str, ...], Any, Any]] = {
    "mode": (
        get_args(Mode),
        lazy_gettext("Recency"),
        lazy_gettext("recent: by rank of the last access; elapsed: by hours since; stanford: as in the original"),
    ),
    "recency_w": ((), lazy_gettext("Weight of recency"), lazy_gettext("0 … 100, before the fixed gain 0.5")),
    "relevance_w": ((), lazy_gettext("Weight of relevance"), lazy_gettext("0 … 100, before the fixed gain 3")),
    "importance_w": ((), lazy_gettext("Weight of importance"), lazy_gettext("0 … 100, before the fixed gain 2")),
    "recency_decay": ((), lazy_gettext("Decay of recency"), lazy_gettext("above 0, at most 1; per rank or per hour")),
    "importance_trigger_max": ((), lazy_gettext("Importance for a reflection"), lazy_gettext("what events have to add up to")),
    "dedupe": (get_args(Dedupe), lazy_gettext("Repetitions"), lazy_gettext("exact: a content is kept once")),
    "derive_poignancy": (get_args(Derive), lazy_gettext("Importance that is missing"), lazy_gettext("llm: is asked for")),
    "derive_triple": (get_args(Derive), lazy_gettext("Triple that is missing"), lazy_gettext("llm: is asked for")),
    "derive_keywords": (
        get_args(DeriveKeywords),
        lazy_gettext("Keywords that are missing"),
        lazy_gettext("text: taken from the text; llm: asked for"),
    ),
}


def fields(settings: Mapping[str, Any]) -> list[dict[str, object]]:
    """One row a setting: the agent's own value, and the deployment's, which holds without one."""
    deployment = AgentSettings().over(get_settings())
    return [
        {
            "name": name,
            "choices": choices,
            "title": title,
            "help": help_text,
            "value": settings.get(name, ""),
            "default": getattr(deployment, name),
        }
        for name, (choices, title, help_text) in FIELDS.items()
    ]


def changes(settings: Mapping[str, Any], typed: Mapping[str, str]) -> dict[str, str | None]:
    """What the form changes. An empty field gives the setting back to the deployment."""
    given = {name: typed[name].strip() for name in FIELDS if name in typed}
    return {name: text or None for name, text in given.items() if text != _shown(settings.get(name))}


def _shown(value: Any) -> str:
    return "" if value is None else str(value)
