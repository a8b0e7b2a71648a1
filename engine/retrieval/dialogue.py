"""A dialogue as a query: what each of its messages counts.

The user's latest message leads. Earlier ones say what the talk is about and count less the earlier they were; what the
assistant said counts little, because much of it is advice and echoes. A memory is compared with the weighted mean of the
messages' vectors, and a word counts as much as the weightiest message that has it. Measured in docs/decisions.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from engine.retrieval.scoring import MIN_NORM, length_of
from engine.text.keywords import asked_tokens
from jiyi.protocol.retrieval import Message
from jiyi.protocol.wire.vectors import Float32

#: A user's message counts so many times as much as the user's next one: with more, a change of the subject would cost more than
#: a talk that keeps to it gains.
DECAY = 0.5
#: What an assistant's message counts, beside the user's message that answers it.
ASSISTANT_SHARE = 0.2
#: What counts less is left out: the user's last four messages, and the assistant's between the last three, have to be embedded.
LEAST_WEIGHT = 0.08


class Part(NamedTuple):
    """A message that counts, and how much: 1 for the leading one."""

    text: str
    weight: float


def parts_of(messages: Sequence[Message]) -> tuple[Part, ...]:
    """The messages that count, the leading one first; several that say the same count once. Empty without messages."""
    found: dict[str, float] = {}
    weight = 1.0
    led = False
    for message in reversed(messages):
        by_user = message.role == "user"
        weight *= DECAY if led and by_user else 1.0
        led = led or by_user
        counts = weight if by_user else weight * ASSISTANT_SHARE
        if counts >= LEAST_WEIGHT:
            found[message.text] = max(counts, found.get(message.text, 0.0))
    return tuple(Part(text, counts) for text, counts in sorted(found.items(), key=lambda item: -item[1]))


def vector_of(parts: Sequence[Part], vectors: Mapping[str, Float32]) -> Float32:
    """The weighted mean of the parts' directions, of length 1 or less: shape ``(d,)``."""
    units = [vectors[part.text] / max(length_of(vectors[part.text]), MIN_NORM) for part in parts]
    total = np.sum([part.weight * unit for part, unit in zip(parts, units, strict=True)], axis=0)
    return np.asarray(total / max(length_of(total), MIN_NORM), dtype=np.float32)


def words_of(parts: Sequence[Part]) -> dict[str, float]:
    """The words that are looked for, each with what the weightiest message that has it counts."""
    found: dict[str, float] = {}
    for part in parts:
        for token in asked_tokens(part.text):
            found[token] = max(part.weight, found.get(token, 0.0))
    return found
