"""What programs do while the storm goes on: publish over the broker and over HTTP, retrieve, reflect, fill
working memory, erase.
"""

from __future__ import annotations

import json
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable
from typing import Any

from bench.support.storm.lives import AGENTS, event
from jiyi import Client
from jiyi.errors import JiyiError
from jiyi.protocol.accounts import CreateKey, NewKey
from jiyi.protocol.event_bodies import encode
from jiyi.protocol.events import Event
from jiyi.protocol.wire.signatures import new_key
from jiyi.settings import get_settings
from models.accounts.actions import create_key
from models.db.actions import Actor

#: Events of one message, and seconds between two messages of one producer.
MESSAGE, PAUSE = 6, 0.2
#: Seconds after which what was not accepted is published again.
AGAIN = 0.2
REQUEST_SECONDS = 5.0
#: Of what is not compared: it depends on when it is done.
ASIDE = "aside"


class Load:
    """Threads that work until they are stopped, whatever happens to what they ask, or until the service has
    given up.

    Args:
        group: whose events are published.
        alive: whether the service has not given up.
    """

    def __init__(self, group: str, alive: Callable[[], bool]) -> None:
        self._alive = alive
        self.counts: Counter[str] = Counter()
        self._group = group
        self._position = 0
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._key = _api_key(group)
        jobs: list[Callable[[], None]] = [self._over_broker, self._over_http, self._retrieve, self._aside]
        self._threads = [
            threading.Thread(target=self._again_and_again, args=(job,), name=job.__name__) for job in jobs
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> int:
        """End; how many events were accepted."""
        self._stop.set()
        for thread in self._threads:
            thread.join()
        return self._position

    def _again_and_again(self, job: Callable[[], None]) -> None:
        while not self._stop.is_set() and self._alive():
            try:
                job()
                self.counts[job.__name__.strip("_")] += 1
            except (JiyiError, OSError):
                self.counts["refused"] += 1
            self._stop.wait(PAUSE)

    def _next(self) -> list[Event]:
        with self._lock:
            first, self._position = self._position, self._position + MESSAGE
        return [event(self._group, position) for position in range(first, first + MESSAGE)]

    def _over_broker(self) -> None:
        publish_until_accepted(self._group, self._next(), self._alive)

    def _over_http(self) -> None:
        events = self._next()
        while self._alive():
            try:
                _post("/api/v1/events", self._key, encode(events))
            except OSError:  # errors of HTTP among them
                time.sleep(AGAIN)
            else:
                return

    def _retrieve(self) -> None:
        with Client(self._group) as client:
            client.retrieve(
                AGENTS[int(time.time()) % 3], "the long book", touch=False, timeout=REQUEST_SECONDS
            )

    def _aside(self) -> None:
        """Reflections, working memory and erasures, in a group of their own."""
        agent = f"passing-{int(time.time()) % 5}"
        with Client(ASIDE) as client:
            client.observe(
                agent, f"{agent} thinks about {time.time()}", poignancy=8, wait=True, timeout=REQUEST_SECONDS
            )
            client.reflect(agent, wait=False)
            client.ingest(
                f"It is known that {agent} said something at {time.time()} which is long enough to be kept",
                node_id="storm",
            )
            if int(time.time()) % 7 == 0:
                client.erasure.request(agent_id=agent)


def publish_until_accepted(group: str, events: list[Event], alive: Callable[[], bool] = lambda: True) -> None:
    """As a careful program does: what was not taken is published again."""
    while alive():
        try:
            with Client(group) as client:
                client.observe_many(events)
        except JiyiError:
            time.sleep(AGAIN)
        else:
            return


def _post(path: str, key: str, body: bytes) -> Any:
    request = urllib.request.Request(f"http://127.0.0.1:{get_settings().web_port}{path}", body, method="POST")
    request.add_header("Authorization", f"Bearer {key}")
    request.add_header("Content-Type", "application/json")
    with urllib.request.urlopen(request, timeout=REQUEST_SECONDS) as answer:
        return json.load(answer)


def _api_key(group: str) -> str:
    key = new_key()
    create_key.perform(
        Actor(group, "bench.storm", operator=True),
        CreateKey(key=NewKey.of(key), name="storm", scopes=["publish", "read"]),
    )
    return str(key)
