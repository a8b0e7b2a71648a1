"""What can be done with schedules: read a message, take one down, list, pause, resume, delete."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from engine.growth.schedules.confirming import asking_back, confirmation
from engine.growth.schedules.firing import Timing
from engine.growth.schedules.parse import parse
from engine.growth.schedules.types import Ambiguous, Exact, Parsed, ParsedSchedule, Unclear
from jiyi.errors import InvalidRequest, NotFound
from jiyi.protocol.growth.schedules import (
    Certainty,
    CreatedSchedule,
    CreateSchedule,
    Deleted,
    ListRuns,
    ListSchedules,
    ParseSchedule,
    ScheduleDetails,
    ScheduleId,
    ScheduleParse,
    ScheduleReading,
    ScheduleRuns,
    Schedules,
    ScheduleState,
    Target,
)
from models.db.actions import Context, action
from models.growth.heartbeat import heartbeats
from models.growth.schedules import schedules
from models.growth.schedules.schedules import MAX_SCHEDULES
from models.memory.agents import agents

#: Next runs that a schedule's details tell.
SHOWN_RUNS = 5


@action("schedule_parse", scope="read", mutates=False)
def parse_schedule(context: Context, request: ParseSchedule) -> ScheduleParse:
    """Read when a message asks for something.

    In Chinese and in English: exact, ambiguous (all readings, the likeliest first), unclear, or no request at all. Stores nothing.
    """
    now = request.now or datetime.now(UTC)
    found = parse(request.text, now, request.tz)
    reason = found.reason if isinstance(found, Unclear) else None
    certainty = _certainty(found)
    return ScheduleParse(
        certainty=certainty,
        intent=certainty != "none",
        readings=[_reading(one, now, request.runs) for one in _schedules(found)],
        reason=reason,
    )


@action("schedule_create", scope="publish")
def create_schedule(context: Context, request: CreateSchedule) -> CreatedSchedule:
    """Take down a schedule.

    By the message that asks for it: of an ambiguous one the likeliest reading is taken down, and the others are told. What is
    unclear, or asks for nothing, is answered with the reason, and nothing is stored. What is asked for once more is the same.
    """
    return take_down(context, request)


def take_down(context: Context, request: CreateSchedule, *, asks: bool = False, request_id: UUID | None = None) -> CreatedSchedule:
    """As ``schedule_create``. ``asks``: the message is known to ask for an appointment, in whatever words."""
    now = datetime.now(UTC)
    name = (context.group_id, request.agent_id)
    tz = request.tz or heartbeats.time_zone(context.connection, name)
    if request.text is None:
        parsed, certainty, others = _given(request, tz, now), "exact", []
    else:
        found = parse(request.text, now, tz, asks=asks)
        if isinstance(found, Unclear):
            asked = asking_back(found.reason, request.text) if found.asked else None
            return CreatedSchedule(certainty=_certainty(found), reason=found.reason, confirmation=asked)
        (parsed, *rest), certainty = _schedules(found), _certainty(found)
        others = [_reading(one, now, 1) for one in rest]
    next_run = _timing(parsed).after(now)
    if next_run is None:
        raise InvalidRequest(["at: that time has passed; give one that is to come"])
    agents.lock_agents(context.connection, [name])
    sentence = confirmation(parsed, next_run, request.text or parsed.task, sure=certainty == "exact")
    known = schedules.same(context.connection, name, parsed)
    if known is not None:
        return CreatedSchedule(certainty=certainty, schedule=known, confirmation=sentence, alternatives=others)
    if schedules.count(context.connection, name) >= MAX_SCHEDULES:
        raise InvalidRequest([f"agent_id: {request.agent_id!r} has {MAX_SCHEDULES} schedules; delete some"])
    target = request.target or Target(type=parsed.target, id=None)
    kept = schedules.add(context.connection, name, parsed, target, request.session_id, next_run)
    details: dict[str, Any] = {"request": request_id} if request_id else {}
    context.audit(str(kept.id), agent=request.agent_id, kind=kept.kind, **details)
    return CreatedSchedule(certainty=certainty, schedule=kept, confirmation=sentence, alternatives=others)


@action("schedule_list", scope="read", mutates=False)
def list_schedules(context: Context, request: ListSchedules) -> Schedules:
    """List schedules, the newest first.

    Of one agent or of all, active, paused or ended.
    """
    found = schedules.some(context.connection, context.group_id, request.agent_id, request.state, request.after, request.limit)
    return Schedules(schedules=found, next=found[-1].id if len(found) == request.limit else None)


@action("schedule_get", scope="read", mutates=False)
def get_schedule(context: Context, request: ScheduleId) -> ScheduleDetails:
    """Get a schedule with its next runs.

    The times at which it will run, in its time zone.
    """
    found = _find(context, request)
    return ScheduleDetails(schedule=found, next_runs=schedules.upcoming(found, datetime.now(UTC), SHOWN_RUNS))


@action("schedule_runs", scope="read", mutates=False)
def schedule_runs(context: Context, request: ListRuns) -> ScheduleRuns:
    """List the runs of a schedule, the latest first.

    When each was due, when it ran, and whether it was missed.
    """
    _find(context, ScheduleId(id=request.id))
    return ScheduleRuns(runs=schedules.runs(context.connection, context.group_id, request.id, request.limit))


@action("schedule_pause", scope="publish")
def pause_schedule(context: Context, request: ScheduleId) -> ScheduleState:
    """Pause a schedule.

    It does not run until it is resumed; times that pass meanwhile are not made good.
    """
    return _changed(context, request, "paused", None)


@action("schedule_resume", scope="publish")
def resume_schedule(context: Context, request: ScheduleId) -> ScheduleState:
    """Resume a schedule.

    It runs at its next time from now on. One that is over cannot be resumed.
    """
    found = _find(context, request)
    next_run = schedules.timing(found).after(datetime.now(UTC))
    if next_run is None:
        raise InvalidRequest(["id: its time has passed; make a new schedule"])
    return _changed(context, request, "active", next_run)


@action("schedule_delete", scope="publish")
def delete_schedule(context: Context, request: ScheduleId) -> Deleted:
    """Delete a schedule with its runs.

    Reminders that it delivered stay until they are acknowledged.
    """
    if not schedules.remove(context.connection, context.group_id, request.id):
        raise _unknown(request)
    context.audit(str(request.id))
    return Deleted(deleted=True)


def _changed(context: Context, request: ScheduleId, state: str, next_run: datetime | None) -> ScheduleState:
    _find(context, request)
    schedules.change(context.connection, context.group_id, request.id, state, next_run)
    context.audit(str(request.id), state=state)
    return _find(context, request)


def _find(context: Context, request: ScheduleId) -> ScheduleState:
    found = schedules.find(context.connection, context.group_id, request.id)
    if found is None:
        raise _unknown(request)
    return found


def _unknown(request: ScheduleId) -> NotFound:
    return NotFound(f"id: no schedule {request.id}")


def _given(request: CreateSchedule, tz: str, now: datetime) -> ParsedSchedule:
    """The schedule of a request that says it field by field."""
    assert request.kind is not None
    step = request.every_seconds
    return ParsedSchedule(
        kind=request.kind,
        cron=request.cron,
        at=request.at or (now + timedelta(seconds=step) if step is not None else None),
        every_seconds=step,
        tz=tz,
        description=request.cron or (f"every {step} s" if step else str(request.at)),
        confidence=1.0,
        task=request.task or "",
    )


def _schedules(found: Parsed) -> tuple[ParsedSchedule, ...]:
    match found:
        case Exact(schedule):
            return (schedule,)
        case Ambiguous(some):
            return some
        case Unclear():
            return ()


def _certainty(found: Parsed) -> Certainty:
    match found:
        case Exact():
            return "exact"
        case Ambiguous():
            return "ambiguous"
        case Unclear(_, asked):
            return "unclear" if asked else "none"


def _reading(parsed: ParsedSchedule, now: datetime, runs: int) -> ScheduleReading:
    return ScheduleReading(
        kind=parsed.kind,
        cron=parsed.cron,
        at=parsed.at,
        every_seconds=parsed.every_seconds,
        tz=parsed.tz,
        natural_description=parsed.description,
        confidence=parsed.confidence,
        task_description=parsed.task,
        task_target=Target(type=parsed.target),
        next_runs=schedules.times(_timing(parsed), now, runs),
    )


def _timing(parsed: ParsedSchedule) -> Timing:
    return Timing(parsed.kind, parsed.cron, parsed.at, parsed.every_seconds, parsed.tz)
