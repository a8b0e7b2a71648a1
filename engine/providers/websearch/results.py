"""What comes back from a search engine, made safe: bounded, readable, with addresses that are addresses."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

from engine.providers.websearch import MAX_CONTENT_CHARS, MAX_TITLE_CHARS, MAX_URL_CHARS, SearchHit, SearchOptions
from jiyi.text.words import storable


def hits_of(found: Any, options: SearchOptions) -> list[SearchHit]:
    """The usable ones among ``found``, best first, each address once; anything else is left out."""
    hits: dict[str, SearchHit] = {}
    for item in found if isinstance(found, list) else ():
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
