"""Rerankers: models that read a question together with each memory and say how relevant the memory is. Chosen by ``JIYI_RERANKER``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from engine.providers.spec import Endpoint, parse, resolve
from jiyi.errors import SettingsError
from jiyi.once import once
from jiyi.settings import Settings, get_settings

SETTING = "JIYI_RERANKER"
#: The value of ``JIYI_RERANKER`` that needs no model.
OFF = "off"
#: The one vendor: whatever speaks the protocol at the address that is set.
VENDOR = "compatible"
#: Documents of one call: rerankers take milliseconds for each.
MOST_DOCUMENTS = 50


class Reranker(Protocol):
    """Thread-safe."""

    @property
    def model(self) -> str:
        """Its name in answers."""
        ...

    def relevance(self, query: str, documents: Sequence[str], seconds: float) -> list[float]:
        """How relevant each document is to the query, on the model's own scale: comparable within one answer only.

        Args:
            query: of a long one the end is read, since a dialogue ends with what is asked.
            documents: ``MOST_DOCUMENTS`` at most; of a long one the beginning is read.
            seconds: for the one try there is.

        Raises:
            RerankerUnavailable: it cannot be reached, is too slow, refuses, or answers something unusable.
        """
        ...


def endpoint(settings: Settings) -> Endpoint:
    """Where ``JIYI_RERANKER`` is, unless that is ``off``. Raises :class:`SettingsError`."""
    spec = parse(settings.reranker, SETTING, local=[OFF])
    if spec.vendor != VENDOR:
        raise SettingsError(f"{SETTING}: {settings.reranker[:60]!r}: write {VENDOR}:<model>, or {OFF}")
    return resolve(spec, "rerank", SETTING, settings.reranker_base_url, settings.reranker_api_key)


@once
def reranker() -> Reranker:
    """This process's reranker. Raises :class:`SettingsError` where the setting names none, or lacks a model or an address."""
    from engine.providers.remote_reranker import RemoteReranker  # the SDK takes a second to load

    return RemoteReranker(endpoint(get_settings()))
