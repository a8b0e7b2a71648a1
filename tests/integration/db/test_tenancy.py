"""Row-level security: nobody sees or writes another tenant's rows, whatever the query asks for."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from importlib import import_module
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg import sql
from psycopg.rows import dict_row
from pydantic import BaseModel
from sqlalchemy import Connection, text
from sqlalchemy import event as sqlalchemy_event
from sqlalchemy.exc import ProgrammingError

from alembic import command
from engine.operations import Job
from jiyi.protocol import limits
from jiyi.protocol.memory import ExportQuery
from jiyi.protocol.operations import LettersRequest
from jiyi.protocol.retrieval import Filters
from models.accounts.users import groups as known_groups
from models.db import rows
from models.db.actions import Action, Actor
from models.db.connection import driver, engine, reading, reading_engine, unit_of_work
from models.db.rows import Copy, ForeignRowError
from models.db.scope import ROLE, RoleError, Scope, as_owner, current, for_groups, whole_service, within
from models.memory import agents, archive, events, reads
from models.memory.event_rows import WorkRow
from models.memory.filters import of_question
from models.memory.ingest import Rejected
from models.operations import numbers
from models.queue import dead_letters, pending_work
from models.queue.tables import PendingWork
from models.reflection import actions
from models.retrieval import agent_index, enlargement, index_rows, large_agents
from models.retrieval.agent_index import AgentIndex, IndexKey
from tasks.framework import answering
from tasks.framework import jobs as tasks_jobs
from tasks.framework import work as tasks_work
from tests.integration.actions.calling import called, service
from tests.integration.db.test_migrations import Database
from tests.integration.db.test_migrations import empty as empty  # noqa: PLC0414 - a fixture
from tests.integration.memory.test_inbox import observed
from tests.pgbouncer import own_sessions
from tests.services import somebody
from workers.embedded.stack import Stack
from workers.ephemeral import environment
from workers.migrate import upgrade

pytestmark = pytest.mark.usefixtures("database")

#: Tables without row-level security, and why.
EXEMPT = {
    "alembic_version": "the schema's revision",
    "embedding_models": "one model for the whole deployment",
    "job_ticks": "runs of the service's jobs",
    "users": "people, who are looked for before it is known which groups they may see",
}
T0 = datetime(2026, 3, 1, 8, tzinfo=UTC)
NOBODY = Scope()
#: Values that a column's type does not tell.
FITTING = {
    "type": "event",
    "outcome": "stored",
    "memory_type": "event",
    "counted": "since",
    "trigger": "request",
    "kind": "agent",
    "state": "owed",
    "scopes": ["read"],
    "embedding": "[0.5,1]",
    "day": "2026-03-01",
    "position": None,
    "file": "USER",
    "urgency": "low",
    "status": "ok",
}
OF_TYPE: dict[str, Callable[[], Any]] = {
    "uuid": lambda: str(uuid4()),
    "integer": lambda: 1,
    "bigint": lambda: 1,
    "jsonb": dict,
    "double precision": lambda: 1.0,
    "bytea": lambda: "\\x01",
    "timestamp with time zone": T0.isoformat,
    "boolean": lambda: False,
    "text[]": lambda: ["x"],
    "integer[]": lambda: [1],
    "double precision[]": lambda: [1.0],
    "uuid[]": lambda: [str(uuid4())],
    "date": lambda: "2026-03-01",
}


@pytest.fixture(autouse=True)
def _sees_everything() -> Iterator[None]:
    """Unlike the other tests of this folder, these say their scope."""
    with within(NOBODY):
        yield


@pytest.fixture
def intake(database: Stack) -> Any:
    """``workers.intake.consumer``, which reads the settings when it is imported."""
    return import_module("workers.intake.consumer")


@pytest.fixture
def owner(database: Stack) -> Iterator[psycopg.Connection[dict[str, Any]]]:
    """A connection as whoever looks after the database, whom row-level security does not concern."""
    url = database.urls.database_url.replace("+psycopg", "")
    with psycopg.connect(url, autocommit=True, row_factory=dict_row) as connection:
        yield connection


@pytest.fixture
def groups(owner: psycopg.Connection[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """Two tenants with an agent of the same name and a row in every table."""
    names = (f"a-{uuid4().hex[:12]}", f"b-{uuid4().hex[:12]}")
    for name in names:
        fill(owner, name)
    yield names
    for name in names:
        for table in ("groups", *tenants_tables(owner)):
            owner.execute(f"DELETE FROM {table} WHERE group_id = %s".encode(), [name])


def tenants_tables(owner: psycopg.Connection[dict[str, Any]]) -> list[str]:
    """Tables with a ``group_id``, those that others refer to first."""
    found = [row["relname"] for row in owner.execute(_TABLES) if row["has_group"]]
    first = "groups agents events memory_nodes erasures stores items pain_points proposals schedules".split()
    return sorted(found, key=lambda name: (first.index(name) if name in first else len(first), name))


def fill(owner: psycopg.Connection[dict[str, Any]], group: str) -> None:
    """A row in every table, from the catalogue; a node of an agent ``klaus``. Texts are the group's name."""
    ids = ("node_id", "erasure_id", "pain_id", "proposal_id", "schedule_id", "store_id", "item_id")
    known = {"group_id": group, "agent_id": "klaus", **{name: str(uuid4()) for name in ids}}
    known["artifact_id"] = known["proposal_id"]
    for table in tenants_tables(owner):
        insert(owner, table, made_up(owner, table, known))


