"""YAML of others is read within bounds."""

from __future__ import annotations

import pytest

from jiyi.text.yaml_reading import MAX_DEPTH, YamlError, read_yaml

#: Characters that may be read, of everything below.
ROOM = 100_000


def test_values_are_read() -> None:
    assert read_yaml("a: [1, {b: 窑}]\nc: 2026-03-02", ROOM)["a"] == [1, {"b": "窑"}]
    assert read_yaml("", ROOM) is None
    nested = "[" * MAX_DEPTH + "]" * MAX_DEPTH
    assert str(read_yaml(nested, ROOM)) == nested


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[" * 20_000, "line 1: lists and mappings are nested more than 50 deep"),
        ("{a: " * 20_000, "nested more than 50 deep"),
        ("- " * 20_000, "nested more than 50 deep"),
        ("? " * 20_000, "nested more than 50 deep"),
        ("a: &a [1]\nb: *a", "line 2: YAML aliases"),
        ("x: " + "1:" * 40_000 + "1.5", "no YAML"),  # a number to the base of sixty, beyond any float
        ("x: 2001-99-99", "no YAML: month"),
        ("!!python/object/apply:os.system ['true']", "no YAML: could not determine a constructor"),
        ("x" * (ROOM + 1), "100,001 characters are more than 100,000"),
    ],
)
def test_what_is_refused_is_refused_at_once(text: str, reason: str) -> None:
    with pytest.raises(YamlError, match=reason):
        read_yaml(text, ROOM)
