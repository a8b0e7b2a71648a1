"""jiyi.text.words: what a text is found by, in Chinese and English."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.text.keywords import query_tokens
from jiyi.text.words import MAX_CHARS, MAX_TOKEN_CHARS, stem, tokens

#: Letters whose upper and lower case are one another's; ß and ı are not.
plain = st.text(alphabet="abcxyzABCXYZ0189 '-_.@:/,?我喜欢下棋年月日号点ＡＢｃ０９，。😀❤", max_size=60)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The kiln was broken", "kiln broken"),
        ("running, tea, RUN", "run tea run"),
        ("INV-2093", "inv-2093 inv 2093"),
        (
            "a.b@example.org",
            "a.b@example.org b exampl org",
        ),  # "a" is a stop word, and tells nothing here either
        ("2026-03-02", "2026-03-02 2026 3 2"),
        ("build42", "build42 build 42"),
        ("007", "7"),
        ("Caroline’s", "carolin"),
        ("the runners' club", "runner club"),
        ("我喜欢下棋", "我喜 喜欢 欢下 下棋"),
        ("我", "我"),
        ("下棋。喝茶", "下棋 喝茶"),
        ("안녕하세요", "안녕 녕하 하세 세요"),
        ("8月17日", "8月 8 17日 17"),
        ("花了100元", "花了 100元 100"),
        ("订单INV-2093已付", "订单 inv-2093 inv 2093 已付"),
        ("so happy😀today 👍👍❤️", "happi 😀 today 👍 👍 ❤"),
        ("snake_cases", "snake_cases snake case"),  # whole as it is, its parts stemmed
        ("", ""),
        (" \t\n…—。", ""),
    ],
)
def test_the_tokens_of_a_text(text: str, expected: str) -> None:
    assert tokens(text) == expected.split()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("08月17号", "8月17日"),
        ("ＩＮＶ－２０９３", "inv-2093"),
        ("Ｃａｆｅ", "CAFE"),
        ("ﾃｽﾄ", "テスト"),
        ("cafe\u0301", "caf\u00e9"),  # one character or two
    ],
)
def test_two_spellings_of_the_same(one: str, other: str) -> None:
    assert tokens(one) == tokens(other) != []


def test_every_part_of_an_identifier_finds_it() -> None:
    for question in ("INV-2093", "inv", "2093", "02093"):
        assert set(tokens(question)) & set(tokens("the invoice INV-2093 is paid"))
    assert not set(tokens("2094")) & set(tokens("INV-2093"))


def test_stop_words_are_left_out_unless_there_is_nothing_else() -> None:
    assert tokens("Who is the one with it") == ["one"]
    assert tokens("who is it") == ["who", "is", "it"]
    assert tokens("It's") == ["it"]
    assert tokens("it 吗") == ["吗"]


def test_words_longer_than_any_word_are_left_out() -> None:
    longest = "x" * MAX_TOKEN_CHARS
    assert tokens(longest) == [longest]
    assert tokens(f"see {longest}x here: tea") == ["see", "tea"]


def test_only_the_beginning_of_a_long_text_counts() -> None:
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


@pytest.fixture
def _turns_taken_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("_turns_taken_often")
def test_threads_do_not_mix_up_their_words() -> None:
    """The stemmer works on the word within itself: with one for all threads, stems came out wrong, and were
    remembered.
    """
    words = "organizations considerations happily running generalizations houses marriages".split() * 30
    expected = [stem(word) for word in words]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: [stem(word) for word in words], range(40)))
    assert all(stems == expected for stems in found)


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("我现在住哪里", ["在住", "住哪", "住"]),
        ("现在一天喝几杯咖啡", ["在一", "一天", "天喝", "喝几", "几杯", "杯咖", "咖啡", "喝"]),
        ("为什么", ["为什", "什么"]),  # unless there is nothing else
        ("What is 现在?", ["现在"]),
    ],
)
def test_pairs_of_function_words_are_not_looked_for(question: str, expected: list[str]) -> None:
    assert query_tokens(question) == expected
