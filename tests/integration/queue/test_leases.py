"""tasks.framework.renewal: a living worker keeps what it has in hand; a dead one's is taken over."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from sqlalchemy import text

from engine.operations import JOBS
from jiyi.settings import Settings, get_settings
from models.db import valkey_keys
from models.db.connection import unit_of_work
from models.db.scope import Scope
from models.memory.work import EMBED
from models.queue import pending_work, ticks
from tasks.framework import renewal, work
from tasks.framework.work import Batch
from tests.integration.memory.test_inbox import execute, observed, rows, save
from tests.integration.waiting import until
from workers.ephemeral import environment

pytestmark = pytest.mark.usefixtures("database", "nothing_owed")

#: Seconds within which work of a dead worker is in other hands.
TAKEN_OVER_WITHIN = 30
#: Seconds; longer than a machine that does much else lets a thread wait.
LEASE = 60


@pytest.fixture
def lease_of_a_second() -> Iterator[None]:
    with environment(work_lease_seconds="1"):
        yield


def others_get() -> list[UUID]:
    with unit_of_work() as connection:
        return [
            subject for claim in pending_work.claim(connection, EMBED, 10, 1) for subject in claim.subject_ids
        ]


def due(group: str) -> datetime:
    (row,) = rows("SELECT due_at FROM pending_work WHERE group_id = :g AND kind = 'embed'", g=group)
    assert isinstance(row["due_at"], datetime)
    return row["due_at"]


def test_work_of_a_dead_worker_is_due_and_woken_in_time() -> None:
    for seconds in (1, 10, 15):
        settings = Settings(work_lease_seconds=seconds)
        period = JOBS["reconcile"].schedule(settings).every
        # It claims, dies at once, and the reconciler has just looked; a message that it had taken along holds
        # up no other.
        assert max(settings.work_lease_seconds, valkey_keys.WAKE_SECONDS) + period < TAKEN_OVER_WITHIN


def test_a_living_worker_keeps_its_claim_for_longer_than_a_lease_and_a_dead_one_does_not(group, monkeypatch):
    """With a long lease, renewed ten times a second: it never comes nearer to its end."""
    monkeypatch.setattr(renewal, "RENEWALS_PER_LEASE", 10 * LEASE)
    event = observed(group)
    save(event)

    def slow(batch: Batch) -> None:
        claimed = due(group)
        # A renewal adds no more than has passed since the one before.
        until(lambda: others_get() or due(group) >= claimed + timedelta(seconds=1), LEASE)
        assert others_get() == []
        raise SystemExit  # the process dies: nothing is given back

    with environment(work_lease_seconds=str(LEASE)), pytest.raises(SystemExit):
        work.run_due(work.Kind(EMBED, "embedding", 10), slow)
    left = due(group)
    time.sleep(0.5)
    assert due(group) == left  # nobody renews it any more
    # a lease later
    rows("UPDATE pending_work SET due_at = now() - interval '1 s' WHERE group_id = :g RETURNING 1", g=group)
    assert others_get() == [event.event_id]


@pytest.mark.usefixtures("lease_of_a_second")
def test_nothing_that_runs_longer_than_it_may_keeps_its_lease(group: str) -> None:
    """Another worker gets a claim that is held for too long, and the effect of the first to finish counts."""
    event = observed(group)
    save(event)

    def hangs(batch: Batch) -> None:
        assert until(others_get, TAKEN_OVER_WITHIN) == [event.event_id]
        with batch.finish() as (_, owed):
            assert owed == [event.event_id]

    assert work.run_due(work.Kind(EMBED, "embedding", 10, time_limit=0.5), hangs) == 1
    assert not rows("SELECT FROM pending_work WHERE group_id = :g AND kind = 'embed'", g=group)


@pytest.mark.usefixtures("lease_of_a_second")
def test_a_database_that_is_away_for_a_moment_does_not_end_the_renewals() -> None:
    class Restless:
        def __init__(self) -> None:
            self.until, self.renewals = time.monotonic() + TAKEN_OVER_WITHIN, 0

        def renew(self) -> None:
            self.renewals += 1
            execute("SELECT no_such_column")

    held, keeper = Restless(), renewal.LeaseRenewer()
    with keeper.holding(held):
        until(lambda: held.renewals >= 3, TAKEN_OVER_WITHIN)
    for thread in [thread for thread in threading.enumerate() if thread is keeper.thread]:
        thread.join(TAKEN_OVER_WITHIN)
        assert not thread.is_alive()  # nothing is held


def test_a_renewal_under_way_when_its_block_ends_is_waited_for() -> None:
    """Else it claims anew what was given back meanwhile."""
    begun, go_on, renewed = threading.Event(), threading.Event(), threading.Event()

    class Slow:
        until = math.inf

        def renew(self) -> None:
            begun.set()
            go_on.wait(TAKEN_OVER_WITHIN)
            renewed.set()

    with environment(work_lease_seconds="1"):
        with renewal.LeaseRenewer().holding(Slow()):
            assert begun.wait(TAKEN_OVER_WITHIN)
            threading.Timer(0.2, go_on.set).start()
        assert renewed.is_set()


@pytest.mark.parametrize("how", ["given back", "owed again", "owed later", "made due"])
def test_a_renewal_that_comes_late_takes_nothing_back(group: str, how: str) -> None:
    event = observed(group)
    save(event)
    with unit_of_work() as connection:
        (claim,) = pending_work.claim(connection, EMBED, 10, 1)
    batch = Batch(EMBED, claim.subject_ids, scope=Scope((group,)), dues=[claim.due_at])
    batch.renew()
    batch.renew()
    assert claim.due_at < due(group) == batch.dues[-1]
    match how:
        case "given back":
            batch.put_off([event.event_id], "away")
        case "owed again":
            batch.again = [event.event_id]
        case "owed later":
            batch.later = {event.event_id: datetime.now(UTC) + timedelta(days=1)}
        case _:
            with unit_of_work() as connection:
                assert pending_work.retry(connection, EMBED, group, [event.event_id]) == 1
    if how.startswith("owed"):
        with batch.finish():
            pass
    told = due(group)
    Batch(EMBED, [event.event_id], scope=Scope((group,)), dues=batch.dues).renew()
    assert due(group) == told


def test_a_run_that_is_renewed_is_not_dead_and_a_dead_ones_slot_is_begun_again_at_once_but_not_for_ever(
    group: str,
) -> None:
    job, slot = f"test-{group}", "2026-03-01T00:00:00+00:00"
    begun = []
    for _ in range(ticks.TRIES_AT_ONCE + 2):
        with unit_of_work() as connection:
            begun.append(ticks.begin(connection, job, slot, get_settings().work_lease_seconds))
        with unit_of_work() as connection:  # its worker dies
            connection.execute(_ITS_TIME_IS_UP, {"job": job})
            ticks.fail_overdue(connection)
    assert [tick is not None for tick in begun] == [True] * ticks.TRIES_AT_ONCE + [False] * 2
    with unit_of_work() as connection:
        tick = ticks.begin(connection, job, "2026-03-02T00:00:00+00:00", 0.0)
        assert tick is not None
        ticks.renew(connection, tick, 60)
    with unit_of_work() as connection:
        assert job not in ticks.fail_overdue(connection)
        ticks.end(connection, tick, {})
        ticks.renew(connection, tick, 60)
    assert rows("SELECT state FROM job_ticks WHERE job = :job ORDER BY slot", job=job)[-1] == {
        "state": "done"
    }


_ITS_TIME_IS_UP = text(
    "UPDATE job_ticks SET due_by = now() - interval '1 s' WHERE job = :job AND state = 'running'"
)
