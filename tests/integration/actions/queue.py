"""Cases of pending work and of dead letters."""

from __future__ import annotations

import json
from uuid import UUID, uuid4

from sqlalchemy import text

from jiyi.protocol.event_bodies import encode
from jiyi.protocol.operations import ResolveBody, RetryWork
from models.db.connection import unit_of_work
from models.queue import actions, dead_letters, pending_work
from tests.integration.actions.cases import Case
from tests.integration.memory.test_inbox import observed

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
    good, bad = observed(group, "mended"), json.loads(encode([observed(group)]))
    bad["payload"]["poignancy"] = 99
    with unit_of_work() as connection:
        dead_letters.add_message(
            connection, encode([good]).decode(), "a mistake of ours", good.event_id, group
        )
        dead_letters.add_message(connection, json.dumps(bad), "poignancy", UUID(bad["event_id"]), group)
        pending_work.enqueue(connection, KIND, [(uuid4(), group)])
        pending_work.dead_letter_exhausted(connection, KIND, 0)
        found = connection.execute(_IDS, {"group": group}).scalars()
        return [str(letter_id) for letter_id in found]


def resolution(action: str) -> Case:
    return Case(
        action=actions.resolve_letters,
        name=action,
        prepare=buried,
        request=lambda made: ResolveBody(action=action, letter_ids=made),
    )


CASES = (
    Case(
        action=actions.retry_work,
        prepare=pending,
        request=lambda made: RetryWork(kind=KIND, subject_ids=[made]),
    ),
    resolution("replay"),
    resolution("discard"),
    Case(
        action=actions.resolve_letters,
        name="all-of-a-kind",
        prepare=buried,
        request=lambda _made: ResolveBody(action="replay", kind="intake"),
    ),
)

_IDS = text("SELECT letter_id FROM dead_letters WHERE group_id = :group ORDER BY letter_id")
