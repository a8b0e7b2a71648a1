"""Recent retrievals: what is noted, how much is kept, who sees it, and what an erasure leaves of it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from jiyi.errors import NotFound
from jiyi.protocol.base import OfAgents
from jiyi.protocol.recall import RetrievalRecord
from models.db import valkey_keys
from models.db.actions import Actor
from models.db.connection import unit_of_work
from models.db.scope import narrowed_to
from models.db.valkey import valkey
from models.operations import numbers
from models.retrieval import records
from models.retrieval.records import list_retrievals
from tests.integration.erasure.test_erasure import alone as alone  # noqa: PLC0414 - a fixture
from tests.integration.erasure.test_erasure import erase, places
from tests.integration.fields import check_fields
from tests.integration.memory.test_inbox import observed, rows, save
from workers.ephemeral import environment

pytestmark = pytest.mark.usefixtures("alone", "nothing_owed")


def remembered(group: str, description: str = "Klaus reads.", agent_id: str = "klaus") -> UUID:
    event = observed(group, description, agent_id=agent_id)
    save(event)
    return event.event_id


def asked(
    group: str,
    question: str,
    *returned: Sequence[tuple[UUID, float]],
    agent_id: str = "klaus",
    **options: Any,
) -> None:
    with valkey().pipeline() as pipe:
        questions = [question] * max(len(returned), 1)
        records.note(
            pipe,
            Actor(group, "key:a1 (crawler)"),
            agent_id,
            questions,
            options,
            returned or [[]],
            0.0042,
            datetime.now(UTC),
        )
        pipe.execute()


def listed(group: str, **query: Any) -> list[RetrievalRecord]:
    return list_retrievals.perform(Actor(group), OfAgents(**query)).rows


def test_a_note_says_who_asked_what_and_what_was_returned_in_the_order_of_the_ranks(group: str) -> None:
    first, second = remembered(group), remembered(group, "Klaus writes.")
    asked(group, "what does he do?", [(second, 1.5), (first, 0.5)], [(first, 2.0)], top_k=2)
    asked(group, "x" * 5_000, [(first, 1.0)] * 50, [(first, 0.5)])
    assert records.flush() == 2
    long, row = listed(group)
    check_fields(
        row, agent_id="klaus", asked_by="key:a1 (crawler)", options={"top_k": 2}, ms=4.2, found=[2, 1]
    )
    assert [[(one.node_id, one.score, one.description) for one in each] for each in row.results] == [
        [(second, 1.5, "Klaus writes."), (first, 0.5, "Klaus reads.")],
        [(first, 2.0, "Klaus reads.")],
    ]
    # Long questions and long answers are cut.
    assert (len(long.queries[0]), long.found, [len(one) for one in long.results]) == (
        records.CHARACTERS,
        [50, 1],
        [records.RESULTS, 1],
    )
    assert long.results[1][0].score == 0.5


def test_the_latest_of_each_agent_are_kept_page_by_page(group: str) -> None:
    remembered(group)
    remembered(group, agent_id="maria")
    with environment(retrievals_kept="3"):
        asked(group, "of another", agent_id="maria")
        for number in range(5):
            asked(group, str(number))
        assert records.flush() == 6
    assert [row.queries for row in listed(group, agent_id="klaus")] == [["4"], ["3"], ["2"]]
    page = list_retrievals.perform(Actor(group), OfAgents(limit=2))
    assert [row.queries[0] for row in page.rows] == ["4", "3"]
    assert [row.queries[0] for row in listed(group, cursor=page.next)] == ["2", "of another"]


def test_nothing_is_noted_where_it_is_turned_off_and_little_waits(
    group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    remembered(group)
    with environment(retrievals_kept="0"):
        asked(group, "unheard")
    assert valkey().llen(valkey_keys.RETRIEVALS) == 0
    monkeypatch.setattr(records, "WAITING", 2)
    for number in range(4):
        asked(group, str(number))
    assert records.flush() == 2
    assert [row.queries for row in listed(group)] == [["3"], ["2"]]


def test_another_group_sees_none_of_it_and_they_go_after_some_days(group: str) -> None:
    remembered(group)
    asked(group, "a secret")
    records.flush()
    assert listed(f"{group}-other") == []
    with narrowed_to(f"{group}-other"), unit_of_work() as connection:  # by the database, too
        assert records.listed(connection, group, None, None, 10) == []
    with pytest.raises(NotFound, match="no agent 'nobody'"):
        listed(group, agent_id="nobody")
    with unit_of_work() as connection:
        assert numbers.delete_old(connection, "retrievals", datetime.now(UTC) - timedelta(days=1), 10) == 0
        assert numbers.delete_old(connection, "retrievals", datetime.now(UTC) + timedelta(minutes=1), 10) >= 1


def test_what_an_erased_memory_answered_goes_with_it_also_what_waits(group: str) -> None:
    gone, stays = remembered(group), remembered(group, "Klaus writes.")
    asked(group, "both", [(gone, 1.0), (stays, 0.5)])
    asked(group, "one", [(stays, 0.5)])
    records.flush()
    asked(group, "late", [(gone, 1.0)])
    report = erase(group, node_ids=[gone])
    assert report["looked_through"]["tables"]["retrievals"] == 1
    asked(group, "too late", [(gone, 1.0)])
    assert records.flush() == 0
    assert [row.queries for row in listed(group)] == [["one"]]


def test_questions_about_an_erased_person_go_and_an_erased_agent_was_never_asked(group: str) -> None:
    name = f"Maria Quill{uuid4().hex[:8]}"
    remembered(group)
    remembered(group, agent_id="maria")
    asked(group, f"where is {name}?")
    records.flush()
    asked(group, f"and {name}?")
    asked(group, "who are you?", agent_id="maria")
    erase(group, person=name)
    assert places(name, group=group) == []
    erase(group, agent_id="maria")
    asked(group, "still there?", agent_id="maria")
    records.flush()
    assert rows("SELECT 1 FROM retrievals WHERE group_id = :g", g=group) == []
