"""``client.conversations``: what is remembered of conversations, and what of it belongs before an answer."""

from __future__ import annotations

from jiyi.client.calls import Namespace, W, checked
from jiyi.client.steps import Steps, verb
from jiyi.protocol.conversations import BUDGET, ContextRequest, Format, InjectedContext, InjectRequest
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
        max_tokens: int = BUDGET,
        format: Format = "markdown",  # noqa: A002 – the field's name
        template: str | None = None,
        timeout: float | None = None,
    ) -> Steps[InjectedContext]:
        """The prompt with what is remembered; unchanged if nothing was found."""
        request = checked(
            InjectRequest,
            agent_id=agent_id,
            query=user_input,
            base_prompt=base_prompt,
            session_id=session_id,
            max_tokens=max_tokens,
            format=format,
            template=template,
        )
        return self._inject("conversations.inject", request, timeout)

    @verb
    def context(
        self,
        agent_id: str,
        query: str,
        *,
        max_tokens: int = BUDGET,
        format: Format = "markdown",  # noqa: A002 – the field's name
        template: str | None = None,
        timeout: float | None = None,
    ) -> Steps[InjectedContext]:
        """What belongs before the answer to a query."""
        request = checked(ContextRequest, agent_id=agent_id, query=query, max_tokens=max_tokens, format=format, template=template)
        return self._inject("conversations.context", request, timeout)

    def _inject(self, action: str, request: ContextRequest, timeout: float | None) -> Steps[InjectedContext]:
        """By the worker that has the agent's index."""
        queue = retrieval_queue(self._group, request.agent_id, self._settings.retrieval_shards)
        return self._ask(action, request, InjectedContext, timeout, queue=queue)