#: Values that a column's name does not tell in one table.
OWN = {"experiences": {"outcome": "partial"}, "schedules": {"kind": "once"}, "proposals": {"kind": "skill"}}


def made_up(owner: psycopg.Connection[dict[str, Any]], table: str, known: dict[str, Any]) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for column in owner.execute(_COLUMNS, [table]):
        name, kind = column["attname"], column["type"]
        if name in known:
            row[name] = known[name]
        elif column["needed"]:
            of_type = OF_TYPE.get(kind, lambda: known["group_id"])
            row[name] = FITTING[name] if name in FITTING else of_type()
    if table == "oauth_connections":
        row["user_id"] = str(somebody().user_id)
    if table == "memory_nodes":
        vector = {"embedding": "[0.5,1]", "embedding_model": "m"}
        row |= {"description": f"a secret of {known['group_id']}", **vector}
    return row | OWN.get(table, {})


def insert(connection: Any, table: str, row: dict[str, Any]) -> None:
    columns = ", ".join(row)
    given = f"SELECT {columns} FROM jsonb_populate_record(NULL::{table}, %s)"
    connection.execute(f"INSERT INTO {table} ({columns}) {given}".encode(), [psycopg.types.json.Jsonb(row)])


# The catalogue


def forgotten(owner: psycopg.Connection[dict[str, Any]]) -> set[str]:
    """Tables of which neither is true: under row-level security by a group's policy, or exempt."""
    secured = {
        row["relname"]
        for row in owner.execute(_TABLES)
        if row["has_group"] and row["relrowsecurity"] and row["policies"] == 1 and row["same"] == 1
    }
    return {row["relname"] for row in owner.execute(_TABLES)} - secured - EXEMPT.keys()


def test_no_table_is_forgotten(owner: psycopg.Connection[dict[str, Any]]) -> None:
    assert forgotten(owner) == set()
    assert EXEMPT.keys().isdisjoint(tenants_tables(owner))
    with owner.transaction(force_rollback=True):  # so the test can fail
        owner.execute("CREATE TABLE forgotten (group_id text)")
        owner.execute("ALTER TABLE kw_strength DISABLE ROW LEVEL SECURITY")
        owner.execute("CREATE POLICY all_of_them ON events USING (true)")
        assert forgotten(owner) == {"forgotten", "kw_strength", "events"}


def test_the_service_works_as_a_role_that_row_level_security_concerns(owner):
    for connect in (unit_of_work, reading):
        with connect() as connection:
            row = connection.execute(text("SELECT current_user, row_security_active('memory_nodes')")).one()
            assert tuple(row) == (ROLE, True)
    role = owner.execute("SELECT * FROM pg_roles WHERE rolname = %s", [ROLE]).fetchone()
    rights = ("rolsuper", "rolbypassrls", "rolcreaterole", "rolcreatedb", "rolcanlogin")
    assert [right for right in rights if role[right]] == []
    may = {row["privilege_type"] for row in owner.execute(_PRIVILEGES, [ROLE])}
    assert may == {"SELECT", "INSERT", "UPDATE", "DELETE"}  # TRUNCATE would ask no policy
    for statement in (
        "TRUNCATE events",
        "DROP POLICY tenants ON events",
        "CREATE TABLE mine (id int)",
        "ALTER TABLE events DISABLE ROW LEVEL SECURITY",
    ):
        refused = pytest.raises(ProgrammingError, match=r"permission denied|must be owner")
        with whole_service(), refused, unit_of_work() as connection:
            connection.execute(text(statement))


# Every table


def count(table: str, where: str = "true", **parameters: Any) -> int:
    with unit_of_work() as connection:
        return int(
            connection.execute(text(f"SELECT count(*) FROM {table} WHERE {where}"), parameters).scalar_one()
        )


