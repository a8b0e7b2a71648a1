"""What every worker does when something is erased: drop what its memory has of it."""

from __future__ import annotations

from engine.providers import embedders
from engine.retrieval.query import marked_sentences
from engine.text import keywords as lexical
from jiyi.text.words import normalise
from models.erasure.parts import parts
from models.retrieval import index_cache


def forget(group_id: str, agents: list[str]) -> dict[str, int]:
    """Drop indexes of the agents, and what else this process remembers of texts; returns what it dropped."""
    dropped = index_cache.forget(group_id, set(agents))
    dropped["questions"] = _forget_texts()
    return dropped


def forget_everything() -> None:
    """Drop all indexes and texts: this worker was out of reach for so long that it may have missed an order."""
    index_cache.forget_all()
    _forget_texts()


def _forget_texts() -> int:
    """Drop what is remembered of texts, whosever they were; returns how many questions."""
    questions = embedders.forget_questions()
    normalise.cache_clear()
    marked_sentences.cache_clear()
    lexical.forget()
    for part in parts():
        part.forget()
    return questions
