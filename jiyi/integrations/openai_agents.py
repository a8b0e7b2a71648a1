"""OpenAI's Agents SDK on Jiyi: a ``Session``, and tools to recall and remember (``docs/integrations.md``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from agents import FunctionTool, SessionSettings, function_tool
from agents.memory.session_settings import resolve_session_limit
from uuid6 import uuid7

from jiyi.client.client import AsyncClient
from jiyi.integrations.turns import AgentMemory, words_of
from jiyi.protocol import items as wire
from jiyi.protocol.base import Role

if TYPE_CHECKING:
    from agents import TResponseInputItem


class JiyiSession:
    """The SDK's ``Session``: items come back as they were put. Raises as the client's methods do.

    Args:
        session_id: which conversation.
        client: as that of :class:`jiyi.integrations.turns.AgentMemory`.
        agent_id: the agent that learns from what the user and the agent say; None: the history is kept,
        and no more.
        user_id: the person whose conversation it is: another person's session of the same name
        is another one.
        session_settings: ``limit``: how many of the latest items a run gets.
    """

    session_settings: SessionSettings | None

    def __init__(
        self,
        session_id: str,
        client: AsyncClient,
        *,
        agent_id: str | None = None,
        user_id: str | None = None,
        session_settings: SessionSettings | None = None,
    ) -> None:
        self.session_id, self.session_settings = session_id, session_settings
        self._client = client
        self._memory = None if agent_id is None else AgentMemory(client, agent_id, user_id)
        self._namespace = ["sessions", *([] if user_id is None else [user_id]), session_id]

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        most = resolve_session_limit(limit, self.session_settings)
        rows: list[wire.Item] = []
        while most is None or len(rows) < most:
            size = wire.MAX_ITEMS if most is None else min(wire.MAX_ITEMS, most - len(rows))
            page = await self._client.items.search(prefix=self._namespace, limit=size, offset=len(rows))
            rows += page.rows
            if len(page.rows) < size:
                break
        return [
            row.value["item"]
            for row in sorted(rows, key=lambda row: row.key)
            if row.namespace == self._namespace
        ]

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        rows = [
            wire.ItemWrite(namespace=self._namespace, key=str(uuid7()), value={"item": cast("Any", item)})
            for item in items
        ]
        for start in range(0, len(rows), wire.MAX_ITEMS):
            await self._client.items.put(items=rows[start : start + wire.MAX_ITEMS])
        if self._memory is not None:
            await self._memory.record(self.session_id, filter(None, map(_turn, items)))

    async def pop_item(self) -> TResponseInputItem | None:
        latest = await self._client.items.search(prefix=self._namespace, limit=1)
        for row in latest.rows:
            await self._client.items.put(items=[wire.ItemWrite(namespace=self._namespace, key=row.key)])
            return cast("TResponseInputItem", row.value["item"])
        return None

    async def clear_session(self) -> None:
        while page := (await self._client.items.search(prefix=self._namespace, limit=wire.MAX_ITEMS)).rows:
            deletions = [wire.ItemWrite(namespace=row.namespace, key=row.key) for row in page]
            await self._client.items.put(items=deletions)


def memory_tools(client: AsyncClient, agent_id: str, *, user_id: str | None = None) -> list[FunctionTool]:
    """``Agent(tools=memory_tools(client, "companion"))``: the model itself recalls and remembers."""
    return [function_tool(tool) for tool in AgentMemory(client, agent_id, user_id).tools()]


def _turn(item: Any) -> tuple[Role, str] | None:
    """What a user or the agent said; None for calls of tools, reasoning and the like."""
    if not isinstance(item, Mapping) or item.get("type", "message") != "message":
        return None
    role = item.get("role")
    return (role, words_of(item.get("content"))) if role in ("user", "assistant") else None
