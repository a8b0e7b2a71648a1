"""The demonstration: a diary, questions in two languages, a debate, an agent that helps, reflections."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid5

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from jiyi import Client
from jiyi.chat.loop import ConversationLoop
from jiyi.cli.reflection import thought_trees
from jiyi.cli.retrieval import focal_table
from jiyi.client.client import chunks
from jiyi.polling import poll
from jiyi.protocol.base import JsonObject
from jiyi.protocol.reflection import NewThought
from jiyi.stores.graph import Graph
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
#: Who reflects. With a trigger that the diary does not reach, so that they do it once, when they know all of
#: it: what they think then does not depend on which half of the diary was stored sooner.
AGENTS = ("林岚", "Tomas")
TRIGGER = 1_000
NAMESPACE = UUID("6f1d3a52-8a0e-5d0c-9a53-6a5d0e0f2b11")
#: What the rules have to say about the diary, whose figures are of many things.
NO_THOUGHTS = "[dim]nothing follows that no memory says alone; an LLM says more (docs/deployment.md)[/dim]"
SHOWN_THOUGHTS = 3
OUTPUTS = CHECKOUT / "examples" / "council.jsonl"
SESSION = "cups-once-or-twice"
PAUSE = timedelta(minutes=1)
AGENT, TZ = "helper", "Asia/Shanghai"
STORES = CHECKOUT / "examples" / "diary" / "stores.yaml"
#: Sessions, a day each: enough that what helped becomes a skill.
DAYS = 7
PREFERENCES = (
    ("user", "我对花生过敏，请记住。"),
    ("assistant", "记住了。"),
    ("user", "I prefer short answers."),
    ("assistant", "Noted."),
)
APPOINTMENTS = ("每天早上9点提醒我看窑温", "every Monday at 8 remind me to order clay")
SOULS = (
    "I help in the workshop by the river.",
    "I help in the workshop by the river, in Chinese and in English.",
)
NOTES = (
    (
        "potter",
        "Which glaze for the cups?",
        "Celadon, thin at the rim: the thick coat ran on the last forty cups.",
    ),
    ("potter", "一次烧还是两次？", "薄杯子烧一次，厚杯子烧两次，写在木板上给大家看。"),
    (
        "bookseller",
        "What is on the shelf by the door?",
        "The second-hand English books from Penhallow, forty-two of them.",
    ),
)


def play(console: Console) -> None:
    """Publish the diary, ask, reflect. Event ids are fixed: a second run stores nothing twice."""
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
    """The best thought on each of the agent's questions, of its first reflection."""
    thoughts = client.memory.list(
        agent_id=agent, types=["thought"], superseded=True, archived="with", limit=THOUGHTS_LOOKED_AT
    ).rows
    made_by = [row.provenance["reflection"] for row in thoughts if "reflection" in row.provenance]
    reflection_id = made_by[-1] if made_by else None
    if reflection_id is None:  # all that the diary sets off is done: the reflection must miss nothing
        poll(client.stats.show, lambda stats: not stats.work_owed, WAIT_SECONDS)
    reflection = (
        client.reflection.get(id=reflection_id)
        if reflection_id
        else client.reflect(agent, timeout=WAIT_SECONDS)
    )
    # of each question the first
    best = {thought.focal_point: thought for thought in reversed(reflection.thoughts)}
    firsts = [thought for thought in reflection.thoughts if best[thought.focal_point] is thought]
    return firsts[:SHOWN_THOUGHTS]


def _patient(agent: str) -> JsonObject:
    return {
        "type": "agent.configured",
        "event_id": uuid5(NAMESPACE, f"{agent}/configured"),
        "agent_id": agent,
        "payload": {"importance_trigger_max": TRIGGER},
    }


def debate(client: Client, console: Console) -> None:
    """Send the outputs, promote the verdict, digest the rest; only once."""
    outputs = [json.loads(line) for line in OUTPUTS.read_text(encoding="utf-8").splitlines()]
    verdict = outputs[-1]["payload"]["output"]
    if verdict not in {item.content for item in client.working_memory.show().rows}:
        begun = datetime.now(UTC) - len(outputs) * PAUSE
        events = [
            {"type": "node.executed", "session_id": SESSION, "occurred_at": begun + number * PAUSE, **output}
            for number, output in enumerate(outputs)
        ]
        for entry_id in client.observe_many(events):
            entry = client.quarantine.wait_for(entry_id, WAIT_SECONDS)
        ids, why = [entry.entry_id], "agreed in the demonstration"
        client.knowledge.promote(entry_ids=ids, kind="verdict", reason=why)
        client.within(WAIT_SECONDS).digests.make()
    counts = client.knowledge.list().counts
    console.print(
        f"\n[dim]a debate in three tiers[/dim]\n{SESSION}\nquarantine {counts['quarantine']}, working memory"
        f" {counts['working']}, long-term memory {counts['longterm']}",
        highlight=False,
    )


def help_out(client: Client) -> None:
    """Give the group's helper a few days of work. A second time it has had them."""
    if client.appointments.list(agent_id=AGENT).rows:
        return
    _talk(client)
    _look_after_itself(client)
    workshop = Graph.from_file(client, STORES)
    for node, task, text in NOTES:
        memory = workshop.manager(node)
        memory.retrieve(node, task, "gen")
        memory.update(node, task, text)


def _talk(client: Client) -> None:
    begun = datetime.now(UTC).replace(microsecond=0) - timedelta(days=DAYS)
    with ConversationLoop(client) as loop:
        for day in range(DAYS):
            at, texts = begun + timedelta(days=day), PREFERENCES if day == 0 else TROUBLE
            turns = [
                {"role": role, "content": text, "at": at + timedelta(minutes=place)}
                for place, (role, text) in enumerate(texts)
            ]
            loop.after_completion(AGENT, turns, f"day-{day + 1}")
            loop.flush()
            client.end_session(AGENT, f"day-{day + 1}")


def _look_after_itself(client: Client) -> None:
    command = client.command
    for text in APPOINTMENTS:
        command("appointments.create", agent_id=AGENT, text=text, tz=TZ)
    command("pains.report", agent_id=AGENT, summary="The order for clay is always sent too late.")
    for place, text in enumerate(SOULS):
        proposed = command(
            "identity.propose", agent_id=AGENT, file="SOUL", suggested=text, reason="said in the workshop"
        ).model_dump()
        if place == 0:
            command("proposals.decide", id=proposed["id"], decision="approve")
    command("heartbeats.configure", agent_id=AGENT, enabled=True, tz=TZ, quiet_hours=None)
    command("heartbeats.tick", agent_id=AGENT)


TROUBLE = (
    ("user", "The kiln controller keeps failing above 900 degrees."),
    (
        "assistant",
        (
            "Try this:\n1. Clean the plug of the thermocouple.\n2. Tighten its two screws.\n3. Start the"
            " firing again."
        ),
    ),
    ("user", "That fixed it, thanks!"),
)
