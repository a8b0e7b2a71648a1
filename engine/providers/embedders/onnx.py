"""Models of Qdrant's ``fastembed`` (ONNX) on this machine. It downloads a model's weights on first use."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from threading import Lock
from typing import Any

import numpy as np

from engine.providers.embedders.checks import unit_rows
from jiyi.errors import EmbeddingUnavailable
from jiyi.protocol.wire.vectors import Float32

#: Characters that are given to the tokenizer: its models read 512 tokens, and its time grows with all that it is given.
MAX_CHARS = 3_000


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
            made = unit_rows(rows, len(texts), self._size, f"fastembed's {self.model}")
            self._size = made.shape[1]
        return made