def test_of_two_tenants_with_rows_in_every_table_each_sees_its_own(groups, owner):
    ours, theirs = groups
    tables = tenants_tables(owner)
    assert len(tables) >= 15
    for table in tables:
        with for_groups(ours):
            assert count(table) == count(table, "group_id = :g", g=ours) >= 1, table
            assert count(table, "group_id = :g", g=theirs) == 0, table
        with for_groups(ours, theirs):
            assert count(table, "group_id = :g", g=theirs) >= 1, table
        with whole_service():
            assert count(table, "group_id = :g", g=theirs) >= 1, table
        assert count(table) == 0, table  # nobody
        with for_groups():
            assert count(table) == 0, table


def test_no_tenant_writes_anothers_rows_in_any_table(groups, owner):
    ours, theirs = groups

    def stored(table: str) -> Any:
        found = f"SELECT to_jsonb(t) AS row FROM {table} t WHERE group_id = %s"
        row = owner.execute(found.encode(), [theirs]).fetchone()
        assert row is not None, table
        return row["row"]

    for table in tenants_tables(owner):
        before = stored(table)
        # "position" is an identity, given out
        taken = {name: value for name, value in before.items() if name != "position"}
        of_theirs, refused = {"g": theirs}, "row-level security"
        with for_groups(ours):
            with unit_of_work() as connection:
                for change in (f"UPDATE {table} SET group_id = group_id", f"DELETE FROM {table}"):
                    done = connection.execute(text(f"{change} WHERE group_id = :g"), of_theirs)
                    assert done.rowcount == 0, table
            with (
                pytest.raises(psycopg.errors.InsufficientPrivilege, match=refused),
                unit_of_work() as connection,
            ):
                insert(driver(connection), table, taken)
            moved = text(f"UPDATE {table} SET group_id = :b WHERE group_id = :a")
            with pytest.raises(ProgrammingError, match=refused), unit_of_work() as connection:
                connection.execute(moved, {"a": ours, "b": theirs})
        assert stored(table) == before, table


def test_names_with_signs_that_mean_something_to_arrays_are_names_like_others() -> None:
    names = ["a,b", "{c}", 'd"e', "f\\g", "NULL", "陶", " "]
    for name in names:
        with for_groups(name, "other"), unit_of_work() as connection:
            connection.execute(text("INSERT INTO groups (group_id) VALUES (:g)"), {"g": name})
            assert count("groups", "group_id = :g", g=name) == 0  # not committed yet
    with for_groups("a", "b", "c", "d", "e"):
        assert count("groups", "group_id = ANY(:g)", g=names) == 0
    with for_groups(*names):
        assert count("groups", "group_id = ANY(:g)", g=names) == len(names)
        with unit_of_work() as connection:
            connection.execute(text("DELETE FROM groups WHERE group_id = ANY(:g)"), {"g": names})


# Rows that are copied in


def copied(group: str) -> Copy:
    return Copy(PendingWork, WorkRow._fields, [WorkRow("test", uuid4().bytes, group)])


def test_rows_of_another_group_are_not_copied(groups: tuple[str, str]) -> None:
    ours, theirs = groups
    for scope in (Scope((ours,)), NOBODY):
        with pytest.raises(ForeignRowError, match=theirs), within(scope), unit_of_work() as connection:
            rows.copy_rows(driver(connection), [copied(theirs)])
    with for_groups(ours), unit_of_work() as connection:
        rows.copy_rows(driver(connection), [copied(ours)])
        assert connection.execute(text("SELECT current_user")).scalar_one() == ROLE
        assert connection.execute(text("SELECT count(*) FROM groups")).scalar_one() == 1
    with whole_service():
        assert count("pending_work", "kind = 'test' AND group_id = :g", g=theirs) == 0
        assert count("pending_work", "kind = 'test' AND group_id = :g", g=ours) == 1


def test_the_owners_rights_end_with_the_block_and_with_a_copy_that_fails(groups: tuple[str, str]) -> None:
    with unit_of_work() as connection:
        with as_owner(connection):
            assert connection.execute(text("SELECT count(*) FROM groups")).scalar_one() >= len(groups)
        assert connection.execute(text("SELECT count(*) FROM groups")).scalar_one() == 0
    with pytest.raises(ZeroDivisionError), unit_of_work() as connection, as_owner(connection):
        raise ZeroDivisionError
    assert count("groups") == 0
    again = copied(groups[0])
    twice = Copy(again.table, again.columns, [*again.rows, *again.rows])
    with pytest.raises(psycopg.errors.UniqueViolation), for_groups(groups[0]), unit_of_work() as connection:
        rows.copy_rows(driver(connection), [twice])
    for _ in range(3):
        assert count("groups") == 0


# What queries ask for, with their own conditions taken away

