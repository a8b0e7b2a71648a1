"""``client.growth``: what agents learn from what worked, and what they do by themselves."""

from __future__ import annotations

from uuid import uuid4

from jiyi.client.calls import Id, Namespace, W, checked
from jiyi.client.steps import Steps, verb
from jiyi.protocol.appointments import AskedSchedules, AskSchedules
from jiyi.protocol.artifacts import ArtifactKind, GiveFeedback, GivenFeedback, Hint, HintQuery, Sentiment, Signal


class Growth(Namespace[W]):
    """The group's agents' growth, schedules, heartbeats and alerts."""

    @verb
    def schedule(
        self, agent_id: str, text: str, *, tz: str | None = None, session_id: str | None = None, timeout: float | None = None
    ) -> Steps[AskedSchedules]:
        """Do what a message asks of the agent's appointments: "remind me tomorrow at 9", 取消明天的牙医, "what have I planned?"."""
        request = checked(AskSchedules, agent_id=agent_id, text=text, tz=tz, session_id=session_id, request_id=uuid4())
        return self._act("appointments.ask", request, AskedSchedules, timeout)

    @verb
    def hint(self, agent_id: str, *, timeout: float | None = None) -> Steps[Hint]:
        """The candidate that waits to be confirmed, as a line for a prompt; empty if none waits."""
        return self._ask("evolution.hint", checked(HintQuery, agent_id=agent_id), Hint, timeout)

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
        return self._act("feedback.give", request, GivenFeedback, timeout)
