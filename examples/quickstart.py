"""The first minutes with Jiyi: tell, ask, put it into a prompt, correct, and see why.

    python -m examples.quickstart [--http]

Over the broker, or (``--http``) over the REST API with an API key: the methods, the answers and the output
are the same. Uses the service that runs on this machine, or starts one of its own for as long as it lasts.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from uuid import uuid4

from rich.console import Console

from examples.service import service
from jiyi import Client
from jiyi.settings import get_settings
from workers import ephemeral

say = Console(highlight=False, markup=False, soft_wrap=True).print
#: When the story is told: its own present, so that every run is alike.
NOW = datetime(2026, 3, 6, 12, tzinfo=UTC)
STORY = (
    (96, "Klaus is reading a book on gentrification", 4),
    (72, "Klaus promised Maria to water her plants on Friday", 6),
    (48, "玛丽亚对花生过敏", 7),
    (24, "Klaus lives in Kyoto", 5),
)
QUESTIONS = ("What did Klaus promise?", "玛丽亚不能吃什么？", "Where does Klaus live?")


def main() -> None:
    parser = argparse.ArgumentParser(description="The first minutes with Jiyi.")
    parser.add_argument("--http", action="store_true", help="over the REST API instead of the broker")
    options = parser.parse_args()
    with service() as own, connected(own=own, http=options.http) as client:
        play(client)


def play(client: Client) -> None:
    """Tell a story, and ask about it."""
    told = client.observe_many(
        [
            {
                "agent_id": "klaus",
                "description": text,
                "importance": importance,
                "occurred_at": NOW - timedelta(hours=hours),
            }
            for hours, text, importance in STORY
        ],
        wait=True,
    )
    for question in QUESTIONS:
        best = client.retrieve("klaus", question, top_k=1, now=NOW).retrieved_nodes[0]
        say(f"{question}\n  {best.score:.2f}  {best.description}")
    moved = client.update(told[-1], "Klaus lives in Osaka", occurred_at=NOW - timedelta(hours=1), wait=True)
    best = client.retrieve("klaus", QUESTIONS[-1], top_k=1, now=NOW).retrieved_nodes[0]
    say(f"{QUESTIONS[-1]} (he has moved)\n  {best.score:.2f}  {best.description}")
    assert best.node_id == moved
    say("For a prompt:")
    say(client.context("klaus", QUESTIONS[0], max_tokens=60, now=NOW).text)
    say("Everything in force:")
    for memory in client.list("klaus"):
        say(f"  {memory.created_at:%Y-%m-%d}  {memory.description}")


@contextmanager
def connected(*, own: bool, http: bool) -> Iterator[Client]:
    """A client for a new group; over HTTP with a key that was made for it."""
    group = f"quickstart-{uuid4().hex[:8]}"
    with Client(group) as local:
        if not http:
            yield local
            return
        key = local.keys.create("quickstart", expires_at=datetime.now(UTC) + timedelta(hours=1)).text
    with address(own=own) as url, Client(url=url, key=key) as client:
        yield client


@contextmanager
def address(*, own: bool) -> Iterator[str]:
    """Of the REST API: of the service that runs, or of a web process for the service of our own."""
    if not own:
        yield f"http://127.0.0.1:{get_settings().web_port}"
        return
    with ephemeral.folder("jiyi-web-") as logs, ephemeral.served(logs) as (port, _):
        yield f"http://127.0.0.1:{port}"


if __name__ == "__main__":
    main()
