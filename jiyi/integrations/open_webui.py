"""Open WebUI on Jiyi: a filter function (``jiyi connect open-webui``, ``docs/integrations.md``).

``connect`` writes this module into Open WebUI, with what it imports of Jiyi in it: nothing has to be
installed where Open WebUI runs. Which chat it is, and who writes, Open WebUI says with each request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from pydantic import BaseModel, Field

from jiyi.integrations.plug_ins import MAX_CHARS, PlugInMemory

#: Chats that nobody keeps are not remembered; they get what is known.
NOT_KEPT = ("temporary:", "local:", "channel:")


class Filter:
    """``inlet`` is called before the model, ``outlet`` after it; without the service answers go on."""

    class Valves(BaseModel):
        """What an administrator of Open WebUI can change."""

        url: str = Field("http://127.0.0.1:8765", description="Address of Jiyi")
        key: str = Field("", description="API key of Jiyi with the scopes publish and read")
        agent: str = Field("assistant", description="The agent.")
        tz: str = Field(
            "", description="Time zone of the users, such as Asia/Shanghai; the agent's unless given"
        )
        in_message: bool = Field(
            False,
            description="Put memories into the message: for models that allow no system message before it",
        )
        priority: int = Field(0, description="Place among filters; lower ones come first")

    def __init__(self) -> None:
        self.valves = self.Valves()
        self._memory = PlugInMemory(self._config)

    def _config(self) -> dict[str, Any]:
        return self.valves.model_dump()  # Open WebUI puts others in their place with each request

    async def inlet(self, body: dict[str, Any], __user__: dict[str, Any] | None = None) -> dict[str, Any]:
        """Put what is recalled before the user's last message: the beginning stays for the model's cache."""
        messages = body.get("messages") or []
        positions = [at for at, message in enumerate(messages) if message.get("role") == "user"]
        if not positions:
            return body
        place, recall = positions[-1], self._memory.recall_or_nothing
        recalled = await asyncio.to_thread(recall, _text(messages[place]), _user(__user__))
        if recalled and self.valves.in_message:
            parts = [{"type": "text", "text": recalled}, *_parts(messages[place])]
            messages[place] = {**messages[place], "content": parts}
        elif recalled:
            messages.insert(place, {"role": "system", "content": recalled})
        return body

    async def outlet(self, body: dict[str, Any], __user__: dict[str, Any] | None = None) -> dict[str, Any]:
        """Record the last message and its answer, each once, also where an answer is made again."""
        chat = str(body.get("chat_id") or "")
        if not chat or chat.startswith(NOT_KEPT):
            return body
        for message in (body.get("messages") or [])[-2:]:
            text = _text(message).strip()
            if message.get("role") in ("user", "assistant") and message.get("id") and text:
                self._memory.enqueue(
                    "turn.recorded",
                    {"role": message["role"], "text": text[:MAX_CHARS]},
                    user_id=_user(__user__),
                    event_id=str(uuid5(NAMESPACE_URL, f"open-webui:{chat}/{message['id']}")),
                    occurred_at=_time(message.get("timestamp")),
                    session_id=chat,
                )
        return body


def _user(user: Mapping[str, Any] | None) -> str:
    return str((user or {}).get("id") or "")


def _text(message: Mapping[str, Any]) -> str:
    """What a message says, without its pictures."""
    parts = [part for part in _parts(message) if isinstance(part, dict) and part.get("type") == "text"]
    return "\n".join(str(part.get("text") or "") for part in parts)


def _parts(message: Mapping[str, Any]) -> list[Any]:
    content = message.get("content")
    return content if isinstance(content, list) else [{"type": "text", "text": content or ""}]


def _time(timestamp: Any) -> str:
    """Open WebUI has seconds since 1970; what is none is now."""
    try:
        return datetime.fromtimestamp(timestamp, UTC).isoformat()
    except (TypeError, ValueError, OverflowError, OSError):
        return datetime.now(UTC).isoformat()