#: Question → whether it has an answer for a group with a row in every table.
QUESTIONS: dict[str, Callable[[Connection, str, UUID], Any]] = {
    "nodes": lambda c, g, _: reads.search(
        c, g, reads.MemoryFilter(agent_id="klaus", types=["event"]), None, 100
    ),
    "keywords": lambda c, g, _: agents.keywords(c, g, "klaus", 1_000),
    "agents": lambda c, g, _: agents.agent_rows(c, g, "", 1_000),
    "related": lambda c, g, _: reads.related(c, g, "klaus", ["x"], 1_000).events,
    "events": lambda c, g, _: events.exported(c, g, ExportQuery(with_vectors=True, limit=500)),
    "counts": lambda c, g, _: {k: v for k, v in numbers.counts(c, g) if v},
    "node": reads.node,
    "brief": lambda c, g, i: reads.nodes_of(c, g, [i]),
    "letters": lambda c, g, _: dead_letters.letters(c, g, LettersRequest(limit=limits.MAX_PAGE)),
    "why": lambda c, g, i: actions.why_thought(c, g, i, 2, 10).nodes,
}


@contextmanager
def neutralised() -> Iterator[list[str]]:
    """Take the condition on the group out of every statement that is executed; gives those that had one."""
    changed: list[str] = []

    def neutralise(
        _connection: Any, _cursor: Any, statement: str, parameters: Any, *_: Any
    ) -> tuple[str, Any]:
        if _CONDITION.search(statement):
            changed.append(statement)
        return _CONDITION.sub("true", statement), parameters

    sqlalchemy_event.listen(engine(), "before_cursor_execute", neutralise, retval=True)
    try:
        yield changed
    finally:
        sqlalchemy_event.remove(engine(), "before_cursor_execute", neutralise)


@pytest.fixture
def secrets(groups: tuple[str, str], owner: psycopg.Connection[dict[str, Any]]) -> dict[str, UUID]:
    """The node of each group, and its name, which is in every answer's rows and gives them away."""
    found: dict[str, UUID] = {}
    for group in groups:
        row = owner.execute("SELECT node_id FROM memory_nodes WHERE group_id = %s", [group]).fetchone()
        assert row is not None
        found[group] = row["node_id"]
        # Where an answer does not name its group, something in it does.
        for change in (
            "kw_strength SET keyword = 'secret of ' || group_id",
            "agents SET settings = jsonb_build_object('x', group_id)",
            "dead_letters SET reason = group_id",
            "memory_nodes SET embedding_key = description",
        ):
            owner.execute(f"UPDATE {change} WHERE group_id = %s".encode(), [group])
    return found


def test_a_query_that_forgot_its_condition_gives_away_nothing(groups, secrets):
    ours, theirs = groups
    for question, ask in QUESTIONS.items():
        with neutralised() as changed:
            # so the test can fail: without row-level security it is given away
            with whole_service(), unit_of_work() as connection:
                everything = repr(ask(connection, ours, secrets[theirs]))
                others = ask(connection, "no such group", secrets[theirs])
            assert changed, question
            if question != "related":  # that one is bound by a function
                # Pages are bounded: among all the rows of the other tests, theirs need not be on the first.
                assert theirs in everything or any(flatten(others)), question
            with for_groups(ours), unit_of_work() as connection:
                for group in groups:
                    assert theirs not in repr(ask(connection, group, secrets[theirs])), question
            for scope in (Scope(("no such group",)), NOBODY):
                with within(scope), unit_of_work() as connection:
                    assert not any(flatten(ask(connection, theirs, secrets[theirs]))), question
        # asked for another group by name, with its condition
        with for_groups(ours), unit_of_work() as connection:
            assert not any(flatten(ask(connection, theirs, secrets[theirs]))), question


def flatten(answer: Any) -> list[Any]:
    return list(answer.values()) if isinstance(answer, dict) else [answer]


def test_asked_for_another_group_by_name_every_query_is_silent(groups, secrets):
    ours, theirs = groups
    with for_groups(ours), unit_of_work() as connection:
        assert numbers.totals(connection, theirs) == numbers.Totals(0, 0)
        assert agents.agent_row(connection, theirs, "klaus") is None
        assert theirs not in known_groups(connection)
        assert reads.resting_on(connection, theirs, "klaus", secrets[theirs], 10) == []
        assert numbers.open_letters(connection, theirs) == 0
        assert [row.state for row in events.states(connection, theirs, [secrets[theirs]])] == ["unknown"]
        assert (
            reads.search(connection, theirs, reads.MemoryFilter(agent_id="klaus", archived="only"), None, 10)
            == []
        )
        assert agents.agent_names(connection, theirs, 10) == []
        assert reads.nearest(connection, theirs, secrets[theirs], 10) == []
        assert dead_letters.close(connection, theirs, [], "agent", "replayed") == []
    for scope, size in ((ours, 0), (theirs, 1)):
        with for_groups(scope), reading() as connection:
            taken = AgentIndex(IndexKey(theirs, "klaus", "m", 2))
            taken.refresh(connection)
            assert taken.size == size


