"""Profiles: what signals add, in which order, and how it is told."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.conversations.profiles import LABELS, lines, merged
from jiyi.protocol.conversations.types import PROFILE_ENTRIES, Profile, ProfileSignals

ONE = ("industry", "role", "expertise_level", "communication_style")
MANY = ("recent_topics", "pain_points", "preferred_tools")
VALUES = {"industry": "pottery", "role": "owner", "expertise_level": "expert", "communication_style": "concise"}


def signals(**fields: Any) -> ProfileSignals:
    return ProfileSignals.model_validate(fields)


@pytest.mark.parametrize("name", ONE)
def test_a_value_is_taken(name: str) -> None:
    assert getattr(merged(Profile(), signals(**{name: VALUES[name]})), name) == VALUES[name]


@pytest.mark.parametrize("name", ONE)
def test_no_value_leaves_the_old_one(name: str) -> None:
    known = Profile(**{name: VALUES[name]})
    assert getattr(merged(known, signals()), name) == VALUES[name]


def test_a_new_value_replaces_the_old_one() -> None:
    assert merged(Profile(industry="medicine"), signals(industry="pottery")).industry == "pottery"


@pytest.mark.parametrize("name", MANY)
def test_lists_grow_at_their_head(name: str) -> None:
    known = merged(Profile(), signals(**{name: ["one"]}))
    assert getattr(merged(known, signals(**{name: ["two"]})), name) == ["two", "one"]


@pytest.mark.parametrize("name", MANY)
def test_an_entry_that_comes_again_moves_to_the_head(name: str) -> None:
    known = merged(Profile(), signals(**{name: ["two", "one"]}))
    assert getattr(merged(known, signals(**{name: ["One"]})), name) == ["One", "two"]


@pytest.mark.parametrize("name", MANY)
def test_lists_are_bounded_and_the_newest_stay(name: str) -> None:
    made = Profile()
    for number in range(PROFILE_ENTRIES + 3):
        made = merged(made, signals(**{name: [f"entry {number}"]}))
    assert len(getattr(made, name)) == PROFILE_ENTRIES
    assert getattr(made, name)[0] == f"entry {PROFILE_ENTRIES + 2}"


def test_no_signal_changes_nothing() -> None:
    known = Profile(industry="pottery", recent_topics=["glaze"])
    assert merged(known, signals()) == known


@pytest.mark.parametrize("style", ["concise", "detailed", "formal", "casual"])
def test_the_styles(style: str) -> None:
    assert merged(Profile(), signals(communication_style=style)).communication_style == style


def test_another_style_is_refused() -> None:
    with pytest.raises(ValueError, match="communication_style"):
        signals(communication_style="poetic")


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_card_tells_what_is_known_and_nothing_else(language: Any) -> None:
    assert lines(Profile(), language) == []
    told = lines(Profile(industry="pottery", preferred_tools=["kiln", "sieve"]), language)
    assert told == [f"{LABELS[language]['industry']}: pottery", f"{LABELS[language]['preferred_tools']}: kiln, sieve"]


@given(st.lists(st.lists(st.sampled_from(["a", "b", "C", "c", "d"]), max_size=5), max_size=8))
def test_an_entry_is_there_once(topics: list[list[str]]) -> None:
    made = Profile()
    for some in topics:
        made = merged(made, signals(recent_topics=some))
    assert len({entry.lower() for entry in made.recent_topics}) == len(made.recent_topics)
