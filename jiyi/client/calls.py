"""What the client's verbs ask through: the service's actions and questions, for one group."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Generic, TypeVar
from uuid import UUID

from pydantic import BaseModel, TypeAdapter, ValidationError

from jiyi.client.steps import Call, Steps, run, run_async
from jiyi.errors import InvalidRequest, problems_of
from jiyi.protocol.actions import TABLE
from jiyi.protocol.wire.calls import retrieval_queue
from jiyi.settings import Settings
from jiyi.zones import zone_of

M = TypeVar("M", bound=BaseModel)
R = TypeVar("R")
T = TypeVar("T")
#: :class:`jiyi.client.steps.Blocking` or :class:`jiyi.client.steps.Awaiting`.
W = TypeVar("W")

Id = UUID | str
#: Actions that are answered by the worker that has the agent's index; and those whose days are the client's.
OF_AN_INDEX = frozenset({"memory.context", "conversations.context"})
IN_TIME_ZONE = OF_AN_INDEX | {"appointments.ask"}


class Calls:
    """The service as a client asks it on behalf of a group; ``awaits``: in asyncio."""

    #: Seconds that :meth:`jiyi.Client.within` gives each call; None: what the action and the deployment say.
    timeout: float | None = None

    def __init__(
        self, transport: Any, settings: Settings, group: str, tz: str | None = None, *, awaits: bool = False
    ) -> None:
        self.transport, self.settings, self.group, self.awaits = transport, settings, group, awaits
        self.tz = own_zone(settings, tz)

    def do(self, verb: Callable[[], Steps[T]]) -> Any:
        """The result of a verb; in asyncio an awaitable, which also says what is wrong with the arguments."""
        return self._do_later(verb) if self.awaits else run(verb(), self.transport)

    async def _do_later(self, verb: Callable[[], Steps[T]]) -> T:
        return await run_async(verb(), self.transport)


class Namespace(Generic[W]):
    """Verbs of both clients, ``W`` says of which; they are made of steps (:mod:`jiyi.client.steps`)."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._group, self._settings, self._tz = calls.group, calls.settings, calls.tz

    def _call(self, action: str, /, timeout: float | None = None, **fields: Any) -> Steps[Any]:
        """The result of an action (:mod:`jiyi.protocol.actions` lists them); its request has these fields."""
        declared = TABLE[action]
        if action in IN_TIME_ZONE:
            fields["tz"] = fields.get("tz") or self._tz
        request = checked(declared.request, **fields)
        queue = self._queue(fields["agent_id"]) if action in OF_AN_INDEX else declared.queue
        timeout = first_of(timeout, self._calls.timeout, declared.seconds)
        body = {"group_id": self._group, **request.model_dump(mode="json", exclude_none=True)}
        call = Call(f"rpc.{action}", queue, body, timeout, reads=not declared.mutates)
        return self._of(call, declared.result)

    def _queue(self, agent_id: str, group: str | None = None) -> str:
        """Of the worker that has the agent's index."""
        return retrieval_queue(group or self._group, agent_id, self._settings.retrieval_shards)

    def _answer(
        self, task: str, queue: str, request: BaseModel, result: type[R], timeout: float | None
    ) -> Steps[R]:
        """What a Celery task that replies answers to a request that names its group."""
        body = request.model_dump(mode="json", exclude_none=True)
        return self._of(Call(task, queue, body, first_of(timeout, self._calls.timeout), reads=True), result)

    @staticmethod
    def _of(call: Call, result: type[R]) -> Steps[R]:
        answer: bytes = yield call
        value: R = _ADAPTERS(result).validate_json(answer)
        return value

    def _wait(self, timeout: float | None) -> float:
        """Seconds to wait: the given ones, or the deployment's request time-out."""
        seconds = first_of(timeout, self._calls.timeout)
        return self._settings.request_timeout if seconds is None else seconds


def first_of(*seconds: float | None) -> float | None:
    """The first time-out that is given."""
    return next((one for one in seconds if one is not None), None)


def own_zone(settings: Settings, tz: str | None) -> str | None:
    """The time zone that a client speaks for: its own, or ``JIYI_TZ``; None: the agents'. Raises
    InvalidRequest for an unknown one.
    """
    if tz is None:
        return settings.tz if "tz" in settings.model_fields_set else None
    try:
        zone_of(tz)
    except ValueError as error:
        raise InvalidRequest([f"tz: {error}"]) from None
    return tz


def checked(model: type[M], **fields: Any) -> M:
    """A request. Raises :class:`InvalidRequest` with a sentence per wrong field."""
    try:
        return model(**fields)
    except ValidationError as error:
        raise InvalidRequest(problems_of(error, model)) from None


#: A type's adapter is made once.
_ADAPTERS: Callable[[Any], TypeAdapter[Any]] = lru_cache(maxsize=256)(TypeAdapter)