def test_functions_of_the_owner_ask_for_the_scope_themselves(groups, secrets):
    ours, theirs = groups
    best = f"'{{x}}', '{{1}}', '{{event}}', '{{memory}}', {'NULL, ' * 9}true, true, 9"
    calls = [
        "jiyi_with_keywords(:g, 'klaus', '{x}')",
        "jiyi_with_terms(:g, 'klaus', '{x}', '{1}', '{event}', NULL, NULL, NULL, NULL, NULL, true, 9)",
        f"jiyi_best_with_terms(:g, 'klaus', {best})",
        "jiyi_ranked_by_terms(:g, 'klaus', '{x}', '{1}')",
    ]
    large = text("UPDATE memory_nodes SET large = true, tokens = 'x y' WHERE node_id = ANY(:ids)")
    with whole_service(), unit_of_work() as connection:
        connection.execute(large, {"ids": list(secrets.values())})
    scopes = {Scope((ours,)): 0, NOBODY: 0, Scope((theirs,)): 1, Scope(whole_service=True): 1}
    for call in calls:
        for scope, seen in scopes.items():
            with within(scope), unit_of_work() as connection:
                found = connection.execute(text(f"SELECT * FROM {call}"), {"g": theirs}).scalars().all()
            assert found == [secrets[theirs]] * seen, (call, scope)


def test_functions_are_nobody_elses(owner: psycopg.Connection[dict[str, Any]]) -> None:
    found = owner.execute("""
        SELECT proconfig, EXISTS (SELECT FROM aclexplode(proacl) WHERE grantee = 0) AS everybodys
        FROM pg_proc WHERE proname LIKE 'jiyi\\_%' AND prosecdef
    """).fetchall()
    assert len(found) >= 3
    confined = {"everybodys": False, "proconfig": ["search_path=public, pg_temp"]}
    assert [row for row in found if row != confined] == []


# Scopes come and go


def test_scopes_do_not_leak_between_the_users_of_a_connection(groups: tuple[str, str]) -> None:
    ours, theirs = groups
    everything, both = Scope(whole_service=True), Scope((ours, theirs))
    for scope in (Scope((ours,)), NOBODY, Scope((theirs,)), everything, NOBODY, both) * 3:
        for connect in (unit_of_work, reading):
            with within(scope):
                found = seen(connect) & {ours, theirs}
            assert found == ({ours, theirs} if scope.whole_service else set(scope.groups))
    for connect in (unit_of_work, reading):  # a scope ends with an exception and a rollback
        with pytest.raises(ProgrammingError), whole_service(), connect() as connection:
            connection.execute(text("SELECT nonsense"))
        assert current() == NOBODY
        assert seen(connect) == set()


def seen(connect: Callable[[], Any]) -> set[str]:
    """The groups that are seen over a connection."""
    with connect() as connection:
        return set(connection.execute(text("SELECT group_id FROM groups")).scalars())


def test_a_thread_has_no_scope_unless_it_says_one(groups: tuple[str, str]) -> None:
    def look(group: str | None) -> set[str]:
        with within(NOBODY if group is None else Scope((group,))):
            [found] = {frozenset(seen(connect)) for connect in (unit_of_work, reading) for _ in range(10)}
        return set(found)

    asked = [*groups, None] * 4
    with whole_service(), ThreadPoolExecutor(6) as pool:
        assert list(pool.map(lambda _: current(), range(3))) == [NOBODY] * 3
        assert list(pool.map(look, asked)) == [set() if group is None else {group} for group in asked]


@own_sessions
def test_the_same_scope_again_costs_no_trip_outside_of_transactions(groups: tuple[str, str]) -> None:
    def seen_by(group: str) -> set[str]:
        with for_groups(group):
            return seen(reading)

    reading_engine().dispose()  # so that there is one connection
    assert seen_by(groups[0]) == {groups[0]}
    with for_groups(groups[0]), reading() as connection:
        connection.execute(text("SELECT set_config('jiyi.groups', '{}', false)"))
    assert seen_by(groups[0]) == set()  # what was told before is believed to hold
    assert seen_by(groups[1]) == {groups[1]}
    assert seen_by(groups[0]) == {groups[0]}


# Who sets them


class Named(BaseModel):
    group_id: str


class Unnamed(BaseModel):
    x: int = 0


def test_a_question_is_answered_for_the_group_that_it_names() -> None:
    seen: list[Scope] = []
    answering.answers("test.scope", Named, scope="read")(lambda _: seen.append(current()))
    with whole_service():  # whatever was there before
        called("test.scope", {"group_id": "g"}, service())
    assert seen == [Scope(("g",))]


