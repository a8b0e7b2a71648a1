"""What queries ask for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import get_args

import pytest

from engine.conversations.injection import analyse, intent_of
from jiyi.protocol.conversations import Intent
from jiyi.text.sections import sections


def test_at_least_43_patterns_of_identity_half_of_them_chinese() -> None:
    patterns = sections("engine.conversations", "identity.txt")[""]
    chinese = [one for one in patterns if not one.isascii()]
    assert len(patterns) >= 43
    assert 0.4 <= len(chinese) / len(patterns) <= 0.6


def test_synonyms_go_both_ways_and_between_the_languages() -> None:
    groups = [line.split(", ") for line in sections("engine.conversations", "synonyms.txt")[""]]
    mixed = [group for group in groups if {word.isascii() for word in group} == {True, False}]
    assert len(mixed) >= 13
    assert "bug" in analyse("这个错误怎么办").expansions
    assert "错误" in analyse("where does this bug come from").expansions
    assert "cat" in analyse("我家的猫多大了").expansions
    assert "cat" not in analyse("猫头鹰几点睡").expansions
    assert analyse("排班表在哪", {"排班": ["roster"]}).expansions == ["roster"]
    assert "排班" in analyse("where is the roster", {"排班": ["roster"]}).expansions


@pytest.mark.parametrize("intent", get_args(Intent))
def test_each_intent_is_known(intent: str) -> None:
    rows = [json.loads(line) for line in Path("bench/intents.jsonl").read_text(encoding="utf-8").splitlines()]
    own = [row["text"] for row in rows if row["intent"] == intent]
    assert len(own) >= 10
    assert sum(intent_of(one) == intent for one in own) >= 0.9 * len(own)


def test_an_analysis_has_all_of_it_and_pronouns_are_a_weak_hint_at_the_user() -> None:
    found = analyse("Why does load_config fail in app.py?")
    assert (found.intent, found.weak_identity) == ("code", False)
    assert {"load_config", "app.py"} <= set(found.keywords)
    said = "recommend something for my weekend", "给我们推荐个餐馆", "recommend a good book on bees"
    assert [analyse(text).weak_identity for text in said] == [True, True, False]
    for odd in ("", "?", "a" * 100_000, "我" * 100_000, "()" * 50_000, "x.y." * 20_000):
        assert analyse(odd).original == odd
