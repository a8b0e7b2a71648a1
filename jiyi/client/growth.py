"""``client.growth``: what agents learn from what worked, and what they do by themselves."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from pydantic import BaseModel

from jiyi.client.calls import Id, Namespace, W, checked
from jiyi.client.steps import Steps, verb
from jiyi.protocol.appointments.schedules import AskedSchedules
from jiyi.protocol.growth.artifact_types import ArtifactKind, Sentiment, Signal
from jiyi.protocol.growth.artifacts import GiveFeedback, GivenFeedback, Hint, HintQuery
from jiyi.protocol.growth.catalogue import COMMANDS


class Growth(Namespace[W]):
    """The group's agents' growth, schedules, heartbeats and alerts."""

    @verb
    def schedule(
        self, agent_id: str, text: str, *, tz: str | None = None, session_id: str | None = None, timeout: float | None = None
    ) -> Steps[AskedSchedules]:
        """Do what a message asks of the agent's appointments: "remind me tomorrow at 9", 取消明天的牙医, "what have I planned?"."""
        request, _, queue = COMMANDS["schedule_ask"]
        fields = checked(request, agent_id=agent_id, text=text, tz=tz, session_id=session_id, request_id=uuid4())
        return self._act("schedule_ask", fields, AskedSchedules, timeout, queue=queue)

    @verb
    def hint(self, agent_id: str, *, timeout: float | None = None) -> Steps[Hint]:
        """The candidate that waits to be confirmed, as a line for a prompt; empty if none waits."""
        return self._ask("evolution_hint", checked(HintQuery, agent_id=agent_id), Hint, timeout)

    @verb
    def feedback(
        self,
        artifact: ArtifactKind,
        artifact_id: Id,
        sentiment: Sentiment,
        *,
        signal: Signal = "explicit",
        comment: str | None = None,
        timeout: float | None = None,
    ) -> Steps[GivenFeedback]:
        """Vote on a skill, or on a workflow (``pipeline``); gives the trust that it comes to."""
        request = checked(GiveFeedback, artifact=artifact, artifact_id=artifact_id, sentiment=sentiment, signal=signal, comment=comment)
        return self._act("feedback_give", request, GivenFeedback, timeout)

    @verb
    def command(self, name: str, /, timeout: float | None = None, **fields: Any) -> Steps[BaseModel]:
        """The result of one of the commands of ``docs/growth.md``, such as ``command("heartbeat_status", agent_id="companion")``.

        Raises:
            InvalidRequest: there is no such command, or with a sentence per wrong field.
        """
        return self._command(COMMANDS, name, timeout, fields)
