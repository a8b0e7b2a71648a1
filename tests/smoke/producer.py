"""A program on another host: tells events with ids of its own for some seconds, each until it is accepted;
then asks.

``python -m tests.smoke.producer GROUP tell SECONDS``, ``python -m tests.smoke.producer GROUP ask``
"""

from __future__ import annotations

import sys
import time
from uuid import NAMESPACE_URL, UUID, uuid5

from jiyi import Client
from jiyi.errors import BrokerUnavailable
from jiyi.settings import Settings

#: Seconds between two events, and between two attempts at one.
PACE, AGAIN = 0.05, 0.5


def event_id(group: str, number: int) -> UUID:
    return uuid5(NAMESPACE_URL, f"{group}/{number}")


def tell(group: str, seconds: float) -> int:
    """How many events were accepted."""
    number, end = 0, time.monotonic() + seconds
    with Client(group, settings=Settings(request_timeout=2)) as client:
        while time.monotonic() < end:
            try:
                client.observe(
                    "klaus",
                    f"Klaus sees thing number {number}",
                    poignancy=1,
                    event_id=event_id(group, number),
                )
            except BrokerUnavailable:
                time.sleep(AGAIN)
                continue
            number += 1
            time.sleep(PACE)
    return number


def ask(group: str) -> int:
    """How many memories a retrieval finds, after one more was told and waited for."""
    with Client(group) as client:
        client.observe("klaus", "Klaus is told of the healed link", poignancy=1, wait=True, timeout=60)
        return len(client.retrieve("klaus", "What was Klaus told of?", timeout=60).retrieved_nodes)


if __name__ == "__main__":
    group, what, *rest = sys.argv[1:]
    print(tell(group, float(rest[0])) if what == "tell" else ask(group), flush=True)  # noqa: T201
