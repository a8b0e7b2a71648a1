"""One group floods the queues that all groups share: the work of others is done within a claim or two all the
same.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import text

from models.db.connection import unit_of_work
from models.memory.work import EMBED
from models.queue import pending_work
from tasks.framework import work
from tasks.memory import embed
from tests.integration.actions.calling import register_tasks
from tests.integration.memory.test_inbox import observed, rows, save
from workers.ephemeral import environment

pytestmark = pytest.mark.usefixtures("database", "nothing_owed")

#: Subjects that the flooding group owes.
FLOOD = 5_000
#: Groups beside it, with one subject each.
OTHERS = 3


@pytest.fixture
def _turns_begin_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending_work, "_last_served", {})


@pytest.fixture
def _kinds(database: object) -> Iterator[None]:
    register_tasks()
    return


def owe(kind: str, group: str, count: int, seconds_ago: float) -> None:
    """Owed since then, so that the flood is older than what others owe."""
    with unit_of_work() as connection:
        connection.execute(
            text("""
                INSERT INTO pending_work (kind, subject_id, group_id, due_at)
                SELECT :kind, gen_random_uuid(), :group, now() - make_interval(secs => :ago)
                FROM generate_series(1, :count)
            """),
            {"kind": kind, "group": group, "count": count, "ago": seconds_ago},
        )


def claim(kind: str, limit: int) -> list[str]:
    """Whose subjects one claim takes, one entry a subject."""
    with unit_of_work() as connection:
        return [
            one.group_id for one in pending_work.claim(connection, kind, limit, 60) for _ in one.subject_ids
        ]


@pytest.mark.usefixtures("_turns_begin_anew")
def test_the_event_of_another_group_has_its_vector_after_the_next_batch(group: str) -> None:
    save(*(observed(f"{group}-flood", f"flood {number}") for number in range(2_000)))
    event = observed(f"{group}-other", "林岚在读书")
    save(event)
    work.run_due(work.KINDS[EMBED], embed)
    (node,) = rows("SELECT embedding FROM memory_nodes WHERE node_id = :id", id=event.event_id)
    assert node["embedding"] is not None
    assert (
        rows("SELECT count(*) FROM pending_work WHERE kind = 'embed' AND group_id = :g", g=f"{group}-flood")[
            0
        ]["count"]
        > 1_500
    )


@pytest.mark.usefixtures("_kinds")
def test_all_that_is_embedded_besides_memories_gives_way_to_them() -> None:
    assert {
        kind.name for kind in work.KINDS.values() if kind.queue == "embedding" and not kind.gives_way
    } == {EMBED}


@pytest.mark.usefixtures("_turns_begin_anew", "_kinds")
def test_every_kind_of_work_is_claimed_by_group_in_turn(group: str) -> None:
    """Each kind with its own batch, which for many is one subject: then each claim is another group's."""
    assert len(work.KINDS) > 20
    others = {f"{group}-{number}" for number in range(OTHERS)}
    for kind in work.KINDS.values():
        owe(kind.name, f"{group}-a-flood", 1_000, seconds_ago=3_600)
        for other in others:
            owe(kind.name, other, 1, seconds_ago=1)
        claimed = [claim(kind.name, kind.batch) for _ in range(OTHERS + 1)]
        assert others <= {name for names in claimed for name in names}, kind.name


@pytest.mark.usefixtures("_turns_begin_anew")
def test_places_that_others_do_not_need_go_to_the_flood_and_each_group_gets_as_many_as_another(
    group: str,
) -> None:
    flood, some, one = (f"{group}-{name}" for name in ("flood", "some", "one"))
    owe(EMBED, flood, FLOOD, seconds_ago=3_600)
    owe(EMBED, some, 40, seconds_ago=10)
    owe(EMBED, one, 1, seconds_ago=1)
    claimed = claim(EMBED, 61)
    assert {name: claimed.count(name) for name in (flood, some, one)} == {flood: 30, some: 30, one: 1}
    claimed = claim(EMBED, 61)
    assert {name: claimed.count(name) for name in (flood, some, one)} == {flood: 51, some: 10, one: 0}


