"""Memories of a running mem0 (its platform, its server, or a compatible one) or Zep, by pages over HTTP."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

import httpx2
from pydantic_core import from_json

from jiyi.errors import JiyiError, words_of
from jiyi.imports.drafts import listing, mapping

#: Memories, sessions and messages of one page, and pages of one list: more is a list without an end.
PAGE, MAX_PAGES = 100, 100_000
SECONDS = 60.0
MAX_ANSWER_BYTES = 64 * 1024 * 1024
#: Answers that say that there is no such address there.
NOT_THERE = (404, 405)


class SourceRefused(JiyiError):  # noqa: N818 – its name says what happened
    """The service that memories are to come from does not give them."""

    code = "source"


class SourceApi:
    """One service. Answers are bounded in time and size, redirects are not followed: the key would go along.

    Args:
        url: of the service.
        key: of the service, if it wants one. It is sent and shown nowhere else.
        scheme: what stands before the key in ``Authorization``.
    """

    def __init__(self, url: str, key: str | None, scheme: str) -> None:
        self.url = url.rstrip("/")
        headers = {} if not key else {"Authorization": f"{scheme} {key}", "X-API-Key": key}
        self._http = httpx2.Client(headers=headers, timeout=SECONDS, follow_redirects=False)

    def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None, **query: Any) -> Any:
        """The answer; None if there is no such address.

        Raises:
            SourceRefused: there is none, or one that is no JSON.
        """
        try:
            with self._http.stream(method, f"{self.url}{path}", json=body, params=query or None) as response:
                content = bytearray()
                for chunk in response.iter_bytes():
                    content += chunk
                    if len(content) > MAX_ANSWER_BYTES:
                        raise SourceRefused(
                            f"{self.url}{path}: its answer has more than {MAX_ANSWER_BYTES:,} bytes"
                        )
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            raise SourceRefused(
                f"{self.url}: cannot be reached: {words_of(error)}; is this its address?"
            ) from None
        if response.status_code in NOT_THERE:
            return None
        if not response.is_success:
            hint = "; give its key (--source-key)" if response.status_code in (401, 403) else ""
            raise SourceRefused(f"{self.url}{path}: answered {response.status_code}{hint}")
        try:
            return from_json(bytes(content))
        except ValueError:
            raise SourceRefused(f"{self.url}{path}: its answer is no JSON; is this its address?") from None

    def close(self) -> None:
        self._http.close()


class Mem0Source:
    """mem0: the hosted paths (``/v3``, else ``/v2``), else those of its own server."""

    def __init__(self, url: str, key: str | None, users: Sequence[str]) -> None:
        self.source, self._users = SourceApi(url, key, "Token"), list(users)

    def __iter__(self) -> Iterator[Any]:
        for user in self._users or self._known_users():
            yield from self._of(user)

    def _known_users(self) -> list[str]:
        entities = listing(mapping(self.source.ask("GET", "/v1/entities/")).get("results"))
        users = [
            str(mapping(entity).get("name")) for entity in entities if mapping(entity).get("type") == "user"
        ]
        if not users:
            raise SourceRefused(f"{self.source.url}: does not list its users; name them: --of alice --of bob")
        return users

    def _of(self, user: str) -> Iterator[Any]:
        for version in ("v3", "v2"):
            for number in range(1, MAX_PAGES):
                query, body = {"page": number, "page_size": PAGE}, {"filters": {"user_id": user}}
                page = self.source.ask("POST", f"/{version}/memories/", body, **query)
                if page is None:
                    break
                rows = _rows(page)
                yield from rows
                if len(rows) < PAGE or isinstance(page, list):
                    return
            else:
                return
        for path in ("/memories", "/v1/memories/"):
            if (page := self.source.ask("GET", path, user_id=user)) is not None:
                yield from _rows(page)
                return
        raise SourceRefused(f"{self.source.url}: has none of mem0's addresses; is it mem0's?")

    def search(self, question: str, user: str | None, limit: int) -> list[str]:
        """Texts that it has for a question, best first."""
        who = user or next(iter(self._users), None)
        user_filter = {"user_id": who} if who else {}
        for version in ("v3", "v2"):
            body = {"query": question, "top_k": limit, "filters": user_filter}
            answer = self.source.ask("POST", f"/{version}/memories/search/", body)
            if answer is not None:
                return _texts(_rows(answer), limit)
        answer = self.source.ask("POST", "/search", {"query": question, "limit": limit, **user_filter})
        return _texts(_rows(answer), limit)


class ZepSource:
    """Zep: sessions with their messages and facts; in later versions threads."""

    def __init__(self, url: str, key: str | None, users: Sequence[str]) -> None:
        base = url.rstrip("/")
        address = base if base.endswith(("/v2", "/v1")) else f"{base}/api/v2"
        self.source, self._users = SourceApi(address, key, "Api-Key"), list(users)

    def __iter__(self) -> Iterator[Any]:
        for path, field, name in (
            ("/sessions-ordered", "sessions", "session_id"),
            ("/threads", "threads", "thread_id"),
        ):
            for number in range(1, MAX_PAGES):
                page = self.source.ask("GET", path, page_number=number, page_size=PAGE)
                if page is None:
                    break
                rows = listing(mapping(page).get(field))
                for session in rows:
                    if isinstance(mapping(session).get(name), str) and (
                        not self._users or session.get("user_id") in self._users
                    ):
                        yield {
                            **session,
                            **self._messages_and_facts(f"/{field}/{quote(session[name], safe='')}"),
                        }
                if len(rows) < PAGE:
                    return
            else:
                return
        raise SourceRefused(f"{self.source.url}: has neither sessions nor threads; is it Zep's address?")

    def _messages_and_facts(self, address: str) -> dict[str, Any]:
        messages: list[Any] = []
        for _ in range(MAX_PAGES):
            answer = self.source.ask("GET", f"{address}/messages", limit=PAGE, cursor=len(messages))
            page = listing(mapping(answer).get("messages"))
            messages += page
            if len(page) < PAGE:
                break
        facts = listing(mapping(self.source.ask("GET", f"{address}/facts")).get("facts"))
        return {"messages": messages, "facts": facts}

    def search(self, question: str, user: str | None, limit: int) -> list[str]:
        """Texts that it has for a question, best first."""
        who = user or next(iter(self._users), None)
        user_filter = {"user_id": who} if who else {}
        answer = self.source.ask(
            "POST",
            "/sessions/search",
            {"text": question, "search_scope": "messages", **user_filter},
            limit=limit,
        )
        if answer is None:
            edges = self.source.ask(
                "POST", "/graph/search", {"query": question, "limit": limit, "scope": "edges", **user_filter}
            )
            return _texts(listing(mapping(edges).get("edges")), limit)
        return _texts(_rows(answer), limit)


Service = Mem0Source | ZepSource


def _rows(page: Any) -> list[Any]:
    if isinstance(page, list):
        return page
    return listing(mapping(page).get("results", mapping(page).get("memories")))


def _texts(rows: Sequence[Any], limit: int) -> list[str]:
    texts = []
    for row in map(mapping, rows):
        inner = mapping(row.get("message")) or (row["fact"] if isinstance(row.get("fact"), dict) else row)
        candidates = [inner.get(name) for name in ("memory", "fact", "content", "text")]
        texts += [text for text in candidates if isinstance(text, str)][:1]
    return list(filter(None, texts))[:limit]
