"""Working memory, and asking it together with long-term memory."""

from __future__ import annotations

from jiyi.errors import InvalidEvent
from jiyi.protocol.events import Event, build
from jiyi.protocol.tiers.quarantine import IngestBody, IngestState, ingest_event
from jiyi.protocol.tiers.query import MemoryAnswer, MemoryQuery
from jiyi.protocol.tiers.rest import IngestQuery, QueryBody, WorkingMemory
from models.db.bounded_reads import Unanswered, attempt, from_database, source
from models.memory.ingestion.looks import Looks
from models.tiers import quarantine, working
from web.api.memory.storing import keep
from web.api.registry import operation
from web.api.running import Asker
from web.api.tiers.asking import ask

#: What the filters say of entries, for requests that wait for it.
_outcomes = Looks(quarantine.outcomes, lambda _: True)
NOT_SCREENED = "It is in quarantine; the filters have not decided yet whether it becomes working memory."


@operation(
    "POST",
    "/memory/query",
    id="query_memory",
    scope="read",
    tag="tiers",
    body=QueryBody,
    answer=MemoryAnswer,
    flat=("query", "max_results", "order", "time_range_days", "session_id", "include_verdicts"),
)
def query_memory(asker: Asker, body: QueryBody) -> MemoryAnswer:
    """Look up what the group knows.

    Working memory (what agents of the group said in the last 24 hours: temporary, unverified) and long-term memory (what
    somebody promoted: verified), newest and most similar first. Call it before you answer or decide. status is partial
    when one of the two could not be asked; tiers says which, and why. What is in quarantine is never among it. Without
    workers, long-term memory is found by its words, and its state says so.
    """
    wanted = {name: getattr(body, name) for name in MemoryQuery.model_fields if name != "group_id"}
    return ask(MemoryQuery(group_id=asker.group_id, **wanted), body.timeout)


@operation(
    "POST",
    "/memory/ingest",
    id="ingest_memory",
    scope="publish",
    tag="tiers",
    query=IngestQuery,
    body=IngestBody,
    answer=IngestState,
    status=202,
    errors=(409,),
    flat=("content", "agent_id", "session_id", "node_id", "confidence"),
)
def ingest_memory(asker: Asker, body: IngestBody, query: IngestQuery) -> IngestState:
    """Tell what an agent said.

    It goes into quarantine for good, and into working memory, where the group's agents find it for 24 hours, if the
    filters let it: confident enough, long enough, not said before. 202 means that it is stored; accepted and reason say
    what the filters did. It does not become verified knowledge: for that somebody promotes it.
    """
    event = _event(asker.group_id, body)
    keep([event])
    entry_id, group_id = event.event_id, asker.group_id
    found = _outcomes.wait(group_id, [entry_id], query.wait) or {}
    return found.get(entry_id) or IngestState(entry_id=entry_id, accepted=None, message=NOT_SCREENED)


@operation("GET", "/memory/working", id="working_memory", scope="read", tag="tiers", answer=WorkingMemory)
def working_memory(asker: Asker) -> WorkingMemory:
    """Look at working memory.

    What the group's agents said lately and the filters let in, newest first: temporary and unverified. From Valkey; if
    that is away or has lost it, from the database, which knows the same.
    """
    told = attempt(source("valkey").begin(lambda: working.read(asker.group_id)))
    if told.value is not None:
        return WorkingMemory(entries=[entry.item() for entry in told.value], source="valkey")
    why = f"Valkey did not answer: {told.reason}." if told.reason else ""
    try:
        stored = from_database(lambda connection: quarantine.stored_working_memory(connection, asker.group_id))
    except Unanswered as error:
        both = f"{error.reason}; Valkey: {told.reason}" if told.reason else error.reason
        raise Unanswered(error.source, both) from error
    return WorkingMemory(entries=[entry.item() for entry in stored], source="database", message=why)


def _event(group_id: str, body: IngestBody) -> Event:
    try:
        return build(ingest_event(group_id, body))
    except InvalidEvent as error:  # what is the event's output is the body's content
        raise InvalidEvent([problem.removeprefix("payload.").replace("output:", "content:", 1) for problem in error.problems]) from None
