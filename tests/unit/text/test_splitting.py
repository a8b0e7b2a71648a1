"""jiyi.text.splitting: nothing is lost or said twice but the overlap; pieces end where something ends."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jiyi.text.splitting import LEAST_SIZE, OVERLAP, SIZE, TextPiece, sentences, split

ENGLISH = "The kiln reached 1,240 degrees. Tomas feared for the glaze; Harriet did not. "
CHINESE = "窑温到了一千二百四十度。托马斯担心釉面会裂，林岚并不同意！她认为问题在土，不在火。"

TEXTS = st.one_of(
    st.text(max_size=1_500),
    st.text(alphabet="ab 。，\n\t.;é\u0301\u200d👩🏽土火", max_size=1_500),
    st.lists(
        st.sampled_from([ENGLISH, CHINESE, "\n\n", "\n", " ", "x" * 90, "土" * 70, "e\u0301" * 30]),
        max_size=40,
    ).map("".join),
)
SIZES = st.integers(LEAST_SIZE, 200).flatmap(
    lambda size: st.tuples(st.just(size), st.integers(0, size // 2 - 1))
)


def without_overlaps(text: str, pieces: list[TextPiece]) -> str:
    """The text as the pieces have it, each place once."""
    at, found = 0, []
    for piece in pieces:
        assert not text[at : piece.start].strip()
        found.append(text[max(at, piece.start) : piece.end])
        at = piece.end
    assert not text[at:].strip()
    return "".join(found)


@given(TEXTS, SIZES)
def test_nothing_is_lost_and_nothing_but_the_overlap_is_there_twice(
    text: str, sizes: tuple[int, int]
) -> None:
    size, overlap = sizes
    pieces = split(text, size, overlap)
    assert "".join(without_overlaps(text, pieces).split()) == "".join(text.split())
    for piece in pieces:
        assert piece.text == text[piece.start : piece.end] == piece.text.strip()
        assert 0 < len(piece.text) <= size
    for one, next_ in pairwise(pieces):
        assert one.start < next_.start
        assert one.end < next_.end  # no tail that only repeats
        assert one.end - next_.start <= overlap


@given(TEXTS, SIZES)
def test_there_are_not_many_more_pieces_than_needed(text: str, sizes: tuple[int, int]) -> None:
    size, overlap = sizes
    assert len(split(text, size, overlap)) <= 1 + len(text) / (size // 2 - overlap)
    assert "".join("".join(sentences(text)).split()) == "".join(text.split())


@pytest.mark.parametrize("letter", ["x", "土"])
@pytest.mark.parametrize(
    ("length", "lengths"), [(500, [500]), (501, [500, 51]), (950, [500, 500]), (951, [500, 500, 51])]
)
def test_no_piece_only_repeats_the_one_before(length: int, lengths: list[int], letter: str) -> None:
    """950 characters made three pieces in the original, the last of them the overlap alone."""
    pieces = split(letter * length)
    assert [len(piece.text) for piece in pieces] == lengths
    assert len(pieces) == 1 or pieces[1].start == SIZE - OVERLAP
    assert [piece.text for piece in split("a" * 11 + " bbbb" + " " * 50 + "c", 20, 9)] == [
        "a" * 11 + " bbbb",
        "c",
    ]


@pytest.mark.parametrize("sentence", [ENGLISH, CHINESE])
def test_pieces_end_and_begin_with_sentences(sentence: str) -> None:
    pieces = split(sentence * 30)
    assert len(pieces) > 2
    for piece in pieces:
        assert piece.text[-1] in ".;。！"
        assert piece.text.startswith(("The kiln", "Tomas", "Harriet", "窑温", "托马斯", "她认为"))


def test_a_paragraph_ends_a_piece_before_a_later_sentence_does_and_a_clause_where_there_is_none() -> None:
    assert split(f"{ENGLISH * 4}\n\n{ENGLISH * 4}")[0].text == (ENGLISH * 4).strip()
    assert len(split(f"Title\n\n{ENGLISH * 8}")[0].text) > SIZE // 2  # the pieces are not tiny
    assert all(piece.text.endswith("，") for piece in split("她认为问题在土，不在火，" * 80))


@pytest.mark.parametrize("text", ["3.5 " * 200, "see example.org/a.b?c=d " * 40])
def test_full_stops_within_words_end_nothing(text: str) -> None:
    assert all(piece.text.split()[-1] in text.split() for piece in split(text))


@pytest.mark.parametrize("size", range(60, 65))
def test_letters_stay_whole(size: int) -> None:
    for letter in ("e\u0301", "👩\u200d👩\u200d👧", "👍🏽", "❤\ufe0f"):
        for piece in split(letter * 200, size, 20):
            assert piece.text == letter * (len(piece.text) // len(letter))


@pytest.mark.parametrize(("size", "overlap"), [(LEAST_SIZE - 1, 0), (20_001, 0), (100, 50), (100, -1)])
def test_sizes_out_of_bounds_are_refused(size: int, overlap: int) -> None:
    with pytest.raises(ValueError, match=r"size: |overlap: "):
        split("text", size, overlap)


@pytest.mark.parametrize(
    "text",
    [
        *("." * 300_000, ";?" * 150_000, "...." * 50_000 + "x"),
        *(".'" * 150_000, " \n" * 150_000 + "x", "[" * 300_000),
    ],
)
def test_no_text_is_made_to_hang_it(text: str) -> None:
    assert len(sentences(text)) <= len(text)
    assert len(split(text, 20_000, 5_000)) <= 40


def test_sentences_end_with_their_marks() -> None:
    text = "It held! Node.js is 3.5.\n\n裂了吗？没有；“好。”她说 \n- a list; of two"
    assert sentences(text) == "It held!|Node.js is 3.5.|裂了吗？|没有；|“好。”|她说|- a list;|of two".split(
        "|"
    )
    assert sentences(" \n") == []
