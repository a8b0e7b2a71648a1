"""The demonstration: the sample diary through the broker, then three questions in two languages."""

from __future__ import annotations

import json
from datetime import datetime, timedelta

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from jiyi import Client
from jiyi.cli.retrieving import focal_table
from jiyi.client import chunks
from workers.migrate import CHECKOUT

DIARY = CHECKOUT / "examples" / "diary" / "events.jsonl"
GROUP = "demo"
#: Events in one message, small enough that the bar moves.
MESSAGE = 55
WAIT_SECONDS = 300
SHOWN = 3

#: Each about an agent's own diary: Chinese on Chinese, English on English, Chinese on English.
QUESTIONS = (
    ("林岚", "小满辞工是为了准备考什么？"),
    ("Tomas", "How did Tomas injure himself at the kiln, and which hand was it?"),
    ("Tomas", "Tomas对什么材料过敏，是谁判断出来的？"),
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
            console.print(f"\n[dim]{agent}[/dim]", focal_table(answer.groups[0], console.width), sep="\n")


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
