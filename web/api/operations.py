"""The service itself: counts, queues, dead letters, scheduled jobs."""

from __future__ import annotations

from engine.operations import find as find_job
from jiyi.protocol.operations import MAX_BODY_CHARS, DeadLetter, ResolveBody, RunJob
from jiyi.protocol.rest import JobRun, JobStates, Letter, LetterPage, LettersQuery, Queues, RunBody
from models.db.bounded_reads import source
from models.operations import actions as service
from models.queue import actions, broker_queues
from web.actions import perform
from web.api.registry import expose, operation
from web.api.running import Asker

expose(service.count_group, "GET", "/stats", id="stats", tag="service")


@operation("GET", "/queues", id="list_queues", scope="read", tag="service", answer=Queues)
def list_queues(_asker: Asker) -> Queues:
    """See how full the queues are.

    Messages that wait in each queue of the service, all groups together. Use it to slow down when it falls behind.
    """
    return source("broker").ask(broker_queues.states)


def _letter(_asker: Asker, row: DeadLetter) -> Letter:
    letter = Letter.model_validate(row)
    letter.body = letter.body and letter.body[:MAX_BODY_CHARS]
    return letter


expose(
    actions.list_letters,
    "GET",
    "/dead-letters",
    id="list_dead_letters",
    tag="service",
    query=LettersQuery,
    answer=LetterPage,
    present=_letter,
)
expose(actions.get_letter, "GET", "/dead-letters/<uuid:letter_id>", id="get_dead_letter", tag="service", answer=Letter, present=_letter)
expose(actions.resolve_letters, "POST", "/dead-letters/resolve", id="resolve_dead_letters", tag="service", body=ResolveBody, errors=(404,))
expose(service.list_jobs, "GET", "/schedules", id="list_jobs", tag="service", answer=JobStates, present=lambda _asker, jobs: {"jobs": jobs})


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
