"""What the adapters of frameworks share: the agent, what is recalled, and what was said."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jiyi.client.client import AsyncClient
from jiyi.protocol.base import NodeType, Role
from jiyi.protocol.conversations import BUDGET
from jiyi.protocol.limits import MAX_DESCRIPTION_CHARS, MAX_FOCAL_CHARS
from jiyi.protocol.retrieval import ScoredMemory
from jiyi.text.words import storable

#: Types of memories that are searched and listed: all, while the service leaves out chats unless asked.
REMEMBERED: list[NodeType] = ["event", "thought", "chat"]


@dataclass(frozen=True, slots=True)
class AgentMemory:
    """An agent's memory. The adapters take the same arguments, and raise as the client's methods do.

    Args:
        client: of the event loop that the framework runs in; its key needs ``publish`` and ``read``. It stays
        the caller's to close.
        agent_id: the agent.
        user_id: the person whom the agent talks with. Private memories are recalled for that person
        alone.
        max_tokens: of what is recalled for one message.
    """

    client: AsyncClient
    agent_id: str
    user_id: str | None = None
    max_tokens: int = BUDGET

    async def recall(self, query: str) -> str:
        """What is remembered about a text, quoted for a prompt; or "". Of long texts the end counts."""
        query = storable(query[-MAX_FOCAL_CHARS:]).strip()
        if not query:
            return ""
        answer = await self.client.context(
            self.agent_id, query, user_id=self.user_id, max_tokens=self.max_tokens
        )
        return answer.text

    async def search(self, query: str, top_k: int, **options: Any) -> Sequence[ScoredMemory]:
        """The best memories, most important first; ``options`` are the client's of ``retrieve``."""
        if not query.strip():
            return []
        parameters = {"user_id": self.user_id, "top_k": top_k, **options}
        return (
            await self.client.retrieve(self.agent_id, query[-MAX_FOCAL_CHARS:], **parameters)
        ).retrieved_nodes

    async def remember(self, statement: str) -> str:
        """Keep one statement; its id."""
        return str(
            await self.client.observe(
                self.agent_id, storable(statement)[:MAX_DESCRIPTION_CHARS], user_id=self.user_id
            )
        )

    async def record(self, session_id: str, turns: Iterable[tuple[Role, str]]) -> None:
        """Record what was said in a session, in its order, without blank texts."""
        for role, text in turns:
            for part in parts(text):
                await self.client.add_turn(self.agent_id, role, part, session_id, user_id=self.user_id)

    def tools(self) -> list[Callable[[str], Awaitable[str]]]:
        """Functions with which a model itself recalls and remembers."""

        async def memory_recall(query: str) -> str:
            """What is remembered that matters for a question, or for what is going on. Call it when earlier
            talks may matter.
            """
            return await self.recall(query) or "Nothing is remembered about this."

        async def memory_remember(statement: str) -> str:
            """Remember one statement that will matter in later conversations, in the language of this one."""
            await self.remember(statement)
            return "Remembered."

        return [memory_recall, memory_remember]


def words_of(content: Any) -> str:
    """A message's content: a text, or the texts among its parts."""
    if isinstance(content, str):
        return content
    texts = [part.get("text") if isinstance(part, Mapping) else part for part in content or []]
    return "\n".join(text for text in texts if isinstance(text, str))


def parts(text: str) -> Sequence[str]:
    """A text in pieces that an event takes, without NUL and halves of surrogate pairs."""
    text = storable(text)
    pieces = [
        text[start : start + MAX_DESCRIPTION_CHARS] for start in range(0, len(text), MAX_DESCRIPTION_CHARS)
    ]
    return [piece for piece in pieces if piece.strip()]
