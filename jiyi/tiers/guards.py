"""Signs that a workflow runs in circles or out of hand (CN-60): what it says then must not fill working memory.

Pure: the caller gives a session's latest outputs. The original names the four signs, but its breaker was never built.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from jiyi.text.budget import estimate_tokens
from jiyi.text.tokens import tokens

Sign = Literal["recursion", "token_rate", "repetition", "low_entropy"]

#: Seconds over which the rate of tokens is measured: one long answer at once is no flood.
RATE_SECONDS = 10.0
#: Shorter texts have little entropy whatever they say.
LEAST_TOKENS = 20


class GuardLimits(BaseModel):
    """CN-60's numbers."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_depth: int = Field(10, ge=1, le=1_000)
    max_tokens_per_second: float = Field(1_000, gt=0, le=1_000_000, allow_inf_nan=False)
    #: So many outputs in a row, each more like the one before than this.
    max_similarity: float = Field(0.95, ge=0, le=1, allow_inf_nan=False)
    repetitions: int = Field(3, ge=2, le=100)
    #: Of the words, from 0 (one word again and again) to 1 (no word twice).
    min_entropy: float = Field(0.5, ge=0, le=1, allow_inf_nan=False)


@dataclass(frozen=True, slots=True)
class Step:
    """One output of a session; ``depth`` is how many nodes called each other to get there."""

    text: str
    at: datetime
    depth: int = 0


def sign_of_runaway(steps: Sequence[Step], limits: GuardLimits | None = None) -> Sign | None:
    """The first sign that the session's latest outputs, oldest first, show; None if all is well."""
    limits = limits or GuardLimits()
    if not steps:
        return None
    last = steps[-1]
    if last.depth > limits.max_depth:
        return "recursion"
    lately = sum(estimate_tokens(step.text) for step in steps if 0 <= (last.at - step.at).total_seconds() < RATE_SECONDS)
    if lately > limits.max_tokens_per_second * RATE_SECONDS:
        return "token_rate"
    run = steps[-limits.repetitions - 1 :]
    if len(run) > limits.repetitions and all(_alike(one.text, two.text) > limits.max_similarity for one, two in pairwise(run)):
        return "repetition"
    return "low_entropy" if entropy(last.text) < limits.min_entropy else None


def entropy(text: str) -> float:
    """How varied the words of a text are: their Shannon entropy over the greatest that so many words could have."""
    words = tokens(text)
    if len(words) < LEAST_TOKENS:
        return 1.0
    shares = [count / len(words) for count in Counter(words).values()]
    return -sum(share * math.log2(share) for share in shares) / math.log2(len(words))


def _alike(one: str, other: str) -> float:
    """Cosine of the words' counts: no model is needed to see that somebody repeats themselves."""
    left, right = Counter(tokens(one)), Counter(tokens(other))
    product = sum(count * right[word] for word, count in left.items())
    lengths = math.hypot(*left.values()) * math.hypot(*right.values())
    return product / lengths if lengths else float(one.strip() == other.strip())
