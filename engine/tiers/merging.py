"""One list of what the tiers found: which items, how many of each tier, in which order.

Pure. The readers may return more than is shown, and need not have applied the filters: they are applied here to all.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import datetime

from engine.retrieval.thresholds import RELEVANT
from jiyi.protocol.tiers.query import COLD_LIMIT, HOT_LIMIT, HOT_SCORE, NO_THRESHOLD, Item, MemoryQuestion
from jiyi.text.words import content_digest

#: Share of the answer that is kept for long-term memory if it has so much: as 5 are to 15 in the original. Without it ten
#: new entries would hide every precedent from a node that asks for five.
COLD_SHARE = COLD_LIMIT / (HOT_LIMIT + COLD_LIMIT)


def merge(
    hot: Sequence[Item],
    cold: Sequence[Item],
    question: MemoryQuestion,
    now: datetime,
    *,
    external: Sequence[Item] = (),
    default_threshold: float = RELEVANT,
) -> list[Item]:
    """The answer's items.

    Args:
        hot: working memory, newest first.
        cold: long-term memory, in any order.
        question: the limits, filters and order.
        now: what the time range is measured from.
        external: results of a web search, which come last and count by themselves.
        default_threshold: where the question has none.
    """
    threshold = default_threshold if question.relevance_threshold is None else question.relevance_threshold
    warm = [item.model_copy(update={"score": HOT_SCORE}) for item in hot if _fits(item, question, now)][:HOT_LIMIT]
    known = [item for item in cold if _fits(item, question, now) and _relevant(item, threshold)]
    known.sort(key=lambda item: -item.score)  # stable: equals stay as the reader had them
    warm, known = _without_repetition(warm, known)
    known = known[: question.cold_limit]
    chosen = _by_score(warm, known, question) if question.order == "score" else _by_tier(warm, known, question)
    return [*chosen, *external[: question.web_results]]


def _fits(item: Item, question: MemoryQuestion, now: datetime) -> bool:
    return (
        _recent(item, question, now)
        and (item.expires_at is None or item.expires_at > now)
        and (question.include_verdicts or item.kind != "verdict")
        and (question.session_id is None or item.session_id == question.session_id)
    )


def _recent(item: Item, question: MemoryQuestion, now: datetime) -> bool:
    """The time range is for working memory only: knowledge that was promoted long ago is a precedent."""
    since = question.since(now)
    return item.source != "hot" or since is None or item.created_at is None or item.created_at >= since


def _relevant(item: Item, threshold: float) -> bool:
    """The threshold is for long-term memories only: working memory is there because it is new."""
    return math.isfinite(item.score) and (threshold <= NO_THRESHOLD or item.score >= threshold)


def _without_repetition(warm: Iterable[Item], known: Iterable[Item]) -> tuple[list[Item], list[Item]]:
    """What was promoted today is in both tiers: it is shown once, and as verified."""
    promoted: dict[bytes, Item] = {}
    for item in known:
        promoted.setdefault(content_digest(item.content), item)
    said = [item.model_copy(update={"verified": True}) if content_digest(item.content) in promoted else item for item in warm]
    repeated = {content_digest(item.content) for item in said}
    return said, [item for digest, item in promoted.items() if digest not in repeated]


def _by_tier(warm: list[Item], known: list[Item], question: MemoryQuestion) -> list[Item]:
    """Working memory first; what one tier leaves of its share the other may have."""
    if question.max_results is None:
        return [*warm, *known]
    reserved = min(len(known), int(question.max_results * COLD_SHARE))
    warm = warm[: question.max_results - reserved]
    return [*warm, *known[: question.max_results - len(warm)]]


def _by_score(warm: list[Item], known: list[Item], question: MemoryQuestion) -> list[Item]:
    """The most similar first; an entry whose similarity is not known keeps its 1.0."""
    measured = [
        item if item.similarity is None or not math.isfinite(item.similarity) else item.model_copy(update={"score": item.similarity})
        for item in warm
    ]
    return sorted([*measured, *known], key=lambda item: -item.score)[: question.max_results]
