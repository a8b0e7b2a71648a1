"""Workers find a broker that is back within seconds."""

from __future__ import annotations

import pytest
from celery import Celery
from kombu.exceptions import OperationalError

from workers.celery.worker_setup import FIRST, MOST, Connection, SoonAgain


def test_a_broker_that_is_away_is_tried_again_soon_and_never_after_long_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kombu.utils.functional.sleep", lambda _seconds: None)
    app = Celery("test", broker="redis://127.0.0.1:1/0", amqp=SoonAgain, set_as_current=False)
    pauses: list[float] = []
    for connection in (app.connection_for_read(), app.connection_for_write()):
        assert isinstance(connection, Connection)
        pauses.clear()
        with pytest.raises(OperationalError):
            connection.ensure_connection(lambda _error, pause: pauses.append(pause), max_retries=15)
        assert pauses[0] == FIRST
        assert max(pauses) <= MOST
        assert sum(pauses[:4]) <= MOST
