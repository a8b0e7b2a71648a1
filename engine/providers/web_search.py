"""Searching the web beside the memory, by SearXNG or Tavily, chosen by ``JIYI_WEB_SEARCH``.

Results are shown as external and never stored: to keep one, a user promotes it.

A search is one HTTP request to the one address that is configured, bounded in time and size: what a question
or an answer says never decides where it goes, and redirects are followed on the same host only. The vendor's
own address must be a public one; an address that the operator has set need not be.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Protocol
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx2
from pydantic import BaseModel, Field, SecretStr

from engine.providers.spec import PrivateAddress, PublicTransport
from jiyi.errors import SearchUnavailable
from jiyi.protocol.base import NOT_BLANK
from jiyi.protocol.tier_questions import MAX_WEB_RESULTS, Domains, SearchType
from jiyi.settings import Settings
from jiyi.text.words import shortened, storable

SETTING = "JIYI_WEB_SEARCH"
#: The original's number.
DEFAULT_RESULTS = 5
#: Longer questions are cut: search engines want a few words, and Tavily refuses more.
MAX_QUERY_CHARS = 400
#: Characters of a page's title, its address and what is quoted of it.
MAX_TITLE_CHARS, MAX_URL_CHARS, MAX_CONTENT_CHARS = 300, 2_000, 2_000


class WebSearchOptions(BaseModel, frozen=True, extra="forbid"):
    """The three that a workflow may name."""

    max_results: int = Field(DEFAULT_RESULTS, ge=1, le=MAX_WEB_RESULTS)
    search_type: SearchType = "general"
    #: Only pages of these, and of what is below them.
    domains: Domains = ()


class SearchHit(BaseModel, frozen=True):
    """A page; ``score`` is between 0 and 1, comparable within one search only."""

    title: str
    url: str
    content: str
    score: float


class SearchResult(BaseModel, frozen=True):
    """What a search found; ``answer`` is what the engine itself says, if it does."""

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

    def search(self, query: str, options: WebSearchOptions) -> SearchResult:
        """Raises :class:`jiyi.errors.SearchUnavailable` with a sentence that says what to do."""
        ...


def hits_of(items: Any, options: WebSearchOptions) -> list[SearchHit]:
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
    return shortened(storable(value[: 4 * limit]), limit)


def within(url: str, domains: Iterable[str]) -> bool:
    """Whether an address is one of the domains', or below; any is, without domains."""
    host = (urlsplit(url).hostname or "").lower()
    allowed = list(domains)
    return not allowed or any(host == domain or host.endswith(f".{domain}") for domain in allowed)


def _hit(item: Any) -> SearchHit | None:
    if not isinstance(item, dict):
        return None
    content, title = words(item.get("content")), words(item.get("title"), MAX_TITLE_CHARS)
    url, score = item.get("url"), _score(item.get("score"))
    if not isinstance(url, str) or len(url) > MAX_URL_CHARS:
        return None
    if not url.isprintable() or not set(url).isdisjoint(' <>"'):
        return None
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    is_web = parts.scheme in ("http", "https") and parts.hostname and "@" not in parts.netloc
    if not is_web or not (content or title):
        return None
    return SearchHit(title=title or str(parts.hostname), url=url, content=content or title, score=score)


def _score(value: Any) -> float:
    usable = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return max(float(value), 0.0) if usable else 0.0


#: Seconds that one web search may take.
SECONDS = 5.0

#: Largest answer, in bytes: twenty results with two thousand characters each are a tenth of it.
MAX_BODY_BYTES = 2 * 1024 * 1024
MAX_REDIRECTS = 3
#: Characters of an engine's own words in a message.
MAX_QUOTE = 200

# Compressed, two megabytes may be as many gigabytes.
_HEADERS = {"Accept": "application/json", "Accept-Encoding": "identity"}
_REDIRECTS = frozenset({301, 302, 303, 307, 308})


