"""The service itself: counts, queues, dead letters, scheduled jobs."""

from __future__ import annotations

from sqlalchemy import Connection

from jiyi.operations.jobs import find as find_job
from jiyi.protocol.operations import MAX_BODY_CHARS, DeadLetter, LettersRequest, ResolveBody, RunJob
from jiyi.protocol.rest import JobRun, Letter, LetterPage, LettersQuery, Queues, QueueState, RunBody, Schedules, Stats
from jiyi.settings import get_settings
from models.operations import actions as service
from models.operations import reads
from models.queue import actions, broker_queues
from models.queue import reads as pending
from web import cursors
from web.actions import perform
from web.api.registry import expose, operation
from web.api.running import Asker
from web.sources import from_database, source


@operation("GET", "/stats", id="stats", scope="read", tag="service", answer=Stats)
def stats(asker: Asker) -> Stats:
    """Count what is stored.

    Agents, events and memories of the key's group, and the work that they wait for.
    """

    def question(connection: Connection) -> Stats:
        owed = pending.by_kind(connection, asker.group_id)
        return Stats(group_id=asker.group_id, counts=reads.counts(connection, asker.group_id), work_owed=owed)

    return from_database(question)


@operation("GET", "/queues", id="list_queues", scope="read", tag="service", answer=Queues)
def list_queues(_asker: Asker) -> Queues:
    """See how full the queues are.

    Messages that wait in each queue of the service, all groups together. Use it to slow down when it falls behind.
    """
    settings = get_settings()
    names = [settings.intake_queue, *broker_queues.task_queues()]
    address = broker_queues.redis_address(settings.need("broker_url"))
    if address is None:
        unknown = [QueueState(queue=name, waiting=None) for name in names]
        return Queues(queues=unknown, in_flight=None, note="only a Redis-like broker tells its queues' lengths here")
    found = source("broker").ask(lambda: broker_queues.depths(address, names))
    states = [QueueState(queue=name, waiting=waiting) for name, waiting in found.waiting.items()]
    return Queues(queues=states, in_flight={"intake": found.intake.count, "tasks": found.tasks.count})


@operation("GET", "/dead-letters", id="list_dead_letters", scope="read", tag="service", query=LettersQuery, answer=LetterPage)
def list_dead_letters(asker: Asker, query: LettersQuery) -> LetterPage:
    """List what could not be done.

    Refused events and failed work of the key's group, newest first, page by page, each with the reason.
    """
    before = cursors.only(query.after, cursors.ID)
    wanted = LettersRequest(state=query.state, kind=query.kind, before=before, limit=query.limit)
    page = perform(actions.list_letters, asker.group_id, wanted)
    return LetterPage(letters=[_letter(row) for row in page.rows], next=None if page.next is None else cursors.encode(page.next))


def _letter(row: DeadLetter) -> Letter:
    letter = Letter.model_validate(row)
    letter.body = letter.body and letter.body[:MAX_BODY_CHARS]
    return letter


expose(
    actions.get_letter,
    "GET",
    "/dead-letters/<uuid:letter_id>",
    id="get_dead_letter",
    tag="service",
    answer=Letter,
    present=lambda _asker, row: _letter(row),
)


expose(actions.resolve_letters, "POST", "/dead-letters/resolve", id="resolve_dead_letters", tag="service", body=ResolveBody, errors=(404,))


expose(
    service.list_jobs,
    "GET",
    "/schedules",
    id="list_schedules",
    tag="service",
    answer=Schedules,
    present=lambda _asker, jobs: {"jobs": jobs},
)


@operation(
    "POST",
    "/schedules/<anything:job>/run",
    id="run_job",
    scope=service.run_job.scope,
    tag="service",
    body=RunBody,
    body_required=False,
    answer=JobRun,
    status=202,
    errors=(504,),
    action=service.run_job,
)
def run_job(asker: Asker, job: str, body: RunBody) -> JobRun:
    """Run a scheduled job now.

    Beside its schedule; or, with dry_run, only tell what it would do. Jobs may be run as often as one likes.
    """
    request = RunJob(job=find_job(job).name, whole_service=body.whole_service)
    tick = perform(service.preview_job if body.dry_run else service.run_job, asker.group_id, request)
    return JobRun(job=tick.job, slot=tick.slot, state=tick.state, seconds=tick.seconds, summary=tick.summary)
