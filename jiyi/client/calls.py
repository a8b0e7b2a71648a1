"""Asking a worker and waiting for its answer: a Celery task out, an expiring Redis list back.

The answer does not travel through Celery's result backend: a list and ``BLPOP`` take a third of the time.
"""

from __future__ import annotations

import time
import zlib
from threading import Lock
from typing import TYPE_CHECKING, Any

import redis
from kombu.exceptions import OperationalError
from pydantic import BaseModel
from pydantic_core import from_json, to_json
from uuid6 import uuid7

from jiyi.errors import BY_CODE, BrokerUnavailable, JiyiError, NoAnswer, ServiceError, SettingsError
from jiyi.protocol.broker import CONNECT_RETRY, stamp
from jiyi.settings import Settings

if TYPE_CHECKING:
    from celery import Celery

REPLY_KEY = "jiyi:reply:"
#: An answer that nobody fetches (a caller that gave up) is gone after this.
REPLY_SECONDS = 30
#: What stands around a reply's value (:func:`reply_of`).
VALUE_OPEN, VALUE_CLOSE = b'{"value":', b"}"
#: Seconds of one blocking wait, below the socket's own time-out.
WAIT_SLICE = 2.0
SOCKET_TIMEOUT = 5.0


def retrieval_queues(shards: int) -> list[str]:
    """The queues that retrievals are spread over."""
    return ["retrieval"] if shards == 1 else [f"retrieval.{shard}" for shard in range(shards)]


def retrieval_queue(group_id: str, agent_id: str, shards: int) -> str:
    """An agent's retrievals always go to the same queue, so that one worker has its index."""
    queues = retrieval_queues(shards)
    return queues[zlib.crc32(f"{len(group_id)}:{group_id}:{agent_id}".encode()) % len(queues)]


def reply_key(request_id: str) -> str:
    return f"{REPLY_KEY}{request_id}"


class Caller:
    """Sends calls and awaits their replies. Thread-safe."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        try:
            self._redis = redis.Redis.from_url(
                settings.need("redis_url"), socket_connect_timeout=settings.publish_timeout, socket_timeout=SOCKET_TIMEOUT
            )
        except ValueError as error:
            raise SettingsError(f"JIYI_REDIS_URL: {error}") from None
        self._app: Celery | None = None
        self._lock = Lock()

    def call(self, task: str, queue: str, request: BaseModel, timeout: float | None = None) -> Any:
        """The reply's value.

        Raises:
            BrokerUnavailable: broker or Valkey cannot be reached.
            NoAnswer: nothing came back within ``timeout`` seconds.
            JiyiError: what the service answered instead, as the class of its code.
        """
        return open_reply(self._reply(task, queue, request, timeout))

    def call_for_json(self, task: str, queue: str, request: BaseModel, timeout: float | None = None) -> bytes:
        """The reply's value as JSON, as the worker wrote it. Raises as :meth:`call` does."""
        reply = self._reply(task, queue, request, timeout)
        if isinstance(reply, bytes) and reply.startswith(VALUE_OPEN):
            return reply[len(VALUE_OPEN) : -len(VALUE_CLOSE)]
        return to_json(open_reply(reply))

    def act(
        self, action: str, queue: str, group_id: str, request: BaseModel, timeout: float | None = None, *, actor: str | None = None
    ) -> Any:
        """The result of an action of the registry (``models.actions``), done for a group. Raises as :meth:`call` does.

        ``actor``: for the audit log, by whoever answers for it: the web, which has checked who asks.
        """
        body = {"group_id": group_id, **request.model_dump(mode="json", exclude_none=True)}
        return open_reply(self._send(f"rpc.{action}", queue, body, timeout, {} if actor is None else {"actor": actor}))

    def _reply(self, task: str, queue: str, request: BaseModel, timeout: float | None) -> bytes | str:
        return self._send(task, queue, request.model_dump(mode="json", exclude_none=True), timeout)

    def _send(
        self, task: str, queue: str, request: dict[str, Any], timeout: float | None, options: dict[str, str] | None = None
    ) -> bytes | str:
        wait = self._settings.request_timeout if timeout is None else timeout
        request_id = str(uuid7())
        try:
            self._celery().send_task(
                task,
                args=[request_id, request],
                kwargs=options or {},
                queue=queue,
                expires=wait,
                ignore_result=True,
                retry=False,
                headers=stamp(),
            )
            found = self._await(reply_key(request_id), wait)
        except (OperationalError, redis.RedisError, OSError) as error:
            raise BrokerUnavailable(f"cannot reach the broker or Valkey: {error}; is the service running?") from error
        if found is None:
            raise NoAnswer(f"no answer to {task} within {wait:g} s: is a worker for the queue {queue!r} running?")
        return found

    def _await(self, key: str, wait: float) -> bytes | str | None:
        """In slices, so that a dead connection is noticed long before a long wait is over."""
        deadline = time.monotonic() + wait
        while (left := deadline - time.monotonic()) > 0:
            found = self._redis.blpop([key], timeout=min(left, WAIT_SLICE))
            if found is not None:
                return found[1]
        return None

    def close(self) -> None:
        self._redis.close()
        if self._app is not None:
            self._app.close()

    def _celery(self) -> Celery:
        with self._lock:
            if self._app is None:
                from celery import Celery  # here, so that importing jiyi stays light

                self._app = Celery("jiyi-client", broker=self._settings.need("broker_url"), set_as_current=False)
                self._app.conf.update(
                    task_create_missing_queues=True,
                    broker_connection_timeout=self._settings.publish_timeout,
                    broker_transport_options={"socket_connect_timeout": self._settings.publish_timeout, **CONNECT_RETRY},
                )
            return self._app


def reply_of(value: Any) -> bytes:
    """A reply that carries a JSON value, or a model, which becomes one."""
    return to_json({"value": value})


def reply_of_error(error: JiyiError) -> bytes:
    problems = getattr(error, "problems", None)
    return to_json({"error": {"code": error.code, "message": str(error), "problems": problems}})


def open_reply(reply: bytes | str) -> Any:
    """The value of a reply, or the error it carries, raised."""
    content = from_json(reply)
    if "value" in content:
        return content["value"]
    error = content["error"]
    cls = BY_CODE.get(error["code"], ServiceError)
    raise cls(error["problems"]) if error.get("problems") else cls(error["message"])