def test_an_action_is_done_for_the_actor_s_group_unless_it_says_otherwise() -> None:
    everything, asking = (
        Scope(whole_service=True),
        {"name": "test.ask", "scope": "read", "doc": "", "queue": ""},
    )
    for wide, operator, begun, expected in (
        ({}, False, NOBODY, Scope(("g",))),
        ({}, True, everything, Scope(("g",))),
        ({}, True, Scope(("h",)), Scope(("h",))),  # a request of another group: nothing is widened
        ({"across_groups": True}, False, Scope(("g", "h")), Scope(("g",))),
        ({"across_groups": True}, True, Scope(("g",)), everything),
        ({"whole_service": True}, False, Scope(("g",)), everything),
    ):
        asked: Action[Unnamed, Scope] = Action(
            request=Unnamed, result=Scope, function=lambda *_: current(), **asking, **wide
        )
        with within(begun):
            done = asked.perform(Actor("g", operator=operator), Unnamed())
        assert done == expected, (wide, operator, begun)


def test_a_job_works_for_the_whole_service_or_the_group_it_was_asked_to_see_to(monkeypatch):
    seen: list[Scope] = []
    job = Job("test", "A test's.", "reconcile_seconds")
    monkeypatch.setitem(tasks_jobs.FUNCTIONS, "test", lambda _run: seen.append(current()))
    for group in (None, "g"):
        tasks_jobs.perform(job, datetime.now(UTC) + timedelta(days=len(seen)), group)
    assert seen == [Scope(whole_service=True), Scope(("g",))]


def test_work_of_several_groups_is_done_for_one_at_a_time(groups: tuple[str, str]) -> None:
    kind, subjects = tasks_work.Kind("tenancy", "upkeep", 10), {group: uuid4() for group in groups}
    with whole_service(), unit_of_work() as connection:
        pending_work.enqueue(connection, kind.name, [(subject, group) for group, subject in subjects.items()])
    seen: list[tuple[Scope, int]] = []

    def handler(batch: tasks_work.Batch) -> None:
        with ThreadPoolExecutor(1) as pool:  # as those that ask LLMs
            pool.submit(batch.extend, 60).result()
        seen.append((current(), count("groups")))
        with batch.finish() as (_, owed):
            assert owed == [subjects[current().groups[0]]]

    assert tasks_work.run_due(kind, handler) == len(subjects)
    assert sorted(seen, key=str) == [(Scope((group,)), 1) for group in sorted(groups)]
    with whole_service():
        assert count("pending_work", "kind = :k", k=kind.name) == 0


def test_the_intake_stores_a_batch_of_several_groups_and_what_is_of_none(groups, intake):
    made = [observed(group, f"of {group}", agent_id="maria") for group in (*groups, f"new-{uuid4().hex[:8]}")]
    broken = str(uuid4())
    rejected = [Rejected("{", "not JSON")] + [
        Rejected(json.dumps({"event_id": broken, "group_id": whose}), "no payload")
        for whose in (groups[0], "a stranger")
    ]
    assert intake.store(made, rejected).events == len(made)
    for event in made:
        with for_groups(event.group_id):
            assert count("memory_nodes", "agent_id = 'maria'") == 1
    for scope, letters in ((Scope((groups[0],)), 1), (Scope(whole_service=True), 2)):
        with within(scope):
            assert count("dead_letters", "subject_id = :id", id=broken) == letters
    assert current() == NOBODY


# Indexes

ROWS = 2_000


@pytest.fixture
def many(owner: psycopg.Connection[dict[str, Any]]) -> Iterator[str]:
    """A group with an agent that is large, one of several."""
    group, at = f"many-{uuid4().hex[:12]}", {"created_at": T0.isoformat()}
    insert(owner, "groups", {"group_id": group, **at})
    for agent in ("klaus", "maria"):
        insert(owner, "agents", made_up(owner, "agents", {"group_id": group, "agent_id": agent}) | at)
        owner.execute(_MANY, [group, agent, ROWS])
    accessed = (
        "INSERT INTO node_access (node_id, group_id, last_accessed) SELECT node_id, group_id, created_at"
    )
    owner.execute(f"{accessed} FROM memory_nodes WHERE group_id = %s".encode(), [group])
    enlargement.build_index("m", 3)
    owner.execute("ANALYZE")
    yield group
    owner.execute("DELETE FROM groups WHERE group_id = %s", [group])
    owner.execute(f"DROP INDEX {enlargement.index_name('m', 3)}".encode())


def plan(connection: Connection, statement: str, **parameters: Any) -> str:
    return "\n".join(
        row[0] for row in driver(connection).execute(f"EXPLAIN {statement}".encode(), parameters)
    )


