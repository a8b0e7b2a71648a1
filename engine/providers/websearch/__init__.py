"""Searching the web beside the memory: one protocol, chosen by ``JIYI_WEB_SEARCH``.

What is found is shown as external and never stored: whoever wants to keep it promotes it. Importing this package loads no
HTTP client.
"""

from __future__ import annotations

from typing import Annotated, Protocol

from pydantic import BaseModel, ConfigDict, Field

from jiyi.protocol.events import NOT_BLANK
from jiyi.protocol.tiers.query import MAX_WEB_RESULTS, Domains, SearchType

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
