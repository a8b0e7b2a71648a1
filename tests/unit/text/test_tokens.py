"""jiyi.text.words: what a text is found by, in Chinese and English."""

from __future__ import annotations

import sys
import unicodedata
from concurrent.futures import ThreadPoolExecutor

from hypothesis import given
from hypothesis import strategies as st

from engine.text.keywords import query_tokens
from jiyi.text.words import MAX_CHARS, MAX_TOKEN_CHARS, stem, tokens
from tests.unit.text.labelled import labelled

#: Letters whose upper and lower case are one another's; ß and ı are not.
plain = st.text(alphabet="abcxyzABCXYZ0189 '-_.@:/,?我喜欢下棋年月日号点ＡＢｃ０９，。😀❤", max_size=60)


@labelled
def test_the_tokens_of_a_text(text: str, expected: str) -> None:
    assert tokens(text) == expected.split()


@labelled
def test_two_spellings_of_the_same(one: str, other: str) -> None:
    assert tokens(one) == tokens(other) != []


def test_every_part_of_an_identifier_finds_it() -> None:
    for question in ("INV-2093", "inv", "2093", "02093"):
        assert set(tokens(question)) & set(tokens("the invoice INV-2093 is paid"))
    assert not set(tokens("2094")) & set(tokens("INV-2093"))


def test_words_longer_than_any_word_and_all_but_the_beginning_of_a_long_text_are_left_out() -> None:
    longest = "x" * MAX_TOKEN_CHARS
    assert tokens(f"{longest} {longest}x here: tea") == [longest, "tea"]
    assert tokens("a" + " " * MAX_CHARS + "tea") == ["a"]
    assert tokens(" " * (MAX_CHARS - 3) + "tea") == ["tea"]
    assert len("".join(tokens("ﷺ" * MAX_CHARS))) <= MAX_CHARS  # each becomes eighteen characters


@given(st.text(max_size=200))
def test_never_raises_and_no_token_is_empty_or_long(text: str) -> None:
    found = tokens(text)
    assert all(0 < len(token) <= MAX_TOKEN_CHARS for token in found)
    # One of letters and digits in turn gives a token for each, and itself.
    assert len(found) <= 2 * len(unicodedata.normalize("NFKC", text).lower())
    assert not any(character.isspace() for token in found for character in token)
    assert not any(token[0] in "-_'’" or token[-1] in "-_'’" for token in found)


@given(plain)
def test_case_and_width_make_no_difference(text: str) -> None:
    normal = unicodedata.normalize("NFKC", text)
    assert tokens(normal) == tokens(text) == tokens(text.upper()) == tokens(text.lower())


@given(plain, plain)
def test_texts_put_together_have_the_tokens_of_both(one: str, other: str) -> None:
    # With a telling word in both: stop words count only where there is nothing else.
    together = tokens(f"kiln {one}\n{other}")
    assert together == tokens(f"kiln {one}") + tokens(f"kiln {other}")[1:]


@given(st.text(alphabet="abcxyzXYZ0189 '-_.@:/+,?!\n", max_size=60))
def test_ascii_is_read_as_any_other_text(text: str) -> None:
    """It has a way of its own, for its speed. An emoji takes the general one, and gives one token more."""
    assert tokens(f"kiln {text} 😀") == [*tokens(f"kiln {text}"), "😀"]


def test_threads_do_not_mix_up_their_words() -> None:
    """The stemmer works on the word within itself: with one for all threads, stems came out wrong."""
    before = sys.getswitchinterval()
    words = "organizations considerations happily running generalizations houses marriages".split() * 30
    expected = [stem(word) for word in words]
    sys.setswitchinterval(1e-6)  # threads take turns often
    try:
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(lambda _: [stem(word) for word in words], range(40)))
    finally:
        sys.setswitchinterval(before)
    assert all(stems == expected for stems in found)


@labelled
def test_pairs_of_function_words_are_not_looked_for(question: str, expected: list[str]) -> None:
    assert query_tokens(question) == expected
