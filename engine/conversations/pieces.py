"""What an LLM is asked about at once: as much of a conversation as it reads, and as its answer has room for.

A conversation falls into pieces of whole messages; a longer message falls into parts at ends of sentences. A
piece that is refused, or answered with nothing usable, is halved, down to one message; that one is left to
the rules. So no message keeps the others from being looked at.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from engine.conversations.statements import READ_CHARS
from engine.providers.llm_prompts import shown_chars
from jiyi.errors import BadReply, LeftToRules, LLMUnavailable
from jiyi.protocol.conversations import Message
from jiyi.text.budget import estimate_tokens
from jiyi.text.splitting import LEAST_SIZE, split

T = TypeVar("T")

#: Lines before a piece that it is understood by, and characters of each that are shown.
CONTEXT_LINES, CONTEXT_CHARS = 6, 400
#: Tokens of a line beside its text: number, speaker, role and day.
LINE_TOKENS = 16
#: Characters of a token: no text has more of them.
TOKEN_CHARS = 4
#: Tokens of an answer for each message of a user: what it repeats at most, and the fields around it.
SAID_AGAIN, FIELDS = 300, 60
#: Share of the longest answer that is planned for: estimates are not exact.
PLANNED = 0.9
#: Unusable answers of one run after which the rules do the rest; the same while none was usable.
MOST_BAD, BAD_AT_FIRST = 16, 3


@dataclass(frozen=True, slots=True)
class TokenRoom:
    """Tokens of the data of a question, and of its answer."""

    data: int
    answer: int


@dataclass(frozen=True, slots=True)
class MessageLine:
    """A message, or a part of one; ``turn`` is the message's number in the conversation."""

    turn: int
    message: Message

    @property
    def tokens(self) -> int:
        """What it takes of a question's data."""
        return line_tokens(self.message.text)

    @property
    def answer_tokens(self) -> int:
        """What it takes of an answer."""
        if self.message.role != "user":
            return 0
        return FIELDS + min(estimate_tokens(self.message.text), SAID_AGAIN)


@dataclass(frozen=True, slots=True)
class ConversationPiece:
    """Lines that are asked about, and those before them; ``with_facts``: known facts are shown with them."""

    before: tuple[MessageLine, ...]
    new: tuple[MessageLine, ...]
    with_facts: bool = False

    @property
    def lines(self) -> tuple[MessageLine, ...]:
        return (*self.before, *self.new)

    @property
    def messages(self) -> list[Message]:
        return [line.message for line in self.lines]

    @property
    def since(self) -> int:
        """Number of the first new line."""
        return len(self.before)

    @property
    def tokens(self) -> int:
        return sum(line.tokens for line in self.new)

    def halves(self) -> list[ConversationPiece]:
        """Both halves, as far as a user says something in them; none of a single line."""
        middle = len(self.new) // 2
        if not middle:
            return []
        first, second = self.new[:middle], self.new[middle:]
        then = ConversationPiece(_context((*self.before, *first)), second, self.with_facts)
        return _with_users([ConversationPiece(self.before, first, self.with_facts), then])

    def apart(self) -> list[ConversationPiece]:
        """It, or its halves, without what else is shown, which may be refused. None of one line."""
        if self.before or self.with_facts:
            return [ConversationPiece((), self.new)]
        return [ConversationPiece((), half.new) for half in self.halves()]


