"""Embedders of stores' own: what the service checks of their declarations."""

from __future__ import annotations

from engine.providers.embedders import declaration_problem
from engine.providers.public_addresses import check_public
from jiyi.errors import ConfigError
from jiyi.protocol.presets import PRESETS
from jiyi.settings import get_settings
from jiyi.stores.config.embedding import EmbeddingConfig


def check(given: EmbeddingConfig | None, path: str) -> None:
    """Raises :class:`ConfigError`: something is missing, or its address is in a private network."""
    if given is None or given.provider == "deployment":
        return
    key = "" if given.api_key is None else given.api_key.get_secret_value()
    wrong = declaration_problem(vendor(given), given.model, given.base_url or "", key)
    if wrong is not None:
        raise ConfigError([f"{path}.{wrong}"])
    address = given.base_url or (PRESETS[given.provider].base_url if given.provider in PRESETS else "")
    if address and address != get_settings().embedder_base_url and (why := check_public(address)) is not None:
        raise ConfigError([f"{path}.base_url: {why}"])


def vendor(given: EmbeddingConfig) -> str:
    """The provider by the name that :mod:`engine.providers` has for it."""
    return "fastembed" if given.provider == "local" else given.provider
