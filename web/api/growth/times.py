"""The commands on schedules, heartbeats and health: each is the action of its name (ZC-90 … ZC-96, ZC-134 … ZC-142)."""

from __future__ import annotations

from jiyi.protocol.growth.times import COMMANDS
from models.actions import ACTIONS
from web.api.registry import expose

for _name in COMMANDS:
    expose(ACTIONS[_name], "POST", path=f"/growth/{_name}", id=_name, tag="growth", body=ACTIONS[_name].request, errors=(404,))
