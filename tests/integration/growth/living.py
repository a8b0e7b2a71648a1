"""What tests of an agent's growth by itself share: turns said, work done, what is there looked at."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from sqlalchemy import text

from jiyi.protocol.base import ById
from jiyi.protocol.growth import ListPains, PainPoint
from models.db.actions import Actor
from models.db.connection import unit_of_work
from models.growth import pain_actions
from models.growth.work import FOLLOW_PROFILE, MERGE_PAINS, SOLVE_PAIN
from tasks.framework.work import Batch, run_until_idle
from tasks.growth.pains import merge_pains, solve_pain
from tasks.growth.self_review import follow_profile
from tests.integration.conversations import talk
from tests.integration.conversations.talk import SMALL_TALK

__all__ = ["SMALL_TALK"]
AGENT = "helper"
#: Three turns that tell of the same trouble.
TROUBLE = ["导出报表总是失败", "报表导出又失败了", "每次导出报表都报错"]
WORK: tuple[tuple[str, Callable[[Batch], None]], ...] = (
    (MERGE_PAINS, merge_pains),
    (SOLVE_PAIN, solve_pain),
    (FOLLOW_PROFILE, follow_profile),
)
_days = iter(range(1, 10_000))


def say(group: str, *said: str | tuple[str, str], **fields: Any) -> list[Any]:
    """Turns of a session, each call a day later than the one before; whatever follows from them is done."""
    start = fields.pop("start", talk.START + timedelta(days=next(_days)))
    ids = talk.say(group, *said, start=start, **fields)
    grow()
    return ids


def grow() -> None:
    """Do all that is owed of extraction and of growth, due or not."""
    hurry()
    talk.run()
    for kind, handler in WORK:
        run_until_idle(kind, handler)


def hurry() -> None:
    with unit_of_work() as connection:
        connection.execute(text("UPDATE pending_work SET due_at = now() WHERE due_at > now()"))


def actor(group: str, name: str = "user:mia") -> Actor:
    return Actor(group, name)


def act(group: str, action: Any, *, by: str = "user:mia", **fields: Any) -> Any:
    """What an action answers to a request of these fields; of the agent, where it has to name one."""
    named = action.request.model_fields.get("agent_id")
    if named is not None and named.is_required():
        fields.setdefault("agent_id", AGENT)
    return action.perform(actor(group, by), action.request(**fields))


def pains(group: str, **wanted: Any) -> list[PainPoint]:
    return pain_actions.list_pains.perform(actor(group), ListPains(**wanted)).rows


def pain(group: str) -> PainPoint:
    """The only pain point of the group."""
    [found] = pains(group)
    return pain_actions.get_pain.perform(actor(group), ById(id=found.pain_id))


def rows(statement: str, **parameters: Any) -> list[dict[str, Any]]:
    with unit_of_work() as connection:
        return [dict(row) for row in connection.execute(text(statement), parameters).mappings()]
