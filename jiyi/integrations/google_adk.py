"""Google's Agent Development Kit on Jiyi: a memory service (``docs/integrations.md``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from uuid import NAMESPACE_URL, UUID, uuid5

from google.adk.memory import BaseMemoryService
from google.adk.memory.base_memory_service import SearchMemoryResponse
from google.adk.memory.memory_entry import MemoryEntry
from google.genai import types

from jiyi.client.client import AsyncClient
from jiyi.integrations.turns import REMEMBERED, AgentMemory, parts
from jiyi.text.prompting import one_line

if TYPE_CHECKING:
    from google.adk.events import Event
    from google.adk.sessions import Session

#: Of an event without a session.
NO_SESSION = "adk"


class JiyiMemoryService(BaseMemoryService):
    """``Runner(…, memory_service=JiyiMemoryService(client))``: an app is an agent, its users and sessions are
    Jiyi's.

    A session may be added any number of times: each event is recorded once, at its time.

    Args:
        client: as that of :class:`jiyi.integrations.turns.AgentMemory`; its key needs ``admin`` to delete.
        top_k: most memories of a search.
        turns: whether a search finds what was said word for word, beside what was taken from it.
    """

    def __init__(self, client: AsyncClient, *, top_k: int = 10, turns: bool = True) -> None:
        self._client, self._top_k, self._turns = client, top_k, turns

    async def add_session_to_memory(self, session: Session) -> None:
        await self.add_events_to_memory(
            app_name=session.app_name, user_id=session.user_id, events=session.events, session_id=session.id
        )

    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        session_id = session_id or NO_SESSION
        for event in events:
            if event.partial:  # the whole follows
                continue
            for number, text in enumerate(parts(_text(event.content))):
                await self._client.add_turn(
                    app_name,
                    "user" if event.author == "user" else "assistant",
                    text,
                    session_id,
                    user_id=user_id,
                    provenance=dict(custom_metadata or {}),
                    event_id=_id(app_name, user_id, session_id, event.id, str(number)),
                    occurred_at=datetime.fromtimestamp(event.timestamp, UTC),
                )

    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[MemoryEntry],
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        for memory in memories:
            at: dict[str, Any] = {"occurred_at": _moment(memory.timestamp)} if memory.timestamp else {}
            provenance = {**memory.custom_metadata, **(custom_metadata or {})}
            for text in parts(_text(memory.content)):
                await self._client.observe(app_name, text, user_id=user_id, provenance=provenance, **at)

    async def search_memory(self, *, app_name: str, user_id: str, query: str) -> SearchMemoryResponse:
        kinds = ["memory", "preference", "knowledge", "experience", *(["session"] if self._turns else [])]
        filters = {"types": REMEMBERED, "kinds": kinds}
        nodes = await AgentMemory(self._client, app_name, user_id).search(query, self._top_k, filters=filters)
        return SearchMemoryResponse(
            memories=[
                MemoryEntry(
                    id=str(node.node_id),
                    content=types.Content(role="user", parts=[types.Part(text=one_line(node.description))]),
                    timestamp=node.created_at.isoformat(),
                    custom_metadata={"score": node.score},
                )
                for node in nodes
            ]
        )

    async def delete_memory(self, *, app_name: str, user_id: str, memory_id: str | None = None) -> None:
        if not memory_id:
            return
        memory = await self._client.get(memory_id, user_id=user_id)
        if memory.agent_id == app_name:
            await self._client.delete(memory.node_id)


def _text(content: types.Content | None) -> str:
    """What was said: without thoughts, calls and data."""
    return "\n".join(
        part.text for part in (content.parts if content else None) or [] if part.text and not part.thought
    )


def _id(*names: str) -> UUID:
    """The same event has the same id whenever it comes."""
    return uuid5(NAMESPACE_URL, f"adk:{len(names[0])}:{len(names[1])}:{len(names[2])}:{'/'.join(names)}")


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo is not None else moment.astimezone()
