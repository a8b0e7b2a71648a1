"""The best of a retrieval ordered anew by a reranker, where one is set up; while it is away the order stays."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from engine.operations.deadlines import seconds_left
from engine.providers import rerankers
from engine.retrieval import ordering
from engine.retrieval.ordering import Shown
from jiyi.errors import RerankerUnavailable, SettingsError
from jiyi.settings import get_settings
from tasks.retrieval.question import ParsedQuestion
from tasks.retrieval.search import SearchResult

#: Of the time that is left for the whole answer reranking takes this share at most.
MOST_OF_TIME = 0.5


def reranked(asked: ParsedQuestion, found: list[SearchResult], described: Mapping[int, Shown]) -> list[SearchResult]:
    """The results in the reranker's order, cut to what was asked for; all calls together take ``JIYI_RERANKER_TIMEOUT`` at most.

    Args:
        asked: the question.
        found: of each focal text the best, as many as :func:`tasks.retrieval.search.wanted` says.
        described: what is known of each of their rows.
    """
    left = seconds_left()
    seconds = get_settings().reranker_timeout
    until = time.monotonic() + (seconds if left is None else min(seconds, left * MOST_OF_TIME))
    results, why = [], ""
    for text, one in zip(asked.request.texts, found, strict=True):
        scores: list[float] | None = None
        rows = [row for row in one.best_rows.tolist() if row in described][: rerankers.MOST_DOCUMENTS]
        if len(rows) > 1 and not why:
            try:
                scores = _scores(asked, text, [described[row].text for row in rows], until - time.monotonic())
            except (RerankerUnavailable, SettingsError) as error:
                why = f"not reranked: {error}"
        note = "; ".join(part for part in (one.debug.note, why) if part)
        debug = one.debug.model_copy(update={"note": note, "reranker": rerankers.reranker().model if scores else ""})
        ordered = replace(one, debug=debug) if scores is None else _ordered(replace(one, debug=debug), rows, scores, described)
        results.append(_cut(ordered, asked.request.top_k))
    return results


def _scores(asked: ParsedQuestion, text: str, documents: list[str], seconds: float) -> list[float]:
    if seconds <= 0:
        raise RerankerUnavailable("there was no time left for it")
    counted = {part.text for part in asked.dialogue}
    query = "\n".join(message.text for message in asked.request.messages if message.text in counted) or text
    return rerankers.reranker().relevance(query, documents, seconds)


def _ordered(found: SearchResult, rows: list[int], scores: list[float], described: Mapping[int, Shown]) -> SearchResult:
    """What was reranked first, by its scores; still with the newer before the older and thoughts behind their evidence."""
    places = {row: place for place, row in enumerate(found.best_rows.tolist())}
    order = np.argsort(-np.array(scores), kind="stable")
    shown = [described[rows[place]] for place in order.tolist()]
    by_id = {one.node_id: place for place, one in enumerate(shown)}
    replaces = np.zeros((len(rows), len(rows)), dtype=bool)
    for place, at in enumerate(order.tolist()):
        newer = found.replaced.get(rows[at])
        if newer in by_id:
            replaces[by_id[newer], place] = True
    renewed, _ = ordering.in_order(shown, replaces)
    order = order[renewed]
    order = order[ordering.behind_evidence([described[rows[place]] for place in order.tolist()])]
    first = [places[rows[place]] for place in order.tolist()]
    rest = [place for place in places.values() if place not in set(first)]
    positions = np.array([*first, *rest], dtype=np.intp)
    return replace(
        found,
        ranked=replace(found.ranked, best=found.ranked.best[positions]),
        best_rows=found.best_rows[positions],
        reranked=dict(zip(rows, scores, strict=True)),
    )


def _cut(found: SearchResult, top_k: int) -> SearchResult:
    rows = found.best_rows[:top_k]
    return replace(
        found,
        ranked=replace(found.ranked, best=found.ranked.best[:top_k]),
        best_rows=rows,
        debug=found.debug.model_copy(update={"retrieved_count": int(rows.size)}),
    )
