"""Letta's agent file (``.af``): memory blocks and archival passages become memories, messages turns."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from jiyi.imports.conversations import turn
from jiyi.imports.drafts import BadTimeError, Draft, Drafts, LeftOut, listing, mapping, role_of, text_or_none, time_of


def letta(value: Any) -> Drafts:
    """A whole agent file, of the present form (``agents``, ``blocks``) or of the first one (an agent with ``core_memory``)."""
    file = mapping(value)
    agents = [mapping(agent) for agent in listing(file.get("agents"))] or ([file] if "messages" in file or "core_memory" in file else [])
    if not agents:
        yield LeftOut("the file", "malformed", "an agent file needs agents with their messages and blocks")
    blocks = {mapping(block).get("id"): mapping(block) for block in listing(file.get("blocks")) if text_or_none(mapping(block).get("id"))}
    for agent in agents:
        name = text_or_none(agent.get("name")) or text_or_none(agent.get("id")) or "letta"
        own = [blocks[key] for key in listing(agent.get("block_ids")) if isinstance(key, str) and key in blocks]
        for block in [*own, *map(mapping, listing(agent.get("core_memory")))]:
            yield from _memory(name, ("block", text_or_none(block.get("label")) or "block"), block.get("value"), block, file)
        passages = next((listing(holder.get(field)) for holder in (agent, file) for field in PASSAGES if holder.get(field)), [])
        for number, each in enumerate(passages):
            passage = mapping(each)
            key = text_or_none(passage.get("id")) or str(number)
            yield from _memory(name, ("passage", key), passage.get("text") or passage.get("content"), passage, file)
        for number, each in enumerate(listing(agent.get("messages"))):
            yield _message(name, number, mapping(each))


PASSAGES = ("archival_passages", "passages", "archival_memory")


def _memory(agent: str, key: tuple[str, str], text: Any, holder: Mapping[str, Any], file: Mapping[str, Any]) -> Drafts:
    where = (agent, *key)
    if not isinstance(text, str):
        yield LeftOut(" ".join(where), "malformed", "its text is no text")
        return
    try:
        at = time_of(holder.get("created_at")) or time_of(file.get("created_at"))
    except BadTimeError as error:
        yield LeftOut(" ".join(where), "bad time", str(error))
        return
    kind, label = key
    yield Draft(key=where, text=text.strip(), at=at, agent=agent, provenance={kind: label})


def _message(agent: str, number: int, message: Mapping[str, Any]) -> Draft | LeftOut:
    key = (agent, text_or_none(message.get("id")) or f"message {number}")
    role = role_of(message.get("role"))
    if role == "system":
        return LeftOut(" ".join(key), "no text", "the program's instructions, which hold the blocks")
    text = "\n".join(_words(message))
    if role == "user":
        text = _unwrapped(text)
    if not text.strip():
        return LeftOut(" ".join(key), "no text", "a call of a tool, or a note of the program's")
    return turn(key, message.get("role"), text, message.get("created_at"), session=f"letta-{agent}", agent=agent)


def _words(message: Mapping[str, Any]) -> Iterator[str]:
    """Its texts; of agents that speak through a tool, what they sent by it."""
    content = message.get("content", message.get("text"))
    calls = [mapping(mapping(call).get("function")) for call in listing(message.get("tool_calls"))]
    sent = [_sent(call) for call in calls if call.get("name") == "send_message"]
    if any(sent):
        yield from filter(None, sent)  # beside it stand only the agent's thoughts
    elif isinstance(content, str):
        yield content
    else:
        for part in listing(content):
            if mapping(part).get("type", "text") == "text" and isinstance(mapping(part).get("text"), str):
                yield mapping(part)["text"]


def _sent(call: Mapping[str, Any]) -> str | None:
    return text_or_none(_json(call.get("arguments")).get("message"))


def _unwrapped(text: str) -> str:
    """What a user said, out of the JSON that the program puts around it; its own notes (log-ins, heartbeats) are nothing."""
    note = _json(text)
    if "type" not in note:
        return text
    return text_or_none(note.get("message")) or "" if note["type"] == "user_message" else ""


def _json(text: Any) -> Mapping[str, Any]:
    if not isinstance(text, str) or not text.lstrip().startswith("{"):
        return {}
    try:
        return mapping(json.loads(text))
    except (ValueError, RecursionError):
        return {}
