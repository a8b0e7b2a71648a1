"""Tavily."""

from __future__ import annotations

from typing import Any

from pydantic import SecretStr

from engine.providers.websearch import MAX_CONTENT_CHARS, MAX_QUERY_CHARS, SearchOptions, SearchResult
from engine.providers.websearch.fetching import MAX_QUOTE, Address, fetch_json
from engine.providers.websearch.results import hits_of, words
from jiyi.errors import SearchUnavailable

BASE_URL = "https://api.tavily.com"


class Tavily:
    """Thread-safe."""

    provider = "tavily"

    def __init__(self, address: Address, api_key: SecretStr, seconds: float) -> None:
        self._address, self._key, self._seconds = address, api_key, seconds

    def search(self, query: str, options: SearchOptions) -> SearchResult:
        """An advanced search with its answer, as the original asks for. Raises :class:`SearchUnavailable`."""
        body: dict[str, Any] = {
            "query": query[:MAX_QUERY_CHARS],
            "search_depth": "advanced",
            "include_answer": True,
            "topic": options.search_type,
            "max_results": options.max_results,
        }
        if options.domains:
            body["include_domains"] = list(options.domains)
        key = self._key.get_secret_value()
        status, answer = fetch_json(
            self._address, "POST", "/search", seconds=self._seconds, body=body, headers={"Authorization": f"Bearer {key}"}
        )
        if status != 200 or not isinstance(answer, dict):
            raise SearchUnavailable(f"Tavily ({self._address.shown}) {_why(status, answer, key)}")
        return SearchResult(
            query=query,
            provider=self.provider,
            answer=words(answer.get("answer"), MAX_CONTENT_CHARS),
            results=hits_of(answer.get("results"), options),
        )


def _why(status: int, answer: Any, key: str) -> str:
    match status:
        case 401 | 403:  # its words may quote the key
            return f"refuses the key ({status}): check TAVILY_API_KEY or JIYI_WEB_SEARCH_API_KEY"
        case 429 | 432 | 433:
            return f"has had too many requests, or the plan's limit is used up ({status})"
    said = answer.get("detail", answer) if isinstance(answer, dict) else answer
    return f"answered {status}: {words(str(said), MAX_QUOTE).replace(key, '…')}"
