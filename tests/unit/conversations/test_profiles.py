"""Profiles: what signals add and how it is told; only messages of substance have topics."""

from __future__ import annotations

from typing import Any

import pytest

from engine.conversations.memories import LABELS, keywords, lines, merge_profile, profile_signals
from jiyi.protocol.conversations import PROFILE_ENTRIES, Message, Profile, ProfileSignals
from tests.unit.text.labelled import labelled

ONE = ("industry", "role", "expertise_level", "communication_style")
MANY = ("recent_topics", "pain_points", "preferred_tools")
VALUES = dict(zip(ONE, ("pottery", "owner", "expert", "concise"), strict=True))
OTHERS = {"expertise_level": "beginner", "communication_style": "formal"}


def signals(**fields: Any) -> ProfileSignals:
    return ProfileSignals.model_validate(fields)


@pytest.mark.parametrize("name", ONE)
def test_a_value_is_taken_kept_and_replaced(name: str) -> None:
    known = merge_profile(Profile(), signals(**{name: VALUES[name]}))
    assert getattr(known, name) == VALUES[name]
    assert merge_profile(known, signals()) == known
    other = Profile.model_validate({name: OTHERS.get(name, "other")})
    assert merge_profile(other, signals(**{name: VALUES[name]})) == known


@labelled
def test_the_industry_follows_from_what_users_say_of_their_work(text: str, industry: str | None) -> None:
    assert profile_signals([Message(role="user", text=text)]).industry == industry


@pytest.mark.parametrize("name", MANY)
def test_lists_grow_at_their_head_to_a_bound_and_an_entry_that_comes_again_moves_there(name: str) -> None:
    known = merge_profile(Profile(), signals(**{name: ["one"]}))
    steps = {"two": ["two", "one"], "One": ["One", "two"], "two TWO one": ["two", "one"]}
    for words, entries in steps.items():
        known = merge_profile(known, signals(**{name: words.split()}))
        assert getattr(known, name) == entries
    for number in range(PROFILE_ENTRIES + 3):
        known = merge_profile(known, signals(**{name: [f"entry {number}"]}))
    assert len(getattr(known, name)) == PROFILE_ENTRIES
    assert getattr(known, name)[0] == f"entry {PROFILE_ENTRIES + 2}"


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_card_tells_what_is_known_and_nothing_else(language: Any) -> None:
    assert lines(Profile(), language) == []
    told = lines(Profile(industry="pottery", preferred_tools=["kiln", "sieve"]), language)
    names = LABELS[language]
    assert told == [f"{names['industry']}: pottery", f"{names['preferred_tools']}: kiln, sieve"]


def topics_of(*texts: str) -> list[str]:
    return profile_signals([Message(role="user", text=text) for text in texts]).recent_topics


@labelled
def test_what_a_message_is_about_and_small_talk_is_about_nothing(text: str, topics: list[str]) -> None:
    assert topics_of(text) == topics


def test_the_newest_topic_comes_first_and_small_talk_and_what_is_handed_over_or_acted_is_none() -> None:
    told = topics_of("我喜欢游泳", "先忙，回头聊", "Which vaccinations do I need for Kenya?", "ok, thanks!")
    assert told == ["kenya", "vaccinations", "游泳"]
    assert topics_of("Translate this:\nThe orchid survived the winter in Kenya.") == []
    assert topics_of("Let's play: I'm a pirate and you are my parrot") == []


@labelled
def test_keywords_name_things_people_places_or_what_is_done(text: str, named: list[str]) -> None:
    assert keywords(text, 5) == named
    assert keywords(text, 1) == named[:1]
