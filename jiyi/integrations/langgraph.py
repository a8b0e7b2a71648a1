"""LangGraph's ``BaseStore`` on Jiyi, also in an event loop (``docs/integrations.md``)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Literal, TypeVar

from langgraph.store.base import (
    NOT_PROVIDED,
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    NotProvided,
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
from langgraph.store.base.batch import AsyncBatchedBaseStore

from jiyi.client.actions import ItemsActions
from jiyi.client.calls import W, checked
from jiyi.client.client import AsyncClient, Client
from jiyi.client.steps import Steps
from jiyi.client.verbs import verb
from jiyi.protocol import items as wire
from jiyi.protocol.base import JsonMapping

T = TypeVar("T")

#: The whole value as one text.
WHOLE = "$"


class JiyiStore(BaseStore):
    """LangGraph's store over a :class:`jiyi.Client`: what graphs put is kept by the service, for the client's
    group.

    Args:
        client: how to reach the service. It stays the caller's to close.
        fields: paths in values whose texts a search with a query finds items by, as in LangGraph's
            ``IndexConfig``; the whole value unless given. None: no search by meaning; a query is then
            ignored, as LangGraph's own stores do. The service makes the vectors, with its own model.
        ttl: ``default_ttl`` (minutes) and ``refresh_on_read``, as LangGraph has them. Items past their time
            are never returned, and the service deletes them.

    The asynchronous methods take a thread each: in an event loop :class:`AsyncJiyiStore` takes none.

    Example::

        with Client(url="http://127.0.0.1:8765", key="jiyi_…") as client:
            graph = builder.compile(store=JiyiStore(client, fields=["text"]))
    """

    supports_ttl = True

    def __init__(
        self, client: Client, *, fields: Sequence[str] | None = (WHOLE,), ttl: TTLConfig | None = None
    ) -> None:
        self.client, self.fields, self.ttl_config = client, _paths(fields), ttl

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Do several things at once: what is read is as it was before, then everything is written that is to
        be, or nothing.

        Raises:
            InvalidRequest: (a ``ValueError``) with a sentence per wrong field, such as a filter's unknown
            operator.
            InvalidNamespaceError: a part of a namespace is empty or has a dot.
            BrokerUnavailable, NoAnswer, NotAllowed: as the client's methods do.
        """
        return _Batches.over(self.client.items).do(list(ops), self.fields)

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """The same in a thread."""
        return await asyncio.to_thread(self.batch, ops)

    def setup(self) -> None:
        """Nothing: the service has its tables. For programs that called it of another store."""

    def start_ttl_sweeper(self, sweep_interval_minutes: int | None = None) -> Future[None]:
        """Nothing: the service deletes items past their time."""
        future: Future[None] = Future()
        future.set_result(None)
        return future

    def stop_ttl_sweeper(self, timeout: float | None = None) -> bool:
        """Nothing; True."""
        return True


class AsyncJiyiStore(AsyncBatchedBaseStore):
    """:class:`JiyiStore` for programs in an event loop: the requests of one turn of the loop go to the
    service together.

    To be made within the loop, with an :class:`jiyi.AsyncClient`; arguments, answers and errors are those of
    :class:`JiyiStore`.
    """

    supports_ttl = True

    def __init__(
        self, client: AsyncClient, *, fields: Sequence[str] | None = (WHOLE,), ttl: TTLConfig | None = None
    ) -> None:
        super().__init__()
        self.client, self.fields, self.ttl_config = client, _paths(fields), ttl

    async def aput(
        self,
        namespace: tuple[str, ...],
        key: str,
        value: Mapping[str, Any],
        index: Literal[False] | list[str] | None = None,
        *,
        ttl: float | NotProvided | None = NOT_PROVIDED,
    ) -> None:
        """As LangGraph's; what the service would refuse fails here, and nothing that goes with it."""
        put = PutOp(namespace, key, value, index)
        validate_op_namespace(put)
        _write(put, self.fields)
        await super().aput(namespace, key, value, index, ttl=ttl)

    async def asearch(
        self,
        namespace_prefix: tuple[str, ...],
        /,
        *,
        query: str | None = None,
        filter: dict[str, Any] | None = None,  # noqa: A002 – as LangGraph's
        limit: int = 10,
        offset: int = 0,
        refresh_ttl: bool | None = None,
    ) -> list[SearchItem]:
        """As LangGraph's; what the service would refuse fails here, and nothing that goes with it."""
        search = SearchOp(namespace_prefix, filter, limit, offset, query)
        validate_op_namespace(search)
        if limit > 0:
            _search_request(search, by_meaning=self.fields is not None)
        return await super().asearch(
            namespace_prefix, query=query, filter=filter, limit=limit, offset=offset, refresh_ttl=refresh_ttl
        )

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """As :meth:`JiyiStore.batch`; searches run beside each other."""
        ops = list(ops)
        for op in ops:
            validate_op_namespace(op)
        batches = _Batches.over(self.client.items)
        results: list[Result] = [None] * len(ops)

        async def do(places: Sequence[int]) -> None:
            answers = await batches.do([ops[place] for place in places], self.fields)
            for place, result in zip(places, answers, strict=True):
                results[place] = result

        gets, puts = (
            [place for place, op in enumerate(ops) if isinstance(op, kind)] for kind in (GetOp, PutOp)
        )
        rest = sorted({*range(len(ops))} - {*gets, *puts})
        await asyncio.gather(do(gets), *(do([place]) for place in rest))
        await do(puts)
        return results

    async def setup(self) -> None:
        """Nothing: the service has its tables. For programs that called it of another store."""

    async def start_ttl_sweeper(self, sweep_interval_minutes: int | None = None) -> asyncio.Task[None]:
        """Nothing: the service deletes items past their time."""
        return asyncio.create_task(asyncio.sleep(0))

    async def stop_ttl_sweeper(self, timeout: float | None = None) -> bool:
        """Nothing; True."""
        return True


