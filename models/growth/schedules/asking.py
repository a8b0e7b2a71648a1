"""What messages ask of an agent's appointments is done: cancel, move, list; a new one is taken down by ``schedule_create``."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from engine.growth.schedules import confirming
from engine.growth.schedules.asking.fitting import Appointment, Fit, Likeness, fitting
from engine.growth.schedules.asking.judging import Asked
from engine.growth.schedules.asking.moving import Named, moved, named
from engine.growth.schedules.clocks import Impossible
from engine.growth.schedules.confirming import Told
from engine.growth.schedules.offsets import Lead
from engine.growth.schedules.parse import local_now, readable
from engine.growth.schedules.types import Unclear
from jiyi.protocol.growth.cron import zone_of
from jiyi.protocol.growth.schedules import AskedSchedules, AskSchedules, CreateSchedule, ScheduleState
from jiyi.protocol.queries import CHANGES
from models.accounts import audit
from models.db.actions import Context, by_worker
from models.growth.heartbeat import heartbeats
from models.growth.schedules import schedules
from models.growth.schedules.actions import take_down
from models.growth.schedules.schedules import MAX_SCHEDULES
from models.memory.agents import agents

#: Appointments that an answer names.
NAMED = 10
#: Next times by which an appointment is recognised: two weeks of a daily one.
TIMES = 14
#: The same request is known again for so long.
KNOWN = timedelta(days=1)

ask = by_worker(
    "schedule_ask",
    AskSchedules,
    AskedSchedules,
    scope="publish",
    queue=CHANGES,
    doc="""Do what a message asks of the agent's appointments.

    Take down a new one, cancel or move the one that is meant, list what is planned; in Chinese and in English. If several fit, or
    none, nothing is changed and the answer asks back. A message that asks for nothing changes nothing. Needs a worker that answers.
    """,
)


def do(context: Context, request: AskSchedules, asked: Asked, likeness: Likeness | None) -> AskedSchedules:
    """What was asked, once for each ``request_id``: the agent is locked, so that two requests are done one after the other."""
    name = (context.group_id, request.agent_id)
    agents.lock_agents(context.connection, [name])
    if (done := _done_before(context, request)) is not None:
        sentence = confirming.cancelled(_told(done), request.text) if asked == "cancel" else confirming.kept(_told(done), request.text)
        return AskedSchedules(asked=asked, certainty="exact", schedule=done, confirmation=sentence)
    if asked == "new":
        return _take_down(context, request)
    there = schedules.open_of(context.connection, name, MAX_SCHEDULES)
    tz = request.tz or heartbeats.time_zone(context.connection, name)
    times = named(readable(request.text), local_now(datetime.now(UTC), tz))
    if asked == "list":
        return _list(request, there, times)
    meant = _meant(times, asked, there, likeness)
    if not meant.sure:
        return _ask_back(request, asked, meant, there)
    one = next(schedule for schedule in there if schedule.id == meant.some[0].id)
    return _cancel(context, request, one) if asked == "cancel" else _move(context, request, one, times)


def _done_before(context: Context, request: AskSchedules) -> ScheduleState | None:
    """The schedule that the same request has changed."""
    if request.request_id is None:
        return None
    since = datetime.now(UTC) - KNOWN
    target = audit.target_of(context.connection, context.group_id, context.action, "request", str(request.request_id), since)
    return None if target is None else schedules.find(context.connection, context.group_id, UUID(target))


def _take_down(context: Context, request: AskSchedules) -> AskedSchedules:
    wanted = CreateSchedule(agent_id=request.agent_id, text=request.text, tz=request.tz, session_id=request.session_id)
    made = take_down(context, wanted, asks=True, request_id=request.request_id)
    return AskedSchedules(asked="new", **made.model_dump())


def _meant(times: Named, asked: Asked, there: Sequence[ScheduleState], likeness: Likeness | None) -> Fit:
    had = times.old if asked == "move" else (*times.old, *times.new)
    telling = [one for one in had if not isinstance(one, Lead | Impossible)]
    return fitting(times.rest, telling, [_appointment(one) for one in there], likeness)


def _ask_back(request: AskSchedules, asked: Asked, meant: Fit, there: Sequence[ScheduleState]) -> AskedSchedules:
    ids = {one.id for one in meant.some}
    some = [one for one in there if one.id in ids] or list(there)
    shown, more = [_told(one) for one in some[:NAMED]], max(0, len(some) - NAMED)
    say = confirming.which_one if ids else confirming.none_fits
    reason = "several appointments fit" if ids else "no appointment fits"
    return AskedSchedules(
        asked=asked, certainty="unclear", schedules=some[:NAMED], confirmation=say(shown, more, request.text), reason=reason
    )


def _list(request: AskSchedules, there: Sequence[ScheduleState], times: Named) -> AskedSchedules:
    """All that is planned; of a day or an hour that is named, what fits it."""
    asked_for = [one for one in (*times.old, *times.new) if not isinstance(one, Lead | Impossible)]
    ids = {one.id for one in fitting("", asked_for, [_appointment(one) for one in there]).some}
    some = [one for one in there if one.id in ids]
    sentence = confirming.listed([_told(one) for one in some[:NAMED]], max(0, len(some) - NAMED), request.text)
    return AskedSchedules(asked="list", certainty="exact", schedules=some[:NAMED], confirmation=sentence)


def _cancel(context: Context, request: AskSchedules, one: ScheduleState) -> AskedSchedules:
    """It ends, and can be resumed if that was a mistake."""
    schedules.change(context.connection, context.group_id, one.id, "ended", None)
    _audit(context, request, one, "cancel")
    return _done(context, one.id, "cancel", confirming.cancelled(_told(one), request.text))


def _move(context: Context, request: AskSchedules, one: ScheduleState, times: Named) -> AskedSchedules:
    now = local_now(datetime.now(UTC), one.tz)
    to = moved(schedules.timing(one), times, now)
    next_run = None if isinstance(to, Unclear) else to.after(now)
    if isinstance(to, Unclear) or next_run is None:
        reason = to.reason if isinstance(to, Unclear) else "that time has passed"
        sentence = confirming.asking_back(reason, request.text)
        return AskedSchedules(asked="move", certainty="unclear", schedules=[one], confirmation=sentence, reason=reason)
    words = times.words or f"{next_run.astimezone(zone_of(one.tz)):%H:%M}"
    schedules.move(context.connection, context.group_id, one.id, to, words, next_run)
    _audit(context, request, one, "move", next_run_at=next_run)
    changed = schedules.find(context.connection, context.group_id, one.id)
    assert changed is not None
    return _done(context, one.id, "move", confirming.moved(_told(changed), _told(one), request.text))


def _done(context: Context, schedule_id: UUID, asked: Asked, sentence: str) -> AskedSchedules:
    changed = schedules.find(context.connection, context.group_id, schedule_id)
    return AskedSchedules(asked=asked, certainty="exact", schedule=changed, confirmation=sentence)


def _audit(context: Context, request: AskSchedules, one: ScheduleState, asked: Asked, **details: Any) -> None:
    context.audit(str(one.id), agent=request.agent_id, asked=asked, request=request.request_id, **details)


def _appointment(one: ScheduleState) -> Appointment:
    zone = zone_of(one.tz)
    times = schedules.times(schedules.timing(one), datetime.now(UTC), TIMES)
    return Appointment(
        one.id, one.task_description or one.natural_description, tuple(time.astimezone(zone) for time in times), one.kind != "once"
    )


def _told(one: ScheduleState) -> Told:
    next_run = one.next_run_at or schedules.timing(one).after(datetime.now(UTC))
    return Told(one.task_description, next_run, one.tz, "" if one.kind == "once" else one.natural_description)
