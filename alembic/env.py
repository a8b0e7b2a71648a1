"""How migrations run: on an engine of the service's, under a lock time-out, one transaction each."""

from __future__ import annotations

import time

from sqlalchemy import text

from alembic import context
from models.db.connection import session_engine
from models.db.scope import as_owner
from models.db.tables import Base

#: A migration waits this long for a lock, then fails: waiting longer would queue every query behind it.
LOCK_TIMEOUT = "4s"
#: Any number that no other program uses: two copies that start at once migrate one after the other.
MIGRATION_LOCK = 7_461_903
LOCK_POLL_SECONDS = 0.2


def run() -> None:
    if context.is_offline_mode():
        context.configure(dialect_name="postgresql", target_metadata=Base.metadata, literal_binds=True)
        with context.begin_transaction():
            context.run_migrations()
        return
    with session_engine().connect() as connection, as_owner(connection):
        # An index of millions of rows takes minutes, and so does waiting for another copy that is making it.
        connection.execute(text("SET statement_timeout = 0"))
        # Not by waiting in PostgreSQL: the snapshot of a statement that waits would hold up CREATE INDEX CONCURRENTLY for ever.
        while not connection.execute(
            text("SELECT pg_try_advisory_lock(:key)"), {"key": MIGRATION_LOCK}
        ).scalar_one():
            connection.commit()
            time.sleep(LOCK_POLL_SECONDS)
        connection.execute(text(f"SET lock_timeout = '{LOCK_TIMEOUT}'"))
        connection.commit()
        context.configure(
            connection=connection, target_metadata=Base.metadata, transaction_per_migration=True
        )
        try:
            with context.begin_transaction():
                context.run_migrations()
        finally:
            connection.invalidate()  # also ends the session, and with it the advisory lock and the time-out


run()
