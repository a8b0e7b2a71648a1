"""What other memory services export: mem0, LangMem (LangGraph's store), Zep and Letta."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from jiyi.imports.conversations import turn
from jiyi.imports.drafts import (
    Draft,
    Drafts,
    LeftOut,
    beginning_of,
    dated,
    listing,
    mapping,
    role_of,
    text_of,
    text_or_none,
)

#: Where a stored value may say what it says in words.
TEXTS = ("content", "text", "memory", "data", "fact")
#: Levels at which such a name is looked for.
LEVELS = 3
#: Names under which a Letta file has its archival passages.
PASSAGES = ("archival_passages", "passages", "archival_memory")


def mem0(value: Any) -> Drafts:
    """A memory of mem0's: of an export, or as ``get_all`` lists them."""
    memory = mapping(value)
    name = text_or_none(memory.get("id")) or text_or_none(memory.get("hash"))
    text = next(
        (memory[field] for field in ("memory", "text", "data") if isinstance(memory.get(field), str)), None
    )
    if name is None or text is None:
        yield LeftOut(name or "a memory", "malformed", "a memory needs an id and a text (memory)")
        return
    fields = ("app_id", "actor_id", "categories", "metadata")
    yield dated(
        (name,),
        text,
        memory.get("created_at"),
        memory.get("updated_at"),
        expires_at=memory.get("expiration_date"),
        agent=text_or_none(memory.get("agent_id")),
        user=text_or_none(memory.get("user_id")),
        session=text_or_none(memory.get("run_id")),
        provenance={field: memory[field] for field in fields if memory.get(field)},
    )


def langmem(value: Any, user_at: int | None = None) -> Drafts:
    """A store's item: ``namespace``, ``key``, ``value``. ``user_at``: the user's place in the namespace."""
    item = mapping(value)
    namespace = item.get("namespace", item.get("prefix"))
    if isinstance(namespace, str):
        namespace = namespace.split(".")  # as PostgreSQL has it
    key, content = text_or_none(item.get("key")), item.get("value")
    parts = listing(namespace)
    if not parts or not all(isinstance(part, str) for part in parts) or key is None or not content:
        yield LeftOut(key or "an item", "malformed", "an item needs namespace, key and value")
        return
    user = parts[user_at] if user_at is not None and -len(parts) <= user_at < len(parts) else None
    kind = mapping(content).get("kind")
    about = {"namespace": parts, "key": key, **({"kind": kind} if isinstance(kind, str) else {})}
    times = (item.get("created_at"), item.get("updated_at"))
    yield dated((*parts, key), words_of(content), *times, user=user, provenance=about)


def words_of(value: Any) -> str:
    """What a stored value says: its text where it has one, else its JSON."""
    inner = value
    for _ in range(LEVELS):
        if isinstance(inner, str):
            return inner
        inner = next((mapping(inner)[name] for name in TEXTS if mapping(inner).get(name)), None)
    return inner if isinstance(inner, str) else json.dumps(value, ensure_ascii=False)


def zep(value: Any) -> Drafts:
    """A session (later: thread) from Zep's API: its ``messages`` become turns, its ``facts`` memories."""
    session = mapping(value)
    name = text_or_none(session.get("session_id")) or text_or_none(session.get("thread_id"))
    if name is None:
        yield LeftOut("a session", "malformed", "a session needs a session_id or thread_id")
        return
    user = text_or_none(session.get("user_id"))
    began = beginning_of(session.get("created_at"))
    for number, each in enumerate(listing(session.get("messages"))):
        message = mapping(each)
        key = (name, text_or_none(message.get("uuid")) or f"message {number}")
        role = message.get("role_type") or message.get("role")
        text = message.get("content")
        if not isinstance(text, str):
            yield LeftOut(" ".join(key), "malformed", "content: must be a text")
            continue
        speaker = text_or_none(message.get("name")) or (
            text_or_none(message.get("role")) if message.get("role_type") else None
        )
        about = {"speaker": speaker[:100]} if speaker else {}
        yield turn(
            key, role, text, message.get("created_at"), session=name, began=began, about=about, user=user
        )
    for number, each in enumerate([*listing(session.get("facts")), *listing(session.get("relevant_facts"))]):
        yield _zep_fact(name, number, {"fact": each} if isinstance(each, str) else mapping(each), user)


