"""Scheduled jobs: what they do, how their last run went, when the next one is; and running one now."""

from __future__ import annotations

from datetime import UTC, datetime

from flask import Blueprint, render_template, request
from flask_babel import gettext as _
from flask_babel import lazy_gettext
from sqlalchemy import Connection

from jiyi.operations.jobs import DAY, HOUR, JOBS
from jiyi.protocol.operations import JobState, Tick, TickRequest
from jiyi.settings import get_settings
from models.operations import actions, reads
from web.admin.acting import Part, checked, door, perform
from web.admin.frame import Page
from web.admin.pages import Context, page
from web.show import age

blueprint = Blueprint("schedules", __name__)
PAGES = (Page("running", lazy_gettext("Schedules"), "schedules.page", "operator", of_service=True),)

#: What the jobs do, where it is translated; of others the catalogue's own words are shown.
PURPOSES = {
    "reconcile": lazy_gettext("Wakes what is overdue, buries what used up its attempts, writes access buffers left behind."),
    "recompute_kw_strength": lazy_gettext("Counts keyword strengths anew from the memories, and repairs what differs."),
    "prune": lazy_gettext("Deletes old events (if asked to), old steps of conversations, closed dead letters and runs of jobs."),
    "snapshot": lazy_gettext("Counts queues, pending work, dead letters and delays, for plots and for looking back."),
    "expire_thoughts": lazy_gettext("Archives memories past their expiry, as thoughts are after thirty days."),
    "archive": lazy_gettext("Archives memories that have faded: long not accessed, of little importance, nothing rests on them."),
    "backup": lazy_gettext("Backs the database up to a new file, and deletes the oldest of too many."),
    "verify_backup": lazy_gettext("Looks whether there is a backup that is young enough and can be read."),
    "reflect": lazy_gettext("Lets agents reflect that have new events and have been left in peace for a while."),
    "digest": lazy_gettext("Digests what came into each group's quarantine: in clusters, with words for people."),
    "expire_items": lazy_gettext("Deletes items past their time; nobody finds them any more before that."),
    "expire_working_memory": lazy_gettext("Takes out of working memory what has been there for its time."),
    "scan_stores": lazy_gettext("Looks through the files of stores for what is new, changed or gone."),
    "due_scan": lazy_gettext("Finds schedules and heartbeats that are due, and delivers alerts whose quiet hours are over."),
    "warm": lazy_gettext("Has the indexes of the agents that were asked last brought up to date."),
}
#: Seconds that a dry run may take while the page waits.
DRY_RUN_TIMEOUT = 25.0


@page(blueprint, "/schedules", "schedules.html", live="_schedules.html")
def listed(connection: Connection) -> Context:
    now = datetime.now(UTC)
    return {"jobs": [_shown(row, now) for row in reads.job_states(connection, get_settings(), now)]}


door(blueprint, "/schedules/<name:job>/run", actions.run_job, Part("_run.html"), name="run")
door(blueprint, "/schedules/<name:job>/rehearse", actions.preview_job, Part("_run.html"), name="rehearse", timeout=DRY_RUN_TIMEOUT)


@blueprint.get("/schedules/<name:job>/run")
def progress(job: str) -> str:
    """How far the run is that was begun at ``slot``; asked again until it has ended."""
    wanted = checked(TickRequest, job=job, slot=request.args.get("slot", ""))
    return render_template("_run.html", done=perform(actions.get_tick, wanted) or Tick(job=job, slot=wanted.slot))


def _shown(row: JobState, now: datetime) -> Context:
    """In words for people, and how long it is until the next run."""
    return {
        **dict(row),
        "purpose": str(PURPOSES[row.job]) if row.job in PURPOSES else row.purpose,
        "schedule": _often(row),
        "in_seconds": None if row.next is None else (row.next - now).total_seconds(),
    }


def _often(row: JobState) -> str:
    """``every 5 min``, or at which hour."""
    times = JOBS[row.job].schedule(get_settings())
    if not times.every:
        return str(_("off"))
    if times.every == DAY:
        return str(_("daily at %(hour)s UTC", hour=f"{times.offset / HOUR:02.0f}:00"))
    return str(_("every %(age)s", age=age(times.every)))
