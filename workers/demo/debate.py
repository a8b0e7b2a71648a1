"""The demonstration's debate: what two agents and a judge said, so that the three tiers of its group hold something."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

from rich.console import Console

from jiyi import Client
from workers.migrate import CHECKOUT

OUTPUTS = CHECKOUT / "examples" / "council.jsonl"
SESSION = "cups-once-or-twice"
#: Between two outputs.
PAUSE = timedelta(minutes=1)
WAIT_SECONDS = 300.0


def debate(client: Client, console: Console) -> None:
    """Tell the outputs, promote the verdict, digest the rest; nothing of it while working memory still has an earlier run's."""
    said = [json.loads(line) for line in OUTPUTS.read_text(encoding="utf-8").splitlines()]
    verdict = said[-1]["payload"]["output"]
    if verdict not in {item.content for item in client.tiers.working().rows}:
        begun = datetime.now(UTC) - len(said) * PAUSE
        events = [
            {"type": "node.executed", "session_id": SESSION, "occurred_at": begun + number * PAUSE, **one}
            for number, one in enumerate(said)
        ]
        for entry_id in client.observe_many(events):
            entry = client.tiers.screened(entry_id, WAIT_SECONDS)
        client.tiers.promote(entry.entry_id, kind="verdict", note="agreed in the demonstration")
        client.tiers.digest(timeout=WAIT_SECONDS)
    counts = client.tiers.knowledge().counts
    console.print(
        f"\n[dim]a debate in three tiers[/dim]\n{SESSION}\n"
        f"quarantine {counts['quarantine']}, working memory {counts['working']}, long-term memory {counts['longterm']}",
        highlight=False,
    )
