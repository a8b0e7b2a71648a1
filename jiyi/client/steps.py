"""Steps of a method of both clients: calls, messages of events, pauses. :class:`jiyi.Client` takes one after
another, :class:`jiyi.AsyncClient` awaits them, through a transport (:mod:`jiyi.client.broker`,
:mod:`jiyi.client.http`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from random import SystemRandom
from typing import Any, ParamSpec, Protocol, TypeVar

from jiyi import tracing
from jiyi.errors import BrokerUnavailable, DatabaseUnavailable, NoAnswer, TooManyQuestions
from jiyi.polling import FIRST_POLL, LAST_POLL
from jiyi.protocol.base import JsonMapping, Rows
from jiyi.protocol.wire.calls import LiveEvent

T = TypeVar("T")
P = ParamSpec("P")

#: Nothing came of it, so that it may be tried again.
AWAY = (BrokerUnavailable, DatabaseUnavailable)
#: Seconds for which what is refused with :class:`jiyi.errors.TooManyQuestions` is sent again: longer than the
#: minute over which the service counts.
PATIENCE_SECONDS = 70.0


class Blocking:
    """Marks namespaces whose verbs return when they are done."""


class Awaiting:
    """Marks namespaces whose verbs are awaited."""


@dataclass(frozen=True, slots=True)
class Call:
    """A question or a change, as :meth:`jiyi.client.steps.Transport.call` takes it; its answer is JSON."""

    name: str
    queue: str
    request: dict[str, Any]
    timeout: float | None
    #: It changes nothing: if the service cannot be reached it is asked again.
    reads: bool = False


@dataclass(frozen=True, slots=True)
class EventMessage:
    """A message of events. Each has an id, so that sending it again is harmless."""

    body: bytes
    routing_key: str


@dataclass(frozen=True, slots=True)
class Pause:
    """Seconds to wait."""

    seconds: float


Step = Call | EventMessage | Pause
#: What a verb's function is: it yields steps, each of which gives it JSON (of a call) or nothing, and returns
#: its result.
Steps = Generator[Step, Any, T]
#: Of a list: the steps to a page, given the cursor that the page before ended with (None: the first).
PageFetcher = Callable[[str | None], Steps[Rows[T]]]


def run(steps: Steps[T], transport: Transport) -> T:
    """The result of a verb, when it is there."""
    tries = _tries(steps, transport)
    try:
        step = next(tries)
        while True:
            try:
                answer = _take(step, transport)
            except Exception as error:  # noqa: BLE001 – the verb says what to make of it
                step = tries.throw(error)
            else:
                step = tries.send(answer)
    except StopIteration as end:
        result: T = end.value
        return result


async def run_async(steps: Steps[T], transport: AsyncTransport) -> T:
    """The same in asyncio. Cancelling it takes effect at once: nothing further is sent."""
    tries = _tries(steps, transport)
    try:
        step = next(tries)
        while True:
            try:
                answer = await _take_async(step, transport)
            except Exception as error:  # noqa: BLE001 – the verb says what to make of it
                step = tries.throw(error)
            else:
                step = tries.send(answer)
    except StopIteration as end:
        result: T = end.value
        return result
    finally:
        tries.close()


def _tries(steps: Steps[T], transport: Transport | AsyncTransport) -> Steps[T]:
    """A verb's steps, with each tried again where it may be."""
    try:
        step = next(steps)
        while True:
            try:
                answer = yield from _tries_of(step, transport)
            except Exception as error:  # noqa: BLE001 – the verb says what to make of it
                step = steps.throw(error)
            else:
                step = steps.send(answer)
    except StopIteration as end:
        result: T = end.value
        return result
    finally:
        steps.close()


def _tries_of(step: Step, transport: Transport | AsyncTransport) -> Steps[Any]:
    """One step, tried again after a pause: when the service is away, and, as long as deployment and caller
    give time, when it is refused.
    """
    seconds: float = getattr(transport, "patience", 0.0)
    timeout = step.timeout if isinstance(step, Call) else None
    policy = RetryPolicy(seconds if timeout is None else min(seconds, timeout))
    while True:
        try:
            for pause in _retries(step, transport):
                with suppress(*AWAY):
                    return (yield step)
                yield Pause(pause)
            return (yield step)
        except TooManyQuestions as refusal:
            pause = policy.pause(refusal)
        yield Pause(pause)
        if isinstance(step, Call) and step.timeout is not None:
            step = replace(step, timeout=min(step.timeout, policy.left))


def _take(step: Step, transport: Transport) -> Any:
    match step:
        case Call():
            with tracing.span(step.name, "client"):
                return transport.call(step.name, step.queue, step.request, step.timeout)
        case EventMessage():
            with tracing.span(f"send {step.routing_key}", "producer"):
                return transport.publish(step.body, step.routing_key)
        case Pause():
            return time.sleep(step.seconds)


