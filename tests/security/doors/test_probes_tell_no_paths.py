"""Learning from a probe, without a key, where the service's servers are."""

from __future__ import annotations

import pytest
from flask import Flask

from models.operations import health_checks
from models.operations.health_checks import ServerState


@pytest.mark.parametrize(
    "reason",
    ["Error 2 connecting to unix socket: /srv/jiyi/run/valkey.sock.", "could not connect to 10.0.0.7:5432"],
)
def test_readyz_tells_that_a_server_is_away_and_not_where_it_is(
    web_app: Flask, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    monkeypatch.setattr(
        health_checks,
        "ask_servers",
        lambda: lambda: dict.fromkeys(health_checks.NAMES, ServerState("away", reason)),
    )
    answer = web_app.test_client().get("/readyz")
    assert answer.status_code == 503
    assert {answer.json[name] for name in health_checks.NAMES} == {"away: cannot be reached"}
    assert reason not in answer.text
