"""``client.growth``: what agents do by themselves: appointments, heartbeats, alerts."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from jiyi.client.calls import Calls, checked
from jiyi.errors import InvalidRequest
from jiyi.protocol.growth.catalogue import COMMANDS
from jiyi.protocol.growth.schedules import CreatedSchedule


class Growth:
    """The group's agents' schedules, heartbeats and alerts."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def schedule(
        self, agent_id: str, text: str, *, tz: str | None = None, session_id: str | None = None, timeout: float | None = None
    ) -> CreatedSchedule:
        """Take down what a message asks for: "remind me tomorrow at 9", 每天早上9点提醒我查房."""
        found = self.command("schedule_create", timeout, agent_id=agent_id, text=text, tz=tz, session_id=session_id)
        assert isinstance(found, CreatedSchedule)
        return found

    def command(self, name: str, timeout: float | None = None, **fields: Any) -> BaseModel:
        """The result of one of the commands of ``docs/growth.md``, such as ``command("heartbeat_status", agent_id="companion")``.

        Raises:
            InvalidRequest: there is no such command, or with a sentence per wrong field.
        """
        if name not in COMMANDS:
            raise InvalidRequest([f"name: no command {name!r}"])
        request, result, queue = COMMANDS[name]
        return result.model_validate(self._calls.act(name, checked(request, **fields), timeout, queue=queue))
