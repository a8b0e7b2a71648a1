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
    ShownAppointment,
    Similarity,
    asking_back,
    confirmation,
    match_appointments,
    move_timing,
    read_change,
)
from engine.appointments.parse import (
    AppointmentRequest,
    RequestKind,
    local_now,
    parse,
    readable,
    without_courtesies,
)
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

    By the message that asks for it. Of an ambiguous one the likeliest reading is created, and the others are
    returned. What is unclear, or no request, is answered with the reason, and nothing is stored. A repeated
    request gives the same schedule.
    """
    now = datetime.now(UTC)
    tz = request.tz or agents.time_zone(context.connection, context.group_id, request.agent_id)
    parsed = (
        Exact(_field_schedule(request, tz, now)) if request.text is None else parse(request.text, now, tz)
    )
    return _create(context, request, parsed, now)


def _create(
    context: Context, request: CreateSchedule, parsed: Parsed, now: datetime, request_id: UUID | None = None
) -> AskedSchedules:
    """Keep the likeliest reading of a request that was parsed at ``now``."""
    if isinstance(parsed, Unclear):
        question = asking_back(parsed.reason, request.text or "") if parsed.is_request else None
        return AskedSchedules(certainty=_certainty(parsed), reason=parsed.reason, confirmation=question)
    name, certainty = (context.group_id, request.agent_id), _certainty(parsed)
    schedule, *rest = _schedules(parsed)
    others = [_reading_of(reading, now, 1) for reading in rest]
    next_run = schedule.timing.after(now)
    if next_run is None:
        raise InvalidRequest(["at: that time has passed; give a time in the future"])
    agents.lock_agents(context.connection, [name])
    sentence = confirmation(schedule, next_run, request.text or schedule.task, sure=certainty == "exact")
    existing = schedules.find_same(context.connection, name, schedule, request.user_id)
    if existing is not None:
        return AskedSchedules(
            certainty=certainty, schedule=existing, confirmation=sentence, alternatives=others
        )
    if schedules.count(context.connection, name) >= MAX_SCHEDULES:
        raise InvalidRequest([f"agent_id: {request.agent_id!r} has {MAX_SCHEDULES} schedules; delete some"])
    target = request.target or Target(type=schedule.target, id=None)
    whose = (request.session_id, request.user_id)
    created = schedules.add(context.connection, name, schedule, target, *whose, next_run)
    details: dict[str, Any] = {"request": request_id} if request_id else {}
    context.audit(str(created.id), agent=request.agent_id, kind=created.kind, **details)
    return AskedSchedules(certainty=certainty, schedule=created, confirmation=sentence, alternatives=others)


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
    now, current = datetime.now(UTC), _find(context, request)
    agents.lock_agents(context.connection, [(context.group_id, current.agent_id)])
    task, which = request.task, (context.connection, context.group_id, current.id)
    if request.text is not None or request.kind is not None:
        tz, words = request.tz or current.tz, request.text
        parsed = (
            Exact(_field_schedule(request, tz, now)) if words is None else parse(words, now, tz, asks=True)
        )
        if isinstance(parsed, Unclear):
            raise InvalidRequest([f"text: {parsed.reason}"])
        schedule, task = _schedules(parsed)[0], task or _schedules(parsed)[0].task
        next_run = schedule.timing.after(now)
        if next_run is None:
            raise InvalidRequest(["at: that time has passed; give a time in the future"])
        schedules.move(*which, schedule.timing, schedule.description, next_run)
    elif request.tz not in (None, current.tz):  # the same time of day elsewhere
        timing = replace(schedules.timing_of(current), tz=request.tz)
        next_run = timing.after(now) if current.state == "active" else None
        schedules.set_fields(*which, tz=request.tz, next_run_at=next_run, owed_for=None)
    if task:
        schedules.set_fields(*which, task_description=task)
    if request.paused is not None:
        next_run = None if request.paused else schedules.timing_of(_find(context, request)).after(now)
        if next_run is None and not request.paused:
            raise InvalidRequest(["id: its time has passed; make a new schedule"])
        schedules.change(*which, "paused" if request.paused else "active", next_run)
    details: dict[str, Any] = {} if request.paused is None else {"paused": request.paused}
    context.audit(str(current.id), agent=current.agent_id, **details)
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


def _field_schedule(request: CreateSchedule | UpdateSchedule, tz: str, now: datetime) -> ParsedSchedule:
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
    if (previous := _done_before(context, request)) is not None:
        return _repeated(request, "new", previous)
    fields = {name: getattr(request, name) for name in ("agent_id", "text", "tz", "session_id", "user_id")}
    creation = CreateSchedule.model_validate(fields)
    return _create(context, creation, parsed, now, request.request_id).model_copy(update={"asked": "new"})


def do_request(
    context: Context, request: AskSchedules, intent: AppointmentRequest, similarity: Similarity | None
) -> AskedSchedules:
    """Cancel, move or list what a message means, once for each ``request_id``."""
    assert intent.kind is not None
    operation = intent.kind
    name = (context.group_id, request.agent_id)
    if (previous := _done_before(context, request)) is not None:
        return _repeated(request, operation, previous)
    planned = schedules.open_of(context.connection, name, request.user_id, MAX_SCHEDULES)
    tz = request.tz or agents.time_zone(context.connection, *name)
    times = read_change(readable(without_courtesies(request.text)), local_now(datetime.now(UTC), tz))
    if operation == "list":
        return _list_planned(request, planned, times)
    fit = _match_planned(times, operation, planned, similarity if intent.sure else None)
    if fit.sure:
        schedule = next(schedule for schedule in planned if schedule.id == fit.appointments[0].id)
        do = _cancel if operation == "cancel" else _move
        return do(context, request, schedule, times)
    has_time = bool(times.new) or times.shift is not None
    if fit.appointments or (intent.sure and (operation == "cancel" or has_time)):
        return _ask_back(request, operation, fit, planned)
    return AskedSchedules(certainty="none")  # "make it three paragraphs"


def _repeated(request: AskSchedules, operation: RequestKind, schedule: ScheduleState) -> AskedSchedules:
    say = changes.say_cancelled if operation == "cancel" else changes.say_noted
    return AskedSchedules(
        asked=operation,
        certainty="exact",
        schedule=schedule,
        confirmation=say(_as_shown(schedule), request.text),
    )


def _done_before(context: Context, request: AskSchedules) -> ScheduleState | None:
    """The schedule that the same request has changed. Locks the agent: requests are done one by one."""
    agents.lock_agents(context.connection, [(context.group_id, request.agent_id)])
    since = datetime.now(UTC) - REPEATED_WITHIN
    target = audit.target_of(
        context.connection, context.group_id, context.action, "request", str(request.request_id), since
    )
    return None if target is None else schedules.find(context.connection, context.group_id, UUID(target))


def _match_planned(
    times: ChangeTimes,
    operation: RequestKind,
    planned: Sequence[ScheduleState],
    similarity: Similarity | None,
) -> Fit:
    had = times.old if operation == "move" else (*times.old, *times.new)
    mentioned = [time for time in had if not isinstance(time, Lead | Impossible)]
    return match_appointments(times.rest, mentioned, [_appointment(time) for time in planned], similarity)


def _ask_back(
    request: AskSchedules, operation: RequestKind, fit: Fit, planned: Sequence[ScheduleState]
) -> AskedSchedules:
    ids = {schedule.id for schedule in fit.appointments}
    candidates = [schedule for schedule in planned if schedule.id in ids] or list(planned)
    descriptions, more = (
        [_as_shown(schedule) for schedule in candidates[:MAX_NAMED]],
        max(0, len(candidates) - MAX_NAMED),
    )
    say = changes.which_one if ids else changes.none_fits
    reason = "several appointments fit" if ids else "no appointment fits"
    return _unclear(operation, candidates[:MAX_NAMED], say(descriptions, more, request.text), reason)


def _list_planned(
    request: AskSchedules, planned: Sequence[ScheduleState], times: ChangeTimes
) -> AskedSchedules:
    """All that is planned; of a day or an hour that is named, what fits it."""
    asked_for = [item for item in (*times.old, *times.new) if not isinstance(item, Lead | Impossible)]
    matches = match_appointments("", asked_for, [_appointment(item) for item in planned]).appointments
    ids = {item.id for item in matches}
    selection = [item for item in planned if item.id in ids]
    descriptions, more = (
        [_as_shown(item) for item in selection[:MAX_NAMED]],
        max(0, len(selection) - MAX_NAMED),
    )
    sentence = changes.say_list(descriptions, more, request.text)
    return AskedSchedules(
        asked="list", certainty="exact", schedules=selection[:MAX_NAMED], confirmation=sentence
    )


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
    sentence = changes.say_cancelled(_as_shown(schedule), request.text)
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
    sentence = changes.say_moved(_as_shown(changed), _as_shown(schedule), request.text)
    return AskedSchedules(asked="move", certainty="exact", schedule=changed, confirmation=sentence)


def _unclear(
    operation: RequestKind, candidates: list[ScheduleState], question: str, reason: str
) -> AskedSchedules:
    return AskedSchedules(
        asked=operation, certainty="unclear", schedules=candidates, confirmation=question, reason=reason
    )


def _audit(
    context: Context, request: AskSchedules, schedule: ScheduleState, operation: RequestKind, **details: Any
) -> None:
    fields: dict[str, Any] = {"agent": request.agent_id, "asked": operation, "request": request.request_id}
    context.audit(str(schedule.id), **fields, **details)


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
