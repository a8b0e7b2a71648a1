"""The stage of a chat that takes down appointments: what asks for one is stored, and confirmed (ZC-95)."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Protocol

from jiyi.conversations.chat.chain import Exchange
from jiyi.growth.schedules.parse import has_schedule_intent
from jiyi.protocol.growth.schedules import CreatedSchedule
from jiyi.text.budget import estimate_tokens
from jiyi.text.prompting import quoted_to_tokens


class Scheduling(Protocol):
    """Whoever takes down schedules; ``client.growth`` is one."""

    def schedule(
        self, agent_id: str, text: str, *, tz: str | None = None, session_id: str | None = None, timeout: float | None = None
    ) -> CreatedSchedule: ...


#: Tokens of the prompt that are kept for a confirmation, and the share of all of them that this may be.
NOTE_TOKENS, NOTE_SHARE = 150, 0.5
#: Before the confirmation in the prompt.
MARK = "[schedule]"


class ScheduleStage:
    """Before an answer: a message that asks for something at a time becomes a schedule (priority 600).

    ``reply`` of the exchange is the confirmation, or the question when exactly; the prompt has it, too, so that the model says so.
    """

    name, priority = "schedules", 600

    def __init__(self, scheduling: Scheduling | None, tz: str | None = None) -> None:
        self._scheduling, self._tz = scheduling, tz

    def missing(self) -> str:
        return "" if self._scheduling is not None else "schedules"

    def asks(self, user_input: str) -> bool:
        """Whether a message asks for something at a time. Most do not, and cost no call; it hardly depends on the time zone."""
        return self._scheduling is not None and has_schedule_intent(user_input, datetime.now(UTC), self._tz or "UTC")

    def before(self, exchange: Exchange) -> Exchange:
        if self._scheduling is None or not self.asks(exchange.user_input):
            return exchange
        found = self._scheduling.schedule(
            exchange.agent_id, exchange.user_input, tz=self._tz, session_id=exchange.session_id, timeout=max(exchange.left, 0.01)
        )
        if found.confirmation is None:
            return exchange
        # The prompt speaks as the program does: what the user asked for stands in it as a quotation.
        most = NOTE_TOKENS if exchange.room is None else min(NOTE_TOKENS, exchange.room)
        said = quoted_to_tokens(found.confirmation, most - estimate_tokens(MARK))
        return replace(exchange.told(f"{MARK} {said}") if said else exchange, reply=found.confirmation)

    def after(self, exchange: Exchange) -> Exchange:
        return exchange
