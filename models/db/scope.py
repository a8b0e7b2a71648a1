"""Whose rows a piece of work may see: row-level security shows no others (``docs/tenants.md``).

Code that begins work says for which groups, or for the whole service; without that no row is visible.
``models.db.connection`` sets it in PostgreSQL at the start of each transaction. Owners and superusers are
exempt from policies, so each connection changes to the role ``jiyi_service``, which only reads and writes
rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import psycopg
from psycopg import sql
from sqlalchemy import Connection

from jiyi.errors import JiyiError

#: Roles are the cluster's: the databases of one server share it, and it is left when one of them goes.
ROLE = "jiyi_service"
_IS_SECURED = "SELECT relrowsecurity FROM pg_class WHERE oid = to_regclass('memory_nodes')"
_ROWS = "SELECT, INSERT, UPDATE, DELETE"
_REVOKES = (
    f"ALTER DEFAULT PRIVILEGES IN SCHEMA public REVOKE ALL ON TABLES FROM {ROLE}",
    f"ALTER DEFAULT PRIVILEGES IN SCHEMA public REVOKE ALL ON SEQUENCES FROM {ROLE}",
    f"REVOKE ALL ON ALL TABLES IN SCHEMA public FROM {ROLE}",
    f"REVOKE ALL ON ALL SEQUENCES IN SCHEMA public FROM {ROLE}",
    f"REVOKE USAGE ON SCHEMA public FROM {ROLE}",
)


@dataclass(frozen=True, slots=True)
class Scope:
    """``groups`` may be seen, or everything; with ``user``, nothing that is only for another user."""

    groups: tuple[str, ...] = ()
    whole_service: bool = False
    user: str | None = None


def current() -> Scope:
    return _scope.get()


def for_groups(*group_ids: str, user: str | None = None) -> AbstractContextManager[None]:
    """What is done within is done for these groups alone, and for this user."""
    return within(Scope(groups=tuple(sorted(set(group_ids))), user=user))


def narrowed_to(group_id: str, user: str | None = None) -> AbstractContextManager[None]:
    """For this group and user; if the current scope has others only, for those: it is never widened."""
    begun = current()
    return (
        within(begun)
        if begun.groups and group_id not in begun.groups
        else for_groups(group_id, user=begun.user or user)
    )


def whole_service() -> AbstractContextManager[None]:
    """For work across groups: jobs, claims, the operator's overview. ``test_scope.py`` lists its callers."""
    return within(Scope(whole_service=True))


@contextmanager
def within(scope: Scope) -> Iterator[None]:
    """What is done within is done for a scope that was the current one before, perhaps in another thread."""
    token = _scope.set(scope)
    try:
        yield
    finally:
        _scope.reset(token)


class RoleError(JiyiError):
    """The role that the service works as is not there, and cannot be made."""

    code = "role"


def confine(connection: psycopg.Connection) -> bool:
    """Change to the service's role for good; False in a database from before there was row-level security."""
    secured = is_secured(connection)
    if secured:
        connection.execute(sql.SQL("SET ROLE {}").format(sql.Identifier(ROLE)))
    connection.commit()
    return secured


@contextmanager
def as_owner(connection: Connection) -> Iterator[None]:
    """For what needs the owner (indexes, migrations): no row-level security within.

    The connection is in no transaction, or in one that will not be rolled back.
    """
    role = connection.exec_driver_sql("SELECT current_setting('role')").scalar_one()  # ROLE or none
    connection.exec_driver_sql("SET ROLE NONE")
    try:
        yield
    except BaseException:
        connection.invalidate()  # whatever state it is in, nobody gets it
        raise
    if not connection.invalidated:
        connection.exec_driver_sql(f"SET ROLE {role}")


@contextmanager
def as_owner_within(connection: psycopg.Connection) -> Iterator[None]:
    """The same, within a transaction: what raises has to roll it back, and with it the role."""
    connection.execute("SET LOCAL ROLE NONE")
    yield
    connection.execute(f"SET LOCAL ROLE {ROLE}".encode())


