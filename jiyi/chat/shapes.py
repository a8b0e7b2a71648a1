"""An exchange in the forms of chat APIs, so that the provider's prompt cache can keep what stays the same.

    ready = loop.before("companion", SYSTEM, question, session_id="monday", messages=history, split=True)
    OpenAI().chat.completions.create(model=…, messages=shapes.openai(ready))
    Anthropic().messages.create(model=…, max_tokens=…, **shapes.anthropic(ready))

The system text is the same through a session. What was recalled for a message stands before it in all later
prompts, too, so that each prompt begins with nearly all of the one before.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import pairwise, takewhile
from threading import Lock
from typing import Any

from jiyi.chat.chain import Exchange
from jiyi.chat.recent import Recent
from jiyi.protocol.base import JsonObject
from jiyi.protocol.conversations import ChatMessage
from jiyi.text.budget import estimate_tokens

#: Mark of a block for providers' caches: keep the prompt up to its end.
_CACHED = {"type": "ephemeral"}
#: Sessions whose last prompt is kept: some ten kilobytes each.
SESSIONS = 200


def turn_of(exchange: Exchange) -> int:
    """The number of the user's message that is to be answered among the user's."""
    return sum(message.role == "user" for message in _talk(exchange))


def openai(exchange: Exchange, *, prefixed: bool = False) -> list[JsonObject]:
    """Messages for APIs like OpenAI's: what is recalled before the user's, or ``prefixed`` to its text."""
    messages: list[JsonObject] = (
        [{"role": "system", "content": exchange.system_prompt}] if exchange.system_prompt else []
    )
    for message, recalled in _recalling(exchange):
        entry: JsonObject = message.model_dump(exclude_none=True)
        if recalled and prefixed:
            entry["content"] = f"{recalled}\n\n{message.content or ''}"
        elif recalled:
            messages.append({"role": "system", "content": recalled})
        messages.append(entry)
    return messages


def anthropic(exchange: Exchange) -> JsonObject:
    """``system`` and ``messages`` for Anthropic's API, with marks for its cache after both."""
    others = [message.content or "" for message in exchange.chat if message.role == "system"]
    system = [exchange.system_prompt, *others]
    blocks: list[dict[str, Any]] = [_text(text) for text in system if text]
    messages: list[dict[str, Any]] = []
    for message, recalled in _recalling(exchange):
        if message.role == "system":
            continue
        role = "assistant" if message.role == "assistant" else "user"
        content = [*([_text(recalled)] if recalled else []), *_content(message)]
        if messages and messages[-1]["role"] == role:
            messages[-1]["content"] += content
        else:
            messages.append({"role": role, "content": content})
    for cached in (blocks, messages[-1]["content"] if messages else []):
        if cached:
            cached[-1]["cache_control"] = _CACHED
    return {"system": blocks, "messages": messages}


def cache_share(prompts: Sequence[str | Sequence[Mapping[str, Any]]]) -> float:
    """The share of a session's tokens, from its second prompt on, that a cache of prefixes can keep.

    A prompt is one text, or messages. 1.0 for less than two.
    """
    texts = [prompt if isinstance(prompt, str) else _text_of(prompt) for prompt in prompts]
    cacheable = sum(estimate_tokens(_common(*pair)) for pair in pairwise(texts))
    return cacheable / max(1, sum(map(estimate_tokens, texts[1:]))) if len(texts) > 1 else 1.0


class CacheShares:
    """:func:`cache_share` of each of the latest sessions, prompt by prompt. Thread-safe."""

    def __init__(self) -> None:
        #: Session → its last prompt; tokens from the second prompt on; tokens of these that a cache has.
        self._sessions: Recent[Hashable, tuple[str, int, int]] = Recent(SESSIONS)
        self._lock = Lock()

    def note(self, session: Hashable, prompt: Sequence[Mapping[str, Any]]) -> None:
        """Count a prompt."""
        text = _text_of(prompt)
        with self._lock:
            before, tokens, cacheable = self._sessions.get(session, (None, 0, 0))
            if before is not None:
                tokens, cacheable = (
                    tokens + estimate_tokens(text),
                    cacheable + estimate_tokens(_common(before, text)),
                )
            self._sessions[session] = text, tokens, cacheable

    def share(self, session: Hashable) -> float | None:
        """None for less than two prompts."""
        with self._lock:
            _, tokens, cacheable = self._sessions.get(session, ("", 0, 0))
        return cacheable / tokens if tokens else None


def _text_of(prompt: Sequence[Mapping[str, Any]]) -> str:
    return "\n".join(map(_written, prompt))


def _talk(exchange: Exchange) -> list[ChatMessage]:
    """The conversation with the user's message in it, which programs pass with the others or apart."""
    latest = next(
        (message for message in reversed(exchange.chat) if message.role != "tool" and not message.tool_calls),
        None,
    )
    is_included = latest is not None and (latest.role, latest.content) == ("user", exchange.user_input)
    return [*exchange.chat, *([] if is_included else [ChatMessage(role="user", content=exchange.user_input)])]


def _recalling(exchange: Exchange) -> Iterator[tuple[ChatMessage, str]]:
    """Each message with what was recalled for it."""
    talk = _talk(exchange)
    recalled = {**exchange.earlier, turn_of(exchange): exchange.recalled or ""}
    turn = 0
    for message in talk:
        turn += message.role == "user"
        yield message, recalled.get(turn, "") if message.role == "user" else ""


def _content(message: ChatMessage) -> list[dict[str, Any]]:
    if message.role == "tool":
        call_id = message.tool_call_id or ""
        return [{"type": "tool_result", "tool_use_id": call_id, "content": message.content or ""}]
    return [*([_text(message.content)] if message.content else []), *map(_tool_use, message.tool_calls or [])]


def _tool_use(call: Mapping[str, Any]) -> dict[str, Any]:
    function = call.get("function") or call
    raw = function.get("arguments") or {}
    arguments = json.loads(raw) if isinstance(raw, str) else raw
    block = {"id": call.get("id", ""), "name": function.get("name", "")}
    return {"type": "tool_use", **block, "input": arguments}


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _written(message: Mapping[str, Any]) -> str:
    return json.dumps(message, ensure_ascii=False, sort_keys=True, default=str)


def _common(before: str, after: str) -> str:
    """The beginning that both have."""
    pairs = takewhile(lambda pair: pair[0] == pair[1], zip(after, before, strict=False))
    return "".join(char for char, _ in pairs)
