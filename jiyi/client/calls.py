"""What the client's namespaces ask through: the service's actions and questions, for one group."""

from __future__ import annotations

from typing import Any, TypeVar
from uuid import UUID

from pydantic import BaseModel, ValidationError
from pydantic_core import from_json

from jiyi.client.transports import Transport
from jiyi.errors import InvalidRequest, problems_of
from jiyi.protocol.queries import CHANGES, QUEUE
from jiyi.settings import Settings

M = TypeVar("M", bound=BaseModel)

Id = UUID | str


class Calls:
    """Asks the service on behalf of a group. Every method raises as :meth:`jiyi.client.transports.Transport.call` does."""

    def __init__(self, transport: Transport, settings: Settings, group: str) -> None:
        self.transport, self.settings, self.group = transport, settings, group

    def act(self, action: str, request: BaseModel, timeout: float | None = None, *, queue: str = CHANGES) -> Any:
        """The result of an action that changes something (``models.actions`` lists them), as plain data."""
        return self._send(f"rpc.{action}", queue, request, timeout)

    def ask(self, action: str, request: BaseModel, timeout: float | None = None) -> Any:
        """The result of an action that only reads, as plain data."""
        return self._send(f"rpc.{action}", QUEUE, request, timeout)

    def inspect(self, what: str, query: BaseModel, timeout: float | None = None) -> Any:
        """The answer to a question by its name before version 0.2."""
        return self._send(f"inspect.{what}", QUEUE, query, timeout)

    def call(self, task: str, queue: str, request: BaseModel, timeout: float | None = None) -> bytes:
        """The answer of any Celery task that replies, as JSON; the request names its group."""
        return self.transport.call(task, queue, request.model_dump(mode="json", exclude_none=True), timeout)

    def wait(self, timeout: float | None) -> float:
        """Seconds to wait: the given ones, or the deployment's request time-out."""
        return self.settings.request_timeout if timeout is None else timeout

    def _send(self, task: str, queue: str, request: BaseModel, timeout: float | None) -> Any:
        body = {"group_id": self.group, **request.model_dump(mode="json", exclude_none=True)}
        return from_json(self.transport.call(task, queue, body, timeout))


def checked(model: type[M], **fields: Any) -> M:
    """A request. Raises :class:`InvalidRequest` with a sentence per wrong field."""
    try:
        return model(**fields)
    except ValidationError as error:
        raise InvalidRequest(problems_of(error)) from None
