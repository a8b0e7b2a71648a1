"""Cases of pending work and of dead letters."""

from __future__ import annotations

import json
from uuid import UUID, uuid4

from jiyi.protocol.event_bodies import encode
from models.db.connection import unit_of_work
from models.queue import actions, dead_letters, pending_work
from tests.integration.actions.cases import MADE, Case, case
from tests.integration.memory.test_inbox import observed, rows

#: Of no task: no worker takes it while a test looks at it.
KIND = "door"


def pending(group: str) -> str:
    """A subject whose work has failed before, and waits."""
    subject = uuid4()
    with unit_of_work() as connection:
        pending_work.enqueue(connection, KIND, [(subject, group)])
        pending_work.retry_later(connection, KIND, [subject], 3_600, "why")
    return str(subject)


def buried(group: str) -> list[str]:
    """Letters: of an event that can be stored now, of one that cannot, and of work."""
    good, bad = (json.loads(encode([observed(group, said)])) for said in ("mended", "not mended"))
    bad["payload"]["poignancy"] = 99
    with unit_of_work() as connection:
        for event, why in ((good, "a mistake of ours"), (bad, "poignancy")):
            dead_letters.add_message(connection, json.dumps(event), why, UUID(event["event_id"]), group)
        pending_work.enqueue(connection, KIND, [(uuid4(), group)])
        pending_work.dead_letter_exhausted(connection, KIND, 0)
    found = rows("SELECT letter_id FROM dead_letters WHERE group_id = :g ORDER BY letter_id", g=group)
    return [str(row["letter_id"]) for row in found]


def resolution(action: str, name: str = "", **which: object) -> Case:
    return case(actions.resolve_letters, buried, {"action": action, **which}, name or action)


CASES = (
    case(actions.retry_work, pending, {"kind": KIND, "subject_ids": [MADE]}),
    resolution("replay", letter_ids=MADE),
    resolution("discard", letter_ids=MADE),
    resolution("replay", "all-of-a-kind", kind="intake"),
)