def test_what_changed_or_expires_is_found_by_its_index(many: str) -> None:
    with for_groups(many), unit_of_work() as connection:
        raw, of = driver(connection), {"group": many, "agent": "klaus"}
        since = raw.execute("SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint").fetchone()
        assert since is not None
        wanted = index_rows._CHANGED.as_string(raw)
        changed = plan(connection, wanted, **of, model="m", user_id=None, since=since[0])
        expires = plan(connection, str(archive._SOONEST.compile(connection)), **of, at=T0, limit=10)
    for told, index, condition in (
        (changed, "memory_nodes_group_id_agent_id_changed_xid_idx", "changed_xid >="),
        (expires, "memory_nodes_expiring_idx", "expires_at <="),
    ):
        assert re.search(rf"{index}.*\n(.*\n)?\s*Index Cond: .*{condition}", told), told


def scans(owner: psycopg.Connection[dict[str, Any]], name: str) -> int:
    row = owner.execute("SELECT pg_stat_get_numscans(%s::regclass) AS n", [name]).fetchone()
    assert row is not None
    return int(row["n"])


def test_words_the_nearest_and_the_most_important_are_found_by_their_indexes(many, owner):
    by_words = {
        "memory_nodes_keywords_idx": "jiyi_with_keywords(:g, 'klaus', '{key7}')",
        "memory_nodes_tokens_idx": "jiyi_ranked_by_terms(:g, 'klaus', '{key7}', '{1}')",
    }
    indexes = [
        *by_words,
        enlargement.index_name("m", 3),
        "memory_nodes_poignancy_idx",
        "memory_nodes_times_idx",
    ]
    before = {name: scans(owner, name) for name in indexes}
    flush = text("SELECT pg_stat_force_next_flush()")
    with for_groups(many), unit_of_work() as connection:
        for call in by_words.values():
            assert connection.execute(text(f"SELECT count(*) FROM {call}"), {"g": many}).scalar_one() == 1
        connection.execute(flush)
    with for_groups(many), reading() as connection, driver(connection).transaction():
        search = large_agents._Search(
            driver(connection), IndexKey(many, "klaus", "m", 2), ROWS, of_question(Filters(), T0), 10
        )
        assert search.nearest(agent_index.np.array([0.1, 0.2, 0.3], dtype=agent_index.np.float32))
        assert search.first("coalesce(n.poignancy, 0) DESC", 10)
        search.of_days([(T0, T0 + timedelta(days=1))], None)
        driver(connection).execute(flush.text)
    for pool in (engine(), reading_engine()):
        pool.dispose()  # a session's numbers are written at its end at the latest
    assert [name for name in indexes if scans(owner, name) == before[name]] == []


def test_neighbours_are_found_by_their_numbers_in_an_index(many: str) -> None:
    """Not by reading all that the agent has, which takes seconds of a million memories."""
    with for_groups(many), reading() as connection, driver(connection).transaction():
        raw = driver(connection)
        raw.execute("SET LOCAL enable_seqscan = off")  # few rows: it would be as quick
        search = large_agents._Search(
            raw, IndexKey(many, "klaus", "m", 2), ROWS, of_question(Filters(), T0), 10
        )
        (first,) = search.first("n.node_count", 1)
        assert len(search.around([first])) == 1 + len(large_agents.NEIGHBOUR_SHARES)
        asked = sql.SQL("EXPLAIN ") + large_agents._AROUND.format(search._where)
        told = "\n".join(
            row[0]
            for row in raw.execute(asked, search._parameters | {"ids": [first], "distances": [-1, 0, 1]})
        )
    assert re.search(r"Index Cond: .*node_count = ANY", told), told


# From before there were tenants


def test_a_database_from_before_is_brought_under_row_level_security(empty: Database) -> None:
    """With processes that were connected before the migration."""
    empty.upgrade("0007")
    empty.fill()
    node = "00000000-0000-7000-8000-000000000002"
    empty.query("INSERT INTO next_vectors (node_id, model, embedding) VALUES (%s, 'n', '[1]')", node)
    with environment(database_url=empty.url):
        assert count("memory_nodes") == 1  # nobody is kept apart yet
        upgrade()
        assert count("memory_nodes") == 0
        with reading() as connection:
            assert connection.execute(text("SELECT current_user")).scalar_one() == ROLE
        with for_groups("g"):
            assert count("memory_nodes") == count("node_access") == 1
    assert empty.query("SELECT group_id, recent::text, access_count FROM node_access") == [("g", "{}", 7)]
    assert empty.query("SELECT group_id, model FROM next_vectors") == [("g", "n")]
    # The code of before writes on meanwhile, without the new column.
    empty.query("DELETE FROM node_access; DELETE FROM next_vectors")
    empty.query("INSERT INTO node_access (node_id, last_accessed) VALUES (%s, now())", node)
    empty.query("INSERT INTO next_vectors (node_id, model, embedding) VALUES (%s, 'n', '[1]')", node)
    assert empty.query(
        "SELECT a.group_id, v.group_id FROM node_access a JOIN next_vectors v USING (node_id)"
    ) == [("g", "g")]


