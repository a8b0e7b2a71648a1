"""What of a query counts, and how much: the sentences of a question, the messages of a dialogue.

In a dialogue the user's latest message leads. A memory is compared with the mean of two directions: that
message's, and that of the dialogue as one text. A word counts as much as the weightiest message that has it:
earlier ones of the user say what the talk is about and count less the earlier they were; what the assistant
said counts little, because much of it is advice and echoes. Why: docs/decisions.md.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine.retrieval.ranking import MIN_NORM, Floats, length_of
from engine.text.keywords import query_tokens
from jiyi.protocol.limits import EMBEDDED_QUESTION_CHARS
from jiyi.protocol.retrieval import DialogueMessage
from jiyi.protocol.wire.vectors import Float32
from jiyi.text.remembering import remembered
from jiyi.text.words import tokens

#: What a sentence counts that asks nothing, beside one that asks: it says what the question is about, or
#: nothing.
STATEMENT_SHARE = 0.5
#: A text of more sentences is a dialogue, or a page: it is looked for as a whole.
MAX_SENTENCES = 3
#: Fewer tokens say too little to be looked for alone.
MIN_SENTENCE_TOKENS = 3

_SENTENCE_END = re.compile(r"([。！？!?；;：\n]+|: |(?:另外|此外|还有|\balso\b|\band also\b)[，,]?)")
_ENDS_STATEMENT = re.compile(r"[。！!：:\n]")
_ASKS = re.compile(r"[吗呢]\Z")
#: Somebody or something that is described rather than named: 那个三月过生日的人, 住在大连的那位, the man who
#: sings, someone from Leith.
_DESCRIBED = re.compile(
    r"那(?:家伙|[个位款家场次只些][^，。？！,.?!]{3,40}的)|[^，。？！,.?!]{3,40}的(?:那[个位款家场次只些]|人)"
    r"|\b(?:the|that|this|those|an?|my|our)\s(?:[\w'-]{1,20}\s){1,3}(?:who|whose|whom)\b"
    r"|\b(?:person|people|man|woman|guy|girl|boy|lady|one|someone|somebody)\s(?:who|whose|that"
    r"|which|with|from|born|aged|called|named|I|we)\b",
    re.IGNORECASE,
)


class Sentence(NamedTuple):
    """A sentence, and whether it asks: it has a question mark, or leads on to one that has."""

    text: str
    asks: bool


def sentences_of(text: str) -> list[str]:
    """The parts of a question that are looked for by themselves; none of a text of more than
    ``MAX_SENTENCES``.
    """
    return [sentence.text for sentence in marked_sentences(text)]


# For the vectors that are needed, for those that are there, and to rank by: of the same question each time.
@remembered(8)
def marked_sentences(text: str) -> tuple[Sentence, ...]:
    """As :func:`sentences_of`, each with whether it asks."""
    pieces = _SENTENCE_END.split(text)
    sentences: list[Sentence] = []
    asks = False
    for part, end in reversed(list(zip(pieces[::2], [*pieces[1::2], ""], strict=True))):
        if "?" in end or "？" in end:
            asks = True
        elif _ENDS_STATEMENT.search(end):
            asks = False
        stripped = part.strip(" ，,")
        if len(tokens(stripped)) >= MIN_SENTENCE_TOKENS:
            sentences.append(Sentence(stripped, asks or _ASKS.search(stripped) is not None))
    return tuple(sentences[::-1]) if len(sentences) <= MAX_SENTENCES else ()


def describes(text: str) -> bool:
    """Whether a question describes whom or what it means (那个三月过生日的人, the man who sings)."""
    return _DESCRIBED.search(text) is not None


def weights_of(sentences: Sequence[Sentence]) -> Floats:
    """What each sentence counts, 0 … 1, shape ``(s,)``: where any asks, one that does not counts less."""
    asks = np.array([sentence.asks for sentence in sentences])
    return np.where(asks | ~asks.any(), 1.0, STATEMENT_SHARE)


def best_of(scores: NDArray[np.float64], weights: Floats) -> Floats:
    """What each memory counts with: its best sentence; of scores ``(s, n)`` and the sentences' weights
    ``(s,)``.
    """
    return np.asarray(np.max(weights[:, None] * scores, axis=0), dtype=np.float64)


#: A user's message counts so many times as much as the user's next one: with more, a change of the subject
#: would cost more than a talk that keeps to it gains.
DECAY = 0.5
#: What an assistant's message counts, beside the user's message that answers it.
ASSISTANT_SHARE = 0.2
#: What counts less is left out: the user's last four messages and the assistant's between the last three are
#: looked for.
LEAST_WEIGHT = 0.08
#: Who an assistant is called in a dialogue's text, where it has no name.
ASSISTANT = "Assistant"


class WeightedMessage(NamedTuple):
    """A message that counts, and how much: 1 for the leading one."""

    text: str
    weight: float


def parts_of(messages: Sequence[DialogueMessage]) -> tuple[WeightedMessage, ...]:
    """The messages that count, the leading one first; several that say the same count once."""
    weights: dict[str, float] = {}
    weight = 1.0
    led = False
    for message in reversed(messages):
        by_user = message.role == "user"
        weight *= DECAY if led and by_user else 1.0
        led = led or by_user
        counts = weight if by_user else weight * ASSISTANT_SHARE
        if counts >= LEAST_WEIGHT:
            weights[message.text] = max(counts, weights.get(message.text, 0.0))
    return tuple(
        WeightedMessage(text, counts) for text, counts in sorted(weights.items(), key=lambda item: -item[1])
    )


def texts_of(messages: Sequence[DialogueMessage]) -> tuple[str, str]:
    """The texts that are embedded of a dialogue: the user's latest message, and the latest messages as one
    text.

    As many messages as an embedder reads of a question (``EMBEDDED_QUESTION_CHARS``), at least the last.
    """
    leading = next(message.text for message in reversed(messages) if message.role == "user")
    lines: list[str] = []
    for message in reversed(messages):
        line = message.text if message.name or message.role == "user" else f"{ASSISTANT}: {message.text}"
        if lines and sum(map(len, lines)) + len(lines) + len(line) > EMBEDDED_QUESTION_CHARS:
            break
        lines.append(line)
    return leading, "\n".join(reversed(lines))


def vector_of(texts: Sequence[str], vectors: Mapping[str, Float32]) -> Float32:
    """The mean of the texts' directions, of length 1 or 0: shape ``(d,)``."""
    total = np.sum([vectors[text] / max(length_of(vectors[text]), MIN_NORM) for text in texts], axis=0)
    return np.asarray(total / max(length_of(total), MIN_NORM), dtype=np.float32)


def words_of(parts: Sequence[WeightedMessage]) -> dict[str, float]:
    """The words that are looked for, each with what the weightiest message that has it counts."""
    weights: dict[str, float] = {}
    for part in parts:
        for token in query_tokens(part.text):
            weights[token] = max(part.weight, weights.get(token, 0.0))
    return weights
