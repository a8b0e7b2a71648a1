"""What a client knows of the commands on growth and appointments is what the registry has."""

from __future__ import annotations

from jiyi.protocol.growth.catalogue import COMMANDS
from models.actions import ACTIONS


def test_the_catalogue_agrees_with_the_registry() -> None:
    registered = {name: (ACTIONS[name].request, ACTIONS[name].result, ACTIONS[name].queue) for name in COMMANDS}
    assert registered == COMMANDS
