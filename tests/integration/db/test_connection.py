"""A connection whose server is gone is replaced before use, and one in use costs no trip."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Event

import psycopg
import pytest
from sqlalchemy import Connection, Engine, text
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


def end(pids: list[int]) -> None:
    with psycopg.connect(
        engine().url.set(drivername="postgresql").render_as_string(hide_password=False)
    ) as other:
        for one in pids:
            assert other.execute("SELECT pg_terminate_backend(%s, 5000)", [one]).fetchone() == (True,)


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
    asked = []
    execute = psycopg.Connection.execute
    monkeypatch.setattr(
        psycopg.Connection,
        "execute",
        lambda *given, **named: asked.append(given[1]) or execute(*given, **named),
    )
    assert pid(pool) == before
    assert "SELECT 1" not in asked
    monkeypatch.setattr(connections, "TRIED_AFTER", 0.0)
    assert pid(pool) == before
    assert "SELECT 1" in asked


def test_what_is_read_beside_has_a_connection_and_the_scope_and_none_that_is_busy_is_waited_for(database):
    def look(connection: Connection) -> tuple[int, str]:
        pid, groups = connection.execute(
            text("SELECT pg_backend_pid(), current_setting('jiyi.groups')")
        ).one()
        return pid, groups

    with for_groups("g"), reading() as connection:
        own = look(connection)
        beside = read_beside(look, connection)()
        assert beside[0] != own[0]
        assert beside[1] == own[1] == "{g}"
        held = Event()
        waiting = [read_beside(lambda _: held.wait(30), connection) for _ in range(connections.MOST_BESIDE)]
        assert read_beside(look, connection)() == own
        held.set()
        assert all(wait() for wait in waiting)
        with pytest.raises(ProgrammingError):
            read_beside(lambda another: another.execute(text("SELECT nothing")), connection)()
        assert read_beside(look, connection)()[0] != own[0]


def test_what_stored_json_says_is_not_kept_by_its_reader(pool: Engine) -> None:
    with pool.connect() as connection:
        said, again = (
            connection.execute(text("""SELECT '["Anna has asthma"]'::jsonb""")).scalar_one()[0]
            for _ in range(2)
        )
    assert said == again
    assert said is not again


@read(scope="read")
def _planning(context: Context, request: Request) -> list[str]:
    return [str(context.connection.execute(_PLANNING).scalar_one())]


_PLANNING = text("SELECT current_setting('plan_cache_mode')")


def test_what_people_ask_is_planned_for_the_group_that_is_asked_about(database: Stack) -> None:
    for _ in range(12):  # from the eleventh on PostgreSQL might use a plan for any group
        assert (
            from_database(lambda connection: connection.execute(_PLANNING).scalar_one())
            == "force_custom_plan"
        )
    assert _planning.perform(Actor("group", "nobody"), Request()) == ["force_custom_plan"]
    with unit_of_work() as connection:
        assert connection.execute(_PLANNING).scalar_one() == "auto"
