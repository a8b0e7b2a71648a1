"""Profiles: what signals add, in which order, and how it is told."""

from __future__ import annotations

from typing import Any

import pytest

from engine.conversations.profiles import LABELS, lines, merged
from jiyi.protocol.conversations.types import PROFILE_ENTRIES, Profile, ProfileSignals

ONE = ("industry", "role", "expertise_level", "communication_style")
MANY = ("recent_topics", "pain_points", "preferred_tools")
VALUES = {"industry": "pottery", "role": "owner", "expertise_level": "expert", "communication_style": "concise"}


def signals(**fields: Any) -> ProfileSignals:
    return ProfileSignals.model_validate(fields)


@pytest.mark.parametrize("name", ONE)
def test_a_value_is_taken_kept_and_replaced(name: str) -> None:
    known = merged(Profile(), signals(**{name: VALUES[name]}))
    assert getattr(known, name) == VALUES[name]
    assert merged(known, signals()) == known
    other = Profile(**{name: {"expertise_level": "beginner", "communication_style": "formal"}.get(name, "other")})
    assert merged(other, signals(**{name: VALUES[name]})) == known


@pytest.mark.parametrize("name", MANY)
def test_lists_grow_at_their_head_and_an_entry_that_comes_again_moves_there(name: str) -> None:
    known = merged(Profile(), signals(**{name: ["one"]}))
    for added, entries in ((["two"], ["two", "one"]), (["One"], ["One", "two"]), (["two", "TWO", "one"], ["two", "one"])):
        known = merged(known, signals(**{name: added}))
        assert getattr(known, name) == entries


@pytest.mark.parametrize("name", MANY)
def test_lists_are_bounded_and_the_newest_stay(name: str) -> None:
    made = Profile()
    for number in range(PROFILE_ENTRIES + 3):
        made = merged(made, signals(**{name: [f"entry {number}"]}))
    assert len(getattr(made, name)) == PROFILE_ENTRIES
    assert getattr(made, name)[0] == f"entry {PROFILE_ENTRIES + 2}"


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_card_tells_what_is_known_and_nothing_else(language: Any) -> None:
    assert lines(Profile(), language) == []
    told = lines(Profile(industry="pottery", preferred_tools=["kiln", "sieve"]), language)
    assert told == [f"{LABELS[language]['industry']}: pottery", f"{LABELS[language]['preferred_tools']}: kiln, sieve"]
