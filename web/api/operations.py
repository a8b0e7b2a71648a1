"""The service itself: counts, queues, dead letters, scheduled jobs."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

from sqlalchemy import Connection

from jiyi.errors import NotFound
from jiyi.protocol import events as wire
from jiyi.protocol import operations, queries
from jiyi.protocol.rest import JobRun, Letter, LetterPage, LettersQuery, Queues, ResolveBody, Resolved, RunBody, Schedules, Stats
from jiyi.settings import get_settings
from models.accounts import audit
from models.memory import inbox, serving
from models.queue import broker_queues, dead_letters, news
from models.queue.wakeups import wake
from web.api import cursors
from web.api.problems import Refused
from web.api.registry import operation
from web.api.running import Asker
from web.calls import caller
from web.sources import from_database, source, to_database

_ID, _EVENT = "01978c00-0000-7000-8000-000000000005", "01978c00-0000-7000-8000-000000000006"
_LETTER = {
    "letter_id": _ID,
    "kind": "intake",
    "subject_id": _EVENT,
    "reason": "payload.poignancy: must be at most 10 (got 11)",
    "traceback": None,
    "body": '{"type": "memory.observed", …}',
    "attempts": 0,
    "state": "open",
    "created_at": "2026-03-02T09:00:00Z",
}
_COUNTS = {
    "agents": 3,
    "events": 130,
    "nodes": 120,
    "event_nodes": 100,
    "thought_nodes": 18,
    "chat_nodes": 2,
    "not_embedded": 0,
    "idle": 4,
    "archived": 0,
    "dead_letters": 1,
}


@operation(
    "GET",
    "/stats",
    id="stats",
    scope="read",
    tag="service",
    answer=Stats,
    answer_example={"group_id": "default", "counts": _COUNTS, "work_owed": []},
)
def stats(asker: Asker) -> dict[str, Any]:
    """Count what is stored.

    Agents, events and memories of the key's group, and the work that they wait for.
    """

    def question(connection: Connection) -> dict[str, Any]:
        owed = serving.work_owed(connection, asker.group_id)
        return {"group_id": asker.group_id, "counts": serving.counts(connection, asker.group_id), "work_owed": owed}

    return from_database(question)


@operation(
    "GET",
    "/queues",
    id="list_queues",
    scope="read",
    tag="service",
    answer=Queues,
    answer_example={
        "queues": [{"queue": "memory.intake", "waiting": 0}, {"queue": "retrieval", "waiting": 2}],
        "in_flight": {"intake": 0, "tasks": 1},
        "note": "",
    },
)
def list_queues(_asker: Asker) -> dict[str, Any]:
    """See how full the queues are.

    Messages that wait in each queue of the service, all groups together. Use it to slow down when it falls behind.
    """
    settings = get_settings()
    names = [settings.intake_queue, *broker_queues.task_queues()]
    address = broker_queues.redis_address(settings.need("broker_url"))
    if address is None:
        unknown = [{"queue": name, "waiting": None} for name in names]
        return {"queues": unknown, "in_flight": None, "note": "only a Redis-like broker tells its queues' lengths here"}
    found = source("broker").ask(lambda: broker_queues.depths(address, names))
    return {
        "queues": [{"queue": name, "waiting": waiting} for name, waiting in found.waiting.items()],
        "in_flight": {"intake": found.intake.count, "tasks": found.tasks.count},
        "note": "",
    }


@operation(
    "GET",
    "/dead-letters",
    id="list_dead_letters",
    scope="read",
    tag="service",
    query=LettersQuery,
    answer=LetterPage,
    examples={"Refused events": {"kind": "intake"}},
    answer_example={"letters": [_LETTER], "next": None},
)
def list_dead_letters(asker: Asker, query: LettersQuery) -> dict[str, Any]:
    """List what could not be done.

    Refused events and failed work of the key's group, newest first, page by page, each with the reason.
    """
    place = cursors.decode(query.after, cursors.ID)
    before = None if place is None else place[0]

    def question(connection: Connection) -> list[dict[str, Any]]:
        return serving.letters(connection, asker.group_id, query.state, query.kind, before, query.limit)

    rows = from_database(question)
    return {"letters": rows, "next": cursors.encode(rows[-1]["letter_id"]) if len(rows) == query.limit else None}


@operation(
    "GET", "/dead-letters/<uuid:letter_id>", id="get_dead_letter", scope="read", tag="service", answer=Letter, answer_example=_LETTER
)
def get_dead_letter(asker: Asker, letter_id: UUID) -> dict[str, Any]:
    """Get one dead letter.

    The refused event or the failed work, with the reason and, where there is one, the traceback.
    """
    row = from_database(lambda connection: serving.letter(connection, asker.group_id, letter_id))
    if row is None:
        raise Refused(404, f"There is no dead letter {letter_id}.")
    return row


@operation(
    "POST",
    "/dead-letters/resolve",
    id="resolve_dead_letters",
    scope="admin",
    tag="service",
    body=ResolveBody,
    answer=Resolved,
    errors=(404,),
    examples={"Try one again": {"action": "replay", "letter_ids": [_ID]}, "Drop a kind": {"action": "discard", "kind": "intake"}},
    answer_example={"resolved": 1, "refused_again": 0},
)
def resolve_dead_letters(asker: Asker, body: ResolveBody) -> dict[str, int]:
    """Replay or discard dead letters.

    Those named, or up to 1,000 open ones of a kind. Replayed work is owed anew; replayed events are stored as if they
    came now, and those that are still wrong come back as new letters. There is no way back from discarding.
    """
    done: dict[str, Any] = {}

    def change(connection: Connection) -> None:
        ids = serving.open_letters(connection, asker.group_id, body.letter_ids, body.kind)
        if body.letter_ids and not ids:
            raise Refused(404, "letter_ids: none of these is an open dead letter.")
        if not ids:
            done.update(resolved=0, refused=0, kinds=[])
            return
        resolved = dead_letters.resolve(connection, asker.group_id, ids, body.kind, replay=body.action == "replay", actor=asker.actor)
        kinds, refused = _replay(connection, asker.group_id, resolved.bodies)
        done.update(resolved=resolved.count, refused=refused, kinds=[*resolved.kinds, *kinds])

    to_database(change)
    wake(*done["kinds"])
    news.resolved(asker.group_id, done["resolved"], f"{body.action}ed")
    return {"resolved": done["resolved"], "refused_again": done["refused"]}


def _replay(connection: Connection, group_id: str, bodies: list[str]) -> tuple[list[str], int]:
    """Store the events of refused messages; returns the kinds of work that they owe, and how many are still refused."""
    good, refused = [], 0
    for body in bodies:
        decoded = wire.decode(body.encode())
        foreign = [(wire.encode([event]).decode(), "group_id: not the letter's") for event in decoded.events if event.group_id != group_id]
        good += [event for event in decoded.events if event.group_id == group_id]
        for text, reason in [*decoded.rejected, *foreign]:
            dead_letters.bury_message(connection, text, reason, _event_id(text), group_id)
            refused += 1
    return list(inbox.store(connection, good).owed), refused


def _event_id(body: str) -> UUID | None:
    try:
        return UUID(str(json.loads(body)["event_id"]))
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


@operation(
    "GET",
    "/schedules",
    id="list_schedules",
    scope="operator",
    tag="service",
    answer=Schedules,
    errors=(504,),
    answer_example={
        "jobs": [
            {
                "job": "reconcile",
                "purpose": "Wake overdue work.",
                "schedule": "every 30 seconds",
                "every_seconds": 30.0,
                "setting": "JIYI_RECONCILE_SECONDS",
                "last": None,
                "next": None,
                "lag_seconds": None,
            }
        ]
    },
)
def list_schedules(asker: Asker) -> dict[str, Any]:
    """List scheduled jobs.

    Every job with its last run and its next one. Jobs are the whole service's, so this needs an operator's key, and a
    worker that answers.
    """
    query = operations.ScheduleQuery(group_id=asker.group_id)
    return {"jobs": caller().call("inspect.schedule", queries.QUEUE, query)}


@operation(
    "POST",
    "/schedules/<anything:job>/run",
    id="run_job",
    scope="operator",
    tag="service",
    body=RunBody,
    body_required=False,
    answer=JobRun,
    status=202,
    errors=(504,),
    examples={"Now": {}, "What would it do?": {"dry_run": True}},
    answer_example={"job": "snapshot", "slot": "2026-03-02T09:00:00Z", "state": "waiting", "seconds": None, "summary": {}},
)
def run_job(asker: Asker, job: str, body: RunBody) -> JobRun:
    """Run a scheduled job now.

    Beside its schedule; or, with dry_run, only tell what it would do. Jobs may be run as often as one likes.
    """
    query = operations.RunJobQuery.model_construct(group_id=asker.group_id, job=job, dry_run=body.dry_run, whole_service=body.whole_service)
    known = {found["job"] for found in list_schedules(asker)["jobs"]}
    if job not in known:
        raise NotFound(f"There is no job {job!r}; there are {', '.join(sorted(known))}.")
    if not body.dry_run:
        to_database(
            lambda connection: audit.record(
                connection, group_id=asker.group_id, actor=asker.actor, action="job run", target=job, whole_service=body.whole_service
            )
        )
    return JobRun.model_validate(caller().call("inspect.run_job", queries.QUEUE, query))
