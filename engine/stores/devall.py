"""The formulas of the original (DevAll), for stores that declare ``fidelity: devall``: what counts of a text,
and an item's score, ``0.7·cosine + 0.3·min(1, 0.4·Jaccard + 0.3·LCS + 0.2·keyword + 0.1·length)`` over tokens
between white space. Its rules for texts are kept as they behave.

mem0's service, spoken to directly: search and add, bounded in time and size, at public addresses only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import SecretStr
from rapidfuzz.distance import LCSseq

from engine.providers.web_search import Address, fetch_json
from jiyi.errors import ProviderUnavailable, SearchUnavailable
from jiyi.protocol.base import JsonObject

#: Candidates that are scored, for each item asked for: the nearest ones.
CANDIDATES = 3
#: Weights of cosine and of similarity by words, and of the parts of the latter.
COSINE_WEIGHT, WORDS_WEIGHT = 0.7, 0.3
JACCARD, LCS, KEYWORD, LENGTH = 0.4, 0.3, 0.2, 0.1
#: Characters of a token of the question that is looked for as a keyword, at least.
KEYWORD_CHARS = 2
#: Characters of a text that is kept whole; of one that is read, and of what counts of it, at most; of a
#: sentence, at least.
SHORT, MAX_CHARS, MAX_LENGTH, LEAST_SENTENCE = 100, 40_000, 500, 20
#: Sentences that count, and what follows a text that was cut.
SENTENCES, CUT = 3, "..."
_STRIPPED = tuple(
    re.compile(pattern)
    for pattern in (
        r"(?:You are|你是一位)[^,，]{0,500}[,，]",
        r"(?:User will input|用户会输入)[^,，]{0,500}[,，]",
        r"(?:You need to|你需要)[^,，]{0,500}[,，]",
    )
)
_ENDS = re.compile(r"[。！？；\n]")


def key_content(text: str) -> str:
    """What counts of a text."""
    text = " ".join(text[:MAX_CHARS].split())
    if len(text) <= SHORT:
        return text
    stripped = text
    for pattern in _STRIPPED:
        stripped = pattern.sub("", stripped)
    sentences = [
        sentence for part in _ENDS.split(stripped) if len(sentence := part.strip()) >= LEAST_SENTENCE
    ]
    if not sentences:
        return text[:MAX_LENGTH]
    joined = "。".join(sentences[:SENTENCES])
    return joined if len(joined) <= MAX_LENGTH else joined[:MAX_LENGTH] + CUT


def query_text(text: str) -> str:
    """What is searched with."""
    return key_content(f"Query: {text}")


@dataclass(frozen=True, slots=True)
class WordSimilarity:
    """How similar two texts are, each part between 0 and 1."""

    jaccard: float
    lcs: float
    keyword: float
    length: float

    @property
    def total(self) -> float:
        parts = JACCARD * self.jaccard + LCS * self.lcs + KEYWORD * self.keyword + LENGTH * self.length
        return min(1.0, parts)


def word_similarity(question: str, text: str) -> WordSimilarity:
    """How similar a text is to a question, word by word."""
    question, text = question.lower(), text.lower()
    question_words, words = set(question.split()), set(text.split())
    keywords = {word for word in question_words if len(word) >= KEYWORD_CHARS}
    return WordSimilarity(
        jaccard=_share(question_words & words, question_words | words),
        lcs=LCSseq.normalized_similarity(question, text) if question and text else 0.0,
        keyword=_share(keywords & words, keywords),
        length=_length_factor(len(question), len(text)),
    )


def score(cosine: float | None, words: WordSimilarity) -> float:
    """The score of an item; without a vector the share of the question's words stands for the cosine."""
    return COSINE_WEIGHT * (words.keyword if cosine is None else cosine) + WORDS_WEIGHT * words.total


def _share(part: set[str], whole: set[str]) -> float:
    return len(part) / len(whole) if whole else 0.0


def _length_factor(asked_chars: int, chars: int) -> float:
    """1 for texts of half to twice the question's length, less beyond."""
    if not asked_chars or not chars:
        return 0.0
    ratio = chars / asked_chars
    if ratio < 0.5:
        return ratio / 0.5
    return 1.0 if ratio <= 2.0 else max(0.1, 2.0 / ratio)


#: Seconds that one call may take.
SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Mem0Account:
    """An account of mem0, for a user, an agent, or both."""

    base_url: str
    api_key: SecretStr
    user_id: str | None
    agent_id: str | None

    @property
    def _whose(self) -> dict[str, str]:
        ids = {"user_id": self.user_id, "agent_id": self.agent_id}
        return {name: value for name, value in ids.items() if value is not None}

    def search(self, query: str, top_k: int, threshold: float) -> list[JsonObject]:
        """What it has that fits: of the user or of the agent. ``threshold`` below 0: no limit.

        Raises:
            ProviderUnavailable: it does not answer, refuses, or answers something unusable.
        """
        whose = [{name: value} for name, value in self._whose.items()]
        filters: JsonObject = {"OR": whose} if len(whose) > 1 else dict(whose[0])
        body: JsonObject = {"query": query, "filters": filters, "top_k": top_k}
        if threshold >= 0:
            body["threshold"] = threshold
        answer = self._post("/v2/memories/search/", body)
        rows = answer.get("results", answer.get("memories")) if isinstance(answer, Mapping) else answer
        if not isinstance(rows, list):
            raise ProviderUnavailable("mem0 answered no list of memories")
        return [dict(row) for row in rows if isinstance(row, Mapping)]

    def add(self, text: str) -> None:
        """Store what a user said. Raises :class:`ProviderUnavailable`."""
        self._post("/v1/memories/", {"messages": [{"role": "user", "content": text}], **self._whose})

    def _post(self, path: str, body: Mapping[str, Any]) -> Any:
        headers = {"Authorization": f"Token {self.api_key.get_secret_value()}"}
        try:
            address = Address(self.base_url, trusted=False, setting="base_url")
            status, answer = fetch_json(address, "POST", path, seconds=SECONDS, body=body, headers=headers)
        except SearchUnavailable as error:
            raise ProviderUnavailable(f"mem0: {error}") from None
        if status >= 400:
            raise ProviderUnavailable(f"mem0 refused with status {status}")
        return answer
