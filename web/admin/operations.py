"""Operating the service: overview, queues, work, dead letters, jobs, and the cost of LLMs."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import cast, get_args
from uuid import UUID

from flask import Response, abort, render_template, request
from flask_babel import gettext as _
from flask_babel import lazy_gettext
from sqlalchemy import Connection

from engine.operations import JOBS
from engine.providers.llms import RULES, llm_endpoint
from engine.providers.verdicts import verdict
from jiyi.errors import SettingsError
from jiyi.protocol.base import BY_NAME, BY_TIME
from jiyi.protocol.operations import (
    MAX_RESOLVED,
    JobState,
    LettersRequest,
    LetterState,
    Tick,
    TickRequest,
    WorkersReport,
)
from jiyi.protocol.providers import PromptByRules, UsageKey
from jiyi.protocol.wire.broker import INTAKE_QUEUE
from jiyi.settings import get_settings
from models.db.bounded_reads import attempt, from_database, reading, source
from models.operations import actions, backups, budgets, numbers, worker_actions
from models.operations import overview as overview_reads
from models.operations.overview import overview
from models.queue import actions as queue_actions
from models.queue import broker_queues, dead_letters, pending_work
from web.accounts.identity import need, who
from web.admin import frame, inputs
from web.admin.acting import PagePart, checked, form, perform
from web.admin.frame import MenuPage, across_groups, parameter
from web.admin.pages import Context, Pages, listed
from web.answers import answer, json_answer

overview_pages = Pages("overview", __name__, MenuPage("overview", lazy_gettext("Overview"), "overview.page"))

#: Minutes that can be plotted at most: a day.
MAX_MINUTES = 1_440


@overview_pages.get("/", endpoint="page")
@overview_pages.get("/overview.json", endpoint="page_json")
def overview_page() -> Response:
    operator = who().may("operator")
    data = {**gather(frame.group(), inputs.place(BY_NAME) or ""), "groups": frame.groups()}
    return answer("overview.html", data=data, plots=plots() if operator else [], spans=spans(), every=3)


@overview_pages.get("/overview/live")
def live() -> str:
    """The parts that a browser asks for again and again."""
    data = gather(frame.group(), inputs.place(BY_NAME) or "")
    return render_template("_overview.html", refreshed=True, **data)


@overview_pages.get("/overview/series.json")
def series() -> Response:
    """Figures of the whole service over time."""
    need("operator")
    minutes = min(inputs.whole("minutes", MAX_MINUTES) or 60, MAX_MINUTES)
    return json_answer(source("Valkey").ask(lambda: overview_reads.series(minutes)))


def gather(group: str, after: str) -> Context:
    with across_groups():
        data = overview(group, after)
    fields = {name: getattr(data, name) for name in ("as_of", "state", "checks", "access_buffered")}
    return {**fields, "group": group, **vars(data.queues), **vars(data.stored)}


#: Two lines of a plot: each a path into what :func:`models.operations.rates.series` gives, and its name.
Lines = tuple[tuple[str, str], tuple[str, str]]


def plots() -> list[dict[str, object]]:
    accepted: Lines = (("events", _("accepted")), ("events_rejected", _("refused")))
    tasks: Lines = (("done", _("done")), ("failed", _("failed")))
    retrieval: Lines = (("retrieval_ms.p50", _("median")), ("retrieval_ms.p95", _("95th percentile")))
    waiting: Lines = (("wait", _("mean")), ("wait_max", _("longest")))
    return [
        _plot(_("Events accepted, a minute"), "", accepted, "unreachable"),
        _plot(_("Tasks, a minute"), "", tasks, "unreachable"),
        _plot(_("Retrieval, milliseconds"), "ms", retrieval, "thought"),
        _plot(_("Waiting for a worker, seconds"), "s", waiting, "thought"),
    ]


def _plot(title: str, unit: str, lines: Lines, colour: str) -> dict[str, object]:
    """``colour``: the second line's. Durations (with a unit) have steps without a value, counts have none."""
    gaps = {"gaps": True} if unit else {}
    columns = [
        {"column": name, "label": label, "colour": hue, **gaps}
        for (name, label), hue in zip(lines, ("accent", colour), strict=True)
    ]
    return {"title": title, "unit": unit, "columns": columns}


