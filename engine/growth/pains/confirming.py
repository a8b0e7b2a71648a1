"""Which proposal it is that a user says helped: the one that was told right before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from engine.growth.pains.words import topic_of
from jiyi.protocol.conversations.types import Message
from jiyi.text.tokens import telling

#: Messages before the user's words that are looked at for a proposal.
CONTEXT = 6
#: Share of a step's telling words that an answer must have to have told it, and of a pain's for the user to have named it.
TOLD, NAMED = 0.6, 0.6
#: With fewer telling words a step could be told by chance.
LEAST_WORDS = 2
#: Characters of each message that are read.
READ_CHARS = 8_000


@dataclass(frozen=True, slots=True)
class Offer:
    """A proposal that nobody has decided on."""

    proposal_id: UUID
    pain: str
    steps: Sequence[str]


def confirmed(messages: Sequence[Message], turn: int, offers: Sequence[Offer]) -> UUID | None:
    """The offer that the user's message ``turn`` confirms, by what was said before it; None if none was told there.

    Of several the one told best, of equals the first.
    """
    said = [message.text[:READ_CHARS] for message in messages[max(0, turn - CONTEXT) : turn] if message.role == "assistant"]
    advised = [set(telling(text)) for text in said]
    own = set(telling(messages[turn].text[:READ_CHARS]))
    scored = [(_score(offer, advised, own), offer) for offer in offers]
    best, offer = max(scored, key=lambda item: item[0], default=(0.0, None))
    return offer.proposal_id if offer is not None and best > 0 else None


def _score(offer: Offer, advised: Sequence[set[str]], own: set[str]) -> float:
    """How many of its steps were told, and whether the user named the pain; 0 if neither."""
    steps = [words for step in offer.steps if len(words := set(telling(step))) >= LEAST_WORDS]
    told = sum(any(len(words & answer) >= TOLD * len(words) for answer in advised) for words in steps)
    pain = set(telling(topic_of(offer.pain)))
    named = len(pain) >= LEAST_WORDS and len(pain & own) >= NAMED * len(pain)
    return told / len(steps) + named if steps else float(named)
