"""The commands on times are in the catalogue, and are what the registry has."""

from __future__ import annotations

from jiyi.protocol.growth import catalogue, times
from models.actions import ACTIONS


def test_the_client_knows_every_command_on_times() -> None:
    assert times.COMMANDS.items() <= catalogue.COMMANDS.items()
    assert sum(name.startswith("heartbeat_") for name in times.COMMANDS) == 11
    assert "health_snapshot" in times.COMMANDS


def test_the_catalogue_agrees_with_the_registry() -> None:
    for name, (request, result, queue) in times.COMMANDS.items():
        action = ACTIONS[name]
        assert (action.request, action.result, action.queue) == (request, result, queue), name
