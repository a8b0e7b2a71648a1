"""How a call's reply looks on the wire, where it is put, and which queue answers: shared by workers and clients.

A reply is JSON, ``{"value": …}`` or ``{"error": {"code", "message", "problems"}}`` (with
``retry_after`` where that is known), on an expiring Redis list of its own.
"""

from __future__ import annotations

import zlib
from typing import Any

from pydantic_core import from_json, to_json

from jiyi.errors import BY_CODE, JiyiError, ServiceError, TooManyQuestions

#: The ``actor`` of a retrieval that nobody asked for, such as a look from the admin: it is not noted (``models.retrieval.records``).
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
    told: dict[str, Any] = {"code": error.code, "message": str(error), "problems": getattr(error, "problems", None)}
    if isinstance(error, TooManyQuestions):
        told["retry_after"] = error.retry_after
    return to_json({"error": told})


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
