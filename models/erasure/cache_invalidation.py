"""Orders to all workers to drop what their memory has of what is erased: given in Valkey, carried out and answered there.

Each worker looks for orders with its heartbeat. An order names agents, so whoever gave it withdraws it when it is answered.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable
from typing import cast
from uuid import uuid4

from models.db import valkey_keys
from models.db.valkey import valkey
from models.operations import heartbeats

#: Seconds after which an order that nobody withdrew is gone: whoever gave it has died, and another one gives it anew.
ORDER_LIVES = 600

#: What carries an order out: group, agents → what was dropped.
Forget = Callable[[str, list[str]], dict[str, int]]


def give(group_id: str, agents: Collection[str]) -> str:
    """Have every worker drop what it has of the agents, and all questions; returns the order's id."""
    order_id = uuid4().hex
    with valkey().pipeline(transaction=True) as pipe:
        pipe.hset(valkey_keys.ORDERS, order_id, json.dumps({"group_id": group_id, "agents": sorted(agents)}))
        pipe.expire(valkey_keys.ORDERS, ORDER_LIVES)
        pipe.execute()
    return order_id


def withdraw(order_id: str) -> None:
    """The order and its answers are no longer needed."""
    with valkey().pipeline(transaction=True) as pipe:
        pipe.hdel(valkey_keys.ORDERS, order_id)
        pipe.delete(valkey_keys.order_answers(order_id))
        pipe.execute()


def answers(order_id: str) -> dict[str, dict[str, int]]:
    """Worker → what it dropped, of those that have carried the order out."""
    found = cast("dict[bytes, bytes]", valkey().hgetall(valkey_keys.order_answers(order_id)))
    return {worker.decode(): json.loads(dropped) for worker, dropped in found.items()}


def missing_workers(answered: Iterable[str]) -> list[str]:
    """Workers that live and have not answered yet.

    One that has been silent for ``heartbeats.COUNTS_SECONDS`` is waited for no longer: it has died, or drops all that it has before it
    looks for orders again (``workers.celery.heartbeat``).
    """
    alive = {worker.worker_id for worker in heartbeats.workers() if worker.counts}
    return sorted(alive - set(answered))


def carry_out(worker_id: str, known: set[str], forget: Forget) -> set[str]:
    """Do what this worker has not done yet; ``known`` are the orders that it did. Returns those among them that still stand."""
    standing = cast("dict[bytes, bytes]", valkey().hgetall(valkey_keys.ORDERS))
    for order_id, order in ((name.decode(), told) for name, told in standing.items()):
        if order_id in known:
            continue
        asked = json.loads(order)
        dropped = forget(asked["group_id"], asked["agents"])
        with valkey().pipeline(transaction=True) as pipe:
            pipe.hset(valkey_keys.order_answers(order_id), worker_id, json.dumps(dropped))
            pipe.expire(valkey_keys.order_answers(order_id), ORDER_LIVES)
            pipe.execute()
    return {name.decode() for name in standing}
