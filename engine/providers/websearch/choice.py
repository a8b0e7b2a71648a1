"""Which search engine the settings mean."""

from __future__ import annotations

import os

from pydantic import SecretStr

from engine.providers.websearch import SETTING, WebSearch
from jiyi.settings import Settings

#: Seconds that one web search may take.
SECONDS = 5.0

#: Where a key is looked for after the setting.
TAVILY_KEY = "TAVILY_API_KEY"


def chosen(settings: Settings) -> tuple[WebSearch | None, str]:
    """The engine, or None and what to set to have one.

    Raises:
        SearchUnavailable: the address that is set is none.
    """
    name, base_url, seconds = settings.web_search, settings.web_search_base_url, SECONDS
    if name == "off":
        return None, f"no web search is set up: set {SETTING} to tavily or searxng"
    from engine.providers.websearch.fetching import Address  # the HTTP client is the service's

    if name == "searxng":
        from engine.providers.websearch.searxng import SearXNG

        if not base_url:
            return None, f"SearXNG has no address: set {SETTING}_BASE_URL to yours, like http://searxng:8080"
        return SearXNG(Address(base_url, trusted=True, setting=f"{SETTING}_BASE_URL"), seconds), ""
    from engine.providers.websearch.tavily import BASE_URL, Tavily

    key = settings.web_search_api_key.get_secret_value().strip() or os.environ.get(TAVILY_KEY, "").strip()
    if not key:
        return None, f"Tavily needs a key: set {SETTING}_API_KEY or {TAVILY_KEY}"
    address = Address(base_url or BASE_URL, trusted=bool(base_url), setting=f"{SETTING}_BASE_URL")
    return Tavily(address, SecretStr(key), seconds), ""