def spans() -> list[tuple[int, str]]:
    return [(60, _("1 hour")), (360, _("6 hours")), (1_440, _("1 day"))]


work_pages = Pages("work", __name__, MenuPage("work", lazy_gettext("Queues and work"), "work.page"))

PER_PAGE = 50
NO_QUEUE = lazy_gettext("There is no queue “%(queue)s”.")


@work_pages.page("/work", "work.html", live="_work.html", every=3, across_groups=True)
def work(group: str) -> Context:
    """What is pending; for operators also who works, and what waits in the queues. Each may be unknown."""
    kinds = attempt(lambda: from_database(pending_work.by_kind))
    pending = {"kinds": kinds.value, "why_unknown": kinds.reason or None, "all_groups": _only(group) is None}
    if not who().may("operator"):
        return {**pending, "queues": None, "workers": None}
    states = overview_reads.begin(get_settings())()
    queues = {**vars(overview_reads.state_of_queues(states)), "unknown_reason": states.broker.reason or None}
    report = attempt(source("Valkey").begin(reading(worker_actions.workers_report)))
    workers = dict(report.value or WorkersReport())
    return {**pending, **queues, **workers, "workers_unknown": report.reason or None}


@work_pages.page("/queues/<name:queue>", "queue.html", "queue", NO_QUEUE, live="_queue.html", every=3)
def queue(queue: str) -> Context | None:
    """What waits in it. Of a message only its name, id, age and size are read, never what it says."""
    need("operator")
    settings = get_settings()
    if queue not in (INTAKE_QUEUE, *broker_queues.task_queues()):
        return None
    address = overview_reads.address_of(settings)
    messages = source("broker").ask(lambda: broker_queues.contents(address, queue))
    states = overview_reads.state_of_queues(overview_reads.begin(settings)()).queues
    state = next(candidate for candidate in states if candidate["queue"] == queue)
    return {"queue": queue, "of_intake": queue == INTAKE_QUEUE, "contents": messages, "state": state}


MODE = "/workers/<name:worker>/<any(running, paused, draining, stopped):mode>"
form(work_pages, MODE, worker_actions.set_worker_mode, "work.page", name="set_mode")


@work_pages.page("/work/<name:kind>", "work_kind.html", "kind", rows="_work_rows.html", across_groups=True)
def work_of_kind(connection: Connection, group: str, kind: str) -> Context:
    """One kind, row by row, the longest pending first."""
    only = _only(group)
    rows = pending_work.pending_rows(connection, kind, only, inputs.place(BY_TIME), PER_PAGE + 1)
    of_page = listed("rows", rows, PER_PAGE, "created_at", "subject_id")
    return {"all_groups": only is None, "kind": kind, **of_page}


def _of_all(fields: Context) -> Context:
    return {**fields, "all_groups": who().may("operator")}


ROWS = PagePart("_work_rows.html", work_of_kind)
form(work_pages, "/work/<name:kind>/retry", queue_actions.retry_work, ROWS, check=_of_all)


def _only(group: str) -> str | None:
    """None: an operator sees the work of all groups."""
    return None if who().may("operator") else group


letter_pages = Pages("letters", __name__, MenuPage("work", lazy_gettext("Dead letters"), "letters.page"))

STATES: tuple[LetterState, ...] = get_args(LetterState)
#: Characters of a search in the reasons.
MAX_WORDS = 200


@letter_pages.page("/dead", "letters.html", rows="_letters.html", states=STATES, across_groups=True)
def letters(connection: Connection, group: str) -> Context:
    """A page of dead letters; after a decision about some, the first page."""
    cursor = parameter("cursor") if request.method == "GET" else None
    criteria = {"kind": parameter("kind", 100), "words": parameter("words", MAX_WORDS)}
    state = inputs.choice("state", STATES) or "open"
    query = LettersRequest(state=state, cursor=cursor, limit=PER_PAGE, **criteria)
    filters = {"group": group, "state": state, **criteria}
    return {
        **filters,
        "filters": filters,
        "open": numbers.open_letters(connection, group),
        "kinds": dead_letters.kinds(connection, group),
        **listed("letters", dead_letters.letters(connection, group, query), PER_PAGE, "letter_id"),
        "cursor": cursor,
    }


