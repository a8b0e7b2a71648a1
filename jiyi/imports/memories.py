"""Memories as mem0 and LangMem (LangGraph's store) give them: one object a memory."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from jiyi.imports.drafts import BadTimeError, Draft, Drafts, LeftOut, listing, mapping, text_or_none, time_of

#: Where a stored value may say what it says in words.
TEXTS = ("content", "text", "memory", "data", "fact")
#: Levels at which such a name is looked for.
LEVELS = 3


def mem0(value: Any) -> Drafts:
    """A memory of mem0's: of an export, or as ``get_all`` lists them."""
    memory = mapping(value)
    name = text_or_none(memory.get("id")) or text_or_none(memory.get("hash"))
    text = next((memory[field] for field in ("memory", "text", "data") if isinstance(memory.get(field), str)), None)
    if name is None or text is None:
        yield LeftOut(name or "a memory", "malformed", "a memory needs an id and a text (memory)")
        return
    try:
        at = time_of(memory.get("created_at")) or time_of(memory.get("updated_at"))
        expires_at = time_of(memory.get("expiration_date"))
    except BadTimeError as error:
        yield LeftOut(name, "bad time", str(error))
        return
    kept = {field: memory[field] for field in ("app_id", "actor_id", "categories", "metadata") if memory.get(field)}
    yield Draft(
        key=(name,),
        text=text,
        at=at,
        expires_at=expires_at,
        agent=text_or_none(memory.get("agent_id")),
        user=text_or_none(memory.get("user_id")),
        session=text_or_none(memory.get("run_id")),
        provenance=kept,
    )


def langmem(value: Any, user_at: int | None = None) -> Drafts:
    """An item of a store: ``namespace``, ``key``, ``value``. ``user_at``: which part of the namespace names the user, from 0."""
    item = mapping(value)
    namespace = item.get("namespace", item.get("prefix"))
    if isinstance(namespace, str):
        namespace = namespace.split(".")  # as PostgreSQL has it
    key, stored = text_or_none(item.get("key")), item.get("value")
    if not listing(namespace) or not all(isinstance(part, str) for part in listing(namespace)) or key is None or not stored:
        yield LeftOut(key or "an item", "malformed", "an item needs namespace, key and value")
        return
    where = [*listing(namespace), key]
    try:
        at = time_of(item.get("created_at")) or time_of(item.get("updated_at"))
    except BadTimeError as error:
        yield LeftOut("/".join(where), "bad time", str(error))
        return
    user = namespace[user_at] if user_at is not None and -len(namespace) <= user_at < len(namespace) else None
    yield Draft(key=tuple(where), text=words_of(stored), at=at, user=user, provenance={"namespace": namespace, "key": key, **_kind(stored)})


def words_of(value: Any) -> str:
    """What a stored value says: its text where it has one, else its JSON."""
    inner = value
    for _ in range(LEVELS):
        if isinstance(inner, str):
            return inner
        inner = next((mapping(inner)[name] for name in TEXTS if mapping(inner).get(name)), None)
    return inner if isinstance(inner, str) else json.dumps(value, ensure_ascii=False)


def _kind(value: Any) -> Mapping[str, str]:
    kind = mapping(value).get("kind")
    return {"kind": kind} if isinstance(kind, str) else {}
