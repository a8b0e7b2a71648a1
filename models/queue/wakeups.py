"""Wake-ups: Celery messages that make workers look for pending work of a kind."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from celery import Celery, current_app
from sqlalchemy import Connection

from engine import subjects
from jiyi.errors import BrokerUnavailable
from jiyi.once import once
from jiyi.protocol.base import JsonObject
from jiyi.protocol.wire.broker import BROKER_ERRORS, CONNECT_RETRY, PUBLISH_TIMEOUTS, stamp
from jiyi.protocol.wire.calls import sentence_of_valkey
from jiyi.protocol.wire.signatures import signer_of
from jiyi.settings import get_settings
from models.db import valkey_keys
from models.db.connection import after_commit
from models.db.valkey import valkey

log = logging.getLogger(__name__)

#: Name of the service's Celery app (``workers.app``).
SERVICE = "jiyi"
#: Seconds that a process without the service's app tries to reach the broker before it leaves it to the
#: reconciler.
CONNECT_SECONDS = 2.0

#: Kind of work → the Celery queue that its wake-ups go to.
QUEUES: dict[str, str] = {
    "appraise": "reflection",
    "reflect": "reflection",
    "reflect_conversation": "reflection",
    "embed": "embedding",
    "accumulate": "upkeep",
    "depth": "upkeep",
    "enlarge": "upkeep",
    "extract": "reflection",
    "erase": "upkeep",
    "strengthen": "upkeep",
    "summarize": "reflection",
    "tokenize": "upkeep",
    **dict(subjects.kinds()),
}


def task_name(kind: str) -> str:
    return f"work.{kind}"


def wake(*kinds: str) -> None:
    """Wake workers for work of these kinds, after the commit. If the broker is away, the reconciler will."""
    try:
        for kind in _asleep([kind for kind in kinds if kind in QUEUES]):
            options = {"queue": QUEUES[kind], "expires": valkey_keys.WAKE_SECONDS, "retry": False}
            _app().send_task(task_name(kind), headers=stamp(), **options)
    except BROKER_ERRORS as error:
        names, sentence = ", ".join(kinds), sentence_of_valkey(error)
        log.warning("could not wake %s: the broker %s; the reconciler will", names, sentence)


def wake_at(kind: str, due: datetime) -> None:
    """Wake workers when work of a kind gets due, once for about the same time; as :func:`wake`."""
    if due <= datetime.now(UTC):
        wake(kind)
        return
    try:
        slot = int(due.timestamp()) // valkey_keys.WAKE_SLOT_SECONDS
        wait = max(0.0, (slot + 1) * valkey_keys.WAKE_SLOT_SECONDS - datetime.now(UTC).timestamp())
        expires = wait + valkey_keys.WAKE_SECONDS
        if valkey().set(valkey_keys.wake_at(kind, slot), 1, nx=True, ex=int(expires)):
            options = {"queue": QUEUES[kind], "countdown": wait, "expires": expires, "retry": False}
            _app().send_task(task_name(kind), headers=stamp(), **options)
    except BROKER_ERRORS as error:
        log.warning("could not wake %s later: %s; the reconciler will", kind, error)


def wake_after(connection: Connection, *kinds: str) -> None:
    after_commit(connection, wake, *kinds, last=True)


def wake_at_after(connection: Connection, kind: str, due: datetime) -> None:
    """Wake the workers when work of a kind gets due; scheduled after the transaction's commit."""
    after_commit(connection, _wake_at_first, (kind, due), last=True)


def _wake_at_first(*dues: tuple[str, datetime]) -> None:
    for kind, due in dict(sorted(dues, reverse=True)).items():
        wake_at(kind, due)


def send(task: str, queue: str, args: Sequence[Any], expires: float) -> None:
    """Have a worker do a task within ``expires`` seconds. Raises :class:`BrokerUnavailable`: not sent."""
    try:
        options = {"queue": queue, "expires": expires, "retry": False}
        _app().send_task(task, args=list(args), headers=service_headers(task, args), **options)
    except BROKER_ERRORS as error:
        raise BrokerUnavailable(f"the broker {sentence_of_valkey(error)}; nothing was sent") from error


def service_headers(task: str, args: Sequence[Any], options: dict[str, str] | None = None) -> JsonObject:
    """Of a message that the service sends itself, now: signed, where it has a secret."""
    signer = signer_of(get_settings())
    return {**stamp(), **({} if signer is None else signer.headers(task, args, options or {}))}


def _asleep(kinds: list[str]) -> list[str]:
    """Those of the kinds for which no wake-up is under way; from now on one is. One round trip."""
    if not kinds:
        return []
    with valkey().pipeline(transaction=False) as pipe:
        for kind in kinds:
            pipe.set(valkey_keys.wake(kind), 1, nx=True, ex=valkey_keys.WAKE_SECONDS)
        return [kind for kind, is_new in zip(kinds, pipe.execute(), strict=True) if is_new]


def _app() -> Celery:
    """The service's app where this process has it: its connections are open already."""
    return current_app if current_app.main == SERVICE else own_app()


@once
def own_app() -> Celery:
    """An app that only sends, for processes without ``workers.app``."""
    app = Celery("jiyi-wake", broker=get_settings().need("broker_url"), set_as_current=False)
    options = {"socket_connect_timeout": CONNECT_SECONDS, "socket_keepalive": True}
    app.conf.update(
        task_create_missing_queues=True,
        broker_connection_timeout=CONNECT_SECONDS,
        broker_transport_options={**options, **CONNECT_RETRY, **PUBLISH_TIMEOUTS},
    )
    return app
