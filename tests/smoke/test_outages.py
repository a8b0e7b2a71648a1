"""A Valkey without memory or disk, a database that is away: named where anybody asks, waited for, and then
all goes on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from jiyi import Client
from jiyi.errors import BrokerUnavailable, DatabaseUnavailable, JiyiError
from models.db.valkey import valkey
from tests.smoke.conftest import Service
from tests.smoke.memory import EVENTS, life, messages, publish, settled
from web import create_app

pytestmark = [pytest.mark.smoke, pytest.mark.timeout(600)]

PATIENCE_SECONDS = 120.0
#: Long enough for a Celery worker to have met the error more than once.
MEANWHILE_SECONDS = 4.0


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.1)


def readiness() -> dict[str, str]:
    answer = create_app().test_client().get("/readyz")
    found: dict[str, str] = answer.json
    assert answer.status_code == (200 if found["status"] == "ready" else 503)
    return found


@contextmanager
def full() -> Iterator[None]:
    """No memory is left."""
    valkey().config_set("maxmemory", "1")
    try:
        yield
    finally:
        valkey().config_set("maxmemory", "0")


@contextmanager
def disk_full() -> Iterator[None]:
    """As when the disk is full: the last snapshot could not be written."""
    folder = Path(str(valkey().config_get("dir")["dir"]))
    obstacle = folder / "dump.rdb"
    obstacle.unlink(missing_ok=True)
    obstacle.mkdir()
    (obstacle / "in the way").touch()
    valkey().config_set("save", "3600 1000000")
    valkey().bgsave()
    try:
        until(lambda: _info("rdb_last_bgsave_status") == "err")
        yield
    finally:
        (obstacle / "in the way").unlink()
        obstacle.rmdir()
        valkey().config_set("save", "")


def _info(name: str) -> str:
    return str(valkey().info("persistence")[name])


def test_a_valkey_that_takes_nothing_more_is_named_and_waited_for(
    running: Service, client: Client, group: str
) -> None:
    first, *rest = messages(group)
    publish(client, first)
    client.wait_for([event.event_id for event in first], timeout=PATIENCE_SECONDS)
    half = len(rest) // 2
    for outage, state, word, later in (
        (full, "full", "no memory left", rest[:half]),
        (disk_full, "disk_full", "cannot write to its disk", rest[half:]),
    ):
        with outage():
            found = readiness()
            assert found["status"] == "not ready"
            assert found["database"] == "ok"
            assert found["valkey"].startswith(f"{state}: ")
            assert found["broker"].startswith(f"{state}: ")
            with pytest.raises(BrokerUnavailable, match=word):
                client.observe_many(later[0])
            with pytest.raises(BrokerUnavailable, match=word):
                client.retrieve(first[0].agent_id, "a book", timeout=2)
            time.sleep(MEANWHILE_SECONDS)
            assert {name: node.status for name, node in running.nodes.items()} == dict.fromkeys(
                running.nodes, "running"
            )
        for batch in later:
            publish(client, batch)
    assert len(settled(group)["nodes"]) == EVENTS
    assert readiness()["status"] == "ready"


def test_a_valkey_full_of_events_is_emptied_by_the_intake(
    running: Service, client: Client, group: str
) -> None:
    """Full of the very events that the intake is to store: only it can make room."""
    intake = running.nodes["intake"]
    intake.kill("SIGTERM")
    batches = list(messages(group))
    for batch in batches:
        publish(client, batch)
    with full():
        intake.start()
        until(lambda: not valkey().llen("memory.intake"))
    assert len(settled(group)["nodes"]) == EVENTS


def test_a_database_that_is_away_is_named_and_not_called_a_failure_of_the_service(
    running: Service, client: Client, group: str
) -> None:
    publish(client, life(group)[:12])
    client.wait_for([life(group)[11].event_id], timeout=PATIENCE_SECONDS)
    running.stack.stop()
    try:
        until(lambda: _is_named(client))
        found = readiness()
        assert found["database"].startswith(("away: ", "starting: "))
        assert found["valkey"] == "ok"
    finally:
        running.stack.start()
    until(lambda: _answers(client))
    assert {name: node.status for name, node in running.nodes.items()} == dict.fromkeys(
        running.nodes, "running"
    )


def _is_named(client: Client) -> bool:
    try:
        client.retrieve("klaus", "a book", timeout=10)
    except DatabaseUnavailable as error:
        assert "the database cannot be reached" in str(error)
        return True
    except JiyiError:
        return False
    return False


def _answers(client: Client) -> bool:
    try:
        return bool(client.retrieve("klaus", "a book", timeout=5).retrieved_nodes)
    except JiyiError:
        return False
