"""Every key that Jiyi uses in Redis/Valkey, and every place that may write it.

| pattern | type | written by | lives |
|---|---|---|---|
| ``jiyi:reply:<request id>`` | list, one JSON answer | retrieval worker | ``REPLY_SECONDS`` (``jiyi.calls``) |
| ``jiyi:wake:<kind>`` | string | whoever wakes work; deleted by the worker that claims | ``WAKE_SECONDS`` |
| ``jiyi:access`` | sorted set, node id → latest access (epoch seconds) | retrieval worker | until flushed |
| ``jiyi:access:count`` | hash, node id → accesses | retrieval worker | until flushed |
| ``jiyi:access:flush:<uuid>``, ``…:count`` | the two above, handed over | flush task | until written to the database |
| ``jiyi:access:due`` | string | retrieval worker, to queue one flush a second | the flush interval |
| ``jiyi:intake:hold:<queue>:<intake>:<0 or 1>`` | list, messages in hand | intake | until stored |
| ``jiyi:intakes:<queue>`` | set, names of the queue's intakes | intake | – |
| ``jiyi:intake:alive:<intake>`` | string | intake | ``JIYI_INTAKE_REDELIVERY_SECONDS`` |
| ``jiyi:touched:<group>:<agent>`` | stream, recent accesses | retrieval workers | an hour after the last |
| ``jiyi:indexes:<host>:<pid>`` | string, JSON | retrieval worker: what it holds | ``REPORT_LIVES`` (``models.indexes``) |
| ``jiyi:breaker:<purpose>:<vendor>:<model>:pybreaker:*`` | strings, a circuit breaker | workers (``jiyi.providers``) | – |
| ``jiyi:breaker:<purpose>:<vendor>:<model>:error`` | string, JSON: a provider's last error | workers | a week |
| ``jiyi:counters`` | hash, name → number | workers | for good |
| ``_kombu.binding.*``, queue names, ``unacked*`` | kombu's own | kombu | – |
"""

from __future__ import annotations

from uuid import UUID

ACCESS = "jiyi:access"
ACCESS_COUNT = "jiyi:access:count"
ACCESS_DUE = "jiyi:access:due"
ACCESS_FLUSH = "jiyi:access:flush:"
COUNT_SUFFIX = ":count"
COUNTERS = "jiyi:counters"


#: A wake-up flag outlives the message it stands for only if that message was lost.
WAKE_SECONDS = 30


def wake(kind: str) -> str:
    return f"jiyi:wake:{kind}"


def access_flush(flush_id: UUID) -> str:
    return f"{ACCESS_FLUSH}{flush_id}"


def intakes(queue: str) -> str:
    return f"jiyi:intakes:{queue}"


def intake_holds(queue: str, intake: str) -> tuple[str, str]:
    """Where an intake keeps what it has in hand: one batch being stored, one being taken."""
    return f"jiyi:intake:hold:{queue}:{intake}:0", f"jiyi:intake:hold:{queue}:{intake}:1"


def intake_alive(intake: str) -> str:
    return f"jiyi:intake:alive:{intake}"


TOUCHED = "jiyi:touched:"


def indexes(worker: str) -> str:
    return f"jiyi:indexes:{worker}"


def touched(group_id: str, agent_id: str) -> str:
    # Names may hold colons: lengths keep two different pairs from sharing a key.
    return f"{TOUCHED}{len(group_id)}:{group_id}:{agent_id}"


def touched_agent(key: str) -> tuple[str, str]:
    """(group_id, agent_id) of a key that :func:`touched` made."""
    length, _, names = key.removeprefix(TOUCHED).partition(":")
    return names[: int(length)], names[int(length) + 1 :]
