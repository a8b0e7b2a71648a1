"""``client.conversations``: what is remembered of conversations, and what of it belongs before an answer."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel
from pydantic_core import from_json

from jiyi.client.calls import Calls, checked
from jiyi.errors import InvalidRequest
from jiyi.protocol.conversations.catalogue import COMMANDS
from jiyi.protocol.conversations.injection import BUDGET, ContextRequest, Format, InjectedContext, InjectRequest
from jiyi.protocol.wire.calls import retrieval_queue


class Conversations:
    """The group's agents' conversations."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

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
    ) -> InjectedContext:
        """The prompt with what is remembered; unchanged if nothing was found (ZC-116)."""
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
        return self._ask("viking_inject_prompt", request, timeout)

    def context(
        self,
        agent_id: str,
        query: str,
        *,
        max_tokens: int = BUDGET,
        format: Format = "markdown",  # noqa: A002 – the field's name
        template: str | None = None,
        timeout: float | None = None,
    ) -> InjectedContext:
        """What belongs before the answer to a query (ZC-105)."""
        request = checked(ContextRequest, agent_id=agent_id, query=query, max_tokens=max_tokens, format=format, template=template)
        return self._ask("memory_build_context", request, timeout)

    def command(self, name: str, timeout: float | None = None, **fields: Any) -> BaseModel:
        """The result of one of the commands of ``docs/conversations.md``, such as ``command("viking_ls", uri="agent://companion")``.

        Raises:
            InvalidRequest: there is no such command, or with a sentence per wrong field.
        """
        if name not in COMMANDS:
            raise InvalidRequest([f"name: no command {name!r}"])
        request, result, queue = COMMANDS[name]
        return result.model_validate(self._calls.act(name, checked(request, **fields), timeout, queue=queue))

    def _ask(self, action: str, request: ContextRequest, timeout: float | None) -> InjectedContext:
        """By the worker that has the agent's index."""
        queue = retrieval_queue(self._calls.group, request.agent_id, self._calls.settings.retrieval_shards)
        body = {"group_id": self._calls.group, **request.model_dump(mode="json", exclude_none=True)}
        return InjectedContext.model_validate(from_json(self._calls.transport.call(f"rpc.{action}", queue, body, timeout)))
