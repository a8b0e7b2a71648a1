"""models.memory.ingest: requests that wait for rows of the database, many of one group's among them."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from uuid import UUID

import pytest

from models.db.bounded_reads import SourceUnavailable
from models.db.scope import Scope, current
from models.memory import ingest
from models.memory.ingest import StatusPoller

#: Seconds until something on a busy machine.
PATIENCE = 60.0


class Table:
    """What is known of ids; ``True`` is final. Notes every look: its scope, its group and its ids."""

    def __init__(self) -> None:
        self.rows: dict[UUID, bool] = {}
        self.seen: list[tuple[Scope, str, list[UUID]]] = []
        self.looked = threading.Event()
        self.error: Exception | None = None

    def look(self, _connection: object, group_id: str, ids: Sequence[UUID]) -> Mapping[UUID, bool]:
        self.seen.append((current(), group_id, list(ids)))
        self.looked.set()
        if self.error is not None:
            raise self.error
        return {one: self.rows[one] for one in ids if one in self.rows}


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Table:
    monkeypatch.setattr(ingest, "from_database", lambda question: question(None))
    return Table()


def test_what_is_final_is_given_at_once_and_the_thread_ends(table: Table) -> None:
    made = StatusPoller(table.look, bool)
    table.rows = {UUID(int=1): True}
    assert made.wait("g", [UUID(int=1)], PATIENCE) == {UUID(int=1): True}
    assert table.seen == [(Scope(groups=("g",)), "g", [UUID(int=1)])]
    if (thread := made.thread) is not None:
        thread.join(PATIENCE)
    assert not (made.thread or made.waiting or made.polled_at)


def test_when_the_time_is_up_what_is_known_is_given(table: Table) -> None:
    table.rows = {UUID(int=1): False}
    assert StatusPoller(table.look, bool).wait("g", [UUID(int=1), UUID(int=2)], 0.05) == {UUID(int=1): False}
    assert StatusPoller(table.look, bool).wait("g", [UUID(int=2)], 0) == {}


def test_requests_of_a_group_are_polled_at_together_and_groups_apart(table: Table) -> None:
    made, mine, others = StatusPoller(table.look, bool), [UUID(int=one) for one in range(40)], [UUID(int=99)]
    with ThreadPoolExecutor(len(mine) + 1) as threads:
        waiting = [threads.submit(made.wait, "mine", [one], PATIENCE) for one in mine]
        waiting.append(threads.submit(made.wait, "others", others, PATIENCE))
        while sum(map(len, list(made.waiting.values()))) < len(waiting):
            table.looked.wait(PATIENCE)
        table.rows = dict.fromkeys([*mine, *others], True)
        assert [one.result(PATIENCE) for one in waiting] == [{one: True} for one in [*mine, *others]]
    assert any(ids == mine for _, _, ids in table.seen)
    assert all(scope == Scope(groups=(group,)) for scope, group, _ in table.seen)
    assert all((ids == others) == (group == "others") for _, group, ids in table.seen)


@pytest.mark.parametrize(
    ("error", "raised"),
    [(SourceUnavailable("database", "away"), None), (ZeroDivisionError("a bug"), ZeroDivisionError)],
)
def test_who_waits_while_the_database_is_away_is_told_so(
    table: Table, error: Exception, raised: type[Exception] | None
) -> None:
    table.error = error
    with pytest.raises(raised) if raised else nullcontext():
        assert StatusPoller(table.look, bool).wait("g", [UUID(int=1)], PATIENCE) is None
