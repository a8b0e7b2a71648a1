"""What messages ask of appointments: judged where the local model is, then done in one transaction."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from engine.growth.schedules.asking.judging import asked_of
from engine.heads.local import heads
from jiyi.protocol.growth.schedules import AskedSchedules, AskSchedules
from models.db.actions import Actor
from models.growth.schedules import asking
from tasks.framework.rpc import implements


@implements(asking.ask)
def ask(actor: Actor, request: AskSchedules) -> AskedSchedules:
    """Safe to repeat because what was done for a ``request_id`` is not done again."""
    judge = heads()
    asked = asked_of(request.text, datetime.now(UTC), request.tz or "UTC", judge)
    if asked is None:
        return AskedSchedules(certainty="none")
    likeness = None if judge is None else judge.likeness
    action = replace(asking.ask, function=lambda context, told: asking.do(context, told, asked, likeness))
    done: AskedSchedules = action.perform(actor, request)
    return done
