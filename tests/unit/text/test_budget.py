"""jiyi.text.budget: token estimates that are rather high, and cuts that keep within them."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from jiyi.text.budget import CUT, cut_to_tokens, estimate_tokens

TEXTS = st.one_of(st.text(max_size=300), st.text(alphabet="ab 。，.,\n土火x1", max_size=400))


@pytest.mark.parametrize(
    ("text", "estimate"),
    [
        *((" \n\u3000", 0), ("土", 2), ("土火", 3), ("kiln", 2), ("the kiln is hot", 6), ("a.b", 4), ("x" * 400, 100), ("土 and fire", 5)),
        *(("0:0:0:0:0㐀", 12), ("0:0:0:0:0㐀 0:0:0:0:0㐀", 24)),  # a whole number is not rounded up
        *(("2026-11-22", 8 + 2), ("กขคง", 4), ("Жизнь", 3), ("🔥🔥", 6), ("naïve", 2), ("x1y2z3", 4)),  # what tokenizers break up
    ],
)
def test_a_character_is_one_and_a_half_and_a_word_one_and_three_tenths(text: str, estimate: int) -> None:
    assert estimate_tokens(text) == estimate


@given(TEXTS, TEXTS, st.sampled_from(["", " ", "\n", "\n\n"]))
@example("0:0:0:0:0㐀", "0:0:0:0:0㐀", " ")
def test_estimates_add_up_or_less(one: str, other: str, between: str) -> None:
    assert estimate_tokens(one + between + other) <= estimate_tokens(one) + estimate_tokens(other)


@given(TEXTS, st.integers(0, 200))
def test_a_cut_text_is_within_its_budget_and_a_beginning(text: str, most: int) -> None:
    cut = cut_to_tokens(text, most)
    assert estimate_tokens(cut) <= most
    if estimate_tokens(text) <= most:
        assert cut == text
    else:
        assert text.startswith(cut.removesuffix(CUT))


@pytest.mark.parametrize(
    ("text", "most", "kept"),
    [
        ("The glaze cracks. The clay shrinks. And so on and so forth.", 13, "The glaze cracks. The clay shrinks.…"),
        ("釉面开裂。土在收缩。其余不论，如此而已。", 18, "釉面开裂。土在收缩。…"),
        ("one two three four five", 5, "one two three…"),
        ("word", 1, ""),
    ],
)
def test_cuts_are_where_something_ends(text: str, most: int, kept: str) -> None:
    assert cut_to_tokens(text, most) == kept