@pytest.mark.usefixtures("_turns_begin_anew")
def test_more_groups_than_one_claim_serves_all_get_their_turn(group: str) -> None:
    at_once = pending_work.GROUPS_A_CLAIM
    names = [f"{group}-{number:03}" for number in range(2 * at_once + at_once // 2)]
    for name in names:
        owe(EMBED, name, 3, seconds_ago=10)
    first, second, third = (set(claim(EMBED, 2 * at_once)) for _ in range(3))
    assert [len(served) for served in (first, second, third)] == [at_once] * 3
    assert first | second | third == set(names)
    with unit_of_work() as connection:
        assert pending_work.leaves_more(pending_work.claim(connection, EMBED, 1_000, 60), 1_000)


@pytest.mark.usefixtures("_turns_begin_anew")
def test_groups_whose_work_is_not_due_yet_take_no_turn(group: str) -> None:
    for number in range(100):
        owe(EMBED, f"{group}-{number:03}", 1, seconds_ago=-3_600)
    owe(EMBED, f"{group}-zz", 2, seconds_ago=1)
    assert claim(EMBED, 10) == [f"{group}-zz"] * 2
    assert claim(EMBED, 10) == []


@pytest.mark.usefixtures("_turns_begin_anew")
def test_a_claim_reads_a_few_rows_of_a_flood_and_not_all_of_it(group: str) -> None:
    """Whatever the planner believes: here it knows of a few rows, as after a quiet hour."""
    with unit_of_work() as connection:
        connection.execute(text("DELETE FROM pending_work"))
    owe(EMBED, f"{group}-quiet", 3, seconds_ago=3_600)
    with unit_of_work() as connection:
        connection.execute(text("ANALYZE pending_work"))
    owe(EMBED, f"{group}-flood", 50_000, seconds_ago=3_600)
    owe(EMBED, f"{group}-other", 1, seconds_ago=1)
    parameters = {"kind": EMBED, "limit": 64, "lease": 60, "after": "", "groups": pending_work.GROUPS_A_CLAIM}
    with unit_of_work() as connection:
        connection.execute(pending_work._BY_INDEX)
        explained = text(f"EXPLAIN (ANALYZE, FORMAT JSON) {pending_work._CLAIM.text}")
        (plan,) = connection.execute(explained, parameters).scalar_one()
    assert _most_rows(plan["Plan"]) < 1_000


def _most_rows(plan: dict[str, object]) -> float:
    """Rows that the busiest node of a plan read or threw away."""
    loops = float(str(plan.get("Actual Loops", 1)))
    own = loops * (float(str(plan["Actual Rows"])) + float(str(plan.get("Rows Removed by Filter", 0))))
    below = plan.get("Plans", [])
    assert isinstance(below, list)
    return max(own, *(_most_rows(one) for one in below), 0.0)


@pytest.mark.usefixtures("_turns_begin_anew")
def test_subjects_that_fail_over_and_over_hold_up_their_own_group(group: str) -> None:
    """They come alone, each in a run of its handler: other groups' come before them in the same claim."""
    owe(EMBED, f"{group}-failing", 200, seconds_ago=3_600)
    with unit_of_work() as connection:
        connection.execute(text("UPDATE pending_work SET attempts = 2"))
    owe(EMBED, f"{group}-other", 1, seconds_ago=1)
    seen: list[str] = []

    def handler(batch: work.Batch) -> None:
        seen.append(batch.group_id)
        if batch.group_id.endswith("failing"):
            raise RuntimeError("poison")
        with batch.finish():
            pass

    with environment(work_lease_seconds="1800"):
        work.run_due(work.Kind(EMBED, "embedding", 32), handler)
    assert seen[0] == f"{group}-other"
