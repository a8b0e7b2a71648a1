"""AutoGen on Jiyi: a ``Memory`` (``docs/integrations.md``)."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from autogen_core import CancellationToken
from autogen_core.memory import Memory, MemoryContent, MemoryMimeType, MemoryQueryResult, UpdateContextResult
from autogen_core.model_context import ChatCompletionContext
from autogen_core.models import SystemMessage, UserMessage
from pydantic_core import to_json

from jiyi.client.client import AsyncClient
from jiyi.errors import NotFound
from jiyi.integrations.turns import REMEMBERED, AgentMemory, parts, words_of
from jiyi.protocol.conversations import BUDGET


class JiyiMemory(Memory):
    """``AssistantAgent(…, memory=[JiyiMemory(client, "companion", user_id="mia")])``.

    Arguments are those of :class:`jiyi.integrations.turns.AgentMemory`, and ``top_k``: most memories of a
    query. The key needs ``admin`` to clear the memory.
    """

    def __init__(
        self,
        client: AsyncClient,
        agent_id: str,
        *,
        user_id: str | None = None,
        top_k: int = 10,
        max_tokens: int = BUDGET,
    ) -> None:
        self._top_k = top_k
        self._memory = AgentMemory(client, agent_id, user_id, max_tokens)

    async def update_context(self, model_context: ChatCompletionContext) -> UpdateContextResult:
        """Add what is remembered about the latest message of the user."""
        user_texts = [
            message.content
            for message in await model_context.get_messages()
            if isinstance(message, UserMessage)
        ]
        recalled = await self._memory.recall(words_of(user_texts[-1])) if user_texts else ""
        if not recalled:
            return UpdateContextResult(memories=MemoryQueryResult(results=[]))
        await model_context.add_message(SystemMessage(content=recalled))
        content = MemoryContent(content=recalled, mime_type=MemoryMimeType.TEXT)
        return UpdateContextResult(memories=MemoryQueryResult(results=[content]))

    async def query(
        self, query: str | MemoryContent, cancellation_token: CancellationToken | None = None, **kwargs: Any
    ) -> MemoryQueryResult:
        """The best memories, most important first. ``kwargs`` are the client's options of ``retrieve``."""
        text = words_of(query.content if isinstance(query, MemoryContent) else query)
        nodes = await self._memory.search(text, **{"top_k": self._top_k, **kwargs})
        return MemoryQueryResult(
            results=[
                MemoryContent(
                    content=node.description,
                    mime_type=MemoryMimeType.TEXT,
                    metadata={
                        "id": str(node.node_id),
                        "score": node.score,
                        "timestamp": node.created_at.isoformat(),
                    },
                )
                for node in nodes
            ]
        )

    async def add(self, content: MemoryContent, cancellation_token: CancellationToken | None = None) -> None:
        """Keep a text, or JSON as text. Raises ValueError for images and bytes."""
        if not isinstance(content.content, str | dict):
            raise ValueError(  # noqa: TRY004
                f"content: must be a text or JSON, not {type(content.content).__name__}; describe it in words"
            )
        text = content.content if isinstance(content.content, str) else to_json(content.content).decode()
        about: dict[str, Any] = {"user_id": self._memory.user_id, "provenance": content.metadata or {}}
        for part in parts(text):
            await self._memory.client.observe(self._memory.agent_id, part, **about)

    async def clear(self) -> None:
        """Have all of the agent's memories erased for good; those of ``user_id`` alone if there is one."""
        client, agent_id, user_id = self._memory.client, self._memory.agent_id, self._memory.user_id
        if user_id is None:
            await client.erasure.request(agent_id=agent_id)
            return
        filters: dict[str, Any] = {"user_id": user_id, "types": REMEMBERED, "superseded": True}
        async for memory in client.list(agent_id, archived="with", **filters):
            if memory.user_id == user_id:
                with suppress(NotFound):  # what was derived from another one went with it
                    await client.delete(memory.node_id)

    async def close(self) -> None:
        """Nothing: the client is the caller's."""