async def _take_async(step: Step, transport: AsyncTransport) -> Any:
    match step:
        case Call():
            with tracing.span(step.name, "client"):
                return await transport.call(step.name, step.queue, step.request, step.timeout)
        case EventMessage():
            with tracing.span(f"send {step.routing_key}", "producer"):
                return await transport.publish(step.body, step.routing_key)
        case Pause():
            return await asyncio.sleep(step.seconds)


def _retries(step: Step, transport: Transport | AsyncTransport) -> tuple[float, ...]:
    """Seconds before each further try: of what reads, and of events, which count once in any case."""
    pauses: tuple[float, ...] = getattr(transport, "retries", ())
    return pauses if isinstance(step, EventMessage) or (isinstance(step, Call) and step.reads) else ()


def polled(
    look: Callable[[], Steps[T]],
    final: Callable[[T], bool],
    seconds: float,
    late: Callable[[T], str] | None = None,
) -> Steps[T]:
    """:func:`jiyi.polling.poll` in steps. Raises :class:`NoAnswer` as it does."""
    deadline, pause = time.monotonic() + seconds, FIRST_POLL
    while not final(result := (yield from look())):
        if time.monotonic() > deadline:
            if late is not None:
                raise NoAnswer(late(result))
            break
        yield Pause(pause)
        pause = min(pause * 2, LAST_POLL)
    return result


#: Tries of one request beyond the first: what the pauses below come to in two minutes.
MOST = 16
#: Seconds before the next try: as many as the service names, and at least the first, doubled up to the last
#: with each refusal.
FIRST, LAST = 1.0, 8.0
#: Seconds, at most, that are added at random, so that callers that were refused together do not come back
#: together.
SPREAD = 0.5


class RetryPolicy:
    """How long one request may still be sent again. ``seconds``: for all pauses together, from now on."""

    def __init__(self, seconds: float) -> None:
        self._until = time.monotonic() + seconds
        self._refusals = 0

    def pause(self, refusal: TooManyQuestions) -> float:
        """Seconds to wait before the next try. Raises the refusal if there would be no time left for one."""
        least = min(FIRST * 2.0**self._refusals, LAST)
        self._refusals += 1
        requested = 0.0 if refusal.retry_after is None else refusal.retry_after
        seconds = max(requested, least) + SystemRandom().uniform(0, SPREAD)
        if self._refusals > MOST or seconds >= self.left:
            raise refusal
        return seconds

    @property
    def left(self) -> float:
        """Seconds, at least 0."""
        return max(0.0, self._until - time.monotonic())


class Transport(Protocol):
    """Carries events and calls. Implementations are thread-safe."""

    #: Seconds before each further try of what may be tried again, if the service cannot be reached.
    retries: tuple[float, ...]
    #: Seconds for which what is refused with :class:`jiyi.errors.TooManyQuestions` is sent again.
    patience: float

    def publish(self, body: bytes, routing_key: str) -> None:
        """Hand over one message of events (:func:`jiyi.protocol.event_bodies.messages`), durably.

        Raises:
            BrokerUnavailable: nothing was published.
        """

    def call(self, name: str, queue: str, request: JsonMapping, timeout: float | None) -> bytes:
        """The answer to a request, as JSON.

        Args:
            name: of the action or question.
            queue: the Celery queue that answers it; a transport that does not speak to Celery ignores it.
            request: JSON.
            timeout: seconds; None: the deployment's request time-out.

        Raises:
            BrokerUnavailable: the service cannot be reached.
            NoAnswer: nothing came back in time.
            JiyiError: what the service answered instead, as the class of its code.
        """

    def watch(self, after: str | None) -> Iterator[LiveEvent]:
        """Live events of what changes in the group: after the one with this id, or from now on. Ends with
        the connection.

        Raises:
            BrokerUnavailable: the service cannot be reached, or no longer.
        """

    def close(self) -> None:
        """Release the connections."""


class AsyncTransport(Protocol):
    """The same in asyncio, of one event loop: many calls at a time, each of which may be cancelled."""

    retries: tuple[float, ...]
    patience: float

    async def publish(self, body: bytes, routing_key: str) -> None:
        """As :meth:`Transport.publish`."""

    async def call(self, name: str, queue: str, request: JsonMapping, timeout: float | None) -> bytes:
        """As :meth:`Transport.call`."""

    def watch(self, after: str | None) -> AsyncIterator[LiveEvent]:
        """As :meth:`Transport.watch`."""

    async def close(self) -> None:
        """Release the connections."""
