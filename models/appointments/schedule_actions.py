"""Actions on schedules: read a message, take one down, list, pause, resume, delete, and do what a message asks of them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from engine.appointments import replies
from engine.appointments.changes import Appointment, ChangeTimes, Fit, Likeness, find_meant, move_timing, read_change
from engine.appointments.parse import Asked, local_now, parse, readable
from engine.appointments.replies import ShownAppointment, asking_back, confirmation
from engine.appointments.schedule import Ambiguous, Exact, Parsed, ParsedSchedule, Timing, Unclear
from engine.times.clocks import Impossible
from engine.times.offsets import Lead
from jiyi.errors import InvalidRequest, NotFound
from jiyi.protocol.appointments.cron import zone_of
from jiyi.protocol.appointments.schedules import (
    AskedSchedules,
    AskSchedules,
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
from jiyi.protocol.queries import CHANGES
from jiyi.settings import get_settings
from models.accounts import audit
from models.appointments import heartbeats, schedules
from models.db.actions import Context, action, by_worker
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
        readings=[_reading_of(one, now, request.runs) for one in _schedules(found)],
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
        others = [_reading_of(one, now, 1) for one in rest]
    next_run = _timing(parsed).after(now)
    if next_run is None:
        raise InvalidRequest(["at: that time has passed; give one that is to come"])
    agents.lock_agents(context.connection, [name])
    sentence = confirmation(parsed, next_run, request.text or parsed.task, sure=certainty == "exact")
    known = schedules.find_same(context.connection, name, parsed)
    if known is not None:
        return CreatedSchedule(certainty=certainty, schedule=known, confirmation=sentence, alternatives=others)
    if schedules.count(context.connection, name) >= get_settings().schedules_max:
        raise InvalidRequest(
            [f"agent_id: {request.agent_id!r} has {get_settings().schedules_max} schedules; delete some, or raise JIYI_SCHEDULES_MAX"]
        )
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
    found = schedules.schedule_page(context.connection, context.group_id, request.agent_id, request.state, request.after, request.limit)
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
    return ScheduleRuns(runs=schedules.runs_of(context.connection, context.group_id, request.id, request.limit))


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
    next_run = schedules.timing_of(found).after(datetime.now(UTC))
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


def _reading_of(parsed: ParsedSchedule, now: datetime, runs: int) -> ScheduleReading:
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
        next_runs=schedules.run_times(_timing(parsed), now, runs),
    )


def _timing(parsed: ParsedSchedule) -> Timing:
    return Timing(parsed.kind, parsed.cron, parsed.at, parsed.every_seconds, parsed.tz)


#: Appointments that an answer names.
MAX_NAMED = 10
#: Next times by which an appointment is recognised: two weeks of a daily one.
COMPARED_TIMES = 14
#: The same request is known again for so long.
REPEATED_WITHIN = timedelta(days=1)

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


def do_request(context: Context, request: AskSchedules, asked: Asked, likeness: Likeness | None) -> AskedSchedules:
    """What was asked, once for each ``request_id``: the agent is locked, so that two requests are done one after the other."""
    name = (context.group_id, request.agent_id)
    agents.lock_agents(context.connection, [name])
    if (done := _done_before(context, request)) is not None:
        sentence = replies.cancelled(_as_shown(done), request.text) if asked == "cancel" else replies.kept(_as_shown(done), request.text)
        return AskedSchedules(asked=asked, certainty="exact", schedule=done, confirmation=sentence)
    if asked == "new":
        return _take_down_new(context, request)
    there = schedules.open_of(context.connection, name, get_settings().schedules_max)
    tz = request.tz or heartbeats.time_zone(context.connection, name)
    times = read_change(readable(request.text), local_now(datetime.now(UTC), tz))
    if asked == "list":
        return _list_planned(request, there, times)
    meant = _meant(times, asked, there, likeness)
    if not meant.sure:
        return _ask_back(request, asked, meant, there)
    one = next(schedule for schedule in there if schedule.id == meant.some[0].id)
    return _cancel(context, request, one) if asked == "cancel" else _move(context, request, one, times)


def _done_before(context: Context, request: AskSchedules) -> ScheduleState | None:
    """The schedule that the same request has changed."""
    if request.request_id is None:
        return None
    since = datetime.now(UTC) - REPEATED_WITHIN
    target = audit.target_of(context.connection, context.group_id, context.action, "request", str(request.request_id), since)
    return None if target is None else schedules.find(context.connection, context.group_id, UUID(target))


def _take_down_new(context: Context, request: AskSchedules) -> AskedSchedules:
    wanted = CreateSchedule(agent_id=request.agent_id, text=request.text, tz=request.tz, session_id=request.session_id)
    made = take_down(context, wanted, asks=True, request_id=request.request_id)
    return AskedSchedules(asked="new", **made.model_dump())


def _meant(times: ChangeTimes, asked: Asked, there: Sequence[ScheduleState], likeness: Likeness | None) -> Fit:
    had = times.old if asked == "move" else (*times.old, *times.new)
    telling = [one for one in had if not isinstance(one, Lead | Impossible)]
    return find_meant(times.rest, telling, [_appointment(one) for one in there], likeness)


def _ask_back(request: AskSchedules, asked: Asked, meant: Fit, there: Sequence[ScheduleState]) -> AskedSchedules:
    ids = {one.id for one in meant.some}
    some = [one for one in there if one.id in ids] or list(there)
    shown, more = [_as_shown(one) for one in some[:MAX_NAMED]], max(0, len(some) - MAX_NAMED)
    say = replies.which_one if ids else replies.none_fits
    reason = "several appointments fit" if ids else "no appointment fits"
    return AskedSchedules(
        asked=asked, certainty="unclear", schedules=some[:MAX_NAMED], confirmation=say(shown, more, request.text), reason=reason
    )


def _list_planned(request: AskSchedules, there: Sequence[ScheduleState], times: ChangeTimes) -> AskedSchedules:
    """All that is planned; of a day or an hour that is named, what fits it."""
    asked_for = [one for one in (*times.old, *times.new) if not isinstance(one, Lead | Impossible)]
    ids = {one.id for one in find_meant("", asked_for, [_appointment(one) for one in there]).some}
    some = [one for one in there if one.id in ids]
    sentence = replies.listed([_as_shown(one) for one in some[:MAX_NAMED]], max(0, len(some) - MAX_NAMED), request.text)
    return AskedSchedules(asked="list", certainty="exact", schedules=some[:MAX_NAMED], confirmation=sentence)


def _cancel(context: Context, request: AskSchedules, one: ScheduleState) -> AskedSchedules:
    """It ends, and can be resumed if that was a mistake."""
    schedules.change(context.connection, context.group_id, one.id, "ended", None)
    _audit(context, request, one, "cancel")
    return _answer(context, one.id, "cancel", replies.cancelled(_as_shown(one), request.text))


def _move(context: Context, request: AskSchedules, one: ScheduleState, times: ChangeTimes) -> AskedSchedules:
    now = local_now(datetime.now(UTC), one.tz)
    to = move_timing(schedules.timing_of(one), times, now)
    next_run = None if isinstance(to, Unclear) else to.after(now)
    if isinstance(to, Unclear) or next_run is None:
        reason = to.reason if isinstance(to, Unclear) else "that time has passed"
        sentence = replies.asking_back(reason, request.text)
        return AskedSchedules(asked="move", certainty="unclear", schedules=[one], confirmation=sentence, reason=reason)
    words = times.words or f"{next_run.astimezone(zone_of(one.tz)):%H:%M}"
    schedules.move(context.connection, context.group_id, one.id, to, words, next_run)
    _audit(context, request, one, "move", next_run_at=next_run)
    changed = schedules.find(context.connection, context.group_id, one.id)
    assert changed is not None
    return _answer(context, one.id, "move", replies.moved(_as_shown(changed), _as_shown(one), request.text))


def _answer(context: Context, schedule_id: UUID, asked: Asked, sentence: str) -> AskedSchedules:
    changed = schedules.find(context.connection, context.group_id, schedule_id)
    return AskedSchedules(asked=asked, certainty="exact", schedule=changed, confirmation=sentence)


def _audit(context: Context, request: AskSchedules, one: ScheduleState, asked: Asked, **details: Any) -> None:
    context.audit(str(one.id), agent=request.agent_id, asked=asked, request=request.request_id, **details)


def _appointment(one: ScheduleState) -> Appointment:
    zone = zone_of(one.tz)
    times = schedules.run_times(schedules.timing_of(one), datetime.now(UTC), COMPARED_TIMES)
    return Appointment(
        one.id, one.task_description or one.natural_description, tuple(time.astimezone(zone) for time in times), one.kind != "once"
    )


def _as_shown(one: ScheduleState) -> ShownAppointment:
    next_run = one.next_run_at or schedules.timing_of(one).after(datetime.now(UTC))
    return ShownAppointment(one.task_description, next_run, one.tz, "" if one.kind == "once" else one.natural_description)
