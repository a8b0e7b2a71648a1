"""Whether the servers that everything stands on can be used: each has a named state, for probes, pages and metrics.

Valkey and the broker are written to: one that has no memory left, or no room on its disk, still answers every question.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import kombu
import redis

from jiyi.protocol.wire.calls import OF_VALKEY, State, state_of_valkey
from jiyi.settings import Settings, get_settings
from models.accounts import reads
from models.db import valkey_keys
from models.db.bounded_reads import Unanswered, from_database, source
from models.db.outages import OF_DATABASE, state_of_database
from models.db.valkey import valkey
from models.queue.broker_queues import broker_client, redis_address

#: Seconds that what is written to see whether anything can be written stays.
PROBE_LIVES = 60
#: Seconds; a broker other than Redis answers in milliseconds, too.
CONNECT_SECONDS = 2.0
#: Servers, and what people call them.
NAMES = {"database": "the database", "valkey": "Valkey", "broker": "the broker"}


@dataclass(frozen=True, slots=True)
class ServerState:
    """``reason``: a sentence's end for people, empty if all is well."""

    state: State = "ok"
    reason: str = ""


def begin() -> Callable[[], dict[str, ServerState]]:
    """Ask all now; the answer, by server, is fetched by calling what is returned."""
    settings = get_settings()
    asked = {"valkey": source("Valkey").begin(lambda: _write(valkey())), "broker": source("broker").begin(lambda: _broker(settings))}

    def fetch() -> dict[str, ServerState]:
        found = {"database": _state(lambda: from_database(lambda connection: reads.groups(connection) is not None), of_database=True)}
        return found | {name: _state(answer) for name, answer in asked.items()}

    return fetch


def _write(client: redis.Redis) -> bool:
    return bool(client.set(valkey_keys.PROBE, 1, ex=PROBE_LIVES))


def _broker(settings: Settings) -> bool:
    address = redis_address(settings.need("broker_url"))
    if address is not None:
        return _write(broker_client(address))
    with kombu.Connection(settings.broker_url, connect_timeout=CONNECT_SECONDS) as connection:
        connection.ensure_connection(max_retries=1, interval_start=0)
    return True


def _state(answer: Callable[[], object], *, of_database: bool = False) -> ServerState:
    try:
        answer()
    except Unanswered as error:
        cause = error.__cause__
        if cause is None:  # it hangs
            return ServerState("away", error.reason)
        state = state_of_database(cause) if of_database else state_of_valkey(cause)
        if state is None or state == "away":
            return ServerState("away", error.reason)
        return ServerState(state, (OF_DATABASE if of_database else OF_VALKEY)[state])
    return ServerState()
