"""REST operations on the three tiers. The workers answer, because they have the embedder; without them the
web process answers, by words alone.

The queue is in Valkey, as working memory is: where one or the other is away the rest still answers, and says
so.
"""

from __future__ import annotations

import logging
from typing import Any
from uuid import UUID

from pydantic import ValidationError

from jiyi.errors import (
    BrokerUnavailable,
    InvalidEvent,
    InvalidRequest,
    JiyiError,
    NoAnswer,
    ServiceError,
    problems_of,
)
from jiyi.protocol.event_requests import WaitQuery
from jiyi.protocol.events import Event, build
from jiyi.protocol.knowledge import DigestState, IngestBody, IngestState, WorkingMemory, ingest_event
from jiyi.protocol.rest import FOREIGN_GROUP, FieldProblem
from jiyi.protocol.retrieval import MAX_TIMEOUT
from jiyi.protocol.tier_questions import MemoryAnswer, MemoryQuery
from jiyi.protocol.tier_requests import (
    QUERY_SECONDS,
    SCREEN_SECONDS,
    NodeBody,
    NodeDescription,
    NodeDescriptionParameters,
    NodeRun,
    QueryBody,
)
from jiyi.protocol.wire.calls import retrieval_queue
from jiyi.settings import get_settings
from jiyi.tiers import retrieval_node as memory_node
from jiyi.tiers.retrieval_node import CONTEXT_FIELD, MemoryRetrievalNode, NodeEvent
from models.db.bounded_reads import SourceUnavailable, attempt, from_database, source
from models.memory.ingest import StatusPoller
from models.tiers import actions, quarantine, questions, working
from models.tiers import query as memory
from web.accounts.identity import who
from web.actions import caller
from web.api.memory import keep, once
from web.api.problems import RequestRefused
from web.api.registry import expose, operation
from web.api.running import RequestContext

log = logging.getLogger("jiyi.web")

TASK = "retrieval.memory"
#: Seconds that the tiers get when the web process queries them without a worker.
DIRECT_SECONDS = 3.0


def ask(query: MemoryQuery, seconds: float) -> MemoryAnswer:
    """What the tiers know, with the state of each. Web searches of who names no session count as the key's.

    Raises as :meth:`jiyi.Client.query_memory` does, but for who is away.
    """
    if query.web_results and query.asking_session is None and query.session_id is None:
        query = query.model_copy(update={"asking_session": who().actor})
    queue = retrieval_queue(query.group_id, "", get_settings().retrieval_shards)
    try:
        return MemoryAnswer.model_validate_json(caller().call_for_json(TASK, queue, query, seconds))
    except (BrokerUnavailable, NoAnswer) as error:
        log.warning("the web process queries the tiers without a worker: %s", error)
    return memory.query_memory(query, None, DIRECT_SECONDS)


class Retriever:
    """For :class:`jiyi.tiers.retrieval_node.MemoryRetrievalNode`, in a request's scope."""

    def query_memory(
        self, query: str, *, group_id: str, timeout: float | None = None, **options: Any
    ) -> MemoryAnswer:
        try:
            question = MemoryQuery(query=query, group_id=group_id, **options)
        except ValidationError as error:
            raise InvalidRequest(problems_of(error, MemoryQuery)) from None
        try:
            return ask(question, QUERY_SECONDS if timeout is None else min(timeout, MAX_TIMEOUT))
        except JiyiError:
            raise
        except Exception as error:  # its words are not for the caller
            log.exception("the query of the tiers failed")
            raise ServiceError("the query failed; the log of the process `web` has the details") from error


#: What the filters say of entries, for requests that wait for it.
_outcomes = StatusPoller(quarantine.outcomes, lambda _: True)
NOT_SCREENED = "It is in quarantine; the filters have not decided yet whether it becomes working memory."


@operation(
    "POST /memory/query",
    "tiers",
    scope="read",
    flat="query max_results order time_range_days session_id include_verdicts",
)
def query_memory(context: RequestContext, body: QueryBody) -> MemoryAnswer:
    """Look up what the group knows.

    Working memory (what agents of the group said in the last 24 hours: temporary, unverified) and long-term
    memory (what somebody promoted: verified), newest and most similar first. Call it before you answer or
    decide. status is partial when one of the two was unavailable; tiers says which, and why. What is in
    quarantine is never among it. Without workers, long-term memory is found by its words, and its state says
    so.
    """
    fields = {name: getattr(body, name) for name in MemoryQuery.model_fields if name != "group_id"}
    return ask(MemoryQuery(group_id=context.group_id, **fields), body.timeout)


@operation(
    "POST /memory/ingest",
    "tiers",
    scope="publish",
    status=202,
    errors=(409, 504),
    flat="content agent_id session_id node_id confidence occurred_at",
)
def ingest_memory(context: RequestContext, body: IngestBody, query: WaitQuery) -> IngestState:
    """Ingest an output of an agent.

    It goes into quarantine for good, and into working memory, where the group's agents find it for 24 hours,
    if the filters let it: confident enough, long enough, not said before. 202 means that it is stored;
    accepted and reason say what the filters did. It does not become verified knowledge: for that somebody
    promotes it.
    """
    [event] = once([_event(context.group_id, body)], [body.model_fields_set], query.once)
    keep([event])
    entry_id, group_id = event.event_id, context.group_id
    states = _outcomes.wait(group_id, [entry_id], SCREEN_SECONDS if query.wait is None else query.wait) or {}
    return states.get(entry_id) or IngestState(entry_id=entry_id, accepted=None, message=NOT_SCREENED)


