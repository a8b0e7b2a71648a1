"""What the adapters of frameworks have in common: whose memory it is, what belongs before an answer, and what
was said.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from jiyi.client.client import AsyncClient
from jiyi.protocol.base import Role
from jiyi.protocol.limits import MAX_DESCRIPTION_CHARS, MAX_FOCAL_CHARS
from jiyi.protocol.recall import BUDGET
from jiyi.text.words import storable


@dataclass(frozen=True, slots=True)
class Memory:
    """An agent's memory through an :class:`AsyncClient`, which stays the caller's to close. Raises as the
    client's methods do.

    Args:
        client: of the event loop that the framework runs in; its key needs ``publish`` and ``read``.
        agent_id: whose memory.
        user_id: the person whom the agent talks with. What is told in private is recalled for that person
        alone.
        max_tokens: of what is recalled for one message.
    """

    client: AsyncClient
    agent_id: str
    user_id: str | None = None
    max_tokens: int = BUDGET

    async def recall(self, query: str) -> str:
        """What is remembered about a text, quoted for a prompt; empty if that is nothing. Of long texts the
        end counts.
        """
        query = storable(query[-MAX_FOCAL_CHARS:]).strip()
        if not query:
            return ""
        found = await self.client.context(
            self.agent_id, query, user_id=self.user_id, max_tokens=self.max_tokens
        )
        return found.text

    async def remember(self, statement: str) -> str:
        """Keep one statement; its id."""
        return str(
            await self.client.observe(
                self.agent_id, storable(statement)[:MAX_DESCRIPTION_CHARS], user_id=self.user_id
            )
        )

    async def record(self, session_id: str, said: Iterable[tuple[Role, str]]) -> None:
        """Record what was said in a session, in its order; what it tells is extracted by the service. Blank
        texts are left out.
        """
        for role, text in said:
            for part in parts(text):
                await self.client.add_turn(self.agent_id, role, part, session_id, user_id=self.user_id)


def parts(text: str) -> Sequence[str]:
    """A text in pieces that an event takes, without what cannot be stored (NUL, halves of surrogate
    pairs).
    """
    text = storable(text)
    pieces = [
        text[start : start + MAX_DESCRIPTION_CHARS] for start in range(0, len(text), MAX_DESCRIPTION_CHARS)
    ]
    return [piece for piece in pieces if piece.strip()]
