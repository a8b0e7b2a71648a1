"""The demonstration's helper: an agent that talks, is given appointments, looks after itself, and a workshop with declared stores.

It gives the pages of conversations, growth and stores something to show. What it says is not of the diary, so no answer of the
demonstration depends on it.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from jiyi import Client
from jiyi.chat.loop import ConversationLoop
from jiyi.stores.graph import Graph
from workers.migrate import CHECKOUT

AGENT, TZ = "helper", "Asia/Shanghai"
STORES = CHECKOUT / "examples" / "diary" / "stores.yaml"
#: Sessions, a day each: enough that what helped becomes a skill.
DAYS = 7
TROUBLE = (
    ("user", "The kiln controller keeps failing above 900 degrees."),
    ("assistant", "Try this:\n1. Clean the plug of the thermocouple.\n2. Tighten its two screws.\n3. Start the firing again."),
    ("user", "That fixed it, thanks!"),
)
TOLD = (("user", "我对花生过敏，请记住。"), ("assistant", "记住了。"), ("user", "I prefer short answers."), ("assistant", "Noted."))
APPOINTMENTS = ("每天早上9点提醒我看窑温", "every Monday at 8 remind me to order clay")
SOULS = ("I help in the workshop by the river.", "I help in the workshop by the river, in Chinese and in English.")
NOTES = (
    ("potter", "Which glaze for the cups?", "Celadon, thin at the rim: the thick coat ran on the last forty cups."),
    ("potter", "一次烧还是两次？", "薄杯子烧一次，厚杯子烧两次，写在木板上给大家看。"),
    ("bookseller", "What is on the shelf by the door?", "The second-hand English books from Penhallow, forty-two of them."),
)


def help_out(client: Client) -> None:
    """Give the group's helper a few days of work. A second time it has had them."""
    if client.command("appointments.list", agent_id=AGENT).model_dump()["schedules"]:
        return
    _talk(client)
    _look_after_itself(client)
    workshop = Graph.from_file(client, STORES)
    for node, task, said in NOTES:
        memory = workshop.manager(node)
        memory.retrieve(node, task, "gen")
        memory.update(node, task, said)


def _talk(client: Client) -> None:
    begun = datetime.now(UTC).replace(microsecond=0) - timedelta(days=DAYS)
    with ConversationLoop(client) as loop:
        for day in range(DAYS):
            at, said = begun + timedelta(days=day), TOLD if day == 0 else TROUBLE
            turns = [{"role": role, "content": text, "at": at + timedelta(minutes=place)} for place, (role, text) in enumerate(said)]
            loop.after_completion(AGENT, turns, f"day-{day + 1}")
            loop.flush()
            client.end_session(AGENT, f"day-{day + 1}")


def _look_after_itself(client: Client) -> None:
    tell = client.command
    for text in APPOINTMENTS:
        tell("appointments.create", agent_id=AGENT, text=text, tz=TZ)
    tell("pains.report", agent_id=AGENT, summary="The order for clay is always sent too late.")
    for place, text in enumerate(SOULS):
        proposed = tell("identity.propose", agent_id=AGENT, file="SOUL", suggested=text, reason="said in the workshop").model_dump()
        if place == 0:
            tell("identity.approve", proposal_id=proposed["proposal_id"])
    tell("heartbeats.configure", agent_id=AGENT, tz=TZ, quiet_hours=None)
    tell("heartbeats.enable", agent_id=AGENT)
    tell("heartbeats.tick", agent_id=AGENT)