def establish(connection: psycopg.Connection) -> None:
    """Make the role if missing, with its rights. Raises :class:`RoleError` with what an admin has to run."""
    user = connection.info.user
    try:
        connection.execute(_CREATE)
        connection.execute(_JOIN)
    except psycopg.errors.InsufficientPrivilege as error:
        raise RoleError(
            f"the database user {user} may not make the role {ROLE} ({error.diag.message_primary}): have an"
            " administrator run "
            f'`CREATE ROLE {ROLE} NOLOGIN; GRANT {ROLE} TO "{user}";` on this server, then try again'
        ) from None
    for statement in _GRANTS:
        connection.execute(statement)


def withdraw(connection: psycopg.Connection) -> None:
    """Take back what :func:`establish` gave in this database. The role stays: other databases use it."""
    for statement in _REVOKES:
        connection.execute(statement)


def is_secured(connection: psycopg.Connection) -> bool:
    """Whether the database's tables are under row-level security."""
    row = connection.execute(_IS_SECURED).fetchone()
    return row is not None and bool(row[0])


def isolate(table: str) -> list[str]:
    """Puts a table with a ``group_id`` under row-level security. NULL is the whole service's."""
    return [
        f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY",
        f"CREATE POLICY tenants ON {table} USING ({POLICY}) WITH CHECK ({POLICY})",
    ]


def hide_from_others(table: str, condition: str) -> str:
    """Hides rows that fail ``condition`` from the user for whom work is done (``{user}``); for migrations."""
    user = "(SELECT current_setting('jiyi.user', true))"
    visible = f"coalesce({user}, '') = '' OR {condition.format(user=user)}"
    return f"CREATE POLICY people ON {table} AS RESTRICTIVE USING ({visible}) WITH CHECK ({visible})"


_NOBODY = Scope()
_scope: ContextVar[Scope] = ContextVar("jiyi_scope", default=_NOBODY)
#: Evaluated once a statement, thanks to the sub-selects. Neither setting: NULL, so nobody.
POLICY = """
    (SELECT current_setting('jiyi.whole_service', true)) = 'on'
    OR group_id = ANY ((SELECT nullif(current_setting('jiyi.groups', true), ''))::text[])
"""
# Two databases of a server may be migrated at the same time: the second finds the role made.
_CREATE = f"""
    DO $$ BEGIN
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '{ROLE}') THEN CREATE ROLE {ROLE} NOLOGIN; END IF;
    EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL;
    END $$
"""
# From 16 on a member may have the right to give the role away without the right to change to it.
_JOIN = f"""
    DO $$ DECLARE
        wanted text := CASE WHEN current_setting('server_version_num')::int >= 160000 THEN 'SET' ELSE
        'MEMBER' END;
    BEGIN
        PERFORM pg_advisory_xact_lock(hashtextextended('jiyi.role', 0));
        IF NOT pg_has_role(session_user, '{ROLE}', wanted) THEN
            EXECUTE format('GRANT {ROLE} TO %I', session_user);
        END IF;
    END $$
"""
_GRANTS = (
    f"GRANT USAGE ON SCHEMA public TO {ROLE}",
    f"GRANT {_ROWS} ON ALL TABLES IN SCHEMA public TO {ROLE}",
    f"GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA public TO {ROLE}",
    f"ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT {_ROWS} ON TABLES TO {ROLE}",
    f"ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT USAGE, SELECT ON SEQUENCES TO {ROLE}",
    f"REVOKE INSERT, UPDATE, DELETE ON alembic_version FROM {ROLE}",
    # Functions of the owner that look past row-level security, each after it has asked for the scope by
    # itself.
    f"""
    DO $$ DECLARE found regprocedure; BEGIN
        FOR found IN SELECT p.oid FROM pg_proc p
            WHERE p.pronamespace = 'public'::regnamespace AND starts_with(p.proname, 'jiyi_') AND p.prosecdef
        LOOP
            EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', found);
            EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO {ROLE}', found);
        END LOOP;
    END $$
    """,  # noqa: S608 – no value, and no name but ROLE; a DO block takes no parameters
)
