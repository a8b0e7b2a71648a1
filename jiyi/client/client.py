"""What an agent's program uses: ``Client.observe`` what happened, ``Client.retrieve`` what matters now; and
the same in asyncio.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator
from copy import copy
from itertools import islice
from types import TracebackType
from typing import Any, Self, TypeVar

from jiyi.client.calls import Calls, W
from jiyi.client.read_methods import ReadMethods
from jiyi.client.steps import AsyncTransport, Awaiting, Blocking, Transport
from jiyi.errors import SettingsError
from jiyi.extras import install_command
from jiyi.protocol.wire.calls import News
from jiyi.protocol.wire.signatures import key_of
from jiyi.settings import Settings, get_settings

T = TypeVar("T")


class Verbs(ReadMethods[W]):
    """Everything that both clients can do: the verbs that everybody needs, every action by its subject."""

    def __init__(self, calls: Calls) -> None:
        super().__init__(calls)
        self.settings = calls.settings

    def within(self, seconds: float) -> Self:
        """The same client, over the same connections, each call of which may take so many seconds.

        Without it a call may take the time-out of its action, else the deployment's
        (``JIYI_REQUEST_TIMEOUT``).
        """
        calls, other = copy(self._calls), copy(self)
        calls.timeout = seconds
        Verbs.__init__(other, calls)
        return other

    @property
    def group(self) -> str:
        """The group that the client speaks for; for another group make another client."""
        return self._group


class Client(Verbs[Blocking]):
    """A connection to a running Jiyi. Thread-safe; in asyncio use :class:`AsyncClient`.

    Here stand the verbs that everybody needs; every action has a method by its name:
    ``client.knowledge.promote``, ``client.jobs.run`` …

    Args:
        group: the group (tenant) to speak for; ``JIYI_GROUP`` unless given.
        settings: where the service is; the environment, or a running embedded copy, unless given.
        key: an API key, with which events and calls are signed; ``JIYI_KEY`` unless given, else the service's
            own secret where it is known (``JIYI_SECRET_KEY``, or that of the running embedded copy).
        url: of the service's REST API (``https://memory.example.org``): the way in for everybody outside of
            the service's own network, with an API key, which also says which group it is. ``JIYI_URL`` unless
            given; without one the client speaks to the broker.
        tz: the time zone whose days are meant (``Asia/Shanghai``), where neither a time's offset nor a
            question says one; ``JIYI_TZ`` unless given, else the agent's.
        transport: another way to reach the service.

    Example::

        with Client() as jiyi:
            jiyi.observe("klaus", "Klaus is reading a book on gentrification", poignancy=4, wait=True)
            for node in jiyi.retrieve("klaus", "What does Klaus read?").retrieved_nodes:
                print(node.score, node.description)
    """

    def __init__(
        self,
        group: str | None = None,
        *,
        settings: Settings | None = None,
        key: str | None = None,
        url: str | None = None,
        tz: str | None = None,
        transport: Transport | None = None,
    ) -> None:
        settings = settings or get_settings()
        self.transport: Transport = transport or _transport(settings, group, key, url)
        super().__init__(Calls(self.transport, settings, group or settings.group, tz))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Release the connections."""
        self.transport.close()

    def stream(self, *, after: str | None = None) -> Iterator[News]:
        """What changes in the group, as it changes (``docs/api.md``): after the news with this id, or from
        now on.

        Raises:
            BrokerUnavailable: the service cannot be reached, or no longer; go on with the last id.
        """
        return self.transport.watch(after)


class AsyncClient(Verbs[Awaiting]):
    """:class:`Client` in asyncio: the same arguments and verbs, each of which is awaited, or iterated over
    with ``async for``.

    Of one event loop. Any number of calls may be under way at a time, none of which holds a thread; each may
    be cancelled.

    Example::

        async with AsyncClient(url="https://memory.example.org", key="jiyi_…") as jiyi:
            await jiyi.observe("klaus", "Klaus is reading a book on gentrification", wait=True)
            async for memory in jiyi.list("klaus"):
                print(memory.created_at, memory.description)
    """

    def __init__(
        self,
        group: str | None = None,
        *,
        settings: Settings | None = None,
        key: str | None = None,
        url: str | None = None,
        tz: str | None = None,
        transport: AsyncTransport | None = None,
    ) -> None:
        settings = settings or get_settings()
        self.transport: AsyncTransport = transport or _transport(settings, group, key, url, awaits=True)
        super().__init__(Calls(self.transport, settings, group or settings.group, tz, awaits=True))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Release the connections."""
        await self.transport.close()

    def stream(self, *, after: str | None = None) -> AsyncIterator[News]:
        """What changes in the group, as it changes: see :meth:`Client.stream`."""
        return self.transport.watch(after)


def needs_broker(error: ModuleNotFoundError) -> SettingsError:
    """What is said where the broker's packages are missing."""
    over_http = "over HTTP (JIYI_URL, or Client(url=…)) they are not needed"
    return SettingsError(f"{error}: the broker needs more packages: {install_command('broker')}; {over_http}")


def _transport(
    settings: Settings, group: str | None, key: str | None, url: str | None, *, awaits: bool = False
) -> Any:
    """The way to the service. Imported late, so that importing jiyi stays light, and HTTP needs no extra.

    Raises:
        SettingsError: the broker's packages are not installed, or an address is missing.
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
