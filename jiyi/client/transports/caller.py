"""Asking a worker and waiting for its answer: a Celery task out, an expiring Redis list back.

The answer does not travel through Celery's result backend: a list and ``BLPOP`` take a third of the time.
"""

from __future__ import annotations

import time
from threading import Lock
from typing import TYPE_CHECKING, Any

import redis
from kombu.exceptions import OperationalError
from pydantic import BaseModel
from uuid6 import uuid7

from jiyi.accounts.api_keys import KeyText
from jiyi.accounts.signed_calls import signer_of
from jiyi.errors import BrokerUnavailable, NoAnswer, SettingsError
from jiyi.protocol.wire.broker import CONNECT_RETRY, stamp
from jiyi.protocol.wire.calls import json_of, open_reply, reply_key
from jiyi.settings import Settings

if TYPE_CHECKING:
    from celery import Celery

#: Seconds of one blocking wait, below the socket's own time-out.
WAIT_SLICE = 2.0
SOCKET_TIMEOUT = 5.0


class Caller:
    """Sends calls, signed, and awaits their replies. Thread-safe.

    ``key`` is what they are signed with; the service's own secret, where it is known, unless given.
    """

    def __init__(self, settings: Settings, key: KeyText | None = None) -> None:
        self._settings, self._signer = settings, signer_of(settings, key)
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
        return json_of(self._reply(task, queue, request, timeout))

    def act(
        self, action: str, queue: str, group_id: str, request: BaseModel, timeout: float | None = None, *, actor: str | None = None
    ) -> Any:
        """The result of an action of the registry (``models.actions``), done for a group. Raises as :meth:`call` does.

        ``actor``: for the audit log, by whoever answers for it: the web, which has checked who asks.
        """
        body = {"group_id": group_id, **request.model_dump(mode="json", exclude_none=True)}
        return open_reply(self.send(f"rpc.{action}", queue, body, timeout, {} if actor is None else {"actor": actor}))

    def _reply(self, task: str, queue: str, request: BaseModel, timeout: float | None) -> bytes | str:
        return self.send(task, queue, request.model_dump(mode="json", exclude_none=True), timeout)

    def send(
        self, task: str, queue: str, request: dict[str, Any], timeout: float | None, options: dict[str, str] | None = None
    ) -> bytes | str:
        """The reply to a request that is JSON already, as the worker wrote it: a value or an error."""
        wait = self._settings.request_timeout if timeout is None else timeout
        request_id = str(uuid7())
        args, options = [request_id, request], options or {}
        signature = {} if self._signer is None else self._signer.headers(task, args, options)
        try:
            self._celery().send_task(
                task, args=args, kwargs=options, queue=queue, expires=wait, ignore_result=True, retry=False, headers=stamp() | signature
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
