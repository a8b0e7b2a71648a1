"""What an agent's program uses: ``Client.observe`` what happened, ``Client.retrieve`` what matters now; and
the same in asyncio.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from copy import copy
from itertools import islice
from typing import Any, Self, TypeVar, Unpack
from uuid import UUID

from jiyi.client.arguments import (
    ListArguments,
    MemoryArguments,
    RecallArguments,
    RetrievalArguments,
    UpdateArguments,
)
from jiyi.client.calls import Calls, Id, W, checked
from jiyi.client.steps import AsyncTransport, Awaiting, Blocking, PageFetcher, Steps, Transport, polled
from jiyi.client.verbs import rows, verb
from jiyi.client.write_methods import WriteMethods
from jiyi.errors import InvalidRequest, SettingsError, unknown
from jiyi.extras import install_command
from jiyi.protocol.actions import ALIASES, TABLE, name_of
from jiyi.protocol.base import Made
from jiyi.protocol.erasure import ErasureState
from jiyi.protocol.memory import Memory
from jiyi.protocol.recall import ListMemories, RecalledContext, Updated
from jiyi.protocol.reflection import ReflectionState
from jiyi.protocol.retrieval import Answer, RetrievalRequest
from jiyi.protocol.tier_questions import MemoryAnswer, MemoryQuery
from jiyi.protocol.wire.calls import LiveEvent
from jiyi.protocol.wire.signatures import key_of
from jiyi.settings import Settings, get_settings

T = TypeVar("T")


class Verbs(WriteMethods[W]):
    """Everything that both clients can do: the verbs that everybody needs, every action by its subject."""

    _awaits = False
    transport: Any

    def __init__(
        self,
        group: str | None = None,
        *,
        settings: Settings | None = None,
        key: str | None = None,
        url: str | None = None,
        tz: str | None = None,
        transport: Transport | AsyncTransport | None = None,
    ) -> None:
        self.settings = settings = settings or get_settings()
        self.transport = transport or _transport(settings, group, key, url, awaits=self._awaits)
        super().__init__(Calls(self.transport, settings, group or settings.group, tz, awaits=self._awaits))

    def within(self, seconds: float) -> Self:
        """The same client, over the same connections, each call of which may take so many seconds instead of
        the time-out of its action, or the deployment's (``JIYI_REQUEST_TIMEOUT``).
        """
        calls, other = copy(self._calls), copy(self)
        calls.timeout = seconds
        WriteMethods.__init__(other, calls)
        return other

    @property
    def group(self) -> str:
        """The group that the client speaks for; for another group make another client."""
        return self._group

    @verb
    def command(self, name: str, /, timeout: float | None = None, **fields: Any) -> Steps[Any]:
        """The result of any action by its name or an alias, such as ``command("heartbeats.status",
        agent_id="companion")``.

        Raises:
            InvalidRequest: there is no such action, or with a sentence per wrong field.
        """
        declared = TABLE.get(name_of(name))
        if declared is None:
            raise InvalidRequest([f"name: {unknown(name, [*TABLE, *ALIASES], 'action')}"])
        return self._call(declared.name, timeout, **fields)

    @verb
    def retrieve(
        self,
        agent_id: str,
        focal: str | Sequence[str] = (),
        *,
        timeout: float | None = None,
        **options: Unpack[RetrievalArguments],
    ) -> Steps[Answer]:
        """The agent's memories that matter most for the focal text or texts, with every component of their
        scores.

        Instead of texts a dialogue may be given: ``messages=[{"role": "user", "content": "…"}, …]``, in its
        order.

        Raises:
            InvalidRequest: with a sentence per wrong field.
            BrokerUnavailable, NoAnswer: the service cannot be reached, or did not answer in time.
            ModelMismatch: the given vectors cannot be compared with the agent's.
        """
        texts = [focal] if isinstance(focal, str) else list(focal)
        options.setdefault("tz", self._tz)
        request = checked(RetrievalRequest, group_id=self._group, agent_id=agent_id, queries=texts, **options)
        return self._answer("retrieval.retrieve", self._queue(agent_id), request, Answer, timeout)

    @verb
    def context(
        self, agent_id: str, query: str, *, timeout: float | None = None, **options: Unpack[RecallArguments]
    ) -> Steps[RecalledContext]:
        """The text to put into a prompt: the agent's memories that matter most for the query, a dated line
        each.

        Raises as :meth:`retrieve` does. ``client.knowledge.context`` has the tiers,
        ``client.conversations.context`` what was said in conversations, in sections.
        """
        return self._call("memory.context", timeout, agent_id=agent_id, query=query, **options)

    @verb
    def get(self, node_id: Id, *, user_id: str | None = None, timeout: float | None = None) -> Steps[Memory]:
        """One memory with everything but its vector, if the user may see it. Raises :class:`NotFound`."""
        return self._call("memory.get", timeout, id=node_id, user_id=user_id)

    @rows
    def list(
        self,
        agent_id: str | None = None,
        *,
        page_size: int | None = None,
        timeout: float | None = None,
        **filters: Unpack[ListArguments],
    ) -> PageFetcher[Memory]:
        """Memories, newest first, one after another; pages are fetched as they are needed.

        Args:
            agent_id: whose; the whole group's unless given.
            page_size: memories that are fetched at once.
            timeout: seconds for a page.
            filters: all that are given must hold.
        """
        fields: dict[str, Any] = {
            "agent_id": agent_id,
            **filters,
            **({} if page_size is None else {"limit": page_size}),
        }
        checked(ListMemories, **fields)  # what is wrong is said now, not with the first page
        return lambda cursor: self._call("memory.list", timeout, **fields, cursor=cursor)

    @verb
    def update(
        self,
        node_id: Id,
        description: str | None = None,
        *,
        importance: float | None = None,
        wait: bool = False,
        timeout: float | None = None,
        **fields: Unpack[UpdateArguments],
    ) -> Steps[UUID]:
        """Correct a memory; returns the id of its new version, which is found instead of it from now on.

        The older version stays, with the date at which it ended: ``get`` has it, ``list`` and ``retrieve``
        with ``superseded``. What is not given stays as it was.

        Args:
            node_id: the memory's current version.
            description: what is so instead.
            importance: another name of ``poignancy``.
            wait: return only when the new version is retrievable.
            timeout: seconds for the answer, and for ``wait``.
            fields: ``keywords``, ``occurred_at`` (since when it is so), ``event_id`` (the id of the new
            version), ``expires_at`` …

        Raises:
            InvalidRequest: with a sentence per wrong field; or it is no longer current, or was said in a
            conversation.
            NotFound: there is no such memory.
        """
        changes: dict[str, Any] = {"id": node_id, **fields}
        changes |= {
            name: value
            for name, value in (("description", description), ("importance", importance))
            if value is not None
        }
        result: Updated = yield from self._call("memory.update", timeout, **changes)
        if wait:
            yield from WriteMethods.wait_for.steps(self, [result.node_id], timeout)
        return result.node_id

    @verb
    def delete(self, node_id: Id, *, timeout: float | None = None) -> Steps[UUID]:
        """Erase one memory for good, with all that was derived from it and its words in what was said;
        returns the erasure's id at once.

        ``client.erasure.wait_for`` waits for it, and gives the report that proves it. Older versions are
        memories of their own.

        Raises:
            NotFound: there is no such memory.
        """
        erasure: ErasureState = yield from self._call("erasure.request", timeout, node_ids=[node_id])
        return erasure.erasure_id

    @verb
    def reflect(
        self, agent_id: str, *, wait: bool = True, timeout: float | None = None
    ) -> Steps[ReflectionState]:
        """Let an agent reflect on its latest memories, now; its thoughts, each with its evidence.

        Args:
            agent_id: who is to reflect.
            wait: return only when it is done; else at once, with a pending reflection.
            timeout: seconds for ``wait``; the deployment's request time-out unless given.

        Raises:
            NotFound: no such agent.
            NoAnswer: (``wait``) it is not done within the time given; it goes on.
        """
        request: Made = yield from self._call("reflection.request", agent_id=agent_id)
        limit = self._wait(timeout)

        def late(state: ReflectionState) -> str:
            why = f": {state.error}" if state.error else ""
            return f"the reflection {state.reflection_id} is {state.state} after {limit:g} s{why}; it goes on"

        def look() -> Steps[ReflectionState]:
            return self._call("reflection.get", id=request.id)

        return (yield from polled(look, lambda state: state.final or not wait, limit, late))

    @verb
    def query_memory(
        self,
        query: str,
        *,
        group_id: str | None = None,
        timeout: float | None = None,
        **options: Unpack[MemoryArguments],
    ) -> Steps[MemoryAnswer]:
        """What working and long-term memory of the group know about a text, with the state of each tier.

        Raises as :meth:`retrieve` does, and TooManyQuestions.
        """
        group = group_id or self._group
        request = checked(MemoryQuery, group_id=group, query=query, **options)
        return self._answer("retrieval.memory", self._queue("", group), request, MemoryAnswer, timeout)


class Client(Verbs[Blocking]):
    """A connection to a running Jiyi. Thread-safe; in asyncio use :class:`AsyncClient`.

    Here stand the verbs that everybody needs; every action has a method by its name:
    ``client.knowledge.promote``, ``client.jobs.run`` …

    Args:
        group: the group (tenant) to speak for; ``JIYI_GROUP`` unless given.
        settings: where the service is; the environment, or a running embedded copy, unless given.
        key: an API key, with which events and calls are signed; ``JIYI_KEY`` unless given, else the service's
            own secret where it is known (``JIYI_SECRET_KEY``, or that of the running embedded copy).
        url: of the service's REST API (``https://memory.example.org``): the entry point for everybody outside
            of the service's own network, with an API key, which also says which group it is. ``JIYI_URL``
            unless given; without one the client speaks to the broker.
        tz: the time zone whose days are meant (``Asia/Shanghai``), where neither a time's offset nor a
            question says one; ``JIYI_TZ`` unless given, else the agent's.
        transport: another way to reach the service.

    Example::

        with Client() as jiyi:
            jiyi.observe("klaus", "Klaus is reading a book on gentrification", poignancy=4, wait=True)
            for node in jiyi.retrieve("klaus", "What does Klaus read?").retrieved_nodes:
                print(node.score, node.description)
    """

    transport: Transport

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the connections."""
        self.transport.close()

    def stream(self, *, after: str | None = None) -> Iterator[LiveEvent]:
        """Live events of what changes in the group (``docs/api.md``): after the one with this id, or from
        now on.

        Raises:
            BrokerUnavailable: the service cannot be reached, or no longer; go on with the last id.
        """
        return self.transport.watch(after)


