"""What is in the tiers, and what people do with it: promote, demote, edit (CN-16, CN-19, CN-34, CN-55).

Quarantine is for whoever may change the group's memory, and for nobody else: agents' keys have not the right to see it.
"""

from __future__ import annotations

from uuid import UUID

from pydantic import ValidationError
from sqlalchemy import Connection

from jiyi.errors import InvalidRequest, problems_of
from jiyi.protocol.tiers.knowledge import DemoteBody, EditBody, KnowledgeFilter, Layer, PromoteBody
from jiyi.protocol.tiers.quarantine import CheckBody
from jiyi.protocol.tiers.rest import GroupKnowledgeParameters, KnowledgeDetail, KnowledgeParameters, KnowledgeRows, QuarantineParameters
from models.tiers import actions, knowledge_reads, reads
from web import cursors
from web.api.problems import Refused
from web.api.registry import expose, operation
from web.api.running import Asker
from web.sources import from_database

expose(actions.promote, "POST", "/memory/promote", id="promote_memory", tag="tiers", body=PromoteBody, errors=(404,))


expose(actions.check, "POST", "/memory/check", id="check_memory", tag="tiers", body=CheckBody)


expose(actions.demote, "POST", "/memory/demote", id="demote_memory", tag="tiers", body=DemoteBody, errors=(404,))


@operation("GET", "/knowledge", id="list_knowledge", scope="read", tag="tiers", query=GroupKnowledgeParameters, answer=KnowledgeRows)
def list_knowledge(asker: Asker, query: GroupKnowledgeParameters) -> KnowledgeRows:
    """List what the group knows.

    Working and long-term memory, newest first, page by page; all filters given must hold. Use it to look around; to find
    what matters for a question, use query_memory. Keys with the right `admin` see quarantine, too.
    """
    return _listed(asker, query, query.session_id)


@operation(
    "GET",
    "/sessions/<anything:session_id>/knowledge",
    id="session_knowledge",
    scope="read",
    tag="tiers",
    query=KnowledgeParameters,
    answer=KnowledgeRows,
)
def session_knowledge(asker: Asker, session_id: str, query: KnowledgeParameters) -> KnowledgeRows:
    """List what a session left.

    What was said in one conversation or run, tier by tier, newest first, page by page. Keys with the right `admin` see
    quarantine, too.
    """
    found = _listed(asker, query, session_id)
    if not found.knowledge and not query.after and not any(_all_of(asker, session_id).values()):
        raise Refused(404, f"Nothing is known of a session {session_id!r}.")
    return found


@operation("GET", "/knowledge/<uuid:knowledge_id>", id="get_knowledge", scope="read", tag="tiers", answer=KnowledgeDetail)
def get_knowledge(asker: Asker, knowledge_id: UUID) -> KnowledgeDetail:
    """Get one piece of knowledge.

    Its words, where they come from, and its history: who promoted, edited or took it back, when and why.
    """
    return from_database(lambda connection: _detail(connection, asker.group_id, knowledge_id))


expose(
    actions.edit,
    "PATCH",
    "/knowledge/<uuid:knowledge_id>",
    id="edit_knowledge",
    tag="tiers",
    body=EditBody,
    answer=KnowledgeDetail,
    present=lambda asker, done: get_knowledge(asker, done.knowledge_id),
)


@operation("GET", "/quarantine", id="list_quarantine", scope="admin", tag="tiers", query=QuarantineParameters, answer=KnowledgeRows)
def list_quarantine(asker: Asker, query: QuarantineParameters) -> KnowledgeRows:
    """List quarantine.

    What agents said and nobody has promoted, apart from what is in working memory now; with the filter that kept it out,
    if one did. For audits and for those who promote: it is unverified, and never to be given to an agent.
    """
    wanted = KnowledgeFilter(layer="quarantine", session_id=query.session_id, q=query.q, reason=query.reason, limit=query.limit)
    return _page(asker, wanted, ["quarantine"], query.after)


def _layers(asker: Asker, wanted: str = "all") -> list[Layer]:
    """The tiers that the key may see. 403 if it asks for quarantine alone, and may not."""
    if asker.identity.may("admin"):
        return list(reads.LAYERS)
    if wanted == "quarantine":
        raise Refused(403, "layer: quarantine needs the right `admin`: what is in it is not to be given to agents.")
    return [layer for layer in reads.LAYERS if layer != "quarantine"]


def _listed(asker: Asker, query: KnowledgeParameters, session_id: str | None) -> KnowledgeRows:
    layers = _layers(asker, query.layer)
    try:
        wanted = KnowledgeFilter(layer=query.layer, session_id=session_id, q=query.q, limit=query.limit)
    except ValidationError as error:  # no session can be called so
        raise InvalidRequest(problems_of(error, KnowledgeFilter)) from None
    return _page(asker, wanted, layers, query.after)


def _page(asker: Asker, wanted: KnowledgeFilter, layers: list[Layer], after: str) -> KnowledgeRows:
    before = cursors.decode(after, cursors.TIME_AND_ID)
    page = from_database(lambda connection: reads.entries(connection, asker.group_id, wanted, layers=layers, before=before))
    following = None if page.next is None else cursors.encode(*reads.place(page.rows[-1]))
    counts = {layer: count for layer, count in page.counts.items() if layer in layers}
    return KnowledgeRows(knowledge=page.rows, counts=counts, next=following)


def _all_of(asker: Asker, session_id: str) -> dict[Layer, int]:
    wanted, layers = KnowledgeFilter(session_id=session_id), _layers(asker)
    found = from_database(lambda connection: reads.counts(connection, asker.group_id, wanted))
    return {layer: count for layer, count in found.items() if layer in layers}


def _detail(connection: Connection, group_id: str, knowledge_id: UUID) -> KnowledgeDetail:
    found = knowledge_reads.find(connection, group_id, knowledge_id)
    if found is None:
        raise Refused(404, f"There is no knowledge {knowledge_id}.")
    return KnowledgeDetail(**dict(found), history=knowledge_reads.history(connection, group_id, knowledge_id))
