"""Pain in what users say, by rules: sentences that tell of trouble, and those that say that something helped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from engine.conversations import cues as cue
from engine.growth.pains import words
from jiyi.chat.secrets import masked
from jiyi.protocol.conversations.types import Message
from jiyi.protocol.growth.pain_types import MAX_FOUND, MAX_SUMMARY_CHARS, FoundPain, FoundPains
from jiyi.text.splitting import sentences

#: Characters of a message that are read.
READ_CHARS = 4_000


def find(messages: Sequence[Message], since: int = 0) -> FoundPains:
    """What the user's messages from ``since`` on tell; texts handed over, and what is played, are not the user's."""
    pains, helped = [], []
    for turn, sentence in _said(messages, since):
        if words.helped(sentence):
            helped.append(turn)
        elif words.hurts(sentence):
            pains.append(
                FoundPain(
                    summary=" ".join(masked(sentence).split())[:MAX_SUMMARY_CHARS],
                    category=words.category_of(sentence),
                    severity=words.severity_of(sentence),
                    turn=turn,
                )
            )
    return FoundPains(pains=pains[:MAX_FOUND], helped=list(dict.fromkeys(helped))[:MAX_FOUND])


def _said(messages: Sequence[Message], since: int) -> Iterator[tuple[int, str]]:
    for turn, message in enumerate(messages):
        text = message.text[:READ_CHARS]
        if turn < since or message.role != "user" or cue.HANDED_OVER.search(text) or cue.ROLE_PLAY.search(text):
            continue
        for sentence in sentences(text):
            if sentence.strip():
                yield turn, sentence.strip()
