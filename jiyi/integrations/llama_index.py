"""LlamaIndex on Jiyi: a block of its ``Memory`` (``docs/integrations.md``)."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.memory import BaseMemoryBlock
from pydantic import Field, PrivateAttr

from jiyi.client.client import AsyncClient
from jiyi.integrations.turns import AgentMemory
from jiyi.protocol.base import Role
from jiyi.protocol.conversations import BUDGET
from jiyi.text.budget import cut_to_tokens, estimate_tokens

ROLES: dict[MessageRole, Role] = {MessageRole.USER: "user", MessageRole.ASSISTANT: "assistant"}


class JiyiMemoryBlock(BaseMemoryBlock[str]):
    """``Memory.from_defaults(memory_blocks=[JiyiMemoryBlock(client=client, agent_id="companion",
    user_id="mia")])``.

    What leaves the short-term memory is recorded; what is remembered about the user's latest message is put
    into the prompt.
    """

    name: str = "jiyi"
    description: str | None = "What is remembered of earlier conversations."
    client: AsyncClient = Field(
        exclude=True, description="Its key needs `publish` and `read`; it stays the caller's to close."
    )
    agent_id: str = Field(description="The agent.")
    user_id: str | None = Field(None, description="The person whom the agent talks with.")
    max_tokens: int = Field(BUDGET, description="Of what is recalled for a message.")
    #: For messages that come without the session of their memory.
    _session_id: str = PrivateAttr(default_factory=lambda: str(uuid4()))

    async def _aget(self, messages: list[ChatMessage] | None = None, **_block_kwargs: Any) -> str:
        user_texts = [
            message.content
            for message in messages or []
            if message.role == MessageRole.USER and message.content
        ]
        return await self._memory().recall(user_texts[-1]) if user_texts else ""

    async def _aput(self, messages: list[ChatMessage]) -> None:
        for message in messages:
            session_id = message.additional_kwargs.pop("session_id", None) or self._session_id
            if (role := ROLES.get(message.role)) is not None:
                await self._memory().record(session_id, [(role, message.content or "")])

    async def atruncate(self, content: str, tokens_to_truncate: int) -> str | None:
        remaining = estimate_tokens(content) - tokens_to_truncate
        return cut_to_tokens(content, remaining) if remaining > 0 else None

    def _memory(self) -> AgentMemory:
        return AgentMemory(self.client, self.agent_id, self.user_id, self.max_tokens)
