"""The demonstration: the sample diary through the broker, then three questions in two languages."""

from __future__ import annotations

import json
from datetime import datetime, timedelta

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from jiyi import Client
from jiyi.client import chunks
from workers.migrate import CHECKOUT

DIARY = CHECKOUT / "examples" / "diary" / "events.jsonl"
GROUP = "demo"
#: Events in one message, small enough that the bar moves.
MESSAGE = 55
WAIT_SECONDS = 300
SHOWN = 3

#: (agent, question)
QUESTIONS = (
    ("林岚", "林岚给小满的告别礼物上刻了什么字？"),
    ("Tomas", "Which firing temperature ruined the test bowls?"),
    ("Tomas", "Tomas对什么材料过敏？"),
)


def play(console: Console) -> None:
    """Publish the diary, wait until it is memory, ask. A second time nothing is stored twice: ids are fixed."""
    events = [json.loads(line) for line in DIARY.read_text(encoding="utf-8").splitlines()]
    # The diary's agents live in its time: half a year later their thoughts would have expired.
    now = max(datetime.fromisoformat(event["occurred_at"]) for event in events) + timedelta(hours=1)
    with Client(GROUP) as client:
        remember(client, events, console)
        for agent, question in QUESTIONS:
            answer = client.retrieve(agent, question, top_k=SHOWN, now=now)
            console.print(f"\n[bold]{question}[/bold]  [dim]{agent}[/dim]")
            for node in answer.retrieved_nodes:
                console.print(f"{node.score:.2f} {node.created_at:%m-%d} {node.description}")


def remember(client: Client, events: list[dict[str, object]], console: Console) -> None:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        published = progress.add_task("events published", total=len(events))
        remembered = progress.add_task("remembered", total=len(events))
        for chunk in chunks(events, MESSAGE):
            ids = client.observe_many(chunk)
            progress.advance(published, len(ids))
            client.wait_for(ids, WAIT_SECONDS)
            progress.advance(remembered, len(ids))
