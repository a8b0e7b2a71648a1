"""What an agent sees around it, as observations: ``perceive`` of joonspk-research/generative_agents.

The closest comes to attention; what equals one of the latest memories is not stored again (``retention``);
what is idle is mundane. With ``stanford=True`` texts are made exactly as in the original; otherwise
descriptions are kept whole, brackets may be nested or full-width, and Chinese is put together as Chinese.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from uuid6 import uuid7

from jiyi.protocol.base import JsonObject
from jiyi.text.words import is_idle, language_of, last_segment

#: How many of the things seen come to attention, and how many latest events they are compared with
#: (``scratch.py``).
ATT_BANDWIDTH = 3
RETENTION = 5
#: What is idle is mundane: the original does not ask.
IDLE_POIGNANCY = 1.0

#: The predicate of an event that is a conversation.
CHAT_WITH = "chat with"
#: Words of a name, and "is": what the original keeps of a description with brackets.
STANFORD_WORDS = 3
#: What is said of a thing that does nothing.
IDLE = {"en": "idle", "zh": "空闲中"}

OPENING, CLOSING = "(（", ")）"


class Seen(NamedTuple):
    """Something to see: ``subject`` may be a path (``town:shop:counter``); without a predicate it is idle."""

    subject: str
    predicate: str | None = None
    object: str | None = None
    description: str | None = None
    distance: float = 0.0


def attend(things: Iterable[Seen], bandwidth: int = ATT_BANDWIDTH) -> list[Seen]:
    """The closest ``bandwidth`` different things, closest first; equally close ones in the order given."""
    different: dict[tuple[str | None, ...], Seen] = {}
    for item in things:
        different.setdefault(item[:4], item)
    return sorted(different.values(), key=lambda item: item.distance)[:bandwidth]


def observations(
    agent_id: str,
    things: Iterable[Seen],
    *,
    utterances: Sequence[tuple[str, str]] = (),
    bandwidth: int = ATT_BANDWIDTH,
    retention: int = RETENTION,
    stanford: bool = False,
) -> list[JsonObject]:
    """Arguments of ``Client.observe_many`` for what comes to attention.

    An event in which the agent itself (``subject`` is ``agent_id``) chats with somebody comes after the
    memory of the conversation, with ``utterances``, and names it as its evidence.
    """
    events: list[dict[str, Any]] = []
    for item in attend(things, bandwidth):
        event = _event(agent_id, item, retention=retention, stanford=stanford)
        if item.subject == agent_id and item.predicate == CHAT_WITH:
            text = item.description or event["description"]
            parts = {
                name: event[name]
                for name in ("agent_id", "subject", "predicate", "object", "keywords", "retention")
            }
            chat = {
                **parts,
                "event_id": uuid7(),
                "node_type": "chat",
                "description": text,
                "utterances": list(utterances),
            }
            events.append(chat)
            event["evidence"] = [chat["event_id"]]
        events.append(event)
    return events


def _event(agent_id: str, item: Seen, *, retention: int, stanford: bool) -> JsonObject:
    name = last_segment(item.subject)
    if item.predicate:
        predicate, object_, what = item.predicate, item.object or "", item.description or item.object or ""
    else:
        predicate, object_, what = "is", "idle", IDLE["en" if stanford else language_of(name)]
    if stanford:
        statement = f"{name} is {what}"
        description, key = stanford_description(statement), stanford_key(statement)
        idle = "is idle" in key
    else:
        description = f"{name}{what}" if language_of(what) == "zh" else f"{name} is {what}"
        key = embedding_key(description)
        idle = is_idle(key, predicate, object_)
    return {
        "agent_id": agent_id,
        "event_id": uuid7(),
        "description": description,
        "embedding_key": key,
        "subject": item.subject,
        "predicate": predicate,
        "object": object_,
        "keywords": [word for word in dict.fromkeys([name, last_segment(object_)]) if word],
        "retention": retention,
        **({"poignancy": IDLE_POIGNANCY} if idle else {}),
    }


def embedding_key(statement: str) -> str:
    """What is in the first, outermost brackets of a statement; all of it if there is nothing in any."""
    depth, start = 0, 0
    for place, character in enumerate(statement):
        if character in OPENING:
            depth += 1
            start = start or place + 1
        elif character in CLOSING and depth:
            depth -= 1
            if not depth:
                return statement[start:place].strip() or statement
    return statement[start:].strip() or statement


def stanford_key(statement: str) -> str:
    """``perceive.py``: from the first ``(`` to the next bracket of either kind."""
    inside = statement.partition("(")[2].partition("(")[0].partition(")")[0]
    return inside.strip() or statement


def stanford_description(statement: str) -> str:
    """``add_event`` in ``associative_memory.py``: three words, what follows the last ``(``."""
    _, bracket, inside = statement.rpartition("(")
    return " ".join([*statement.split()[:STANFORD_WORDS], inside[:-1]]) if bracket else statement
