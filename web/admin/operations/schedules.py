"""Scheduled jobs: what they do, how their last run went, when the next one is; and running one now."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from flask import Blueprint, Response, abort, render_template, request
from flask_babel import gettext as _
from flask_babel import lazy_gettext
from pydantic import ValidationError
from pydantic_core import to_jsonable_python

from jiyi.errors import problems_of
from jiyi.protocol.operations import RunJobQuery, ScheduleQuery, Tick, TickQuery
from models.accounts import audit
from models.memory import overview
from web.accounts.identity import who
from web.admin import frame
from web.admin.acting import ask_worker, change, have_done
from web.admin.frame import Page
from web.answers import answer
from web.show import age
from web.sources import attempt, from_database

blueprint = Blueprint("schedules", __name__)
PAGES = (Page("running", lazy_gettext("Schedules"), "schedules.page", "operator", of_service=True),)

#: What the jobs do, for people, where it is translated; of others the worker's own words are shown.
PURPOSES = {
    "reconcile": lazy_gettext("Wakes what is overdue, buries what used up its attempts, writes access buffers left behind."),
    "recompute_kw_strength": lazy_gettext("Counts keyword strengths anew from the memories, and repairs what differs."),
    "prune": lazy_gettext("Deletes old events (if asked to), old closed dead letters and old runs of jobs."),
    "snapshot": lazy_gettext("Counts queues, work owed, dead letters and delays, for plots and for looking back."),
    "expire_thoughts": lazy_gettext("Archives memories past their expiry, as thoughts are after thirty days."),
    "archive": lazy_gettext("Archives memories that have faded: long not accessed, of little importance, nothing rests on them."),
    "backup": lazy_gettext("Backs the database up to a new file, and deletes the oldest of too many."),
    "verify_backup": lazy_gettext("Looks whether there is a backup that is young enough and can be read."),
    "reflect": lazy_gettext("Lets agents reflect that have new events and have been left in peace for a while."),
    "digest": lazy_gettext("Digests what came into each group's quarantine: in clusters, with words for people."),
    "expire_working_memory": lazy_gettext("Takes out of working memory what has been there for its time."),
    "warm": lazy_gettext("Has the indexes of the agents that were asked last brought up to date."),
}
#: Seconds that the page waits for a worker to tell of the schedule, before it shows what the database knows.
SCHEDULE_TIMEOUT = 2.0
#: Seconds that a dry run may take while the page waits.
DRY_RUN_TIMEOUT = 25.0


@blueprint.get("/schedules")
@blueprint.get("/schedules.json", endpoint="json")
def page() -> Response:
    return answer("schedules.html", data=_all())


@blueprint.get("/schedules/live")
def live() -> str:
    return render_template("_schedules.html", **_all())


@blueprint.post("/schedules/<name:job>/run")
def run(job: str) -> str:
    """Run it now, beside its schedule. Safe to repeat because jobs are."""
    actor = who().actor
    tick = Tick.model_validate(have_done("run_job", _checked(job)))
    change(lambda connection: audit.record(connection, group_id=None, actor=actor, action="job run", target=f"job:{job}"))
    return render_template("_run.html", tick=tick)


@blueprint.post("/schedules/<name:job>/rehearse")
def rehearse(job: str) -> str:
    """What it would do now. Changes nothing."""
    tick = Tick.model_validate(ask_worker("run_job", _checked(job, dry_run=True), DRY_RUN_TIMEOUT))
    return render_template("_run.html", tick=tick)


@blueprint.get("/schedules/<name:job>/run")
def progress(job: str) -> str:
    """How far the run is that was begun at ``slot``; asked again until it has ended."""
    try:
        slot = datetime.fromisoformat(request.args.get("slot", ""))
        query = TickQuery(group_id=frame.group(), job=job, slot=slot)
    except (ValueError, ValidationError):
        abort(400, "slot: must be the time at which the run was begun.")
    found = ask_worker("tick", query)
    return render_template("_run.html", tick=Tick(job=job, slot=slot) if found is None else Tick.model_validate(found))


def _checked(job: str, *, dry_run: bool = False) -> RunJobQuery:
    try:
        return RunJobQuery(group_id=frame.group(), job=job, dry_run=dry_run)
    except ValidationError as error:
        abort(400, "; ".join(problems_of(error)))


def _all() -> dict[str, Any]:
    """As a worker knows the schedule; when none answers, the last runs as the database has them."""
    query = ScheduleQuery(group_id=frame.group())
    told = attempt(lambda: ask_worker("schedule", query, SCHEDULE_TIMEOUT))
    if told.value is not None:
        return {"group": frame.group(), "jobs": [_dated(row) for row in told.value], "unknown_reason": None}
    with frame.across_groups():
        ticks = from_database(overview.last_ticks)
    rows = [{"job": row["job"], "last": to_jsonable_python(row)} for row in ticks]
    reason = _("No worker answered; this is what the database knows.")
    return {"group": frame.group(), "jobs": [_dated(row) for row in rows], "unknown_reason": reason}


def _dated(row: dict[str, Any]) -> dict[str, Any]:
    """With times as times, and how late the next run is."""
    last, upcoming = row.get("last"), row.get("next")
    return {
        "setting": None,
        "lag_seconds": None,
        **row,
        "purpose": str(PURPOSES[row["job"]]) if row["job"] in PURPOSES else row.get("purpose"),
        "schedule": _often(row),
        "last": last and {**last, "started_at": _time(last.get("started_at")), "finished_at": _time(last.get("finished_at"))},
        "next": _time(upcoming),
        "in_seconds": None if upcoming is None else (_sure(upcoming) - datetime.now(UTC)).total_seconds(),
    }


def _often(row: dict[str, Any]) -> str | None:
    """``every 5 min``; the worker's own words of a job that runs at an hour."""
    every, told = row.get("every_seconds"), str(row.get("schedule") or "")
    if told == "off":
        return str(_("off"))
    if every and told.startswith("every"):
        return str(_("every %(age)s", age=age(every)))
    return str(_("daily at %(hour)s UTC", hour=told.split()[2])) if told.startswith("daily at") else told or None


def _time(text: str | None) -> datetime | None:
    return None if text is None else _sure(text)


def _sure(text: str) -> datetime:
    return datetime.fromisoformat(text)
