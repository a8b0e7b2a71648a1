"""What tests of things that come due share."""

from __future__ import annotations

import pytest
from sqlalchemy import text

from models.db.connection import unit_of_work
from models.db.scope import whole_service
from workers.embedded.stack import Stack

_NOTHING_DUE = (
    text("UPDATE schedules SET next_run_at = now() + interval '10 years' WHERE next_run_at IS NOT NULL"),
    text("UPDATE heartbeats SET next_tick_at = now() + interval '10 years' WHERE next_tick_at IS NOT NULL"),
    text("UPDATE alerts SET delivered_at = now() WHERE delivered_at IS NULL"),
)


@pytest.fixture
def nothing_due(database: Stack) -> None:
    """Nothing that other tests left comes due: for tests of the scan, which looks at everybody's."""
    with whole_service(), unit_of_work() as connection:
        for statement in _NOTHING_DUE:
            connection.execute(statement)
