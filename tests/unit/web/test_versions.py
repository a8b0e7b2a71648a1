"""Two versions of a memory, side by side: what each has of its own is marked."""

from __future__ import annotations

from web.show import COMPARED_CHARS, compare


def test_what_each_version_has_of_its_own_is_marked_in_the_beginning_of_long_ones() -> None:
    for older, newer, *own in (
        ("She lives in Porto.", "She lives in Oslo.", ["Porto"], ["Oslo"]),
        ("我住在杭州。", "我住在苏州。", ["杭"], ["苏"]),
        ("Tea", "Tea with milk", [], [" with milk"]),
        ("the same", "the same", [], []),
    ):
        shown = compare(older, newer)
        assert ["".join(piece for piece, _ in pieces) for pieces in shown] == [older, newer]
        assert [[piece for piece, is_own in pieces if is_own] for pieces in shown] == own
    beginning, _ = compare("a " * COMPARED_CHARS, "b " * COMPARED_CHARS)
    assert sum(len(piece) for piece, _ in beginning) == COMPARED_CHARS
