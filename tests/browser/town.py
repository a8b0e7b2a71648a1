"""A group with some of everything that the admin's pages show."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import text

from jiyi import Client
from jiyi.protocol.accounts import CreateKey, NewKey
from jiyi.protocol.wire.signatures import new_key
from models.accounts.actions import create_key
from models.db.actions import Actor
from models.db.connection import unit_of_work
from models.db.scope import whole_service
from models.queue import dead_letters

BEGIN = datetime(2026, 3, 2, 7, 0, tzinfo=UTC)
WAIT_SECONDS = 60
#: Long words without a place to break, markup, right to left: what bends a page out of shape.
UNRULY = "A" * 180 + " <script>alert('记')</script> https://example.org/" + "path/" * 40 + " שלום עולם"
DIARY = {
    "林岚": [
        ("林岚早上六点起来揉面，烤了第一炉酸面包", 4),
        ("小满说她下个月要辞工去考教师资格证", 8),
        ("周师傅送来一箱秋梨，林岚打算做梨酱", 3),
        ("下午下大雨，店里只来了三个客人", 2),
        ("林岚给小满包了一个红包，祝她考试顺利", 7),
        ("新的烤箱坏了，修理工明天才来", 6),
    ],
    "Tomas": [
        ("Tomas fired the kiln at dawn and burned his left hand on the door", 8),
        ("Mara promised to bring a swarm of bees to the orchard on Sunday", 7),
        ("Tomas glazed forty cups in celadon green", 3),
        ("The bees settled in the third hive, near the pear tree", 6),
        ("A customer from Lisbon ordered a hundred plates", 9),
        ("Rain all day; Tomas mended the roof of the shed", 4),
    ],
}


@dataclass(frozen=True, slots=True)
class Town:
    """The group, and an id of each thing that has a page of its own."""

    group: str
    memory: UUID
    thought: UUID
    event: UUID
    letter: UUID
    reflection: UUID

    def paths(self) -> dict[str, str]:
        """The pages that the navigation does not lead to at once."""
        return {
            "memory": f"/nodes/{self.group}/{self.memory}",
            "thought": f"/nodes/{self.group}/{self.thought}",
            "why": f"/nodes/{self.group}/{self.memory}?focal=bees&agent=Tomas",
            "event": f"/events/{self.group}/{self.event}",
            "letter": f"/dead/{self.letter}?group={self.group}",
            "agent": f"/agents/{self.group}/Tomas",
            "graph": f"/agents/{self.group}/Tomas/graph",
            "agent in Chinese": f"/agents/{self.group}/林岚",
            "reflection": f"/reflections/{self.group}/{self.reflection}",
            "queue": f"/queues/embedding?group={self.group}",
            "work": f"/work/test-town?group={self.group}",
            "answers": f"/playground?group={self.group}&agent=Tomas&focal=bees&compare=1&b.recency_w=3",
            "found": f"/memories?group={self.group}&q=bees",
            "nothing found": f"/memories?group={self.group}&q=qwertz",
            "discarded": f"/dead?group={self.group}&state=discarded",
            "account": f"/account?group={self.group}",
            "conversation": f"/conversations/{self.group}/Tomas",
            "session": f"/sessions/{self.group}/Tomas/talk",
            "identity": f"/identity/{self.group}/Tomas",
            "heartbeat": f"/growth/heartbeats/Tomas?group={self.group}",
            "what grew": f"/growth/agents/{self.group}/Tomas",
            "a sentence is tried": (
                f"/growth/schedules?group={self.group}&text=每天早上9点提醒我喝水&tz=Asia/Shanghai"
            ),
            "first visit": f"/?group={self.group}-new",
            "refused": f"/nodes/{self.group}/{uuid4()}",
        }


def build(group: str) -> Town:
    events = [
        {
            "agent_id": agent,
            "description": description,
            "poignancy": poignancy,
            "session_id": f"day {place // 3}",
            "occurred_at": BEGIN + timedelta(hours=7 * place),
            "event_id": uuid4(),
        }
        for agent, diary in DIARY.items()
        for place, (description, poignancy) in enumerate(diary)
    ]
    events.append({"agent_id": "Tomas", "description": UNRULY, "poignancy": 5, "event_id": uuid4()})
    events.append(
        {
            "agent_id": "Tomas",
            "node_type": "chat",
            "description": "Tomas and Mara talk about bees",
            "event_id": uuid4(),
            "utterances": [("Mara", "They swarm in May."), ("Tomas", "蜜蜂？")],
        }
    )
    with Client(group) as client, whole_service():
        ids = client.observe_many(events)
        client.wait_for(ids, WAIT_SECONDS)
        # The rules say nothing that a memory of the diary says alone; programs may bring thoughts of their
        # own.
        thought = client.observe(
            "Tomas",
            "Mara and Tomas care for the same bees",
            node_type="thought",
            evidence=[ids[-1]],
            poignancy=6,
            wait=True,
        )
        reflection = client.reflect("Tomas", timeout=WAIT_SECONDS)
        live(client)
        found = client.retrieve("Tomas", "bees", top_k=1).groups[0].retrieved_nodes[0]
    letter = bury(
        group, "payload.description: must not be empty", traceback="Traceback (most recent call last):\n  …"
    )
    discarded = bury(group, UNRULY)
    with whole_service(), unit_of_work() as connection:
        connection.execute(
            text("UPDATE dead_letters SET state = 'discarded' WHERE letter_id = :id"), {"id": discarded}
        )
        connection.execute(
            text("""INSERT INTO pending_work (kind, subject_id, group_id, due_at, attempts, last_error)
                    VALUES ('test-town', :id, :group, now() + '1 h'::interval, 3, :error)"""),
            {"id": uuid4(), "group": group, "error": UNRULY},
        )
    create_key.perform(
        Actor(group, "test"), CreateKey(key=NewKey.of(new_key()), name="crawler", scopes=["publish", "read"])
    )
    return Town(group, found.node_id, thought, ids[0], letter, reflection.reflection_id)


def live(client: Client) -> None:
    """What agents that talk and look after themselves have, and a store."""
    for said in ("The kiln controller keeps failing at 900 degrees.", "我对花生过敏。"):
        client.add_turn("Tomas", "user", said, "talk")
    for _ in range(3):
        client.command(
            "pains.report", agent_id="Tomas", summary="The kiln controller keeps failing at 900 degrees."
        )
    client.command(
        "identity.propose", agent_id="Tomas", file="SOUL", suggested="I am a potter.", reason="said so often"
    )
    client.command("appointments.create", agent_id="Tomas", text="每天早上9点提醒我开窑", tz="Asia/Shanghai")
    client.command("heartbeats.configure", agent_id="Tomas", enabled=True)
    client.command("heartbeats.tick", agent_id="Tomas")


def bury(group: str, reason: str, event: dict[str, Any] | None = None, traceback: str | None = None) -> UUID:
    """An open letter of the intake, with the event that it could not take."""
    with whole_service(), unit_of_work() as connection:
        dead_letters.add_message(
            connection, json.dumps(event or {"n": "坏"}), reason, uuid4(), group, traceback
        )
        return UUID(
            str(
                connection.execute(
                    text(
                        "SELECT letter_id FROM dead_letters WHERE group_id = :group ORDER BY letter_id DESC"
                        " LIMIT 1"
                    ),
                    {"group": group},
                ).scalar_one()
            )
        )