@letter_pages.page("/dead/<uuid:letter_id>", "letter.html", "one")
def letter(letter_id: UUID) -> Context:
    return {"letter": perform(queue_actions.get_letter, id=letter_id)}


def _chosen(fields: Context) -> Context:
    """Those chosen, or all open ones of a kind."""
    if bool(fields["letter_ids"]) == ("kind" in fields):
        abort(400, _("Choose letters first."))
    return fields


LETTERS = PagePart("_letters.html", letters, {"most": MAX_RESOLVED})
ALL_OF = {"kind": "all_of"}
form(letter_pages, "/dead/resolve", queue_actions.resolve_letters, LETTERS, names=ALL_OF, check=_chosen)


#: Backups that the page of jobs lists, the newest.
BACKUPS_SHOWN = 30

job_pages = Pages(
    "schedules",
    __name__,
    MenuPage("work", lazy_gettext("Jobs"), "schedules.page", "operator", of_service=True),
)


@job_pages.page("/schedules", "schedules.html", live="_schedules.html", every=10)
def jobs(connection: Connection) -> Context:
    now = datetime.now(UTC)
    states = [_job(row, now) for row in numbers.job_states(connection, get_settings(), now)]
    return {"jobs": states, "folder": str(backups.folder()), "backups": _backups()}


def _backups() -> list[Context]:
    """Those of the folder as this process sees it, newest first; one may go while it is read."""
    files = []
    for path in backups.existing()[:BACKUPS_SHOWN]:
        with suppress(FileNotFoundError):
            size = path.stat().st_size
            files.append({"name": path.name, "made_at": backups.made_at(path), "bytes": size})
    return files


form(job_pages, "/schedules/<name:job>/run", actions.run_job, PagePart("_run.html"))


@job_pages.get("/schedules/<name:job>/run")
def progress(job: str) -> str:
    """How far the run is that was begun at ``slot``; asked again until it has ended."""
    tick_request = checked(TickRequest, job=job, slot=request.args.get("slot", ""))
    tick = perform(actions.get_tick, tick_request) or Tick(job=job, slot=tick_request.slot)
    return render_template("_run.html", result=tick)


def _job(row: JobState, now: datetime) -> Context:
    """In words for people, and how long it is until the next run."""
    job = JOBS[row.job]
    words = {"purpose": job.purpose, "schedule": job.schedule(get_settings()).words}
    in_seconds = None if row.next is None else (row.next - now).total_seconds()
    return {**dict(row), **words, "in_seconds": in_seconds}


llm_pages = Pages("llm_use", __name__, MenuPage("work", lazy_gettext("Cost of LLMs"), "llm_use.page"))

DAYS, DEFAULT_DAYS = ("1", "7", "30", "365"), 30


@llm_pages.page("/llm-use", "llm_use.html", choices=DAYS, keys=get_args(UsageKey), across_groups=True)
def llm_use(connection: Connection, group: str) -> Context:
    """By group of all groups that may be seen, otherwise of the chosen one."""
    days = int(inputs.choice("days", DAYS) or DEFAULT_DAYS)
    by = cast("UsageKey", inputs.choice("by", get_args(UsageKey)) or "task")
    first = datetime.now(UTC).date() - timedelta(days=days - 1)
    rows = numbers.usage_by(connection, None if by == "group" else group, first, by)
    total = {"key": "", **{name: sum(row[name] for row in rows) for name in numbers.COUNTED}}
    context = {"llm": get_settings().llm, "left": _left_to_rules(), "budgets": budgets.of(connection, group)}
    return {"days": days, "by": by, "rows": rows, "total": total, **context}


def _left_to_rules() -> list[PromptByRules]:
    """Prompts that the LLM in use is not asked."""
    settings = get_settings()
    try:
        return [] if settings.llm == RULES else verdict(llm_endpoint(settings)).prompts_by_rules()
    except SettingsError:
        return []
