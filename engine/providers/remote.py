"""Embeddings of an OpenAI-compatible vendor.

A reranker at an address.

It speaks the ``/rerank`` of Cohere, Jina and vLLM, ``{model, query, documents, top_n}`` → ``{results:
[{index, relevance_score}]}``, or that of Text Embeddings Inference, ``{query, texts}`` → ``[{index,
score}]``. Which one a server wants is found out by the first call: one that refuses the former is asked in
the latter.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from threading import BoundedSemaphore
from typing import Any

import numpy as np

from engine.providers.breakers import note_error
from engine.providers.embedder_specs import CALLS, dimensions_of, unit_rows
from engine.providers.guarded import ProviderClient, RetryLimits
from engine.providers.spec import Endpoint
from jiyi.errors import EmbeddingUnavailable, RerankerUnavailable, TextRefused
from jiyi.protocol.wire.vectors import Float32
from jiyi.settings import Settings

#: Seconds that all calls for one batch may take together: below the embedding task's limit.
BATCH_SECONDS = 75.0
#: Seconds of one call: loading a model takes half a minute; half of the texts have time for one more.
CALL_SECONDS = 30.0
#: What a call has at least that got its turn in the last moment.
SHORTEST_EMBEDDING = 0.1
#: Seconds that calls stay as small as a slow server had time for.
FEWER_SECONDS = 3_600.0
#: Tokens of one call: OpenAI allows 300,000, and estimates are estimates.
CALL_TOKENS = 200_000
#: Tokens at most of a character, where the model's own tokenizer is not at hand: common Chinese characters
#: are one token or less, rare ones up to three; a token of Latin text has four characters, of code or numbers
#: two.
TOKENS_PER_WIDE_CHAR, TOKENS_PER_ASCII_CHAR = 1.5, 0.5
#: Statuses by which vendors refuse a text; but also by which some refuse everything.
REFUSALS = frozenset({400, 413, 422})
#: Seconds for a question's vector before the question is answered by words only: somebody waits.
QUERY_SECONDS = 3.0
#: Embedded to see whether a vendor that refused a text works otherwise.
HARMLESS = "hello"


class RemoteEmbedder:
    """Texts go in as many calls as the vendor's limits need, one after the other; their order is kept.

    Several threads may embed at once, and at most :data:`CALLS` calls for passages are open: one is until its
    answer has come, and another goes out while it is read. Questions do not wait for them.
    """

    def __init__(self, endpoint: Endpoint, settings: Settings) -> None:
        self.model = endpoint.spec.model_name
        self._endpoint = endpoint
        self._provider = ProviderClient(endpoint, EmbeddingUnavailable)
        #: As declared; otherwise what is stored says which size is right (``embedder_of``), never an answer.
        self._size = dimensions_of(endpoint.spec)
        self._who = f"{endpoint.spec.vendor}'s {endpoint.spec.model_name}"
        self._calls = BoundedSemaphore(CALLS)
        self._fewer, self._fewer_until = 0, 0.0
        self._max_tokens = settings.embedder_max_tokens or endpoint.preset.max_tokens

    @property
    def dimensions(self) -> int | None:
        return self._size

    def passages(self, texts: Sequence[str]) -> Float32:
        until = time.monotonic() + BATCH_SECONDS
        parts = []
        for chunk in self._chunks(texts):
            parts += self._in_time(chunk, until, len(texts))
        return self._joined(parts)

    def _in_time(self, texts: list[str], until: float, count: int) -> list[Float32]:
        """Their vectors; where a call takes longer than it may, of half as many at a time."""
        remaining, alone = 0.0, len(texts) == 1
        try:
            with ExitStack() as turn:
                turn.enter_context(self._turn(until, count))
                remaining = max(until - time.monotonic(), SHORTEST_EMBEDDING)
                patience = RetryLimits(
                    min(CALL_SECONDS, remaining), total=remaining, answered=turn.close, again=alone
                )
                return [self._embed(texts, patience)]
        except EmbeddingUnavailable as error:
            if alone or not error.timed_out or remaining < CALL_SECONDS:
                raise
        self._fewer, self._fewer_until = len(texts) // 2, time.monotonic() + FEWER_SECONDS
        return [part for some in self._chunks(texts) for part in self._in_time(some, until, count)]

    @property
    def _most_texts(self) -> int:
        """Of one call: what the vendor takes, or what it had time for lately."""
        most = self._endpoint.preset.max_texts
        return min(most, self._fewer) if time.monotonic() < self._fewer_until else most

    @contextmanager
    def _turn(self, until: float, count: int) -> Iterator[None]:
        """One of the calls that may be open at once, before ``until``, by ``time.monotonic``."""
        remaining = until - time.monotonic()
        if remaining <= 0 or not self._calls.acquire(timeout=remaining):
            raise EmbeddingUnavailable(
                f"{self._endpoint.spec.vendor} took more than {BATCH_SECONDS:g} s for {count} texts: lower"
                " JIYI_EMBED_BATCH"
            )
        try:
            yield
        finally:
            self._calls.release()

    def query(self, text: str) -> Float32:
        vector: Float32 = self.queries([text])[0]
        return vector

    def queries(self, texts: Sequence[str]) -> Float32:
        """One try only: somebody waits, and retrieval can do without."""
        patience = RetryLimits(QUERY_SECONDS, tries=1, total=QUERY_SECONDS)
        return self._joined([self._ask(chunk, patience) for chunk in self._chunks(texts)])

    def _joined(self, parts: Sequence[Float32]) -> Float32:
        if len({part.shape[1] for part in parts}) > 1:
            raise EmbeddingUnavailable(f"{self._who} answered vectors of different sizes: nothing is stored")
        return np.concatenate(parts) if parts else np.empty((0, self._size or 0), dtype=np.float32)

    def _chunks(self, texts: Sequence[str]) -> Iterator[list[str]]:
        chunk: list[str] = []
        tokens = 0.0
        for text in texts:
            short = cut(text, self._max_tokens)
            size = estimate(short)
            if chunk and (len(chunk) >= self._most_texts or tokens + size > CALL_TOKENS):
                yield chunk
                chunk, tokens = [], 0.0
            chunk.append(short)
            tokens += size
        if chunk:
            yield chunk

    def _embed(self, texts: list[str], patience: RetryLimits) -> Float32:
        try:
            return self._ask(texts, patience)
        except EmbeddingUnavailable as error:
            if error.status in REFUSALS and self._works():
                raise TextRefused(f"{error} (it embeds other texts)") from None
            raise

    def _works(self) -> bool:
        try:
            self._ask([HARMLESS], RetryLimits(QUERY_SECONDS, tries=1))
        except EmbeddingUnavailable:
            return False
        return True

    def _ask(self, texts: list[str], patience: RetryLimits) -> Float32:
        spec = self._endpoint.spec
        # As numbers: DashScope knows no base64, which the SDK would ask for.
        body: dict[str, Any] = {"model": spec.model, "input": texts, "encoding_format": "float"}
        if spec.dimensions is not None:
            body["dimensions"] = spec.dimensions
        answer = self._provider.embeddings(body, patience)
        try:
            return unit_rows(_in_order(answer.get("data"), self._who), len(texts), self._size, self._who)
        except EmbeddingUnavailable as error:
            note_error(self._endpoint.breaker, str(error))
            raise


def _in_order(data: Any, who: str) -> list[Any]:
    """The vectors of ``data`` by their ``index``; as they stand where a server gives none."""
    if not isinstance(data, list) or not all(isinstance(item, dict) and "embedding" in item for item in data):
        raise EmbeddingUnavailable(
            f"{who} answered no list of embeddings: is this an address for embeddings?"
        )
    places = [item.get("index") for item in data]
    if all(place is None for place in places):
        return [item["embedding"] for item in data]
    if sorted(place if isinstance(place, int) else -1 for place in places) != list(range(len(data))):
        raise EmbeddingUnavailable(
            f"{who} answered vectors that do not say which text each is of: nothing is stored"
        )
    return [item["embedding"] for item in sorted(data, key=lambda item: int(item["index"]))]


def estimate(text: str) -> float:
    """Tokens of a text, rather too many than too few."""
    ascii_chars = len(text.encode("ascii", "ignore"))
    return ascii_chars * TOKENS_PER_ASCII_CHAR + (len(text) - ascii_chars) * TOKENS_PER_WIDE_CHAR


def cut(text: str, max_tokens: int) -> str:
    """The beginning of a text that a model can read: some vendors refuse a whole call for a longer one."""
    if len(text) * TOKENS_PER_WIDE_CHAR <= max_tokens:
        return text
    used = 0.0
    for position, char in enumerate(text):
        used += TOKENS_PER_ASCII_CHAR if char.isascii() else TOKENS_PER_WIDE_CHAR
        if used > max_tokens:
            return text[:position]
    return text


#: Characters of each document, and of the query: rerankers read a few hundred tokens.
MOST_DOCUMENT_CHARS, MOST_QUERY_CHARS = 2_000, 2_000
#: Statuses by which a server refuses a body that is in the other form.
OTHER_FORM = frozenset({400, 422})
#: What a call has at least.
SHORTEST_RERANKING = 0.02


class RemoteReranker:
    """Thread-safe."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.model = str(endpoint.spec)
        self._endpoint = endpoint
        self._provider = ProviderClient(endpoint, RerankerUnavailable)
        #: Which form the server takes; None before it has answered.
        self._form: str | None = None

    def relevance(self, query: str, documents: Sequence[str], seconds: float) -> list[float]:
        """As :class:`engine.providers.llms.Reranker` has it."""
        query_end, texts = query[-MOST_QUERY_CHARS:], [text[:MOST_DOCUMENT_CHARS] for text in documents]
        answer = self._ask(query_end, texts, time.monotonic() + seconds)
        try:
            return _scores(answer, len(texts), self.model)
        except RerankerUnavailable as error:
            note_error(self._endpoint.breaker, str(error))
            raise

    def _ask(self, query: str, texts: list[str], until: float) -> Any:
        model = self._endpoint.spec.model
        forms: dict[str, dict[str, Any]] = {
            "documents": {"model": model, "query": query, "documents": texts, "top_n": len(texts)},
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


def _once_before(until: float) -> RetryLimits:
    seconds = max(until - time.monotonic(), SHORTEST_RERANKING)
    return RetryLimits(seconds, tries=1, total=seconds)


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
