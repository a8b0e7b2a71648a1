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
from engine.retrieval.ranking import Order
from jiyi.errors import RerankerUnavailable, SettingsError
from tasks.retrieval.answer import Result
from tasks.retrieval.question import ParsedQuestion

#: Seconds that reranking one retrieval may take before its order stays as it is: somebody waits for the answer.
SECONDS = 2.0
#: Of the time that is left for the whole answer reranking takes this share at most.
MOST_OF_TIME = 0.5


def reranked(question: ParsedQuestion, results: list[Result], shown: Mapping[int, Shown]) -> list[Result]:
    """The results in the reranker's order, cut to what was asked for; all calls together take :data:`SECONDS` at most.

    Args:
        question: what was asked.
        results: of each focal text, as many as ``ParsedQuestion.wanted``.
        shown: what is known of each of their rows.
    """
    left = seconds_left()
    until = time.monotonic() + (SECONDS if left is None else min(SECONDS, left * MOST_OF_TIME))
    reordered, why = [], ""
    for text, result in zip(question.request.texts, results, strict=True):
        scores: list[float] | None = None
        rows = [row for row in result.best_rows.tolist() if row in shown][: rerankers.MOST_DOCUMENTS]
        if len(rows) > 1 and not why:
            try:
                scores = _scores(question, text, [shown[row].text for row in rows], until - time.monotonic())
            except (RerankerUnavailable, SettingsError) as error:
                why = f"not reranked: {error}"
        note = "; ".join(part for part in (result.debug.note, why) if part)
        debug = result.debug.model_copy(update={"note": note, "reranker": rerankers.reranker().model if scores else ""})
        order = np.arange(result.best_rows.size) if scores is None else _order(result, rows, scores, shown)
        by_row = {} if scores is None else dict(zip(rows, scores, strict=True))
        reordered.append(replace(result, debug=debug, reranked=by_row).only(order[: question.request.top_k]))
    return reordered


def _scores(question: ParsedQuestion, text: str, documents: list[str], seconds: float) -> list[float]:
    if seconds <= 0:
        raise RerankerUnavailable("there was no time left for it")
    counted = {part.text for part in question.dialogue}
    query = "\n".join(message.text for message in question.request.messages if message.text in counted) or text
    return rerankers.reranker().relevance(query, documents, seconds)


def _order(result: Result, rows: list[int], scores: list[float], described: Mapping[int, Shown]) -> Order:
    """What was reranked first, by its scores; still with the newer before the older and thoughts behind their evidence."""
    places = {row: place for place, row in enumerate(result.best_rows.tolist())}
    order = np.argsort(-np.array(scores), kind="stable")
    shown = [described[rows[place]] for place in order.tolist()]
    by_id = {memory.node_id: place for place, memory in enumerate(shown)}
    replaces = np.zeros((len(rows), len(rows)), dtype=bool)
    for place, at in enumerate(order.tolist()):
        newer = result.replaced.get(rows[at])
        if newer in by_id:
            replaces[by_id[newer], place] = True
    renewed, _ = ordering.in_order(shown, replaces)
    order = order[renewed]
    order = order[ordering.behind_evidence([described[rows[place]] for place in order.tolist()])]
    first = [places[rows[place]] for place in order.tolist()]
    rest = [place for place in places.values() if place not in set(first)]
    return np.array([*first, *rest], dtype=np.intp)