def test_a_user_who_may_not_make_roles_is_told_what_to_ask_for(empty, owner):
    user, name = f"user_{uuid4().hex[:8]}", re.search(r"/(migrations_\w+)\?", empty.url)
    assert name is not None
    owner.execute(f"CREATE ROLE {user} LOGIN NOSUPERUSER".encode())
    try:
        owner.execute(f"ALTER DATABASE {name[1]} OWNER TO {user}".encode())
        empty.query("CREATE EXTENSION vector")
        own = Database(empty.url.replace("//postgres@", f"//{user}@"))
        assert own.url != empty.url
        with pytest.raises(RoleError) as refused:
            own.upgrade()
        asked_for = re.search(r"have an administrator run `(.*?)` on this server", str(refused.value))
        assert asked_for is not None
        for statement in asked_for[1].split(";"):
            if "CREATE ROLE" not in statement and statement:  # the other databases of this server have it
                owner.execute(statement.encode())
        own.upgrade()
        own.fill()
        with environment(database_url=own.url):
            with for_groups("g"):
                assert count("memory_nodes") == 1
            assert count("memory_nodes") == 0
            with unit_of_work() as connection:
                assert tuple(connection.execute(text("SELECT session_user, current_user")).one()) == (
                    user,
                    ROLE,
                )
    finally:
        empty.query(f"REASSIGN OWNED BY {user} TO CURRENT_USER")
        empty.query(f"DROP OWNED BY {user}")
        owner.execute(f"ALTER DATABASE {name[1]} OWNER TO CURRENT_USER".encode())
        owner.execute(f"DROP ROLE {user}".encode())


def test_a_downgrade_takes_everything_back_but_the_role(empty: Database) -> None:
    empty.upgrade()
    empty.alembic(command.downgrade, "0007")
    for left in ("pg_policies", "pg_proc WHERE starts_with(proname, 'jiyi_')", "pg_default_acl"):
        assert empty.query(f"SELECT count(*) FROM {left}") == [(0,)], left
    assert empty.query(
        "SELECT count(*) FROM information_schema.role_table_grants WHERE grantee = %s", ROLE
    ) == [(0,)]


_CONDITION = re.compile(r"(?<!\w)(?:\w+\.)?group_id = %\(\w+\)s(?:::\w+)?")
#: Those that are restrictive only take away: a user's (``models.db.scope.hide_from_others``).
_TABLES = """
    WITH permissive AS (SELECT * FROM pg_policies WHERE schemaname = 'public' AND permissive = 'PERMISSIVE')
    SELECT c.relname, c.relrowsecurity,
        EXISTS (SELECT FROM pg_attribute WHERE attrelid = c.oid AND attname = 'group_id'
        AND NOT attisdropped) AS has_group,
        (SELECT count(*) FROM permissive p WHERE p.tablename = c.relname) AS policies,
        (SELECT count(*) FROM permissive p WHERE p.tablename = c.relname
            AND p.cmd = 'ALL' AND p.qual = p.with_check AND p.qual LIKE '%group_id = ANY%'
            AND p.qual = (SELECT qual FROM permissive WHERE tablename = 'memory_nodes')) AS same
    FROM pg_class c WHERE c.relkind IN ('r', 'p') AND c.relnamespace = 'public'::regnamespace
    AND c.relname NOT LIKE 'bare\\_%'
"""
_COLUMNS = """
    SELECT attname, format_type(atttypid, atttypmod) AS type,
        attnotnull AND NOT atthasdef AND attidentity = '' AS needed
    FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum
"""
_PRIVILEGES = """
    SELECT DISTINCT privilege_type FROM information_schema.role_table_grants WHERE grantee = %s
"""
_MANY = """
    INSERT INTO memory_nodes (node_id, group_id, agent_id, type, node_count, type_count, depth, created_at,
    description,
        embedding_key, key_hash, content_hash, keywords, keywords_lower, tokens, is_idle, poignancy,
        embedding, embedding_model,
        large, expires_at, changed_xid)
    SELECT gen_random_uuid(), %s, %s, 'event', i, i, 0, now(), 'x', 'x', '', '', ARRAY['key' || i],
    ARRAY['key' || i],
        'key' || i, false, i %% 10, ARRAY[i, i %% 7, 1]::vector, 'm', true, now() + make_interval(days => i),
        (i + 10)::text::xid8
    FROM generate_series(1, %s) AS i
"""
