"""Actions on schedules: read a message, create, list, pause, resume, delete, do what a message asks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from engine.appointments import changes
from engine.appointments.changes import (
    Appointment,
    ChangeTimes,
    Fit,
    Likeness,
    ShownAppointment,
    asking_back,
    confirmation,
    find_meant,
    move_timing,
    read_change,
)
from engine.appointments.parse import Asked, Request, local_now, parse, readable, without_courtesies
from engine.appointments.schedule import Ambiguous, Exact, Parsed, ParsedSchedule, Unclear
from engine.times.clocks import Impossible
from engine.times.recurring import Lead
from jiyi.errors import InvalidRequest, NotFound
from jiyi.protocol.appointments import (
    AskedSchedules,
    AskSchedules,
    Certainty,
    CreateSchedule,
    ListSchedules,
    ParseSchedule,
    ScheduleParse,
    ScheduleReading,
    ScheduleState,
    Target,
    UpdateSchedule,
)
from jiyi.protocol.base import BY_ID, ById, Count, Rows
from jiyi.zones import zone_of
from models.accounts import audit
from models.appointments import schedules
from models.appointments.schedules import MAX_SCHEDULES
from models.db.actions import Context, action, by_worker
from models.db.rows import page
from models.memory import agents
from models.memory.agents import belonging

#: Number of next runs in a schedule's details.
SHOWN_RUNS = 5


@action("appointments.parse")
def parse_schedule(context: Context, request: ParseSchedule) -> ScheduleParse:
    """Read when a message asks for something.

    In Chinese and in English: exact, ambiguous (all readings, the likeliest first), unclear, or no request at
    all. Stores nothing.
    """
    now = request.now or datetime.now(UTC)
    parsed = parse(request.text, now, request.tz)
    certainty = _certainty(parsed)
    return ScheduleParse(
        certainty=certainty,
        intent=certainty != "none",
        readings=[_reading_of(schedule, now, request.runs) for schedule in _schedules(parsed)],
        reason=parsed.reason if isinstance(parsed, Unclear) else None,
    )


@action("appointments.create")
def create_schedule(context: Context, request: CreateSchedule) -> AskedSchedules:
    """Create a schedule.

    By the message that asks for it: of an ambiguous one the likeliest reading is created, and the others are
    returned. What is unclear, or asks for nothing, is answered with the reason, and nothing is stored. What
    is asked for once more is the same.
    """
    now = datetime.now(UTC)
    tz = request.tz or agents.time_zone(context.connection, context.group_id, request.agent_id)
    parsed = Exact(_given(request, tz, now)) if request.text is None else parse(request.text, now, tz)
    return _take_down(context, request, parsed, now)


def _take_down(
    context: Context, request: CreateSchedule, parsed: Parsed, now: datetime, request_id: UUID | None = None
) -> AskedSchedules:
    """Keep the likeliest reading of a request that was parsed at ``now``."""
    if isinstance(parsed, Unclear):
        question = asking_back(parsed.reason, request.text or "") if parsed.asked else None
        return AskedSchedules(certainty=_certainty(parsed), reason=parsed.reason, confirmation=question)
    name, certainty = (context.group_id, request.agent_id), _certainty(parsed)
    schedule, *rest = _schedules(parsed)
    others = [_reading_of(reading, now, 1) for reading in rest]
    next_run = schedule.timing.after(now)
    if next_run is None:
        raise InvalidRequest(["at: that time has passed; give one that is to come"])
    agents.lock_agents(context.connection, [name])
    sentence = confirmation(schedule, next_run, request.text or schedule.task, sure=certainty == "exact")
    known = schedules.find_same(context.connection, name, schedule, request.user_id)
    if known is not None:
        return AskedSchedules(certainty=certainty, schedule=known, confirmation=sentence, alternatives=others)
    if schedules.count(context.connection, name) >= MAX_SCHEDULES:
        raise InvalidRequest([f"agent_id: {request.agent_id!r} has {MAX_SCHEDULES} schedules; delete some"])
    target = request.target or Target(type=schedule.target, id=None)
    whose = (request.session_id, request.user_id)
    kept = schedules.add(context.connection, name, schedule, target, *whose, next_run)
    details: dict[str, Any] = {"request": request_id} if request_id else {}
    context.audit(str(kept.id), agent=request.agent_id, kind=kept.kind, **details)
    return AskedSchedules(certainty=certainty, schedule=kept, confirmation=sentence, alternatives=others)


@action("appointments.list")
def list_schedules(context: Context, request: ListSchedules) -> Rows[ScheduleState]:
    """List schedules, the newest first.

    Of one agent or of all, active, paused or ended.
    """
    whose = (context.group_id, request.agent_id, request.user_id)
    rows = schedules.schedule_page(
        context.connection, *whose, request.state, request.place(BY_ID), request.limit + 1
    )
    return page(rows, request.limit, lambda last: last.id)


@action("appointments.get")
def get_schedule(context: Context, request: ById) -> ScheduleState:
    """Get a schedule with its next runs.

    The times at which it will run, in its time zone.
    """
    schedule = _find(context, request)
    upcoming = schedules.upcoming(schedule, datetime.now(UTC), SHOWN_RUNS)
    return schedule.model_copy(update={"next_runs": upcoming})


@action("appointments.update")
def update_schedule(context: Context, request: UpdateSchedule) -> ScheduleState:
    """Change when a schedule runs, what is to be done, or whether it is paused.

    The time in words, or field by field; its runs stay listed. With a new time it is active. While it is
    paused it does not run, and times that pass are not run later; then it runs at its next time. One that is
    over cannot be resumed.
    """
    now, known = datetime.now(UTC), _find(context, request)
    agents.lock_agents(context.connection, [(context.group_id, known.agent_id)])
    task, which = request.task, (context.connection, context.group_id, known.id)
    if request.text is not None or request.kind is not None:
        tz, words = request.tz or known.tz, request.text
        parsed = Exact(_given(request, tz, now)) if words is None else parse(words, now, tz, asks=True)
        if isinstance(parsed, Unclear):
            raise InvalidRequest([f"text: {parsed.reason}"])
        schedule, task = _schedules(parsed)[0], task or _schedules(parsed)[0].task
        next_run = schedule.timing.after(now)
        if next_run is None:
            raise InvalidRequest(["at: that time has passed; give one that is to come"])
        schedules.move(*which, schedule.timing, schedule.description, next_run)
    elif request.tz not in (None, known.tz):  # the same time of day elsewhere
        timing = replace(schedules.timing_of(known), tz=request.tz)
        schedules.retime(*which, timing, timing.after(now) if known.state == "active" else None)
    if task:
        schedules.rename(*which, task)
    if request.paused is not None:
        next_run = None if request.paused else schedules.timing_of(_find(context, request)).after(now)
        if next_run is None and not request.paused:
            raise InvalidRequest(["id: its time has passed; make a new schedule"])
        schedules.change(*which, "paused" if request.paused else "active", next_run)
    details: dict[str, Any] = {} if request.paused is None else {"paused": request.paused}
    context.audit(str(known.id), agent=known.agent_id, **details)
    return _find(context, request)


@action("appointments.delete")
def delete_schedule(context: Context, request: ById) -> Count:
    """Delete a schedule with its runs.

    Reminders that it delivered stay until they are acknowledged.
    """
    if not schedules.remove(context.connection, context.group_id, request.id):
        raise _unknown(request)
    context.audit(str(request.id))
    return Count(count=1)


def _find(context: Context, request: ById) -> ScheduleState:
    schedule = schedules.find(context.connection, context.group_id, request.id)
    if schedule is None:
        raise _unknown(request)
    return schedule


def _unknown(request: ById) -> NotFound:
    return NotFound(f"id: no schedule {request.id}")


def _given(request: CreateSchedule | UpdateSchedule, tz: str, now: datetime) -> ParsedSchedule:
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


def _schedules(parsed: Parsed) -> tuple[ParsedSchedule, ...]:
    match parsed:
        case Exact(schedule):
            return (schedule,)
        case Ambiguous(readings):
            return readings
        case Unclear():
            return ()


def _certainty(parsed: Parsed) -> Certainty:
    match parsed:
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
        next_runs=schedules.run_times(parsed.timing, now, runs),
    )


#: Appointments that an answer names.
MAX_NAMED = 10
#: Next times by which an appointment is recognised: two weeks of a daily one.
COMPARED_TIMES = 14
#: The same request is known again for so long.
REPEATED_WITHIN = timedelta(days=1)

ask = by_worker("appointments.ask")


def do_new(context: Context, request: AskSchedules, parsed: Parsed, now: datetime) -> AskedSchedules:
    """Create the appointment that a message asks for, parsed at ``now``; once for each ``request_id``."""
    if (done := _done_before(context, request)) is not None:
        return _repeated(request, "new", done)
    asked = {name: getattr(request, name) for name in ("agent_id", "text", "tz", "session_id", "user_id")}
    wanted = CreateSchedule.model_validate(asked)
    return _take_down(context, wanted, parsed, now, request.request_id).model_copy(update={"asked": "new"})


def do_request(
    context: Context, request: AskSchedules, wanted: Request, likeness: Likeness | None
) -> AskedSchedules:
    """Cancel, move or list what a message means, once for each ``request_id``."""
    assert wanted.asked is not None
    asked = wanted.asked
    name = (context.group_id, request.agent_id)
    if (done := _done_before(context, request)) is not None:
        return _repeated(request, asked, done)
    planned = schedules.open_of(context.connection, name, request.user_id, MAX_SCHEDULES)
    tz = request.tz or agents.time_zone(context.connection, *name)
    times = read_change(readable(without_courtesies(request.text)), local_now(datetime.now(UTC), tz))
    if asked == "list":
        return _list_planned(request, planned, times)
    meant = _meant(times, asked, planned, likeness if wanted.sure else None)
    if meant.sure:
        schedule = next(schedule for schedule in planned if schedule.id == meant.appointments[0].id)
        do = _cancel if asked == "cancel" else _move
        return do(context, request, schedule, times)
    has_time = bool(times.new) or times.shift is not None
    if meant.appointments or (wanted.sure and (asked == "cancel" or has_time)):
        return _ask_back(request, asked, meant, planned)
    return AskedSchedules(certainty="none")  # "make it three paragraphs"


def _repeated(request: AskSchedules, asked: Asked, done: ScheduleState) -> AskedSchedules:
    say = changes.cancelled if asked == "cancel" else changes.kept
    return AskedSchedules(
        asked=asked, certainty="exact", schedule=done, confirmation=say(_as_shown(done), request.text)
    )


def _done_before(context: Context, request: AskSchedules) -> ScheduleState | None:
    """The schedule that the same request has changed. Locks the agent: requests are done one by one."""
    agents.lock_agents(context.connection, [(context.group_id, request.agent_id)])
    since = datetime.now(UTC) - REPEATED_WITHIN
    target = audit.target_of(
        context.connection, context.group_id, context.action, "request", str(request.request_id), since
    )
    return None if target is None else schedules.find(context.connection, context.group_id, UUID(target))


def _meant(
    times: ChangeTimes, asked: Asked, planned: Sequence[ScheduleState], likeness: Likeness | None
) -> Fit:
    had = times.old if asked == "move" else (*times.old, *times.new)
    telling = [time for time in had if not isinstance(time, Lead | Impossible)]
    return find_meant(times.rest, telling, [_appointment(time) for time in planned], likeness)


def _ask_back(
    request: AskSchedules, asked: Asked, meant: Fit, planned: Sequence[ScheduleState]
) -> AskedSchedules:
    ids = {schedule.id for schedule in meant.appointments}
    shown = [schedule for schedule in planned if schedule.id in ids] or list(planned)
    listed, more = [_as_shown(schedule) for schedule in shown[:MAX_NAMED]], max(0, len(shown) - MAX_NAMED)
    say = changes.which_one if ids else changes.none_fits
    reason = "several appointments fit" if ids else "no appointment fits"
    return _unclear(asked, shown[:MAX_NAMED], say(listed, more, request.text), reason)


def _list_planned(
    request: AskSchedules, planned: Sequence[ScheduleState], times: ChangeTimes
) -> AskedSchedules:
    """All that is planned; of a day or an hour that is named, what fits it."""
    asked_for = [item for item in (*times.old, *times.new) if not isinstance(item, Lead | Impossible)]
    found = find_meant("", asked_for, [_appointment(item) for item in planned]).appointments
    ids = {item.id for item in found}
    shown = [item for item in planned if item.id in ids]
    named, more = [_as_shown(item) for item in shown[:MAX_NAMED]], max(0, len(shown) - MAX_NAMED)
    sentence = changes.listed(named, more, request.text)
    return AskedSchedules(asked="list", certainty="exact", schedules=shown[:MAX_NAMED], confirmation=sentence)


def _cancel(
    context: Context, request: AskSchedules, schedule: ScheduleState, times: ChangeTimes
) -> AskedSchedules:
    """It ends, and can be resumed if that was a mistake. A single time of what comes again cannot."""
    if schedule.kind != "once" and changes.only_one_time(times):
        sentence = changes.only_one_of_many(_as_shown(schedule), request.text)
        return _unclear("cancel", [schedule], sentence, "it comes again")
    schedules.change(context.connection, context.group_id, schedule.id, "ended", None)
    _audit(context, request, schedule, "cancel")
    changed = schedules.find(context.connection, context.group_id, schedule.id)
    sentence = changes.cancelled(_as_shown(schedule), request.text)
    return AskedSchedules(asked="cancel", certainty="exact", schedule=changed, confirmation=sentence)


def _move(
    context: Context, request: AskSchedules, schedule: ScheduleState, times: ChangeTimes
) -> AskedSchedules:
    now = local_now(datetime.now(UTC), schedule.tz)
    to = move_timing(schedules.timing_of(schedule), times, now)
    next_run = None if isinstance(to, Unclear) else to.after(now)
    if isinstance(to, Unclear) or next_run is None:
        reason = to.reason if isinstance(to, Unclear) else "that time has passed"
        sentence = changes.asking_back(reason, request.text)
        return _unclear("move", [schedule], sentence, reason)
    words = f"{next_run.astimezone(zone_of(schedule.tz)):%H:%M}"
    words = times.words if times.words and not times.words.isdecimal() else words
    schedules.move(context.connection, context.group_id, schedule.id, to, words, next_run)
    _audit(context, request, schedule, "move", next_run_at=next_run)
    changed = schedules.find(context.connection, context.group_id, schedule.id)
    assert changed is not None
    sentence = changes.moved(_as_shown(changed), _as_shown(schedule), request.text)
    return AskedSchedules(asked="move", certainty="exact", schedule=changed, confirmation=sentence)


def _unclear(asked: Asked, shown: list[ScheduleState], question: str, reason: str) -> AskedSchedules:
    return AskedSchedules(
        asked=asked, certainty="unclear", schedules=shown, confirmation=question, reason=reason
    )


def _audit(
    context: Context, request: AskSchedules, schedule: ScheduleState, asked: Asked, **details: Any
) -> None:
    told: dict[str, Any] = {"agent": request.agent_id, "asked": asked, "request": request.request_id}
    context.audit(str(schedule.id), **told, **details)


def _appointment(schedule: ScheduleState) -> Appointment:
    zone = zone_of(schedule.tz)
    times = schedules.run_times(schedules.timing_of(schedule), datetime.now(UTC), COMPARED_TIMES)
    task = schedule.task_description or schedule.natural_description
    local_times = tuple(time.astimezone(zone) for time in times)
    return Appointment(schedule.id, task, local_times, schedule.kind != "once")


def _as_shown(schedule: ScheduleState) -> ShownAppointment:
    next_run = schedule.next_run_at or schedules.timing_of(schedule).after(datetime.now(UTC))
    again = "" if schedule.kind == "once" else schedule.natural_description
    return ShownAppointment(schedule.task_description, next_run, schedule.tz, again)


belonging("schedules", "SELECT FROM schedules WHERE group_id = :group AND agent_id = :agent")
