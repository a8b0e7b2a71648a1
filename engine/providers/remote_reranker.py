"""A reranker at an address.

It speaks the ``/rerank`` of Cohere, Jina and vLLM, ``{model, query, documents, top_n}`` → ``{results: [{index, relevance_score}]}``, or
that of Text Embeddings Inference, ``{query, texts}`` → ``[{index, score}]``. Which one a server wants is found out by the first call: one
that refuses the former is asked in the latter.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Any

from engine.providers.breakers import note_error
from engine.providers.guarded import Patience, Provider
from engine.providers.spec import Endpoint
from jiyi.errors import RerankerUnavailable

#: Characters of each document, and of the query: rerankers read a few hundred tokens.
MOST_DOCUMENT_CHARS, MOST_QUERY_CHARS = 2_000, 2_000
#: Statuses by which a server refuses a body that is in the other form.
OTHER_FORM = frozenset({400, 422})
#: What a call has at least.
SHORTEST_SECONDS = 0.02


class RemoteReranker:
    """Thread-safe."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.model = str(endpoint.spec)
        self._endpoint = endpoint
        self._provider = Provider(endpoint, RerankerUnavailable)
        #: Which form the server takes; None before it has answered.
        self._form: str | None = None

    def relevance(self, query: str, documents: Sequence[str], seconds: float) -> list[float]:
        """As :class:`engine.providers.rerankers.Reranker` has it."""
        asked, texts = query[-MOST_QUERY_CHARS:], [text[:MOST_DOCUMENT_CHARS] for text in documents]
        answer = self._ask(asked, texts, time.monotonic() + seconds)
        try:
            return _scores(answer, len(texts), self.model)
        except RerankerUnavailable as error:
            note_error(self._endpoint.breaker, str(error))
            raise

    def _ask(self, query: str, texts: list[str], until: float) -> Any:
        forms: dict[str, dict[str, Any]] = {
            "documents": {"model": self._endpoint.spec.model, "query": query, "documents": texts, "top_n": len(texts)},
            "texts": {"query": query, "texts": texts, "truncate": True},
        }
        form = self._form or "documents"
        try:
            answer = self._provider.rerank(forms[form], _once_before(until))
        except RerankerUnavailable as error:
            if self._form is not None or error.status not in OTHER_FORM:
                raise
            form = "texts"
            try:
                answer = self._provider.rerank(forms[form], _once_before(until))
            except RerankerUnavailable:
                raise error from None  # what is wrong with the usual form says more
        self._form = form
        return answer


def _once_before(until: float) -> Patience:
    seconds = max(until - time.monotonic(), SHORTEST_SECONDS)
    return Patience(seconds, tries=1, total=seconds)


def _scores(answer: Any, count: int, who: str) -> list[float]:
    """Each document's score in the documents' order; every one of them has to be there once."""
    rows = answer.get("results") if isinstance(answer, dict) else answer
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise RerankerUnavailable(f"{who} answered no list of results: is this an address for /rerank?")
    scores: dict[int, float] = {}
    for row in rows:
        place, score = row.get("index"), row.get("relevance_score", row.get("score"))
        if type(place) is not int or not 0 <= place < count or place in scores:
            raise RerankerUnavailable(f"{who} answered results that do not say which document each is of")
        if type(score) not in (int, float) or not abs(score) <= sys.float_info.max:  # which NaN is not either
            raise RerankerUnavailable(f"{who} answered a relevance that is no number")
        scores[place] = float(score)
    if len(scores) < count:
        raise RerankerUnavailable(f"{who} answered {len(scores)} results for {count} documents")
    return [scores[place] for place in range(count)]
