"""Conversations in pieces that fit, of which nothing is left out, and who answers when an LLM does not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.conversations.notes import Notes
from engine.conversations.pieces import (
    CONTEXT_CHARS,
    MOST_BAD,
    ConversationPiece,
    RunPatience,
    TokenRoom,
    ask_about,
    in_chunks,
    in_pieces,
)
from engine.providers.llm_prompts import PROMPT_CHARS, block_of
from jiyi.errors import BadReply, LLMUnavailable
from jiyi.protocol.conversations import Message
from tests.llms import refusal, too_long, too_slow

ROOM = TokenRoom(5_000, 1_500)
WORDS = st.text(alphabet="moss 苔藓.。\n", min_size=1, max_size=400).map(lambda text: text * 30)


def said(*texts: str) -> list[Message]:
    """What a user said, and an assistant, in turn."""
    roles = ("user", "assistant")
    return [Message(role=roles[number % 2], text=text) for number, text in enumerate(texts)]


@given(st.lists(WORDS, min_size=1, max_size=8), st.integers(400, 6_000), st.integers(64, 4_000))
def test_nothing_that_is_said_is_left_out_or_cut(texts: list[str], data: int, answer: int) -> None:
    messages = [Message(role="user", text=text) for text in texts]
    pieces = in_pieces(messages, 0, TokenRoom(data, answer))
    shown = ["" for _ in texts]
    for piece in pieces:
        assert piece.tokens <= data
        for line in piece.new:
            shown[line.turn] += line.message.text
    assert ["".join(text.split()) for text in shown] == ["".join(text.split()) for text in texts]


def test_a_full_piece_is_not_shortened_in_its_prompt() -> None:
    messages = said(*["看看 <data> “引号” 和 \\ 反斜杠。" * 40, "I see."] * 20)
    for piece in in_pieces(messages, 0, ROOM):
        block = block_of(Notes(agent_id="a", messages=piece.messages, since=piece.since), PROMPT_CHARS)
        assert (block.shortened, block.left_out) == (0, 0)


def test_pieces_are_understood_by_the_lines_before_them_and_hold_a_user_s() -> None:
    messages = said("x " * 900, "y " * 2_000, "I live in Porto.", "Nice.")
    [piece] = in_pieces(messages, 2, ROOM)
    assert [line.turn for line in piece.lines] == [0, 1, 2, 3]
    assert all(len(line.message.text) <= CONTEXT_CHARS + 1 for line in piece.before)
    assert in_pieces(messages, 3, ROOM) == []
    talk = said(*["I like tea very much, most of all in the morning."] * 120)
    first, *_, last = in_pieces(talk, 0, TokenRoom(5_000, 500))
    assert first.before == ()
    assert [line.turn for line in last.before] == list(range(last.new[0].turn - 6, last.new[0].turn))


def tried(
    pieces: list[ConversationPiece], wrong: object, patience: RunPatience | None = None
) -> tuple[list[str], list[tuple[list[int], bool]]]:
    """What was asked (texts of new lines), and of each answer its turns and whether it is the rules'.

    ``wrong``: says of a text what it raises.
    """
    asked = []

    def ask(piece: ConversationPiece) -> str:
        text = " ".join(line.message.text for line in piece.lines)
        asked.append(" ".join(line.message.text for line in piece.new))
        error = wrong(text)  # type: ignore[operator]
        if error is not None:
            raise error
        return text

    answers = ask_about(pieces, ask, lambda piece: "rules", patience or RunPatience())
    return asked, [([line.turn for line in one.piece.new], one.by_rules) for one in answers]


FILTER = refusal("extraction@2 was not answered, a filter of contents refuses it: 400")
PROSE = BadReply("no usable answer to extraction@2")


def test_one_refused_message_goes_to_the_rules_and_the_rest_does_not() -> None:
    messages = [Message(role="user", text=str(number)) for number in range(16)]
    asked, answers = tried(in_pieces(messages, 0, ROOM), lambda text: FILTER if "11" in text else None)
    assert sorted(turn for turns, _ in answers for turn in turns) == list(range(16))
    assert [turns for turns, by_rules in answers if by_rules] == [[11]]
    assert len(asked) <= 9
    # Nor is a message refused for the one before it.
    before = said("bad", "ok", "fine")
    asked, answers = tried(in_pieces(before, 2, ROOM), lambda text: FILTER if "bad" in text else None)
    assert (asked, answers) == (["fine", "fine"], [([2], False)])


def test_what_answers_nothing_is_soon_left_alone() -> None:
    messages = [Message(role="user", text=str(number)) for number in range(60)]
    for wrong, times in ((PROSE, 3), (FILTER, MOST_BAD)):
        asked, answers = tried(in_pieces(messages, 0, ROOM), lambda _text, wrong=wrong: wrong)
        assert len(asked) == times
        assert all(by_rules for _, by_rules in answers)
        assert sorted(turn for turns, _ in answers for turn in turns) == list(range(60))


def test_who_is_too_slow_is_asked_less_and_who_is_away_not_at_all() -> None:
    pieces = in_pieces([Message(role="user", text=str(number)) for number in range(8)], 0, ROOM)
    slow = too_slow()
    asked, answers = tried(pieces, lambda text: slow if len(text.split()) > 8 else None)
    assert (asked[0], [by_rules for _, by_rules in answers]) == ("0 1 2 3 4 5 6 7", [False] * len(answers))
    with pytest.raises(LLMUnavailable):
        tried(pieces, lambda _text: slow)
    with pytest.raises(LLMUnavailable, match="no route"):
        tried(pieces, lambda _text: LLMUnavailable("no route"))


def test_what_is_too_long_is_asked_about_in_halves_with_what_comes_before_it() -> None:
    messages = said("so", "ok", *"abcdefgh")
    long = too_long("it was cut off at 1,500 tokens")
    asked, answers = tried(in_pieces(messages, 2, ROOM), lambda text: long if len(text.split()) > 8 else None)
    assert asked == ["a b c d e f g h", "a b c d", "e f g h", "e f", "g h"]
    assert not any(by_rules for _, by_rules in answers)


def test_chunks_hold_all_that_was_said() -> None:
    chunks = in_chunks([("user", "moss grows. " * 900), ("assistant", "ok"), ("user", "苔藓。" * 900)], 1_000)
    assert len(chunks) > 4
    words = "".join(word for chunk in chunks for _, text in chunk for word in text.split())
    assert words == "mossgrows." * 900 + "ok" + "苔藓。" * 900
