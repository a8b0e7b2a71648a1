"""The stage of a chat that keeps appointments: what a message asks of them is done, and confirmed."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from jiyi.chat.chain import Exchange
from jiyi.protocol.appointments import MAX_TEXT_CHARS, AskedSchedules
from jiyi.text.budget import estimate_tokens
from jiyi.text.prompting import quoted_to_tokens


class Scheduling(Protocol):
    """Whoever keeps schedules; ``client.growth`` is one."""

    def schedule(
        self, agent_id: str, text: str, *, tz: str | None = None, session_id: str | None = None, timeout: float | None = None
    ) -> AskedSchedules: ...


#: Tokens that a confirmation may have in the prompt, and the share of the room that there is.
NOTE_TOKENS, NOTE_SHARE = 300, 0.5
#: Before the confirmation in the prompt.
MARK = "[schedule]"
#: Share of the time that is left for this question: memory comes after it.
PATIENCE = 0.5


class ScheduleStage:
    """Before an answer: what a message asks of the agent's appointments is done (priority 140, before memory fills the prompt).

    The service judges whether it asks for something. ``reply`` of the exchange is the confirmation, or the question that asks back; the
    prompt has it, too, so that the model says so.
    """

    name, priority = "schedules", 140

    def __init__(self, scheduling: Scheduling | None, tz: str | None = None) -> None:
        self._scheduling, self._tz = scheduling, tz

    def missing(self) -> str:
        return "" if self._scheduling is not None else "schedules"

    def before(self, exchange: Exchange) -> Exchange:
        text = exchange.user_input
        if self._scheduling is None or not text.strip():
            return exchange
        patience = exchange.left * PATIENCE
        answer = self._scheduling.schedule(
            exchange.agent_id, text[:MAX_TEXT_CHARS], tz=self._tz, session_id=exchange.session_id, timeout=max(patience, 0.01)
        )
        if answer.confirmation is None:
            return exchange
        # The prompt speaks as the program does: what the user asked for stands in it as a quotation.
        most = NOTE_TOKENS if exchange.room is None else min(NOTE_TOKENS, int(exchange.room * NOTE_SHARE))
        note = quoted_to_tokens(answer.confirmation, most - estimate_tokens(MARK))
        return replace(exchange.told(f"{MARK} {note}") if note else exchange, reply=answer.confirmation)

    def after(self, exchange: Exchange) -> Exchange:
        return exchange
