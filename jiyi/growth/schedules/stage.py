"""The stage of a chat that takes down appointments: what asks for one is stored, and confirmed (ZC-95)."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Protocol

from jiyi.conversations.chat.chain import Exchange
from jiyi.growth.schedules.parse import has_schedule_intent
from jiyi.protocol.growth.schedules import CreatedSchedule


class Scheduling(Protocol):
    """Whoever takes down schedules; ``client.growth`` is one."""

    def schedule(
        self, agent_id: str, text: str, *, tz: str | None = None, session_id: str | None = None, timeout: float | None = None
    ) -> CreatedSchedule: ...


class ScheduleStage:
    """Before an answer: a message that asks for something at a time becomes a schedule (priority 600).

    ``reply`` of the exchange is the confirmation, or the question when exactly; the prompt has it, too, so that the model says so.
    """

    name, priority = "schedules", 600

    def __init__(self, scheduling: Scheduling | None, tz: str | None = None) -> None:
        self._scheduling, self._tz = scheduling, tz

    def missing(self) -> str:
        return "" if self._scheduling is not None else "schedules"

    def before(self, exchange: Exchange) -> Exchange:
        # Most messages ask for nothing, and cost no call. Whether one does hardly depends on the time zone.
        if self._scheduling is None or not has_schedule_intent(exchange.user_input, datetime.now(UTC), self._tz or "UTC"):
            return exchange
        found = self._scheduling.schedule(
            exchange.agent_id, exchange.user_input, tz=self._tz, session_id=exchange.session_id, timeout=max(exchange.left, 0.01)
        )
        if found.confirmation is None:
            return exchange
        note = f"{exchange.system_prompt}\n\n[schedule] {found.confirmation}".lstrip()
        return replace(exchange, system_prompt=note, reply=found.confirmation)

    def after(self, exchange: Exchange) -> Exchange:
        return exchange
