"""Scheduled jobs: what they do, how their last run went, when the next one is; and running one now."""

from __future__ import annotations

from datetime import UTC, datetime

from flask import Blueprint, render_template, request
from flask_babel import lazy_gettext
from sqlalchemy import Connection

from engine.operations.jobs import JOBS
from jiyi.protocol.operations import JobState, Tick, TickRequest
from jiyi.settings import get_settings
from models.operations import actions, numbers
from web.admin.acting import Part, action_form_route, checked, perform
from web.admin.frame import Page
from web.admin.pages import Context, page

blueprint = Blueprint("schedules", __name__)
PAGES = (Page("running", lazy_gettext("Jobs"), "schedules.page", "operator", of_service=True),)

#: Seconds that a dry run may take while the page waits.
DRY_RUN_TIMEOUT = 25.0


@page(blueprint, "/schedules", "schedules.html", live="_schedules.html")
def listed(connection: Connection) -> Context:
    now = datetime.now(UTC)
    return {"jobs": [_shown(row, now) for row in numbers.job_states(connection, get_settings(), now)]}


action_form_route(blueprint, "/schedules/<name:job>/run", actions.run_job, Part("_run.html"), name="run")
action_form_route(
    blueprint, "/schedules/<name:job>/rehearse", actions.preview_job, Part("_run.html"), name="rehearse", timeout=DRY_RUN_TIMEOUT
)


@blueprint.get("/schedules/<name:job>/run")
def progress(job: str) -> str:
    """How far the run is that was begun at ``slot``; asked again until it has ended."""
    wanted = checked(TickRequest, job=job, slot=request.args.get("slot", ""))
    return render_template("_run.html", done=perform(actions.get_tick, wanted) or Tick(job=job, slot=wanted.slot))


def _shown(row: JobState, now: datetime) -> Context:
    """In words for people, and how long it is until the next run."""
    job = JOBS[row.job]
    words = {"purpose": job.purpose, "schedule": job.schedule(get_settings()).words}
    return {**dict(row), **words, "in_seconds": None if row.next is None else (row.next - now).total_seconds()}
