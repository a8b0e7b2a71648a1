"""Microsoft's Agent Framework on Jiyi: a context provider (``docs/integrations.md``)."""

from __future__ import annotations

from typing import Any

from agent_framework import AgentSession, ContextProvider, Message, SessionContext, SupportsAgentRun

from jiyi.client.client import AsyncClient
from jiyi.integrations.turns import AgentMemory
from jiyi.protocol.base import Role
from jiyi.protocol.conversations import BUDGET


class JiyiContextProvider(ContextProvider):
    """``Agent(client, context_providers=[JiyiContextProvider(client, "companion", user_id="mia")])``.

    Before a run it adds a message with what is remembered about the new messages; after it, these and the
    answer are recorded in the session. Arguments are those of
    :class:`jiyi.integrations.turns.AgentMemory`, and ``source_id``: what the framework calls the provider.
    """

    def __init__(
        self,
        client: AsyncClient,
        agent_id: str,
        *,
        user_id: str | None = None,
        max_tokens: int = BUDGET,
        source_id: str = "jiyi",
    ) -> None:
        super().__init__(source_id)
        self._memory = AgentMemory(client, agent_id, user_id, max_tokens)

    async def before_run(
        self,
        *,
        agent: SupportsAgentRun,
        session: AgentSession,
        context: SessionContext,
        state: dict[str, Any],
    ) -> None:
        query = "\n".join(message.text for message in context.input_messages if message.role == "user")
        if recalled := await self._memory.recall(query):
            context.extend_messages(self, [Message("user", [recalled])])

    async def after_run(
        self,
        *,
        agent: SupportsAgentRun,
        session: AgentSession,
        context: SessionContext,
        state: dict[str, Any],
    ) -> None:
        turns: list[tuple[Role, str]] = [
            ("user", message.text) for message in context.input_messages if message.role == "user"
        ]
        if context.response is not None:
            turns += [
                ("assistant", message.text)
                for message in context.response.messages
                if message.role == "assistant"
            ]
        await self._memory.record(session.session_id, turns)