@operation("GET /memory/working", "tiers", scope="read")
def working_memory(context: RequestContext) -> WorkingMemory:
    """Look at working memory.

    What the group's agents said lately and the filters let in, newest first: temporary and unverified. From
    Valkey; if that is away or has lost it, from the database, which knows the same.
    """
    cached = attempt(source("valkey").begin(lambda: working.read(context.group_id)))
    if cached.value is not None:
        return WorkingMemory(rows=[entry.item() for entry in cached.value], source="valkey")
    why = f"Valkey did not answer: {cached.reason}." if cached.reason else ""
    try:
        rows = from_database(
            lambda connection: quarantine.stored_working_memory(connection, context.group_id)
        )
    except SourceUnavailable as error:
        both = f"{error.reason}; Valkey: {cached.reason}" if cached.reason else error.reason
        raise SourceUnavailable(error.source, both) from error
    return WorkingMemory(rows=[entry.item() for entry in rows], source="database", message=why)


def _event(group_id: str, body: IngestBody) -> Event:
    try:
        return build(ingest_event(group_id, body))
    except InvalidEvent as error:  # what is the event's output is the body's content
        raise InvalidEvent(
            [problem.removeprefix("payload.").replace("output:", "content:", 1) for problem in error.problems]
        ) from None


expose(
    questions.build_context,
    "POST /memory/context",
    "build_context",
    "tiers",
    errors=(504,),
    flat="proposal system persona query budget agent_id session_id",
)


PATH = "/nodes/memory-retrieval"


@operation(f"POST {PATH}", "tiers", scope="read")
def run_memory_node(context: RequestContext, body: NodeBody) -> NodeRun:
    """Run the memory-retrieval node.

    Looks for what the group knows about the topic (else the content, else the document) of the inputs, and
    gives the inputs back with history_context, markdown for an agent's prompt. It never fails for the
    memory's sake: if that is away the history is empty, and an event memory_retrieval_error says so. That it
    runs, what it found and that it is done also go over the live stream, as they happen, without any text.
    """
    if _name(body.inputs.get("group_id")) not in ("", context.group_id):
        problem = FieldProblem(field="inputs.group_id", message=FOREIGN_GROUP.partition(": ")[2])
        raise RequestRefused(422, f"inputs.{FOREIGN_GROUP}", [problem])
    events: list[NodeEvent] = []
    session_id = _name(body.inputs.get("session_id")) or None

    def emit(event: NodeEvent) -> None:
        events.append(event)
        actions.publish_node_event(context.group_id, event, body.node_id, session_id)

    node = MemoryRetrievalNode(body.properties, retriever=Retriever(), node_id=body.node_id)
    outputs = node.process({**body.inputs, "group_id": context.group_id}, emit)
    return NodeRun(outputs={**body.inputs, CONTEXT_FIELD: outputs[CONTEXT_FIELD]}, events=events)


@operation(f"GET {PATH}", "tiers", scope="read")
def describe_memory_node(_context: RequestContext, query: NodeDescriptionParameters) -> NodeDescription:
    """Describe the memory-retrieval node.

    Label, icon, colour, inputs and outputs, and a JSON schema of its properties: what an editor of workflows
    needs to offer it.
    """
    return NodeDescription.model_validate(memory_node.description(query.language))


def _name(value: Any) -> str:
    return str(value).strip() if isinstance(value, str | UUID) else ""


expose(actions.promote, "POST /memory/promote", "promote_memory", "tiers", errors=(404,))
expose(actions.check, "POST /memory/check", "check_memory", "tiers")
expose(actions.demote, "POST /memory/demote", "demote_memory", "tiers", errors=(404,))
expose(questions.list_knowledge, "GET /knowledge", "list_knowledge", "tiers")
expose(
    questions.get_knowledge, "GET /knowledge/<uuid:id>", "get_knowledge", "tiers", missing="knowledge {id}"
)
expose(actions.edit, "PATCH /knowledge/<uuid:id>", "edit_knowledge", "tiers")


#: Seconds that a digest may take; it goes on when nobody waits any more.
DIGEST_SECONDS = 60.0


expose(
    actions.make_digest,
    "POST /memory/digest",
    "digest_quarantine",
    "tiers",
    body_required=False,
    timeout=DIGEST_SECONDS,
    errors=(504,),
)
expose(questions.list_digests, "GET /memory/digests", "list_digests", "tiers", without="digest_id")
expose(
    questions.list_digests,
    "GET /memory/digests/<uuid:digest_id>",
    "get_digest",
    "tiers",
    without="cursor limit",
    answer=DigestState,
    present=lambda _context, digests: digests.rows[0],
    missing="digest {digest_id}",
    doc="""Get one digest.

    Its clusters, what they are about, and the entries that each of them is made of.
    """,
)
