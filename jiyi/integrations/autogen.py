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
from jiyi.integrations.turns import Memory as AgentsMemory
from jiyi.integrations.turns import parts
from jiyi.protocol.limits import MAX_FOCAL_CHARS
from jiyi.protocol.recall import BUDGET


class JiyiMemory(Memory):
    """``AssistantAgent(…, memory=[JiyiMemory(client, "companion", user_id="mia")])``. Raises as the client's
    methods do.

    Args:
        client: of the event loop of the agent; its key needs ``publish`` and ``read``, and ``admin`` to clear
        the memory.
        agent_id: whose memory.
        user_id: the person whom the agent talks with.
        top_k: most memories of a query.
        max_tokens: of what is put into the model's context.
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
        self._client, self._top_k = client, top_k
        self._memory = AgentsMemory(client, agent_id, user_id, max_tokens)

    async def update_context(self, model_context: ChatCompletionContext) -> UpdateContextResult:
        """Add what is remembered about the latest message of the user."""
        asked = [
            message.content
            for message in await model_context.get_messages()
            if isinstance(message, UserMessage)
        ]
        recalled = await self._memory.recall(_text(asked[-1])) if asked else ""
        if not recalled:
            return UpdateContextResult(memories=MemoryQueryResult(results=[]))
        await model_context.add_message(SystemMessage(content=recalled))
        content = MemoryContent(content=recalled, mime_type=MemoryMimeType.TEXT)
        return UpdateContextResult(memories=MemoryQueryResult(results=[content]))

    async def query(
        self, query: str | MemoryContent, cancellation_token: CancellationToken | None = None, **kwargs: Any
    ) -> MemoryQueryResult:
        """The best memories, most important first. ``kwargs`` are the client's options of ``retrieve``."""
        text = _text(query.content if isinstance(query, MemoryContent) else query)
        if not text.strip():
            return MemoryQueryResult(results=[])
        options = {"user_id": self._memory.user_id, "top_k": self._top_k, **kwargs}
        found = await self._client.retrieve(self._memory.agent_id, text[-MAX_FOCAL_CHARS:], **options)
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
                for node in found.retrieved_nodes
            ]
        )

    async def add(self, content: MemoryContent, cancellation_token: CancellationToken | None = None) -> None:
        """Keep a text, or JSON as text. Raises ValueError for images and bytes."""
        if not isinstance(content.content, str | dict):
            raise ValueError(  # noqa: TRY004
                f"content: must be a text or JSON, not {type(content.content).__name__}; describe it in words"
            )
        text = content.content if isinstance(content.content, str) else to_json(content.content).decode()
        for part in parts(text):
            options: dict[str, Any] = {"user_id": self._memory.user_id, "provenance": content.metadata or {}}
            await self._client.observe(self._memory.agent_id, part, **options)

    async def clear(self) -> None:
        """Have all of the agent's memories erased for good; those of ``user_id`` alone if there is one."""
        user_id = self._memory.user_id
        if user_id is None:
            await self._client.erasure.request(agent_id=self._memory.agent_id)
            return
        filters: dict[str, Any] = {
            "user_id": user_id,
            "types": ["event", "thought", "chat"],
            "superseded": True,
        }
        async for memory in self._client.list(self._memory.agent_id, archived="with", **filters):
            if memory.user_id == user_id:
                with suppress(NotFound):  # what was derived from another one went with it
                    await self._client.delete(memory.node_id)

    async def close(self) -> None:
        """Nothing: the client is the caller's."""


def _text(content: Any) -> str:
    return (
        content if isinstance(content, str) else "\n".join(part for part in content if isinstance(part, str))
    )
