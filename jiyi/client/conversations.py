"""``client.conversations`` and ``growth``: what is remembered of conversations, what agents learn, and what they do by themselves."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import uuid4

from jiyi.client.calls import Id, Namespace, W, checked
from jiyi.client.steps import Steps, verb
from jiyi.protocol.appointments import AskedSchedules, AskSchedules
from jiyi.protocol.artifacts import ArtifactKind, GiveFeedback, GivenFeedback, Hint, HintQuery, Sentiment, Signal
from jiyi.protocol.conversations import BUDGET, ContextRequest, Format, InjectRequest
from jiyi.protocol.origins import Origin
from jiyi.protocol.recall import InjectedContext
from jiyi.protocol.wire.calls import retrieval_queue


class Conversations(Namespace[W]):
    """The group's agents' conversations."""

    @verb
    def inject(
        self,
        agent_id: str,
        user_input: str,
        *,
        base_prompt: str = "",
        session_id: str | None = None,
        user_id: str | None = None,
        origins: Sequence[Origin] = (),
        min_trust: float | None = None,
        max_tokens: int = BUDGET,
        format: Format = "markdown",  # noqa: A002 – the field's name
        template: str | None = None,
        grown: bool = True,
        split: bool = False,
        turn: int | None = None,
        renew: bool = False,
        tz: str | None = None,
        timeout: float | None = None,
    ) -> Steps[InjectedContext]:
        """The prompt with what is remembered; unchanged if nothing was found."""
        request = checked(
            InjectRequest,
            agent_id=agent_id,
            query=user_input,
            base_prompt=base_prompt,
            session_id=session_id,
            user_id=user_id,
            origins=list(origins),
            min_trust=min_trust,
            max_tokens=max_tokens,
            format=format,
            template=template,
            grown=grown,
            split=split,
            turn=turn,
            renew=renew,
            tz=tz or self._tz,
        )
        return self._inject("conversations.inject", request, timeout)

    @verb
    def context(
        self,
        agent_id: str,
        query: str,
        *,
        user_id: str | None = None,
        origins: Sequence[Origin] = (),
        min_trust: float | None = None,
        max_tokens: int = BUDGET,
        format: Format = "markdown",  # noqa: A002 – the field's name
        template: str | None = None,
        as_of: datetime | None = None,
        tiers: bool = False,
        tz: str | None = None,
        timeout: float | None = None,
    ) -> Steps[InjectedContext]:
        """What belongs before the answer to a query; with ``as_of`` what belonged there then, with ``tiers`` also what the group knows."""
        request = checked(
            ContextRequest,
            agent_id=agent_id,
            query=query,
            user_id=user_id,
            origins=list(origins),
            min_trust=min_trust,
            max_tokens=max_tokens,
            format=format,
            template=template,
            as_of=as_of,
            tiers=tiers,
            tz=tz or self._tz,
        )
        return self._inject("conversations.context", request, timeout)

    def _inject(self, action: str, request: ContextRequest, timeout: float | None) -> Steps[InjectedContext]:
        """By the worker that has the agent's index."""
        queue = retrieval_queue(self._group, request.agent_id, self._settings.retrieval_shards)
        return self._ask(action, request, InjectedContext, timeout, queue=queue)


class Growth(Namespace[W]):
    """The group's agents' growth, schedules, heartbeats and alerts."""

    @verb
    def schedule(
        self,
        agent_id: str,
        text: str,
        *,
        tz: str | None = None,
        session_id: str | None = None,
        user_id: str | None = None,
        completes: str | None = None,
        timeout: float | None = None,
    ) -> Steps[AskedSchedules]:
        """Do what a message asks of the agent's appointments: "remind me tomorrow at 9", 取消明天的牙医, "what have I planned?".

        ``completes``: the message before it, if that was asked back for a time ("When shall I remind you?"), so that "at 6pm" is enough.
        """
        who = {"agent_id": agent_id, "tz": tz or self._tz, "session_id": session_id, "user_id": user_id}
        request = checked(AskSchedules, **who, text=text, completes=completes, request_id=uuid4())
        return self._act("appointments.ask", request, AskedSchedules, timeout)

    @verb
    def hint(self, agent_id: str, *, user_id: str | None = None, timeout: float | None = None) -> Steps[Hint]:
        """The candidate that waits to be confirmed, as a line for a user's prompt; empty if none waits."""
        return self._ask("evolution.hint", checked(HintQuery, agent_id=agent_id, user_id=user_id), Hint, timeout)

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
