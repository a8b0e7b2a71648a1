"""bench.llm: a sample has all kinds and languages."""

from __future__ import annotations

from bench.llm import sample


def test_a_sample_takes_kinds_and_languages_in_turn() -> None:
    lives = [
        ("f", {"id": f"{kind}{language}{n}", "kind": kind, "language": language}) for n in (1, 2) for kind in "ab" for language in "xy"
    ]
    ids = [life["id"] for _, life in sample(lives, 5)]
    assert ids == ["ax1", "bx1", "ay1", "by1", "ax2"]
    assert len(sample(lives, None)) == len(lives)
    assert sample([], 3) == []
