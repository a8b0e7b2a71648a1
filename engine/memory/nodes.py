"""What an observation becomes: the derived fields of a memory node, without any I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from engine.text.keywords import keywords_of
from jiyi.protocol.events import MemoryObserved
from jiyi.text.words import content_digest, is_idle, text_digest, tokens

#: Reflections fade: the original gives thoughts thirty days.
THOUGHT_LIFETIME = timedelta(days=30)


class Derived(NamedTuple):
    """Fields of a node that follow from its event alone."""

    embedding_key: str
    #: SHA-256 of the embedding key as it is: equal text, equal vector.
    key_hash: bytes
    #: SHA-256 of the normalised description: equal memory.
    content_hash: bytes
    keywords: list[str]
    #: Of the description and of what was said, for lexical search.
    tokens: list[str]
    is_idle: bool
    expires_at: datetime | None


def derive(event: MemoryObserved) -> Derived:
    seen = event.payload
    key = seen.embedding_key or seen.description
    expires_at = seen.expires_at
    if expires_at is None and seen.node_type == "thought":
        expires_at = event.occurred_at + THOUGHT_LIFETIME
    keywords = keywords_of(seen.description, seen.subject, seen.object) if seen.keywords is None else seen.keywords
    return Derived(
        embedding_key=key,
        key_hash=text_digest(key),
        content_hash=content_digest(seen.description),
        keywords=list(dict.fromkeys(keywords)),
        tokens=tokens(searchable(seen.description, seen.utterances)),
        is_idle=is_idle(key, seen.predicate, seen.object),
        expires_at=expires_at,
    )


def searchable(description: str, utterances: Iterable[Sequence[str]]) -> str:
    """The text that lexical search knows a memory by: its description and, of a conversation, what was said."""
    return "\n".join([description, *map(": ".join, utterances)])


def depth_of(node_type: str, evidence: Iterable[UUID], depths: Mapping[UUID, int]) -> int:
    """Events and chats 0; a thought one more than the deepest of its evidence, 1 without any known."""
    if node_type != "thought":
        return 0
    return 1 + max((depths[node_id] for node_id in evidence if node_id in depths), default=0)


def counts_for_keywords(node_type: str, predicate: str | None, object: str | None) -> bool:  # noqa: A002
    """Chats never strengthen keywords, nor do memories that say that something is idle."""
    return node_type != "chat" and f"{predicate} {object}" != "is idle"
