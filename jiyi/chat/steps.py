"""The stage that records steps (priority 650): it puts them into the loop's queue, and waits for nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jiyi.chat.chain import Exchange
from jiyi.chat.step_recorder import StepRecorder
from jiyi.protocol.growth.steps import StepType
from jiyi.protocol.wire.json_values import JsonMapping


class TrajectoryStage:
    """Records what was asked, found, called and answered.

    Args:
        put: takes an event to be published; None: nothing is recorded.
        group_id: whose steps they are.
        retrieved: says what was found for the request at hand; empty if nothing was.
    """

    name, priority = "trajectory", 650

    def __init__(self, put: Callable[[JsonMapping], None] | None, group_id: str, *, retrieved: Callable[[], str] = lambda: "") -> None:
        self._put, self._retrieved = put, retrieved
        self._recorder = StepRecorder(group_id)

    def missing(self) -> str:
        return "recording" if self._put is None else ""

    def before(self, exchange: Exchange) -> Exchange:
        if exchange.session_id is not None and exchange.user_input.strip():
            self._record(self._recorder.asked(exchange.agent_id, exchange.session_id, exchange.user_input, self._retrieved()))
        return exchange

    def after(self, exchange: Exchange) -> Exchange:
        if exchange.session_id is not None:
            self._record(self._recorder.answered(exchange.agent_id, exchange.session_id, exchange.messages, exchange.chat))
        return exchange

    def step(self, agent_id: str, session_id: str, step_type: StepType, **fields: Any) -> None:
        """Record one step that the program tells by itself."""
        self._record([self._recorder.step(agent_id, session_id, step_type, **fields)])

    def compacted(self, exchange: Exchange) -> None:
        """Note that the conversation is compacted."""
        if exchange.session_id is not None:
            self._recorder.compacted(exchange.agent_id, exchange.session_id)

    def _record(self, events: Sequence[JsonMapping]) -> None:
        if self._put is None:
            return
        for event in events:
            self._put(event)
