"""A connection whose server is gone is replaced before use, and one in use costs no trip."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Event

import psycopg
import pytest
from sqlalchemy import Engine, text
from sqlalchemy.exc import ProgrammingError

from jiyi.protocol.base import Request
from models.db import connection as connections
from models.db.actions import Actor, Context, read
from models.db.bounded_reads import from_database
from models.db.connection import driver, engine, read_beside, reading, reading_engine, unit_of_work
from models.db.scope import for_groups
from tests.pgbouncer import own_sessions
from workers.embedded.stack import Stack

pytestmark = own_sessions


@pytest.fixture(params=[engine, reading_engine])
def pool(request: pytest.FixtureRequest, database: Stack) -> Iterator[Engine]:
    made: Engine = request.param()
    made.dispose()
    yield made
    made.dispose()


def pid(pool: Engine) -> int:
    with pool.connect() as connection:
        return int(connection.execute(text("SELECT pg_backend_pid()")).scalar_one())


def asked(statement: str, value: int) -> object:
    """By somebody with a connection of their own."""
    url = engine().url.set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(url) as other:
        found = other.execute(statement.encode(), [value]).fetchone()
    assert found is not None
    return found[0]


def end(pids: list[int]) -> None:
    for one in pids:
        assert asked("SELECT pg_terminate_backend(%s, 5000)", one) is True


def test_a_connection_that_the_server_has_ended_is_replaced(pool: Engine) -> None:
    with pool.connect() as first, pool.connect() as second:
        ended = [int(one.execute(text("SELECT pg_backend_pid()")).scalar_one()) for one in (first, second)]
    end(ended)
    assert pid(pool) not in ended
    for block in (reading, unit_of_work):  # whoever asks notices nothing
        with block() as connection:
            last = driver(connection).info.backend_pid
        end([last])
        with block() as connection:
            assert connection.execute(text("SELECT 1")).scalar_one() == 1


def test_one_that_was_used_lately_is_not_tried(pool: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    before = pid(pool)
    latest_query = lambda: asked("SELECT query_start FROM pg_stat_activity WHERE pid = %s", before)
    for tried_after, tried in ((connections.TRIED_AFTER, False), (0.0, True)):
        monkeypatch.setattr(connections, "TRIED_AFTER", tried_after)
        idle_since = latest_query()
        with pool.connect():
            assert (latest_query() != idle_since) is tried


def test_what_is_read_beside_has_a_connection_and_the_scope_and_none_that_is_busy_is_waited_for(database):
    own = text("SELECT pg_backend_pid() AS pid, current_setting('jiyi.groups') AS groups")
    look = lambda connection: connection.execute(own).one()
    with for_groups("g"), reading() as connection:
        mine, beside = look(connection), read_beside(look, connection)()
        assert beside.pid != mine.pid
        assert beside.groups == mine.groups == "{g}"
        held = Event()
        waiting = [read_beside(lambda _: held.wait(30), connection) for _ in range(connections.MOST_BESIDE)]
        assert read_beside(look, connection)() == mine
        held.set()
        assert all(wait() for wait in waiting)
        with pytest.raises(ProgrammingError):
            read_beside(lambda another: another.execute(text("SELECT nothing")), connection)()
        assert read_beside(look, connection)().pid != mine.pid


def test_what_stored_json_says_is_not_kept_by_its_reader(pool: Engine) -> None:
    stored = text("""SELECT '["Anna has asthma"]'::jsonb""")
    with pool.connect() as connection:
        said, again = (connection.execute(stored).scalar_one()[0] for _ in range(2))
    assert said == again
    assert said is not again


@read(scope="read")
def _planning(context: Context, request: Request) -> list[str]:
    return [str(context.connection.execute(_PLANNING).scalar_one())]


_PLANNING = text("SELECT current_setting('plan_cache_mode')")


def test_what_people_ask_is_planned_for_the_group_that_is_asked_about(database: Stack) -> None:
    mode = lambda connection: connection.execute(_PLANNING).scalar_one()
    for _ in range(12):  # from the eleventh on PostgreSQL might use a plan for any group
        assert from_database(mode) == "force_custom_plan"
    assert _planning.perform(Actor("group", "nobody"), Request()) == ["force_custom_plan"]
    with unit_of_work() as connection:
        assert mode(connection) == "auto"