class AsyncClient(Verbs[Awaiting]):
    """:class:`Client` in asyncio: the same arguments and verbs, awaited, or iterated over with ``async for``.

    Of one event loop. Any number of calls may be under way, none of which holds a thread; each may be
    cancelled.

    Example::

        async with AsyncClient(url="https://memory.example.org", key="jiyi_…") as jiyi:
            await jiyi.observe("klaus", "Klaus is reading a book on gentrification", wait=True)
            async for memory in jiyi.list("klaus"):
                print(memory.created_at, memory.description)
    """

    _awaits = True
    transport: AsyncTransport

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Release the connections."""
        await self.transport.close()

    def stream(self, *, after: str | None = None) -> AsyncIterator[LiveEvent]:
        """What changes in the group, as it changes: see :meth:`Client.stream`."""
        return self.transport.watch(after)


def needs_broker(error: ModuleNotFoundError) -> SettingsError:
    """What is said where the broker's packages are missing."""
    over_http = "over HTTP (JIYI_URL, or Client(url=…)) they are not needed"
    return SettingsError(f"{error}: the broker needs more packages: {install_command('broker')}; {over_http}")


def _transport(
    settings: Settings, group: str | None, key: str | None, url: str | None, *, awaits: bool
) -> Any:
    """The way to the service. Imported late: importing jiyi stays light, and HTTP needs no extra. Raises
    SettingsError for missing packages or addresses.
    """
    key = settings.key.get_secret_value() if key is None else key
    address = settings.url if url is None else url
    if address:
        from jiyi.client import http

        key_of(key)  # its form
        return (http.AsyncHttpTransport if awaits else http.HttpTransport)(address, settings, group, key)
    try:
        from jiyi.client import broker
    except ModuleNotFoundError as error:
        raise needs_broker(error) from None
    cls = broker.AsyncBrokerTransport if awaits else broker.BrokerTransport
    return cls(settings, group or settings.group, key_of(key))


def chunks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Lists of ``size`` items, the last one shorter."""
    iterator = iter(items)
    while chunk := list(islice(iterator, size)):
        yield chunk