def _zep_fact(session: str, number: int, fact: Any, user: str | None) -> Draft | LeftOut:
    text = fact.get("fact") or fact.get("content")
    # A fact in plain words has no id: its words are.
    key = (
        session,
        "fact",
        text_or_none(fact.get("uuid")) or (text if isinstance(text, str) else str(number)),
    )
    if not isinstance(text, str):
        return LeftOut(" ".join(key), "malformed", "fact: must be a text")
    fields = ("invalid_at", "expired_at", "rating", "name")
    details = {field: fact[field] for field in fields if fact.get(field)}
    times = (fact.get("valid_at"), fact.get("created_at"))
    return dated(key, text, *times, user=user, session=session, provenance=details)


def letta(value: Any) -> Drafts:
    """A whole agent file (``.af``) of Letta's: blocks and archival passages become memories, messages turns.

    Of the present form (``agents``, ``blocks``) or of the first one (an agent with ``core_memory``).
    """
    file = mapping(value)
    agents = [mapping(agent) for agent in listing(file.get("agents"))] or (
        [file] if "messages" in file or "core_memory" in file else []
    )
    if not agents:
        yield LeftOut("the file", "malformed", "an agent file needs agents with their messages and blocks")
    block_rows = map(mapping, listing(file.get("blocks")))
    blocks = {block["id"]: block for block in block_rows if text_or_none(block.get("id"))}
    for agent in agents:
        name = text_or_none(agent.get("name")) or text_or_none(agent.get("id")) or "letta"
        block_ids = [key for key in listing(agent.get("block_ids")) if isinstance(key, str) and key in blocks]
        own = [blocks[key] for key in block_ids]
        for block in [*own, *map(mapping, listing(agent.get("core_memory")))]:
            label = text_or_none(block.get("label")) or "block"
            yield from _letta_memory(name, ("block", label), block.get("value"), block, file)
        passages = (holder[field] for holder in (agent, file) for field in PASSAGES if holder.get(field))
        for number, each in enumerate(listing(next(passages, None))):
            passage = mapping(each)
            key = text_or_none(passage.get("id")) or str(number)
            text = passage.get("text") or passage.get("content")
            yield from _letta_memory(name, ("passage", key), text, passage, file)
        for number, each in enumerate(listing(agent.get("messages"))):
            yield _letta_message(name, number, mapping(each))


def _letta_memory(
    agent: str, key: tuple[str, str], text: Any, holder: Mapping[str, Any], file: Mapping[str, Any]
) -> Drafts:
    where = (agent, *key)
    if not isinstance(text, str):
        yield LeftOut(" ".join(where), "malformed", "its text is no text")
        return
    times = (holder.get("created_at"), file.get("created_at"))
    yield dated(where, text.strip(), *times, agent=agent, provenance=dict([key]))


def _letta_message(agent: str, number: int, message: Mapping[str, Any]) -> Draft | LeftOut:
    key = (agent, text_or_none(message.get("id")) or f"message {number}")
    role = role_of(message.get("role"))
    if role == "system":
        return LeftOut(" ".join(key), "no text", "the program's instructions, which hold the blocks")
    text = _letta_text(message)
    if role == "user":
        text = _letta_unwrapped(text)
    if not text.strip():
        return LeftOut(" ".join(key), "no text", "a call of a tool, or a note of the program's")
    return turn(
        key, message.get("role"), text, message.get("created_at"), session=f"letta-{agent}", agent=agent
    )


def _letta_text(message: Mapping[str, Any]) -> str:
    """What it says; of agents that speak through a tool what they sent by it, not their thoughts."""
    calls = [mapping(mapping(call).get("function")) for call in listing(message.get("tool_calls"))]
    messages = [
        text_or_none(_json_object(call.get("arguments")).get("message"))
        for call in calls
        if call.get("name") == "send_message"
    ]
    return "\n".join(filter(None, messages)) or text_of(message.get("content", message.get("text")))


def _letta_unwrapped(text: str) -> str:
    """What a user said, out of the JSON around it; the program's notes, such as log-ins, are nothing."""
    note = _json_object(text)
    if "type" not in note:
        return text
    return text_or_none(note.get("message")) or "" if note["type"] == "user_message" else ""


def _json_object(text: Any) -> Mapping[str, Any]:
    if not isinstance(text, str) or not text.lstrip().startswith("{"):
        return {}
    try:
        return mapping(json.loads(text))
    except (ValueError, RecursionError):
        return {}
