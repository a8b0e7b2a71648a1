"""Behind a PgBouncer that pools transactions nothing is left in a session, and nothing expected there."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import nullcontext
from uuid import uuid4

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from jiyi.errors import SettingsError
from models.db.connection import (
    check_sessions,
    driver,
    engine,
    is_pooled,
    reading,
    session_engine,
    unit_of_work,
)
from models.db.errors import state_of_database
from models.db.scope import ROLE, Scope, for_groups, within
from models.queue import pending_work
from tests import pgbouncer
from tests.integration.memory.test_inbox import observed, save
from tests.integration.threads import Threads
from workers import ephemeral
from workers.embedded.stack import Stack

WHO = text("SELECT current_user, current_setting('jiyi.groups', true), current_setting('statement_timeout')")
SEEN = text("SELECT DISTINCT group_id FROM memory_nodes")


@pytest.fixture
def _pooled(database: Stack) -> Iterator[None]:
    """As behind a PgBouncer, but for the PgBouncer: what it would give to the next can be looked at."""
    own = database.urls.database_url
    with ephemeral.environment(database_url=own, database_direct_url=own):
        assert is_pooled()
        yield


@pytest.fixture
def _bounced(database: Stack) -> Iterator[None]:
    if reason := pgbouncer.why_absent():
        pytest.skip(reason)
    own = database.urls.database_url
    with (
        pgbouncer.in_front_of(own) as address,
        ephemeral.environment(database_url=address, database_direct_url=own),
    ):
        yield


@pytest.mark.usefixtures("_pooled")
def test_nothing_is_left_in_a_session_that_another_gets_next(group: str) -> None:
    raw = []
    for open_one in (unit_of_work, reading):
        with for_groups(group), open_one() as connection:
            user, groups, limit = connection.execute(WHO).one()
            assert (user, groups, limit) == (ROLE, f"{{{group}}}", "1min")
            raw.append(driver(connection))
        left = (
            raw[-1]
            .execute("SELECT current_setting('role'), current_setting('jiyi.groups', true), pg_backend_pid()")
            .fetchone()
        )
        raw[-1].rollback()
        assert left is not None
        assert left[:2] == ("none", "")


@pytest.mark.usefixtures("_pooled")
def test_no_statement_is_prepared_in_a_session_that_the_next_transaction_may_not_have() -> None:
    with unit_of_work() as connection:
        for _ in range(20):  # psycopg prepares what it sees for the sixth time
            connection.execute(text("SELECT count(*) FROM agents"))
        assert connection.execute(text("SELECT count(*) FROM pg_prepared_statements")).scalar_one() == 0


@pytest.mark.usefixtures("_bounced")
def test_groups_see_their_own_through_a_real_one_however_many_share_its_sessions() -> None:
    groups = [f"pooled-{uuid4().hex[:8]}" for _ in range(2 * pgbouncer.POOL)]
    for group in groups:
        save(observed(group))

    def look(group: str) -> list[list[str]]:
        found = []
        for _ in range(10):
            with for_groups(group):
                for open_one in (unit_of_work, reading):
                    with open_one() as connection:
                        found.append(list(connection.execute(SEEN).scalars()))
            time.sleep(0.001)
        with within(Scope()), unit_of_work() as connection:  # nobody's
            found.append([*connection.execute(SEEN).scalars(), group])
        return found

    with Threads(8) as pool:
        for group, found in zip(groups, pool.map(look, groups), strict=True):
            assert all(one == [group] for one in found)


@pytest.mark.usefixtures("_bounced")
def test_what_is_done_alone_is_done_alone_through_a_real_one() -> None:
    assert engine().url != session_engine().url
    with pending_work.alone("test"), Threads(1) as pool:
        assert pool.submit(_gets_it).result(10) is False
    assert _gets_it()


def test_who_finds_no_session_free_is_told_so(database: Stack) -> None:
    if reason := pgbouncer.why_absent():
        pytest.skip(reason)
    own = database.urls.database_url
    with (
        pgbouncer.in_front_of(own, pool=1, patience=1) as address,
        ephemeral.environment(database_url=address, database_direct_url=own),
        unit_of_work() as first,
    ):
        assert first.execute(text("SELECT 1")).scalar_one() == 1
        with pytest.raises(DBAPIError) as told, unit_of_work():
            pass
        assert state_of_database(told.value) == "exhausted"


@pytest.mark.parametrize(
    ("mode", "direct", "refused"),
    [("transaction", False, True), ("transaction", True, False), ("session", False, False)],
)
def test_pooled_transactions_without_the_second_address_are_refused_at_the_start(
    database: Stack, mode: str, *, direct: bool, refused: bool
) -> None:
    """It started without a word, and 24 of 600 calls failed with SQLSTATE 26000."""
    if reason := pgbouncer.why_absent():
        pytest.skip(reason)
    own = database.urls.database_url
    check_sessions()  # PostgreSQL itself
    with (
        pgbouncer.in_front_of(own, mode=mode) as address,
        ephemeral.environment(database_url=address, database_direct_url=own if direct else ""),
        pytest.raises(SettingsError, match=r"PgBouncer that pools transactions.*JIYI_DATABASE_DIRECT_URL")
        if refused
        else nullcontext(),
    ):
        check_sessions()


def _gets_it() -> bool:
    with pending_work.alone("test") as got:
        return got
