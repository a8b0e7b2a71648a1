"""Which of an agent's memories are drawn: what is joined first, with nothing that is hidden."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from models.memory.memory_graph import MOST, MOST_PEOPLE, Joined, choose


def memory(number: int, *evidence: int, newer: int | None = None, person: str | None = None) -> Joined:
    superseded_by = None if newer is None else UUID(int=newer)
    return joined(number, [str(UUID(int=each)) for each in evidence], superseded_by, person)


def joined(number: int, filling: list[Any], newer: UUID | None = None, person: str | None = None) -> Joined:
    return Joined(node_id=UUID(int=number), kind=None, filling=filling, superseded_by=newer, person=person)


def numbers(ids: Sequence[UUID]) -> list[int]:
    return [each.int for each in ids]


def test_what_is_joined_comes_first_with_what_it_is_joined_with_then_others_of_people() -> None:
    rows = [memory(9), memory(8, 2, 3), memory(7, person="lin"), memory(6, newer=8), memory(5)]
    assert numbers(choose(rows)[0]) == [8, 2, 3, 6, 7, 9, 5]
    assert choose(rows)[1] == 0
    hidden = [UUID(int=2), UUID(int=3)]
    assert numbers(choose(rows, hidden)[0]) == [6, 8, 7, 9, 5]


def test_there_are_never_more_than_fit_and_room_for_their_people() -> None:
    people = [f"user {number}" for number in range(50)]
    rows = [memory(1_000 - number, 2_000 + number, person=people[number % 50]) for number in range(400)]
    ids, left_out = choose(rows)
    assert len(ids) + MOST_PEOPLE <= MOST
    assert len(ids) >= MOST - MOST_PEOPLE - 1
    assert left_out == 400 - len(ids) // 2
    assert len(choose([memory(number) for number in range(1, 400)])[0]) == MOST
    assert joined(1, [["Mara", "Bees?"], None, 7, "no id"]).evidence == []
