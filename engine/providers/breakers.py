"""Circuit breakers: after a row of failures a provider is left alone for a while, by all workers together.

Their state is in Valkey, with the last error beside it; while Valkey is away each process keeps its own. The
keys are written here, since this part may not import ``models`` (see ``models/db/valkey_keys.py``).
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from itertools import islice
from typing import TypeVar, cast

import pybreaker
import redis

from jiyi.once import once_each
from jiyi.protocol.providers import BreakerState
from jiyi.settings import get_settings

T = TypeVar("T")

KEY = "jiyi:breaker:"
#: The state in which calls are let through.
CLOSED = pybreaker.STATE_CLOSED
ERROR_SUFFIX, SUCCESS_SUFFIX, HOLD_SUFFIX = ":error", ":success", ":hold"
#: Seconds that the last error is remembered: long enough for somebody who looks the next day.
ERROR_SECONDS = 7 * 86_400
#: Failures in a row after which nobody calls any more.
FAIL_MAX = 5
#: Breakers that are listed at most; there is one for each model in use.
MAX_BREAKERS = 1_000
#: Seconds until one call is let through again, to see.
RESET_SECONDS = 30.0
#: Seconds for Valkey's part of a call, which stands before a call that takes longer anyway.
VALKEY_TIMEOUT = 0.5

Open = pybreaker.CircuitBreakerError

in_process: dict[str, pybreaker.CircuitMemoryStorage] = {}
#: Until when providers want to be left alone, by ``time.monotonic``: for a process without Valkey.
held_until: dict[str, float] = {}
_lock = threading.Lock()

# It logs a traceback for each command that Valkey does not answer; Valkey's absence is reported elsewhere.
logging.getLogger("pybreaker").setLevel(logging.CRITICAL)


def call(
    name: str,
    function: Callable[[], T],
    *,
    blameless: Callable[[BaseException], bool],
    reset_seconds: float = RESET_SECONDS,
) -> T:
    """``function()``, unless the breaker ``name`` is open; exceptions that are ``blameless`` count as
    successes.

    Raises:
        Open: it is, and nothing was called.
    """
    # A breaker object holds a lock while it calls; the state is in the storage, so every call gets its own.
    storage = _storage(name)
    breaker = pybreaker.CircuitBreaker(
        fail_max=FAIL_MAX,
        reset_timeout=reset_seconds,
        exclude=[blameless],
        state_storage=storage,
        throw_new_error_on_trip=False,
    )
    try:
        result = breaker.call(function)
    except Open:
        opened = storage.opened_at
        if opened is not None and opened > datetime.now(UTC):  # the clock was set back
            _forget_when_opened(name)
        raise
    note_success(name)
    return result


def is_closed(name: str) -> bool:
    """Whether calls are let through, as far as is known; else the next one that is let through is a trial."""
    return _storage(name).state == CLOSED


def hold(name: str, seconds: float) -> None:
    """Nobody calls for so long: the provider has asked for it."""
    held_until[name] = time.monotonic() + seconds  # for this process, where Valkey is away
    ask_valkey(lambda client: client.set(KEY + name + HOLD_SUFFIX, 1, px=max(1, int(seconds * 1_000))))


def hold_seconds(name: str) -> float:
    """Seconds that are left of a :func:`hold`; 0 if there is none."""
    remaining = ask_valkey(lambda client: client.pttl(KEY + name + HOLD_SUFFIX))
    if remaining is None:
        return max(0.0, held_until.get(name, 0.0) - time.monotonic())
    return max(0.0, remaining / 1_000)


def note_success(name: str) -> None:
    """It has answered: what failed before is over."""
    now = datetime.now(UTC).isoformat()
    ask_valkey(lambda client: client.set(KEY + name + SUCCESS_SUFFIX, now, ex=ERROR_SECONDS))


def note_error(name: str, message: str, *, late: bool = False) -> None:
    """Keep the last error where ``jiyi embedders show`` finds it. ``late``: nothing but the time was up."""
    entry = {"at": datetime.now(UTC).isoformat(), "error": message, "late": late}
    content = json.dumps(entry, ensure_ascii=False)
    ask_valkey(lambda client: client.set(KEY + name + ERROR_SUFFIX, content, ex=ERROR_SECONDS))


def read_state(name: str, reset_seconds: float = RESET_SECONDS) -> BreakerState:
    """How a breaker stands, and what failed last. Changes nothing."""
    keys = [_prefix(name) + key for key in ("state", "fail_counter", "opened_at")]
    keys += [KEY + name + suffix for suffix in (ERROR_SUFFIX, SUCCESS_SUFFIX)]
    values = ask_valkey(lambda client: client.mget(*keys))
    if values is None:
        return BreakerState(state="unknown")
    state, failures, opened, error, success = values
    last = json.loads(error) if error else {}
    state_name = state.decode() if isinstance(state, bytes) else CLOSED
    is_open = opened is not None and state_name == "open"
    return BreakerState(
        state=state_name,
        failures=int(failures or 0),
        until=datetime.fromtimestamp(int(opened or 0) + reset_seconds, UTC) if is_open else None,
        last_error=last.get("error"),
        last_error_at=last.get("at"),
        last_error_late=last.get("late", False),
        last_success_at=datetime.fromisoformat(str(success, "ascii")) if isinstance(success, bytes) else None,
    )


def states() -> dict[str, str]:
    """The state of every breaker that there is, by its name: ``closed``, ``open`` or ``half-open``.

    Raises:
        RedisError: Valkey is away.
    """
    client = valkey()
    if client is None:
        return {}
    end = f":{pybreaker.CircuitRedisStorage.BASE_NAMESPACE}:state"
    keys = islice(client.scan_iter(match=f"{KEY}*{end}", count=1_000), MAX_BREAKERS)
    names = sorted(cast("list[bytes]", list(keys)))
    values = cast("list[bytes | None]", client.mget(names)) if names else []
    return {
        name.decode().removeprefix(KEY).removesuffix(end): state.decode()
        for name, state in zip(names, values, strict=True)
        if state is not None
    }


def _prefix(name: str) -> str:
    """Of the keys that pybreaker writes."""
    return f"{KEY}{name}:{pybreaker.CircuitRedisStorage.BASE_NAMESPACE}:"


def _forget_when_opened(name: str) -> None:
    """Let the next call through."""
    with _lock:
        in_process.pop(name, None)
    ask_valkey(lambda client: client.delete(_prefix(name) + "opened_at"))


class _SharedStorage(pybreaker.CircuitRedisStorage):
    """A breaker's state in Valkey, for one call: read when this is made, in one trip."""

    def _initialize_redis_state(self, state: str) -> None:
        """Called by the base class's constructor. Raises :class:`redis.RedisError`: Valkey is away."""
        with self._redis.pipeline(transaction=False) as pipe:
            for key, value in (("fail_counter", 0), ("success_counter", 0), ("state", state)):
                pipe.setnx(self._namespace(key), value)
            pipe.get(self._namespace("state"))
            *_, current = pipe.execute()
        self._state = state if current is None else current.decode()

    @property
    def state(self) -> str:
        return self._state

    @state.setter
    def state(self, state: str) -> None:
        self._state = state
        with suppress(redis.RedisError):  # then the others call, too, and see for themselves
            self._redis.set(self._namespace("state"), state)


def _storage(name: str) -> pybreaker.CircuitBreakerStorage:
    shared = ask_valkey(lambda client: _SharedStorage(pybreaker.STATE_CLOSED, client, namespace=KEY + name))
    if shared is not None:
        return shared
    with _lock:
        return in_process.setdefault(name, pybreaker.CircuitMemoryStorage(pybreaker.STATE_CLOSED))


def ask_valkey(ask: Callable[[redis.Redis], T]) -> T | None:
    """What Valkey answers; None where it is away, or has no address: then each process is on its own."""
    client = valkey()
    with suppress(redis.RedisError):
        return None if client is None else ask(client)
    return None


def valkey() -> redis.Redis | None:
    """A client with short time-outs; None where no address is set."""
    url = get_settings().redis_url
    return _client(url) if url else None


@once_each(2)
def _client(url: str) -> redis.Redis:
    return redis.Redis.from_url(url, socket_timeout=VALKEY_TIMEOUT, socket_connect_timeout=VALKEY_TIMEOUT)
