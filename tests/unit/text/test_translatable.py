"""jiyi.text.translatable: sentences in English that keep what a translation needs."""

from __future__ import annotations

import json

import pytest
from pydantic_core import to_jsonable_python

from jiyi.text.translatable import Translatable, age


def test_it_is_the_english_sentence_everywhere_but_where_it_is_translated() -> None:
    said = Translatable("%(job)s ran %(age)s ago", job="prune", age=age(125))
    assert said == "prune ran 2 min ago"
    assert json.dumps(to_jsonable_python({"said": said})) == '{"said": "prune ran 2 min ago"}'
    assert (said.pattern, said.values["job"]) == ("%(job)s ran %(age)s ago", "prune")
    assert isinstance(said.values["age"], Translatable)


def test_a_pattern_is_filled_with_all_of_its_values_or_not_at_all() -> None:
    pattern = Translatable("below %(limit)s")
    assert pattern.filled({"limit": 3}) == "below 3"
    assert Translatable("100 % full") == Translatable("100 % full").pattern == "100 % full"
    with pytest.raises(KeyError):
        pattern.filled({})


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(None, "–"), (0, "0 s"), (0.4, "0 s"), (59.9, "59 s"), (60, "1 min"), (3_600, "1 h"), (200_000, "2 d")],
)
def test_an_age_is_told_in_the_largest_unit_that_fits(seconds: float | None, expected: str) -> None:
    assert age(seconds) == expected