def _paths(fields: Sequence[str] | None) -> tuple[str, ...] | None:
    if isinstance(fields, str):
        raise TypeError(f"fields: a list of paths, such as [{fields!r}]")
    return None if fields is None else tuple(fields)


class _Batches(ItemsActions[W]):
    """LangGraph's operations as verbs of both clients."""

    @classmethod
    def over(cls, items: ItemsActions[W]) -> _Batches[W]:
        return cls(items._calls)  # noqa: SLF001 – the same calls

    @verb
    def do(self, ops: Sequence[Op], fields: tuple[str, ...] | None) -> Steps[list[Result]]:
        for op in ops:
            validate_op_namespace(op)
        results: list[Result] = [None] * len(ops)
        for page in _pages([(at, op) for at, op in enumerate(ops) if isinstance(op, GetOp)]):
            references = [
                checked(wire.ItemReference, namespace=[*op.namespace], key=op.key, refresh_ttl=op.refresh_ttl)
                for _, op in page
            ]
            items = (yield from ItemsActions.get.steps(self, items=references)).rows
            for (at, _), one in zip(page, items, strict=True):
                results[at] = None if one is None else Item(**_fields_of(one))
        for at, op in enumerate(ops):
            if isinstance(op, SearchOp):
                results[at] = yield from self._search(op, by_meaning=fields is not None)
            elif isinstance(op, ListNamespacesOp):
                results[at] = yield from self._namespaces(op)
            elif not isinstance(op, GetOp | PutOp):
                # As LangGraph's own stores.
                raise ValueError(f"Unknown operation type: {type(op)}")  # noqa: TRY004
        writes = {(op.namespace, op.key): _write(op, fields) for op in ops if isinstance(op, PutOp)}
        for batch in _pages(list(writes.values())):
            yield from ItemsActions.put.steps(self, items=batch)
        return results

    def _search(self, op: SearchOp, *, by_meaning: bool) -> Steps[list[SearchItem]]:
        if op.limit < 1:
            return []
        page = yield from self._call("items.search", **dict(_search_request(op, by_meaning=by_meaning)))
        return [SearchItem(**_fields_of(one), score=one.score) for one in page.rows]

    def _namespaces(self, op: ListNamespacesOp) -> Steps[list[tuple[str, ...]]]:
        match = [
            checked(wire.NamespaceMatch, kind=one.match_type, path=list(one.path))
            for one in op.match_conditions or ()
        ]
        page = yield from ItemsActions.namespaces.steps(
            self, match=match, max_depth=op.max_depth, limit=op.limit, offset=op.offset
        )
        return [tuple(one) for one in page.rows]


def _search_request(op: SearchOp, *, by_meaning: bool) -> wire.SearchItems:
    return checked(
        wire.SearchItems,
        prefix=list(op.namespace_prefix),
        query=op.query if by_meaning and op.query else None,
        filter=dict(op.filter or {}),
        limit=op.limit,
        offset=op.offset,
        refresh_ttl=op.refresh_ttl,
    )


def _write(op: PutOp, fields: tuple[str, ...] | None) -> wire.ItemWrite:
    value = None if op.value is None else dict(op.value)
    try:
        texts = [] if value is None else _texts(value, op.index, fields)
    except TypeError:
        # LangGraph writes the whole value as JSON, which has no such type: refused below, with its name.
        texts = []
    return checked(
        wire.ItemWrite, namespace=list(op.namespace), key=op.key, value=value, texts=texts, ttl_minutes=op.ttl
    )


def _texts(value: JsonMapping, index: Any, fields: tuple[str, ...] | None) -> list[str]:
    """What an item is found by, cut to what the service takes."""
    if fields is None or index is False:
        return []
    paths = fields if index is None else index
    texts = [
        text
        for path in paths
        for text in get_text_at_path(value, WHOLE if path == WHOLE else tokenize_path(path))
    ]
    return [text[: wire.MAX_TEXT_CHARS] for text in texts if text][: wire.MAX_TEXTS]


def _fields_of(item: wire.Item) -> Mapping[str, Any]:
    """What LangGraph's items have."""
    fields = {name: getattr(item, name) for name in ("key", "value", "created_at", "updated_at")}
    return {"namespace": tuple(item.namespace), **fields}


def _pages(rows: Sequence[T]) -> Iterable[Sequence[T]]:
    return (rows[start : start + wire.MAX_ITEMS] for start in range(0, len(rows), wire.MAX_ITEMS))
