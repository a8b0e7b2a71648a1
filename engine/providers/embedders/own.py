"""An embedder that a tenant names for a store: with the tenant's own key, at public addresses, never with the operator's keys."""

from __future__ import annotations

from dataclasses import replace

from pydantic import SecretStr

from engine.providers.embedders import Embedder, embedder_of
from engine.providers.embedders.choice import LOCAL
from engine.providers.spec import Spec, resolve
from jiyi.errors import SettingsError
from jiyi.once import once_each
from jiyi.protocol.presets import PRESETS
from jiyi.settings import get_settings

#: What messages call the place where it is declared.
DECLARED = "embedding"
#: Embedders of tenants that one process keeps.
KEPT = 32


@once_each(KEPT)
def own_embedder(vendor: str, model: str, dimensions: int | None, base_url: str, api_key: str, tenant: str) -> Embedder:
    """The embedder of a declaration. Raises :class:`SettingsError`."""
    if vendor in LOCAL:
        return embedder_of(f"{vendor}:{model}" if model else vendor)
    from engine.providers.embedders.remote import RemoteEmbedder

    settings = get_settings()
    endpoint = resolve(Spec(vendor, model, dimensions), "embeddings", DECLARED, base_url, api_key or "none")
    key = SecretStr(api_key) if api_key else None
    operators = bool(base_url) and base_url == settings.embedder_base_url
    return RemoteEmbedder(replace(endpoint, api_key=key, tenant="" if operators else tenant), settings)


def problem(vendor: str, model: str, base_url: str, api_key: str) -> str | None:
    """What is missing of a declaration: its field and a sentence; None if nothing is."""
    if vendor in LOCAL:
        return None
    preset = PRESETS[vendor]
    if preset.needs_key and not api_key:
        return f"api_key: {vendor} needs one; the service's own keys are not lent"
    try:
        resolve(Spec(vendor, model), "embeddings", DECLARED, base_url, "none")
    except SettingsError as error:
        return f"{'base_url' if 'BASE_URL' in str(error) else 'model'}: {error}"
    return None
