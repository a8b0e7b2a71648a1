"""Cases of the mutations that only workers can do."""

from __future__ import annotations

from typing import Any

from jiyi.protocol import events
from jiyi.protocol.reembedding import ReembeddingStep
from jiyi.protocol.tiers.digests import DigestBody
from models.db.actions import Actor
from models.db.connection import unit_of_work
from models.db.scope import for_groups, whole_service
from models.memory.inbox import EMBED, store
from models.operations import actions as operations
from models.operations import reembedding
from models.tiers import actions as tiers
from models.tiers import digests
from tests.integration.actions.cases import Case
from tests.integration.actions.tiers import entry
from tests.integration.tiers.outputs import run, tasks


def move_begun(group: str) -> None:
    """A move to another embedding model is under way, so that it can be cancelled."""
    memory = {"type": "memory.observed", "group_id": group, "agent_id": "a", "payload": {"description": "Klaus drinks green tea"}}
    with for_groups(group), unit_of_work() as connection:
        store(connection, [events.build(memory)])
    run(EMBED, "memory.embedding", "embed")
    tasks("operations.reembedding").step(Actor(group, "test", operator=True), ReembeddingStep(to="hashing:64"))


def move_under_way(_group: str, _made: Any) -> bool:
    with whole_service(), unit_of_work() as connection:
        return reembedding.filling(connection) is not None


def digested(group: str, _made: Any) -> list[list[int]]:
    with for_groups(group), unit_of_work() as connection:
        return [[len(item.entry_ids) for item in one.items] for one in digests.listed(connection, group, limit=10)]


CASES = (
    Case(
        action=tiers.make_digest,
        prepare=entry,
        request=lambda _made: DigestBody(days=7),
        effect=digested,
        rest=lambda _made: ("POST", "/memory/digest", {"days": 7}),
        admin=lambda _made: ("/digests", {"days": "7"}),
    ),
    Case(action=operations.step_reembedding, prepare=move_begun, request=lambda _made: ReembeddingStep(cancel=True), effect=move_under_way),
)
