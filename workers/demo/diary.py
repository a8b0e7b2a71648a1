"""The demonstration: the sample diary through the broker, three questions in two languages, a debate, reflections."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from uuid import UUID, uuid5

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from jiyi import Client
from jiyi.cli.reflection import thought_trees
from jiyi.cli.retrieval import focal_table
from jiyi.client.client import chunks
from jiyi.polling import poll
from jiyi.protocol.base import JsonObject
from jiyi.protocol.reflection import NewThought
from workers.demo.debate import debate
from workers.demo.helper import help_out
from workers.migrate import CHECKOUT

DIARY = CHECKOUT / "examples" / "diary" / "events.jsonl"
GROUP = "demo"
#: Events in one message, small enough that the bar moves.
MESSAGE = 55
WAIT_SECONDS = 300
SHOWN = 3
THOUGHTS_LOOKED_AT = 500

#: Each about an agent's own diary: Chinese on Chinese, English on English, English on Chinese.
QUESTIONS = (
    ("林岚", "小满辞工是为了准备考什么？"),
    ("Tomas", "How did Tomas injure himself at the kiln, and which hand was it?"),
    ("林岚", "What was engraved on the farewell present for Xiaoman?"),
)
#: Who reflects. With a trigger that the diary does not reach, so that they do it once, when they know all of it: what
#: they think then does not depend on which half of the diary was stored sooner.
AGENTS = ("林岚", "Tomas")
TRIGGER = 1_000
NAMESPACE = UUID("6f1d3a52-8a0e-5d0c-9a53-6a5d0e0f2b11")
#: What the rules have to say about the diary, whose figures are of many things.
NO_THOUGHTS = "[dim]nothing follows that no memory says alone; an LLM says more (docs/deployment.md)[/dim]"
#: Thoughts shown of each agent.
SHOWN_THOUGHTS = 3


def play(console: Console) -> None:
    """Publish the diary, wait until it is memory, ask, reflect. A second time nothing is stored twice: ids are fixed."""
    diary = [json.loads(line) for line in DIARY.read_text(encoding="utf-8").splitlines()]
    events = [*map(_patient, AGENTS), *diary]
    # The diary's agents live in its time: half a year later their thoughts would have expired.
    now = max(datetime.fromisoformat(event["occurred_at"]) for event in diary) + timedelta(hours=1)
    with Client(GROUP) as client:
        remember(client, events, console)
        for agent, question in QUESTIONS:
            answer = client.retrieve(agent, question, top_k=SHOWN, now=now)
            console.print(f"\n[dim]{agent}[/dim]", focal_table(answer.groups[0], console.width), sep="\n")
        debate(client, console)
        help_out(client)
        for agent in AGENTS:
            thoughts = thought_trees(reflect(client, agent), ids=False)
            console.print(f"\n[dim]{agent} reflects[/dim]", *(thoughts or [NO_THOUGHTS]), sep="\n")


def remember(client: Client, events: list[JsonObject], console: Console) -> None:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        published = progress.add_task("events published", total=len(events))
        remembered = progress.add_task("remembered", total=len(events))
        for chunk in chunks(events, MESSAGE):
            ids = client.observe_many(chunk)
            progress.advance(published, len(ids))
            client.wait_for(ids, WAIT_SECONDS)
            progress.advance(remembered, len(ids))


def reflect(client: Client, agent: str) -> list[NewThought]:
    """The best thought on each question that the agent asks itself; of the first time, if it has reflected before."""
    thoughts = client.memory.nodes(agent, types=["thought"], limit=THOUGHTS_LOOKED_AT).rows
    known = next((row.provenance["reflection"] for row in reversed(thoughts) if "reflection" in row.provenance), None)
    if known is None:
        await_counted(client)
    made = client.reflections.state(known) if known else client.reflect(agent, timeout=WAIT_SECONDS)
    best = {thought.focal_point: thought for thought in reversed(made.thoughts)}  # of each question the first
    return [thought for thought in made.thoughts if best[thought.focal_point] is thought][:SHOWN_THOUGHTS]


def await_counted(client: Client) -> None:
    """Return when the service has done all that the diary sets off, so that nothing is missing from what is reflected on."""
    poll(client.service.stats, lambda stats: not stats.work_owed, WAIT_SECONDS)


def _patient(agent: str) -> JsonObject:
    return {
        "type": "agent.configured",
        "event_id": uuid5(NAMESPACE, f"{agent}/configured"),
        "agent_id": agent,
        "payload": {"importance_trigger_max": TRIGGER},
    }
