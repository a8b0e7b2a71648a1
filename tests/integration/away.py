"""PostgreSQL, Valkey or the broker are away: nobody answers at their addresses."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from web.actions import caller
from workers.ephemeral import environment

_ADDRESSES = {
    "database": {"database_url": "postgresql+psycopg://nobody@127.0.0.1:1/nothing"},
    "valkey": {"redis_url": "redis://127.0.0.1:1/0"},
    "broker": {"broker_url": "redis://127.0.0.1:1/0"},
}


@contextmanager
def away(*what: Literal["database", "valkey", "broker"]) -> Iterator[None]:
    addresses = {name: address for part in what for name, address in _ADDRESSES[part].items()}
    caller.cache_clear()
    with environment(**addresses):
        yield
        for made in caller.made():
            made.close()
        caller.cache_clear()
