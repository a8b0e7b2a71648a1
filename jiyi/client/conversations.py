"""``client.conversations`` and ``growth``: what is remembered of conversations, what agents learn, and what they do by themselves."""

from __future__ import annotations

from typing import Any, Unpack
from uuid import uuid4

from jiyi.client.arguments import InjectionArguments
from jiyi.client.calls import Id, Namespace, W
from jiyi.client.steps import Steps, verb
from jiyi.protocol.appointments import AskedSchedules
from jiyi.protocol.artifacts import ArtifactKind, GivenFeedback, Hint, Sentiment, Signal
from jiyi.protocol.recall import InjectedContext
from jiyi.protocol.wire.calls import retrieval_queue


class Conversations(Namespace[W]):
    """The group's agents' conversations."""

    @verb
    def inject(
        self, agent_id: str, query: str, *, base_prompt: str = "", timeout: float | None = None, **options: Unpack[InjectionArguments]
    ) -> Steps[InjectedContext]:
        """The prompt with what is remembered; unchanged if nothing was found. ``options`` as of :meth:`context`."""
        return self._inject("conversations.inject", agent_id, timeout, query=query, base_prompt=base_prompt, **options)

    @verb
    def context(
        self, agent_id: str, query: str, *, timeout: float | None = None, **options: Unpack[InjectionArguments]
    ) -> Steps[InjectedContext]:
        """What belongs before the answer to a query; with ``as_of`` what belonged there then, with ``tiers`` also what the group knows.

        ``options`` are the other fields of :class:`jiyi.protocol.conversations.ContextRequest`: ``user_id``, ``session_id``,
        ``max_tokens``, ``format``, ``split`` …
        """
        return self._inject("conversations.context", agent_id, timeout, query=query, **options)

    def _inject(self, action: str, agent_id: str, timeout: float | None, **fields: Any) -> Steps[InjectedContext]:
        """By the worker that has the agent's index."""
        queue = retrieval_queue(self._group, agent_id, self._settings.retrieval_shards)
        fields["tz"] = fields.get("tz") or self._tz
        return self._call(action, timeout, queue=queue, agent_id=agent_id, **fields)


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
        return self._call("appointments.ask", timeout, **who, text=text, completes=completes, request_id=uuid4())

    @verb
    def hint(self, agent_id: str, *, user_id: str | None = None, timeout: float | None = None) -> Steps[Hint]:
        """The candidate that waits to be confirmed, as a line for a user's prompt; empty if none waits."""
        return self._call("evolution.hint", timeout, agent_id=agent_id, user_id=user_id)

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
        return self._call(
            "feedback.give", timeout, artifact=artifact, artifact_id=artifact_id, sentiment=sentiment, signal=signal, comment=comment
        )
