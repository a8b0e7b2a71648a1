"""A call's reply on the wire, the queue that answers, the live events of the stream, and the errors for a
failed broker or Valkey.

A reply is JSON, ``{"value": …}`` or ``{"error": {"code", "message", "problems"}}`` (with ``retry_after``
where that is known), on an expiring Redis list of its own.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any, Literal

from pydantic import BaseModel, Field
from pydantic_core import from_json, to_json

from jiyi.errors import BY_CODE, JiyiError, ServiceError, TooManyQuestions
from jiyi.text.translatable import Translatable

#: The ``actor`` of a retrieval that nobody asked for, such as a look from the admin: it is not noted
#: (``models.retrieval.records``).
NOBODY = ""
REPLY_KEY = "jiyi:reply:"
#: An answer that nobody fetches (a caller that gave up) is gone after this.
REPLY_SECONDS = 30
#: What stands around a reply's value (:func:`reply_of`).
VALUE_OPEN, VALUE_CLOSE = b'{"value":', b"}"


def retrieval_queues(shards: int) -> list[str]:
    """The queues that retrievals are spread over."""
    return ["retrieval"] if shards == 1 else [f"retrieval.{shard}" for shard in range(shards)]


def retrieval_queue(group_id: str, agent_id: str, shards: int) -> str:
    """An agent's retrievals always go to the same queue, so that one worker has its index."""
    queues = retrieval_queues(shards)
    return queues[zlib.crc32(f"{len(group_id)}:{group_id}:{agent_id}".encode()) % len(queues)]


def reply_key(request_id: str) -> str:
    return f"{REPLY_KEY}{request_id}"


def reply_of(value: Any) -> bytes:
    """A reply that carries a JSON value, or a model, which becomes one."""
    return to_json({"value": value})


def reply_of_error(error: JiyiError) -> bytes:
    body: dict[str, Any] = {
        "code": error.code,
        "message": str(error),
        "problems": getattr(error, "problems", None),
    }
    if isinstance(error, TooManyQuestions):
        body["retry_after"] = error.retry_after
    return to_json({"error": body})


def json_of(reply: bytes | str) -> bytes:
    """The value of a reply as JSON, unread where that is possible. Raises as :func:`open_reply`."""
    if isinstance(reply, bytes) and reply.startswith(VALUE_OPEN):
        return reply[len(VALUE_OPEN) : -len(VALUE_CLOSE)]
    return to_json(open_reply(reply))


def open_reply(reply: bytes | str) -> Any:
    """The value of a reply, or the error it carries, raised."""
    content = from_json(reply, cache_strings="keys")
    if "value" in content:
        return content["value"]
    error = content["error"]
    cls = BY_CODE.get(error["code"], ServiceError)
    if issubclass(cls, TooManyQuestions):
        raise cls(error["message"], error.get("retry_after"))
    raise cls(error["problems"]) if error.get("problems") else cls(error["message"])


#: Of a group's stream in Valkey; the group's name follows.
STREAM_KEY = "jiyi:stream:"


class LiveEvent(BaseModel):
    """Something has changed: ids, names of agents, counts and durations, never the text of a memory."""

    id: str = Field(description="Where it stands in the stream; give it as `after` to go on from there.")
    kind: str = Field(description="`node.stored`, `node.retrievable`, `retrieval.answered` …")
    data: dict[str, Any]


#: ``ok``; ``away``: not reached, or it broke off; ``starting``; ``full``: no memory left; ``disk_full``: it
#: cannot write to its disk; ``exhausted``: no connection is free; ``read_only``: a replica, or switched to
#: read only.
State = Literal["ok", "away", "starting", "full", "disk_full", "exhausted", "read_only"]

#: What Valkey's errors begin with. redis-py takes some of these words away and makes them classes: see
#: :data:`_CLASSES`.
_WORDS: dict[str, State] = {
    "OOM ": "full",
    "MISCONF ": "disk_full",
    "LOADING ": "starting",
    "READONLY ": "read_only",
    "max number of clients reached": "exhausted",
}
_CLASSES: dict[str, State] = {
    "OutOfMemoryError": "full",
    "BusyLoadingError": "starting",
    "ReadOnlyError": "read_only",
    "MaxConnectionsError": "exhausted",
}
OF_VALKEY: dict[State, str] = {
    "away": Translatable("cannot be reached"),
    "starting": Translatable("is still loading its data: it answers in a moment"),
    "full": Translatable(
        "has no memory left: it takes nothing more until it is emptied, or its maxmemory is raised"
    ),
    "disk_full": Translatable("cannot write to its disk: it takes nothing more until there is room on it"),
    "exhausted": Translatable("has no connection left: raise its maxclients, or run fewer processes"),
    "read_only": Translatable("is a replica that takes no writes: point the address to the primary"),
}


def state_of_valkey(error: BaseException) -> State:
    """What an error of redis-py, or kombu's around it, says of Valkey or a broker like it."""
    for cause in _causes(error):
        state = _CLASSES.get(type(cause).__name__)
        message = str(cause).rpartition(" caused error: ")[
            2
        ]  # of a pipeline, redis-py says first which command it was
        state = state or next((state for word, state in _WORDS.items() if message.startswith(word)), None)
        if state is not None:
            return state
    return "away"


def sentence_of_valkey(error: BaseException) -> str:
    """``has no memory left: …``; what the system says, where nothing else is known."""
    state = state_of_valkey(error)
    message = " ".join(str(error).split())
    return f"{OF_VALKEY[state]} ({message})" if state == "away" and message else OF_VALKEY[state]


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and what it was made of, each once."""
    visited: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in visited:
        visited.add(id(cause))
        yield cause
        cause = cause.__cause__ or cause.__context__
