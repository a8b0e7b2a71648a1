"""What the user's messages tell about them in general, by rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from engine.conversations.extraction import words as cue
from engine.conversations.extraction.topics import topics
from jiyi.protocol.conversations.types import PROFILE_ENTRIES, Message, ProfileSignals, Style
from jiyi.text.sections import first, union, unions
from jiyi.text.splitting import sentences
from jiyi.text.words import normalise

#: Characters of a message that are read.
READ_CHARS = 4_000
MAX_WORD_CHARS = 60

_HERE, _SIGNALS = "engine.conversations", "extraction/signals.txt"


def profile_signals(messages: Sequence[Message], since: int = 0) -> ProfileSignals:
    """The signals in the user's messages from ``since`` on; the newest first in lists."""
    said = [message.text[:READ_CHARS] for number, message in enumerate(messages) if number >= since and message.role == "user"]
    told = [text for text in said if not cue.HANDED_OVER.search(text) and not cue.ROLE_PLAY.search(text)]
    lowered = [normalise(text) for text in told]
    own = [
        sentence
        for text in told
        for sentence in sentences(text)
        if not cue.IMAGINED.search(sentence) and not cue.QUESTION_MARK.search(sentence)
    ]
    roles = [
        (match["en"] or match["zh"]).strip() for sentence in own if (match := union(_HERE, _SIGNALS, "role").search(normalise(sentence)))
    ]
    tools = [match["en"] or match["zh"] for sentence in own for match in union(_HERE, _SIGNALS, "tool").finditer(sentence)]
    pains = [sentence.strip() for sentence in own if cue.TROUBLE.search(sentence)]
    return ProfileSignals(
        industry=first(unions(_HERE, _SIGNALS, "industry:"), " ".join(map(normalise, own))),
        role=roles[-1][:MAX_WORD_CHARS] if roles else None,
        expertise_level=first(unions(_HERE, _SIGNALS, "expertise:"), " ".join(lowered)),
        communication_style=cast("Style | None", first(unions(_HERE, _SIGNALS, "style:"), "\n".join(lowered))),
        recent_topics=_newest(topics(messages, since)),
        pain_points=_newest([pain[:500] for pain in reversed(pains)]),
        preferred_tools=_newest(list(reversed(tools))),
    )


def _newest(words: list[str]) -> list[str]:
    return [word for word in dict.fromkeys(words) if word.strip()][:PROFILE_ENTRIES]
