"""Knowledge of a model at an address, by name: what its server takes, what it can do, which prompts rules
have for a while.

In Valkey for all processes; while that is away, in this process. Each value has its time. This part of the
library writes the key itself, as breakers do (see ``models/db/valkey_keys.py``).
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, cast

import redis

from engine.providers.breakers import ask_valkey
from engine.providers.spec import Endpoint

KEY, CLAIM_SUFFIX = "jiyi:llm:", ":claim"
#: Seconds after the last change in which all of it stays: longer than anything is valid.
KEPT_SECONDS = 400 * 86_400

_lock = threading.Lock()
#: Of this process: key → name → JSON of (until when, value).
in_process: dict[str, dict[str, str]] = {}


def read(endpoint: Endpoint) -> dict[str, Any]:
    """All that is still valid, by name."""
    key = _key(endpoint)
    fields = ask_valkey(lambda client: cast("dict[bytes, bytes]", client.hgetall(key)))
    if fields is not None:
        return _valid({name.decode(): text.decode() for name, text in fields.items()})
    with _lock:
        return _valid(in_process.get(key, {}))


def write(endpoint: Endpoint, name: str, value: Any, seconds: float) -> None:
    """Keep a value, anything that JSON holds, for so long."""
    key = _key(endpoint)
    text = json.dumps([time.time() + seconds, value], ensure_ascii=False)
    with _lock:
        in_process.setdefault(key, {})[name] = text

    def keep(client: redis.Redis) -> None:
        with client.pipeline(transaction=False) as pipe:
            pipe.hset(key, name, text)
            pipe.expire(key, KEPT_SECONDS)
            pipe.execute()

    ask_valkey(keep)


def forget(endpoint: Endpoint, *names: str) -> None:
    """Forget these values, or all."""
    key = _key(endpoint)
    with _lock:
        own = in_process.get(key, {})
        for name in names or list(own):
            own.pop(name, None)
    ask_valkey(lambda client: client.hdel(key, *names) if names else client.delete(key))


def claim(endpoint: Endpoint, seconds: float) -> bool:
    """Whether nobody else has this model; it is the caller's for so long, or until :func:`release`."""
    key, milliseconds = _key(endpoint) + CLAIM_SUFFIX, max(1, int(seconds * 1_000))
    is_ours = ask_valkey(lambda client: bool(client.set(key, 1, nx=True, px=milliseconds)))
    return is_ours is not False  # nobody else knows, where Valkey is away


def release(endpoint: Endpoint) -> None:
    """The model may be taken in hand by others."""
    ask_valkey(lambda client: client.delete(_key(endpoint) + CLAIM_SUFFIX))  # else its time runs out


def _key(endpoint: Endpoint) -> str:
    identity = json.dumps([endpoint.base_url, endpoint.spec.vendor, endpoint.spec.model])
    return KEY + hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()


def _valid(fields: Mapping[str, str]) -> dict[str, Any]:
    values = {}
    for name, text in fields.items():
        with suppress(ValueError, TypeError):  # another version's
            until, value = json.loads(text)
            if time.time() < until:
                values[name] = value
    return values
