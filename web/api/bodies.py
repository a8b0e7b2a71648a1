"""Bodies of requests: bounded in bytes and in what they become, before any of it is made.

A body of small objects takes thirty times its size once it is parsed, and Python's lock is held meanwhile. So
bodies are small but where events, imports and texts come in; the number of objects and lists is bounded; and
large bodies come one after the other.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain

from flask import g, request
from pydantic import BaseModel, ValidationError
from pydantic_core import from_json
from werkzeug.exceptions import RequestEntityTooLarge

from jiyi.errors import first_of
from jiyi.protocol import limits
from jiyi.protocol.actions import TABLE, name_of
from jiyi.protocol.base import NUL_ESCAPE, unstorable
from jiyi.protocol.events import CONTENT_TYPE
from jiyi.protocol.limits import BODIES_BYTES, BODY_BYTES, BODY_PATIENCE, RETRY_SECONDS, SMALL_BODY_BYTES
from jiyi.protocol.openapi.document import field_problem
from jiyi.protocol.wire.bounds import MESSAGE, TooMuchError
from jiyi.protocol.wire.json_checks import repeated_key, sentence, wrong_types
from web.api.problems import RequestRefused, refusal_of
from web.api.registry import ApiOperation

#: Bytes read at a time of a body that is refused.
CHUNK = 65_536


class BodyRoom:
    """Bytes of bodies in hand, ``most`` together; a larger one has it all for itself. Thread-safe."""

    def __init__(self, most: int) -> None:
        self._most, self._free = most, threading.Condition()
        self.taken = 0

    def take(self, size: int, seconds: float) -> int:
        """Wait for room for so many bytes; how many were taken, to be given back; 0: none in time."""
        size = min(size, self._most)
        until = time.monotonic() + seconds
        with self._free:
            while self.taken + size > self._most:
                if not self._free.wait(until - time.monotonic()) and time.monotonic() >= until:
                    return 0
            self.taken += size
        return size

    def give_back(self, size: int) -> None:
        with self._free:
            self.taken -= size
            self._free.notify_all()


#: This process's.
ROOM = BodyRoom(BODIES_BYTES)


@contextmanager
def room_for_body() -> Iterator[None]:
    """Reserves memory for a large body until the block ends or it is released.

    Raises:
        RequestRefused: there is no room in time.
    """
    size = request.content_length or 0
    if size <= SMALL_BODY_BYTES:
        yield
        return
    g.body_room = ROOM.take(size, BODY_PATIENCE)
    if not g.body_room:
        drain(size)
        raise RequestRefused(
            503,
            "Other large requests are being read; send fewer, or smaller ones, at a time.",
            Retry_After=str(RETRY_SECONDS),
        )
    try:
        yield
    finally:
        give_back_room()


def give_back_room() -> None:
    """The body is no longer in memory: to be called before a long wait. A second time it does nothing."""
    if size := g.pop("body_room", 0):
        ROOM.give_back(size)


def read_body(operation: ApiOperation, model: type[BaseModel], action: str | None) -> BaseModel:
    """The request's body, checked.

    Args:
        operation: what it is the body of.
        model: what it has to be.
        action: the name, or an alias, of the action that it is the request of, if it is one.

    Raises:
        RequestRefused: too large, no JSON, or not what the model takes.
    """
    data = _data(_limit(operation, action))
    if not data and not operation.body_required:
        return model()
    if request.mimetype != CONTENT_TYPE:
        raise RequestRefused(415, f"The body must be JSON, with the header Content-Type: {CONTENT_TYPE}.")
    return checked_body(model, data)


def checked_body(model: type[BaseModel], data: bytes) -> BaseModel:
    """A body of these bytes. Raises as :func:`read_body` does."""
    try:
        MESSAGE.check(data)
    except TooMuchError as error:
        if error.deep:
            raise RequestRefused(422, f"The body has {error}.") from None
        raise RequestRefused(413, f"The body has {error}; send several requests.") from None
    if (repeated := repeated_key(data)) is not None:
        raise RequestRefused(422, sentence(repeated), [field_problem(sentence(repeated))])
    try:
        body = model.model_validate_json(data)
    except ValidationError as error:
        raise refusal_of(error, model) from None
    texts = unstorable(body.model_dump(warnings=False)) if NUL_ESCAPE in data else ()
    if problems := first_of(chain(texts, wrong_types(model, from_json(data)))):
        raise RequestRefused(422, "; ".join(problems), map(field_problem, problems))
    return body


def _limit(operation: ApiOperation, action: str | None) -> int:
    declared = None if action is None else TABLE.get(name_of(action))
    return (
        limits.MAX_MESSAGE_BYTES
        if operation.large or (declared is not None and declared.large)
        else BODY_BYTES
    )


def _data(limit: int) -> bytes:
    request.max_content_length = limit
    try:
        return request.get_data(cache=False)
    except RequestEntityTooLarge:
        drain(limits.MAX_MESSAGE_BYTES)
        raise RequestRefused(413, f"The body has more than {limit:,} bytes; send several requests.") from None


def drain(most: int) -> None:
    """Read on, within bounds: a client that still sends would otherwise get no answer."""
    while most > 0 and (chunk := request.environ["wsgi.input"].read(min(most, CHUNK))):
        most -= len(chunk)
