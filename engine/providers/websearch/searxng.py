"""SearXNG: a search engine of one's own that asks others, without a key."""

from __future__ import annotations

from typing import Any

from engine.providers.websearch import MAX_QUERY_CHARS, SearchOptions, SearchResult
from engine.providers.websearch.fetching import Address, fetch_json
from engine.providers.websearch.results import hits_of, words
from jiyi.errors import SearchUnavailable


class SearXNG:
    """Thread-safe."""

    provider = "searxng"

    def __init__(self, address: Address, seconds: float) -> None:
        self._address, self._seconds = address, seconds

    def search(self, query: str, options: SearchOptions) -> SearchResult:
        """One page of results. It knows no domains: results of others are left out here. Raises :class:`SearchUnavailable`."""
        asked = query[:MAX_QUERY_CHARS]
        if len(options.domains) == 1:  # most of the engines behind it understand this
            asked = f"site:{options.domains[0]} {asked}"
        params = {"q": asked, "format": "json", "categories": options.search_type}
        status, answer = fetch_json(self._address, "GET", "/search", seconds=self._seconds, params=params)
        if status != 200 or not isinstance(answer, dict):
            raise SearchUnavailable(f"SearXNG ({self._address.shown}) {_why(status)}")
        return SearchResult(
            query=query, provider=self.provider, answer=_answer(answer.get("answers")), results=hits_of(answer.get("results"), options)
        )


def _answer(answers: Any) -> str:
    """The first answer: a text, or an object with one."""
    first = answers[0] if isinstance(answers, list) and answers else ""
    return words(first.get("answer") if isinstance(first, dict) else first)


def _why(status: int) -> str:
    match status:
        case 403:
            return "refuses JSON (403): add json to search.formats in its settings.yml"
        case 404:
            return "has no /search there (404): check JIYI_WEB_SEARCH_BASE_URL"
        case 429:
            return "has had too many requests (429): raise its limiter for this address"
    return f"answered {status}"