def in_pieces(
    messages: Sequence[Message], since: int, room: TokenRoom, *, with_facts: bool = False
) -> list[ConversationPiece]:
    """The messages from number ``since`` on in pieces that fit, in order; none without a user's message.

    ``with_facts``: whether known facts are shown with them, for which there is room.
    """
    before = _context([MessageLine(number, message) for number, message in enumerate(messages[:since])])
    context_tokens = min(room.data // 2, CONTEXT_LINES * (LINE_TOKENS + CONTEXT_CHARS // TOKEN_CHARS))
    free = max(room.data - context_tokens, 2 * LINE_TOKENS)
    numbers = range(since, len(messages))
    every = [line for number in numbers for line in _lines(number, messages[number], free)]
    pieces: list[ConversationPiece] = []
    new: list[MessageLine] = []
    for line in every:
        tokens = sum(one.tokens for one in (*new, line))
        answer_tokens = sum(one.answer_tokens for one in (*new, line))
        if new and (tokens > free or answer_tokens > PLANNED * room.answer):
            pieces.append(ConversationPiece(before, tuple(new), with_facts))
            before, new = _context((*before, *new)), []
        new.append(line)
    pieces += [ConversationPiece(before, tuple(new), with_facts)] if new else []
    return _with_users(pieces)


def _with_users(pieces: Iterable[ConversationPiece]) -> list[ConversationPiece]:
    return [piece for piece in pieces if any(line.message.role == "user" for line in piece.new)]


def in_chunks(utterances: Iterable[tuple[str, str]], most: int) -> list[list[tuple[str, str]]]:
    """Utterances (speaker, text) in chunks of at most so many tokens, long ones in parts."""
    chunks: list[list[tuple[str, str]]] = []
    room = 0
    for speaker, text in utterances:
        for part in _parts(text, most):
            tokens = line_tokens(part)
            if tokens > room:
                chunks.append([])
                room = most
            chunks[-1].append((speaker, part))
            room -= tokens
    return chunks


def _lines(number: int, message: Message, most: int) -> list[MessageLine]:
    """A message as one line, or in parts that each fit."""
    return [
        MessageLine(number, message.model_copy(update={"text": part})) for part in _parts(message.text, most)
    ]


def _parts(text: str, most: int) -> list[str]:
    """A text unchanged, or in parts of at most so many tokens, and of no more than is read of a message."""
    tokens = line_tokens(text)
    if tokens <= most and len(text) <= READ_CHARS:
        return [text]
    size = int(len(text) * (most - LINE_TOKENS) / (tokens - LINE_TOKENS))
    return [part.text for part in split(text, max(LEAST_SIZE, min(size, READ_CHARS)), 0)]


def line_tokens(text: str) -> int:
    """What a line with this text takes of a question's data."""
    return LINE_TOKENS + max(estimate_tokens(text), -(-shown_chars(text) // TOKEN_CHARS))


def _context(lines: Sequence[MessageLine]) -> tuple[MessageLine, ...]:
    """The last lines, each cut to the length that is shown."""
    return tuple(
        MessageLine(
            line.turn, line.message.model_copy(update={"text": f"{line.message.text[:CONTEXT_CHARS]}…"})
        )
        if len(line.message.text) > CONTEXT_CHARS + 1
        else line
        for line in lines[-CONTEXT_LINES:]
    )


@dataclass(frozen=True, slots=True)
class PieceAnswer(Generic[T]):
    """What a piece came to, by the rules or not; ``refusal``: why the LLM has no answer to this message."""

    piece: ConversationPiece
    answer: T
    by_rules: bool = False
    refusal: BadReply | None = None


@dataclass(slots=True)
class RunPatience:
    """How often an LLM answered in one run; ``refused`` questions say nothing of others."""

    good: int = 0
    bad: int = 0
    refused: int = 0

    @property
    def is_over(self) -> bool:
        return self.bad + self.refused >= MOST_BAD or (self.bad >= BAD_AT_FIRST and not self.good)

    def note(self, error: BadReply) -> None:
        """A question had no answer."""
        if error.refused:
            self.refused += 1
        else:
            self.bad += 1


def ask_about(
    pieces: Iterable[ConversationPiece],
    ask: Callable[[ConversationPiece], T],
    rules: Callable[[ConversationPiece], T],
    patience: RunPatience,
    alone: bool = False,
) -> list[PieceAnswer[T]]:
    """What each piece came to, in order; ``rules`` answer in the place of an LLM that cannot.

    Args:
        pieces: as :func:`in_pieces` makes them.
        ask: asks the LLM.
        rules: answers in its place.
        patience: of this run.
        alone: whether a single message without an answer is no matter for the rules.

    Raises:
        LLMUnavailable: the LLM is away.
        BadReply: ``alone``, and there is no usable answer.
    """
    waiting, results = deque(pieces), list[PieceAnswer[T]]()
    while waiting:
        piece = waiting.popleft()
        if patience.is_over:
            results.append(PieceAnswer(piece, rules(piece), by_rules=True))
            continue
        try:
            results.append(PieceAnswer(piece, ask(piece)))
            patience.good += 1
        except LLMUnavailable as error:
            halves = piece.halves() if error.timed_out else []
            if not halves:
                raise
            waiting.extendleft(reversed(halves))
        except LeftToRules:
            if alone:
                raise
            results.append(PieceAnswer(piece, rules(piece), by_rules=True))
        except BadReply as error:
            patience.note(error)
            parts = piece.halves() if error.too_long else piece.apart()
            if not parts and alone:
                raise
            if not parts:
                results.append(PieceAnswer(piece, rules(piece), by_rules=True, refusal=error))
            waiting.extendleft(reversed(parts))
    return results
