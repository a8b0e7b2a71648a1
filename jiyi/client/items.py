"""``client.items``: JSON values under a namespace and a key, for programs that keep something of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jiyi.client.calls import Namespace, W, checked
from jiyi.client.steps import Steps, verb
from jiyi.protocol import items as wire
from jiyi.protocol.base import Rows


class Items(Namespace[W]):
    """The group's items."""

    @verb
    def put(
        self,
        namespace: Sequence[str],
        key: str,
        value: Mapping[str, Any],
        *,
        texts: Sequence[str] = (),
        ttl_minutes: float | None = None,
        timeout: float | None = None,
    ) -> Steps[None]:
        """Store a value in place of what is there; ``texts`` are what a search with a query finds it by."""
        write = checked(wire.ItemWrite, namespace=list(namespace), key=key, value=dict(value), texts=list(texts), ttl_minutes=ttl_minutes)
        yield from Items.write.steps(self, [write], timeout=timeout)

    @verb
    def delete(self, namespace: Sequence[str], key: str, *, timeout: float | None = None) -> Steps[bool]:
        """Delete an item; whether there was one."""
        write = checked(wire.ItemWrite, namespace=list(namespace), key=key)
        written = yield from Items.write.steps(self, [write], timeout=timeout)
        return written.deleted == 1

    @verb
    def write(self, items: Sequence[wire.ItemWrite], *, timeout: float | None = None) -> Steps[wire.ItemsWritten]:
        """Store or delete up to 500 items, all or none."""
        return self._call("items.put", timeout, items=list(items))

    @verb
    def get(self, namespace: Sequence[str], key: str, *, refresh_ttl: bool = True, timeout: float | None = None) -> Steps[wire.Item | None]:
        """One item, or None."""
        asked = checked(wire.ItemReference, namespace=list(namespace), key=key, refresh_ttl=refresh_ttl)
        answer = yield from Items.get_many.steps(self, [asked], timeout=timeout)
        return answer[0]

    @verb
    def get_many(self, items: Sequence[wire.ItemReference], *, timeout: float | None = None) -> Steps[list[wire.Item | None]]:
        """Up to 500 items in their order; None where there is none."""
        answer: Rows[wire.Item | None] = yield from self._call("items.get", timeout, items=list(items))
        return answer.rows

    @verb
    def search(
        self,
        prefix: Sequence[str] = (),
        *,
        query: str | None = None,
        filter: Mapping[str, Any] | None = None,  # noqa: A002 – the field's name
        limit: int = wire.DEFAULT_FOUND,
        offset: int = 0,
        refresh_ttl: bool = True,
        timeout: float | None = None,
    ) -> Steps[list[wire.Item]]:
        """Items below a namespace: those most similar to the query first, else those updated last."""
        answer: Rows[wire.Item] = yield from self._call(
            "items.search",
            timeout,
            prefix=list(prefix),
            query=query,
            filter=dict(filter or {}),
            limit=limit,
            offset=offset,
            refresh_ttl=refresh_ttl,
        )
        return answer.rows

    @verb
    def namespaces(
        self,
        *,
        match: Sequence[wire.NamespaceMatch] = (),
        max_depth: int | None = None,
        limit: int = wire.DEFAULT_NAMESPACES,
        offset: int = 0,
        timeout: float | None = None,
    ) -> Steps[list[list[str]]]:
        """Namespaces that have items, in alphabetical order."""
        answer: Rows[list[str]] = yield from self._call(
            "items.namespaces", timeout, match=list(match), max_depth=max_depth, limit=limit, offset=offset
        )
        return answer.rows
