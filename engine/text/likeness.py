"""How alike texts are by their words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from engine.retrieval.lexicon import Lexicon
from engine.retrieval.ranking import MIN_NORM, Floats
from jiyi.text.words import tokens

#: Characters of a text that its words are taken from: each is compared with each.
MAX_READ = 1_000
#: From here on two texts are alike by the weight of shared words.
ALIKE_BY_WORDS = 0.15


def likeness_by_words(texts: Sequence[str]) -> Floats:
    """BM25 of each text for another's words, over what it has for its own; the mean of both ways."""
    lexicon = Lexicon()
    for text in texts:
        lexicon.add(tokens(text[:MAX_READ]))
    scores = np.array([lexicon.likeness(row) for row in range(len(texts))]).reshape(len(texts), len(texts))
    own = np.maximum(np.diagonal(scores), MIN_NORM)
    shares = scores / own[:, None]
    return np.asarray((shares + shares.T) / 2, dtype=np.float64)
