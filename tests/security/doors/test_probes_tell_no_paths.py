"""Learning from a probe, without a key, where the service's servers are."""

from __future__ import annotations

from flask import Flask

from models.operations import health_checks
from tests.security.doors.test_refusals_tell_no_paths import AWAY, NO_DATABASE
from workers.ephemeral import environment


def test_readyz_tells_that_a_server_is_away_and_not_where_it_is(web_app: Flask) -> None:
    for database, valkey in (
        (NO_DATABASE, AWAY),
        ("postgresql+psycopg://jiyi@127.0.0.1:1/jiyi", "redis://127.0.0.1:1/0"),
    ):
        broker = valkey.replace("unix", "redis+socket")
        with environment(database_url=database, redis_url=valkey, broker_url=broker):
            answer = web_app.test_client().get("/readyz")
        assert answer.status_code == 503
        assert {answer.json[name] for name in health_checks.NAMES} == {"away: cannot be reached"}
        assert not any(where in answer.text for where in ("nonexistent", "127.0.0.1"))
