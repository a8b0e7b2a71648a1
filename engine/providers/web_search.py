"""Searching the web beside the memory: one protocol, chosen by ``JIYI_WEB_SEARCH``.

What is found is shown as external and never stored: whoever wants to keep it promotes it. Importing this package loads no
HTTP client.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Annotated, Any, Protocol
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field

from jiyi.protocol.base import NOT_BLANK
from jiyi.protocol.tier_questions import MAX_WEB_RESULTS, Domains, SearchType
from jiyi.text.words import storable

SETTING = "JIYI_WEB_SEARCH"
#: The original's number.
DEFAULT_RESULTS = 5
#: Longer questions are cut: search engines want a few words, and Tavily refuses more.
MAX_QUERY_CHARS = 400
#: Characters of a page's title, its address and what is quoted of it.
MAX_TITLE_CHARS, MAX_URL_CHARS, MAX_CONTENT_CHARS = 300, 2_000, 2_000


class SearchOptions(BaseModel):
    """The three that a workflow may name."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_results: int = Field(DEFAULT_RESULTS, ge=1, le=MAX_WEB_RESULTS)
    search_type: SearchType = "general"
    #: Only pages of these, and of what is below them.
    domains: Domains = ()


class SearchHit(BaseModel):
    """A page. ``score`` is between 0 and 1, by the engine's own measure: comparable within one search only."""

    model_config = ConfigDict(frozen=True)

    title: str
    url: str
    content: str
    score: float


class SearchResult(BaseModel):
    """What a search found; ``answer`` is what the engine itself says, if it does."""

    model_config = ConfigDict(frozen=True)

    query: Annotated[str, Field(pattern=NOT_BLANK)]
    provider: str
    answer: str = ""
    results: list[SearchHit] = []


def breaker_name(provider: str) -> str:
    """Which failures of a search engine count together."""
    return f"search:{provider}:web"


class WebSearch(Protocol):
    """A search engine. Thread-safe."""

    @property
    def provider(self) -> str:
        """Its name, as in the setting."""
        ...

    def search(self, query: str, options: SearchOptions) -> SearchResult:
        """Raises :class:`jiyi.errors.SearchUnavailable` with a sentence that says what to do."""
        ...


def hits_of(items: Any, options: SearchOptions) -> list[SearchHit]:
    """The usable ones among ``found``, best first, each address once; anything else is left out."""
    hits: dict[str, SearchHit] = {}
    for item in items if isinstance(items, list) else ():
        hit = _hit(item)
        if hit is not None and within(hit.url, options.domains):
            hits.setdefault(hit.url, hit)
    highest = max((hit.score for hit in hits.values()), default=0.0)
    if highest > 1:  # SearXNG adds up what its engines say
        hits = {url: hit.model_copy(update={"score": hit.score / highest}) for url, hit in hits.items()}
    return sorted(hits.values(), key=lambda hit: -hit.score)[: options.max_results]


def words(value: Any, limit: int = MAX_CONTENT_CHARS) -> str:
    """A text on one line, without what cannot be seen; empty for what is no text."""
    if not isinstance(value, str):
        return ""
    line = " ".join("".join(char if char.isprintable() else " " for char in storable(value[: 4 * limit])).split())
    return line if len(line) <= limit else f"{line[: limit - 1].rstrip()}…"


def within(url: str, domains: Iterable[str]) -> bool:
    """Whether an address is one of the domains', or below; any is, without domains."""
    host = (urlsplit(url).hostname or "").lower()
    wanted = list(domains)
    return not wanted or any(host == domain or host.endswith(f".{domain}") for domain in wanted)


def _hit(item: Any) -> SearchHit | None:
    if not isinstance(item, dict):
        return None
    url, content, title = item.get("url"), words(item.get("content")), words(item.get("title"), MAX_TITLE_CHARS)
    if not (isinstance(url, str) and len(url) <= MAX_URL_CHARS and url.isprintable() and not set(url) & set(' <>"')):
        return None
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc or not (content or title):
        return None
    return SearchHit(title=title or parts.hostname, url=url, content=content or title, score=_score(item.get("score")))


def _score(value: Any) -> float:
    usable = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return max(float(value), 0.0) if usable else 0.0
