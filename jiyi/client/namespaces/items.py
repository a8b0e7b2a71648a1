"""``client.items``: JSON values under a namespace and a key, for programs that keep something of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jiyi.client.calls import Calls, checked
from jiyi.protocol.items import (
    DEFAULT_FOUND,
    DEFAULT_NAMESPACES,
    FoundItems,
    GetItems,
    Item,
    ItemReference,
    ItemRows,
    ItemsWritten,
    ItemWrite,
    ListNamespaces,
    NamespaceMatch,
    Namespaces,
    PutItems,
    SearchItems,
)


class Items:
    """The group's items."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def put(
        self,
        namespace: Sequence[str],
        key: str,
        value: Mapping[str, Any],
        *,
        texts: Sequence[str] = (),
        ttl_minutes: float | None = None,
        timeout: float | None = None,
    ) -> None:
        """Store a value in place of what is there; ``texts`` are what a search with a query finds it by."""
        write = checked(ItemWrite, namespace=list(namespace), key=key, value=dict(value), texts=list(texts), ttl_minutes=ttl_minutes)
        self.write([write], timeout=timeout)

    def delete(self, namespace: Sequence[str], key: str, *, timeout: float | None = None) -> bool:
        """Delete an item; whether there was one."""
        return self.write([checked(ItemWrite, namespace=list(namespace), key=key)], timeout=timeout).deleted == 1

    def write(self, items: Sequence[ItemWrite], *, timeout: float | None = None) -> ItemsWritten:
        """Store or delete up to 500 items, all or none."""
        return ItemsWritten.model_validate(self._calls.act("items.put", checked(PutItems, items=list(items)), timeout))

    def get(self, namespace: Sequence[str], key: str, *, refresh_ttl: bool = True, timeout: float | None = None) -> Item | None:
        """One item, or None."""
        asked = checked(ItemReference, namespace=list(namespace), key=key, refresh_ttl=refresh_ttl)
        return self.get_many([asked], timeout=timeout)[0]

    def get_many(self, items: Sequence[ItemReference], *, timeout: float | None = None) -> list[Item | None]:
        """Up to 500 items in their order; None where there is none."""
        return FoundItems.model_validate(self._calls.ask("items.get", checked(GetItems, items=list(items)), timeout)).items

    def search(
        self,
        prefix: Sequence[str] = (),
        *,
        query: str | None = None,
        filter: Mapping[str, Any] | None = None,  # noqa: A002 – the field's name
        limit: int = DEFAULT_FOUND,
        offset: int = 0,
        refresh_ttl: bool = True,
        timeout: float | None = None,
    ) -> list[Item]:
        """Items below a namespace: those most similar to the query first, else those updated last."""
        request = checked(
            SearchItems, prefix=list(prefix), query=query, filter=dict(filter or {}), limit=limit, offset=offset, refresh_ttl=refresh_ttl
        )
        return ItemRows.model_validate(self._calls.ask("items.search", request, timeout)).items

    def namespaces(
        self,
        *,
        match: Sequence[NamespaceMatch] = (),
        max_depth: int | None = None,
        limit: int = DEFAULT_NAMESPACES,
        offset: int = 0,
        timeout: float | None = None,
    ) -> list[list[str]]:
        """Namespaces that have items, in alphabetical order."""
        request = checked(ListNamespaces, match=list(match), max_depth=max_depth, limit=limit, offset=offset)
        return Namespaces.model_validate(self._calls.ask("items.namespaces", request, timeout)).namespaces
