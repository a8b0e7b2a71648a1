"""LangGraph's long-term memory on Jiyi: :class:`JiyiStore` wherever a graph takes a ``BaseStore`` (``docs/integrations.md``)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, TypedDict, TypeVar

from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    TTLConfig,
    get_text_at_path,
    tokenize_path,
    validate_op_namespace,
)

from jiyi.client.calls import W, checked
from jiyi.client.client import AsyncClient, Client
from jiyi.client.items import Items
from jiyi.client.steps import Steps, verb
from jiyi.protocol import items as wire
from jiyi.protocol.base import JsonMapping

T = TypeVar("T")

#: The whole value as one text.
WHOLE = "$"


class JiyiStore(BaseStore):
    """LangGraph's store over a :class:`jiyi.Client`: what graphs put is kept by the service, for the client's group.

    Args:
        client: how to reach the service. It stays the caller's to close.
        fields: paths in values whose texts a search with a query finds items by, as in LangGraph's ``IndexConfig``; the whole
            value unless given. None: no search by meaning; a query is then ignored, as LangGraph's own stores do.
            The service makes the vectors, with its own model.
        ttl: ``default_ttl`` (minutes) and ``refresh_on_read``, as LangGraph has them. Items past their time are never returned,
            and the service deletes them.
        async_client: what the asynchronous methods go through; without one they take a thread each.

    Example::

        with Client(url="http://127.0.0.1:8765", key="jiyi_…") as client:
            graph = builder.compile(store=JiyiStore(client, fields=["text"]))
    """

    supports_ttl = True

    def __init__(
        self,
        client: Client,
        *,
        fields: Sequence[str] | None = (WHOLE,),
        ttl: TTLConfig | None = None,
        async_client: AsyncClient | None = None,
    ) -> None:
        if isinstance(fields, str):
            raise TypeError(f"fields: a list of paths, such as [{fields!r}]")
        self.client, self.async_client = client, async_client
        self.fields = None if fields is None else tuple(fields)
        self.ttl_config = ttl

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Do several things at once: what is read is as it was before, then everything is written that is to be, or nothing.

        Raises:
            InvalidRequest: (a ``ValueError``) with a sentence per wrong field, such as a filter's unknown operator.
            InvalidNamespaceError: a part of a namespace is empty or has a dot.
            BrokerUnavailable, NoAnswer, NotAllowed: as the client's methods do.
        """
        return _Batches.over(self.client.items).do(list(ops), self.fields)

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """The same without holding up the event loop."""
        if self.async_client is None:
            return await asyncio.to_thread(self.batch, ops)
        return await _Batches.over(self.async_client.items).do(list(ops), self.fields)


class _Batches(Items[W]):
    """LangGraph's operations as verbs of both clients."""

    @classmethod
    def over(cls, items: Items[W]) -> _Batches[W]:
        return cls(items._calls)  # noqa: SLF001 – the same calls

    @verb
    def do(self, ops: Sequence[Op], fields: tuple[str, ...] | None) -> Steps[list[Result]]:
        for op in ops:
            validate_op_namespace(op)
        results: list[Result] = [None] * len(ops)
        for page in _pages([(at, op) for at, op in enumerate(ops) if isinstance(op, GetOp)]):
            asked = [checked(wire.ItemReference, namespace=list(op.namespace), key=op.key, refresh_ttl=op.refresh_ttl) for _, op in page]
            found = yield from Items.get_many.steps(self, asked)
            for (at, _), one in zip(page, found, strict=True):
                results[at] = None if one is None else Item(**_told(one))
        for at, op in enumerate(ops):
            if isinstance(op, SearchOp):
                results[at] = yield from self._search(op, by_meaning=fields is not None)
            elif isinstance(op, ListNamespacesOp):
                results[at] = yield from self._namespaces(op)
            elif not isinstance(op, GetOp | PutOp):
                raise ValueError(f"Unknown operation type: {type(op)}")  # noqa: TRY004 – as LangGraph's own stores
        writes = {(op.namespace, op.key): _write(op, fields) for op in ops if isinstance(op, PutOp)}
        for written in _pages(list(writes.values())):
            yield from Items.write.steps(self, written)
        return results

    def _search(self, op: SearchOp, *, by_meaning: bool) -> Steps[list[SearchItem]]:
        if op.limit < 1:
            return []
        found = yield from Items.search.steps(
            self,
            op.namespace_prefix,
            query=op.query if by_meaning and op.query else None,
            filter=op.filter,
            limit=op.limit,
            offset=op.offset,
            refresh_ttl=op.refresh_ttl,
        )
        return [SearchItem(**_told(one), score=one.score) for one in found]

    def _namespaces(self, op: ListNamespacesOp) -> Steps[list[tuple[str, ...]]]:
        match = [checked(wire.NamespaceMatch, kind=one.match_type, path=list(one.path)) for one in op.match_conditions or ()]
        found = yield from Items.namespaces.steps(self, match=match, max_depth=op.max_depth, limit=op.limit, offset=op.offset)
        return [tuple(one) for one in found]


def _write(op: PutOp, fields: tuple[str, ...] | None) -> wire.ItemWrite:
    value = None if op.value is None else dict(op.value)
    texts = [] if value is None else _texts(value, op.index, fields)
    return checked(wire.ItemWrite, namespace=list(op.namespace), key=op.key, value=value, texts=texts, ttl_minutes=op.ttl)


def _texts(value: JsonMapping, index: Any, fields: tuple[str, ...] | None) -> list[str]:
    """What an item is found by, cut to what the service takes."""
    if fields is None or index is False:
        return []
    paths = fields if index is None else index
    texts = [text for path in paths for text in get_text_at_path(value, WHOLE if path == WHOLE else tokenize_path(path))]
    return [text[: wire.MAX_TEXT_CHARS] for text in texts if text][: wire.MAX_TEXTS]


class _Kept(TypedDict):
    """What LangGraph's items have."""

    namespace: tuple[str, ...]
    key: str
    value: dict[str, Any]
    created_at: datetime
    updated_at: datetime


def _told(item: wire.Item) -> _Kept:
    return {
        "namespace": tuple(item.namespace),
        "key": item.key,
        "value": item.value,
        "created_at": item.created_at,
        "updated_at": item.updated_at,
    }


def _pages(rows: Sequence[T]) -> Iterable[Sequence[T]]:
    return (rows[start : start + wire.MAX_ITEMS] for start in range(0, len(rows), wire.MAX_ITEMS))
