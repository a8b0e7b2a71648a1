"""Signs that a workflow runs in circles or out of hand: what it says then must not fill working memory.

An output has the guard's flags while its session's latest outputs show a sign.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from itertools import pairwise
from typing import Literal, get_args

from pydantic import BaseModel, Field

from jiyi.protocol.knowledge import CHECKED, RUNAWAY
from jiyi.text.budget import estimate_tokens
from jiyi.text.words import tokens

Sign = Literal["recursion", "token_rate", "repetition", "low_entropy"]

SIGNS: tuple[Sign, ...] = get_args(Sign)

#: Seconds over which the rate of tokens is measured: one long answer at once is no flood.
RATE_SECONDS = 10.0
#: Shorter texts have little entropy whatever they say.
LEAST_TOKENS = 20


class GuardLimits(BaseModel, frozen=True, extra="forbid"):
    """What is counted."""

    max_depth: int = Field(10, ge=1, le=1_000)
    max_tokens_per_second: float = Field(1_000, gt=0, le=1_000_000, allow_inf_nan=False)
    #: So many outputs in a row, each more like the one before than this.
    max_similarity: float = Field(0.95, ge=0, le=1, allow_inf_nan=False)
    repetitions: int = Field(3, ge=2, le=100)
    #: Of the words, from 0 (one word again and again) to 1 (no word twice).
    min_entropy: float = Field(0.5, ge=0, le=1, allow_inf_nan=False)


@dataclass(frozen=True)
class SessionOutput:
    """One output of a session; ``depth`` is how many nodes called each other to get there."""

    text: str
    at: datetime
    depth: int = 0

    # Counted once, though each output looks at all that came shortly before it.
    @cached_property
    def tokens(self) -> int:
        return estimate_tokens(self.text)

    @cached_property
    def words(self) -> Counter[str]:
        return Counter(tokens(self.text))


def sign_of_runaway(steps: Sequence[SessionOutput], limits: GuardLimits | None = None) -> Sign | None:
    """The first sign that the session's latest outputs, oldest first, show; None if all is well."""
    limits = limits or GuardLimits()
    if not steps:
        return None
    last = steps[-1]
    if last.depth > limits.max_depth:
        return "recursion"
    lately = [step.tokens for step in steps if 0 <= (last.at - step.at).total_seconds() < RATE_SECONDS]
    if len(lately) > 1 and sum(lately) > limits.max_tokens_per_second * RATE_SECONDS:
        return "token_rate"
    run = steps[-limits.repetitions - 1 :]
    if len(run) > limits.repetitions and all(
        _similarity(step, following) > limits.max_similarity for step, following in pairwise(run)
    ):
        return "repetition"
    return "low_entropy" if _entropy(last.words) < limits.min_entropy else None


def guarded(
    flags: Sequence[str], steps: Sequence[SessionOutput], limits: GuardLimits | None = None
) -> list[str]:
    """The flags of the last of a session's outputs: ``runaway`` and the sign if it shows one.

    ``runaway`` without a sign is somebody else's, and stays; what somebody has vouched for is not looked at.
    """
    own = {RUNAWAY, *SIGNS} if set(flags) & set(SIGNS) else set()
    other_flags = [flag for flag in flags if flag not in own]
    sign = None if CHECKED in flags else sign_of_runaway(steps, limits)
    return other_flags if sign is None else list(dict.fromkeys([*other_flags, RUNAWAY, sign]))


def _entropy(words: Counter[str]) -> float:
    """How varied words are, 0 … 1: their Shannon entropy over the greatest that so many could have."""
    total = words.total()
    if total < LEAST_TOKENS:
        return 1.0
    return -sum(count / total * math.log2(count / total) for count in words.values()) / math.log2(total)


def _similarity(step: SessionOutput, other: SessionOutput) -> float:
    """Cosine of the words' counts: no model is needed to see that somebody repeats themselves."""
    counts, other_counts = step.words, other.words
    product = sum(count * other_counts[word] for word, count in counts.items())
    lengths = math.hypot(*counts.values()) * math.hypot(*other_counts.values())
    return product / lengths if lengths else float(step.text.strip() == other.text.strip())
