"""mem0's service, spoken to directly: search and add, bounded in time and size, at public addresses only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import SecretStr

from engine.providers.web_engines import Address, fetch_json
from jiyi.errors import ProviderUnavailable, SearchUnavailable
from jiyi.protocol.base import JsonObject

#: Seconds that one call may take.
SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Mem0:
    """An account of mem0, for a user, an agent, or both."""

    base_url: str
    api_key: SecretStr
    user_id: str | None
    agent_id: str | None

    @property
    def _whose(self) -> dict[str, str]:
        return {name: value for name, value in (("user_id", self.user_id), ("agent_id", self.agent_id)) if value is not None}

    def search(self, query: str, top_k: int, threshold: float) -> list[JsonObject]:
        """What it has that fits: of the user or of the agent. ``threshold`` below 0: no limit.

        Raises:
            ProviderUnavailable: it does not answer, refuses, or answers something unusable.
        """
        whose = [{name: value} for name, value in self._whose.items()]
        body: dict[str, Any] = {"query": query, "filters": {"OR": whose} if len(whose) > 1 else whose[0], "top_k": top_k}
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