@dataclass(frozen=True, slots=True)
class Address:
    """Where a search engine is; ``trusted``: set by the operator, who may mean their own network."""

    base_url: str
    trusted: bool
    #: For messages: which setting changes it.
    setting: str

    def __post_init__(self) -> None:
        parts = urlsplit(self.base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise SearchUnavailable(f"{self.setting} is no http:// or https:// address")

    @property
    def safe_url(self) -> str:
        """Without what it may hold beside the address."""
        parts = urlsplit(self.base_url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def fetch_json(
    address: Address,
    method: str,
    path: str,
    *,
    seconds: float,
    params: Mapping[str, str] | None = None,
    body: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
) -> tuple[int, Any]:
    """The status, and the JSON of the answer; None if one of no success has none.

    Raises:
        SearchUnavailable: it cannot be reached, is too slow, answers too much or no JSON, or redirects.
    """
    until = time.monotonic() + seconds
    url = httpx2.URL(address.base_url.rstrip("/") + path, params=dict(params or {}))
    transport = None if address.trusted or _by_proxy(url) else PublicTransport()
    sent = _HEADERS | dict(headers or {})
    try:
        # A client for each search: searches are seconds apart, and nothing is shared between groups.
        with httpx2.Client(follow_redirects=False, headers=sent, transport=transport) as client:
            for _ in range(MAX_REDIRECTS + 1):
                status, content, target = _once(client, address, method, url, body, until)
                if target is None:
                    return status, _json(content, status, address)
                url = _same_host(url, target, address)
                if status == 303:
                    method, body = "GET", None
    except httpx2.TimeoutException:
        raise SearchUnavailable(f"{address.safe_url} did not answer within {seconds:g} s") from None
    except PrivateAddress as error:
        raise SearchUnavailable(f"{error}, or set {address.setting} if it is meant") from None
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
        raise SearchUnavailable(
            f"{address.safe_url} cannot be reached: {str(error)[:MAX_QUOTE] or type(error).__name__}"
        ) from None
    raise SearchUnavailable(f"{address.safe_url} redirects more than {MAX_REDIRECTS} times")


def _once(
    client: httpx2.Client,
    address: Address,
    method: str,
    url: httpx2.URL,
    body: Mapping[str, Any] | None,
    until: float,
) -> tuple[int, bytes, str | None]:
    """Status, body, and where it redirects to."""
    remaining = until - time.monotonic()
    if remaining <= 0:
        raise httpx2.ReadTimeout("the time is up")
    with client.stream(method, url, json=body, timeout=remaining) as response:
        if response.status_code in _REDIRECTS and "location" in response.headers:
            return response.status_code, b"", response.headers["location"]
        if response.headers.get("content-encoding", "identity") != "identity":
            raise SearchUnavailable(f"{address.safe_url} answered compressed, which was not asked for")
        content = bytearray()
        for chunk in response.iter_raw():
            content += chunk
            if len(content) > MAX_BODY_BYTES:
                raise SearchUnavailable(f"{address.safe_url} answered more than {MAX_BODY_BYTES:,} bytes")
            if time.monotonic() > until:  # the client's time-out is between two pieces, which may be small
                raise httpx2.ReadTimeout("the time is up")
        return response.status_code, bytes(content), None


def _by_proxy(url: httpx2.URL) -> bool:
    """Whether a proxy makes the connection: then its rules hold, and it looks the name up."""
    proxies = getproxies()
    return bool((proxies.get(url.scheme) or proxies.get("all")) and not proxy_bypass(url.host))


def _same_host(url: httpx2.URL, target: str, address: Address) -> httpx2.URL:
    new = url.join(target)
    if (new.scheme, new.host, new.port) != (url.scheme, url.host, url.port):
        raise SearchUnavailable(
            f"{address.safe_url} redirects to another host, {new.host[:MAX_QUOTE]}: it is not followed"
        )
    return new


def _json(content: bytes, status: int, address: Address) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        if status >= 400:
            return None
        raise SearchUnavailable(f"{address.safe_url} answered no JSON: check {address.setting}") from None


class SearXNG:
    """Thread-safe."""

    provider = "searxng"

    def __init__(self, address: Address, seconds: float) -> None:
        self._address, self._seconds = address, seconds

    def search(self, query: str, options: WebSearchOptions) -> SearchResult:
        """One page of results, those of other domains left out here. Raises :class:`SearchUnavailable`."""
        search_text = query[:MAX_QUERY_CHARS]
        if len(options.domains) == 1:  # most of the engines behind it understand this
            search_text = f"site:{options.domains[0]} {search_text}"
        params = {"q": search_text, "format": "json", "categories": options.search_type}
        status, answer = fetch_json(self._address, "GET", "/search", seconds=self._seconds, params=params)
        if status != 200 or not isinstance(answer, dict):
            raise SearchUnavailable(f"SearXNG ({self._address.safe_url}) {_searxng_problem(status)}")
        return SearchResult(
            query=query,
            provider=self.provider,
            answer=_first_answer(answer.get("answers")),
            results=hits_of(answer.get("results"), options),
        )


def _first_answer(answers: Any) -> str:
    """The first answer: a text, or an object with one."""
    first = answers[0] if isinstance(answers, list) and answers else ""
    return words(first.get("answer") if isinstance(first, dict) else first)


def _searxng_problem(status: int) -> str:
    match status:
        case 403:
            return "refuses JSON (403): add json to search.formats in its settings.yml"
        case 404:
            return "has no /search there (404): check JIYI_WEB_SEARCH_BASE_URL"
        case 429:
            return "has had too many requests (429): raise its limiter for this address"
    return f"answered {status}"


TAVILY_URL = "https://api.tavily.com"


class Tavily:
    """Thread-safe."""

    provider = "tavily"

    def __init__(self, address: Address, api_key: SecretStr, seconds: float) -> None:
        self._address, self._key, self._seconds = address, api_key, seconds

    def search(self, query: str, options: WebSearchOptions) -> SearchResult:
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
        headers = {"Authorization": f"Bearer {key}"}
        status, answer = fetch_json(
            self._address, "POST", "/search", seconds=self._seconds, body=body, headers=headers
        )
        if status != 200 or not isinstance(answer, dict):
            raise SearchUnavailable(
                f"Tavily ({self._address.safe_url}) {_tavily_problem(status, answer, key)}"
            )
        return SearchResult(
            query=query,
            provider=self.provider,
            answer=words(answer.get("answer"), MAX_CONTENT_CHARS),
            results=hits_of(answer.get("results"), options),
        )


def _tavily_problem(status: int, answer: Any, key: str) -> str:
    match status:
        case 401 | 403:  # its words may quote the key
            return f"refuses the key ({status}): check TAVILY_API_KEY"
        case 429 | 432 | 433:
            return f"has had too many requests, or the plan's limit is used up ({status})"
    detail = answer.get("detail", answer) if isinstance(answer, dict) else answer
    return f"answered {status}: {words(str(detail), MAX_QUOTE).replace(key, '…')}"


TAVILY_KEY = "TAVILY_API_KEY"


def configured_engine(settings: Settings) -> tuple[WebSearch | None, str]:
    """The engine, or None and what to set to have one.

    Raises:
        SearchUnavailable: the address that is set is none.
    """
    name, base_url, seconds = settings.web_search, settings.web_search_base_url, SECONDS
    if name == "off":
        return None, f"no web search is set up: set {SETTING} to tavily or searxng"
    if name == "searxng":
        if not base_url:
            return None, f"SearXNG has no address: set {SETTING}_BASE_URL to yours, like http://searxng:8080"
        return SearXNG(Address(base_url, trusted=True, setting=f"{SETTING}_BASE_URL"), seconds), ""
    key = os.environ.get(TAVILY_KEY, "").strip()
    if not key:
        return None, f"Tavily needs a key: set {TAVILY_KEY}"
    address = Address(base_url or TAVILY_URL, trusted=bool(base_url), setting=f"{SETTING}_BASE_URL")
    return Tavily(address, SecretStr(key), seconds), ""
