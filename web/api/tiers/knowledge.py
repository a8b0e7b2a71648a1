"""What is in the tiers, and what people do with it: promote, demote, edit (CN-16, CN-19, CN-34, CN-55).

Quarantine is for whoever may change the group's memory, and for nobody else: agents' keys have not the right to see it.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from sqlalchemy import Connection

from jiyi.protocol.tiers.knowledge import DemoteBody, EditBody, KnowledgeFilter, Layer, PromoteBody
from jiyi.protocol.tiers.rest import GroupKnowledgeParameters, KnowledgeDetail, KnowledgeParameters, KnowledgeRows, QuarantineParameters
from models.tiers import actions, knowledge_reads, reads
from web.api import cursors
from web.api.problems import Refused
from web.api.registry import expose, operation
from web.api.running import Asker
from web.sources import from_database

_ID, _ENTRY = "01978c00-0000-5000-8000-000000000009", "01978c00-0000-7000-8000-000000000008"
_TIME = "2026-03-02T09:00:00Z"
_CONTENT = "裁决：用新土在一千二百度烧一次。"
_ROW: dict[str, Any] = {
    "entry_id": _ID,
    "layer": "longterm",
    "content": _CONTENT,
    "group_id": "default",
    "session_id": "monday",
    "agent_id": None,
    "node_id": "judge",
    "node_type": "verdict",
    "kind": "verdict",
    "confidence": None,
    "flags": [],
    "verified": True,
    "created_at": _TIME,
    "expires_at": None,
    "promoted_at": _TIME,
    "rejected": None,
    "metadata": {"source": "promotion"},
}
_REFUSED = {
    **_ROW,
    "entry_id": _ENTRY,
    "layer": "quarantine",
    "content": "Hear, hear.",
    "agent_id": "potter",
    "node_id": "opponent",
    "node_type": "agent",
    "kind": "statement",
    "confidence": 0.99,
    "verified": False,
    "promoted_at": None,
    "rejected": "too_short",
    "metadata": {},
}
_DETAIL = {
    "knowledge_id": _ID,
    "content": _CONTENT,
    "kind": "verdict",
    "agent_id": None,
    "session_id": "monday",
    "created_at": _TIME,
    "promoted_at": _TIME,
    "demoted_at": None,
    "replaced_by": None,
    "embedded": "multilingual-e5-small-q4",
    "metadata": {"source": "promotion"},
    "history": [{"action": "promoted", "actor": "user:mia", "at": _TIME, "reason": "", "before": None, "after": _CONTENT}],
}


expose(
    actions.promote,
    "POST",
    "/memory/promote",
    id="promote_memory",
    tag="tiers",
    body=PromoteBody,
    errors=(404,),
    examples={
        "Entries of quarantine": {"entry_ids": [_ENTRY], "kind": "verdict", "note": "Both sides agreed."},
        "一段话": {"text": _CONTENT, "kind": "verdict"},
        "What would be stored?": {"entry_ids": [_ENTRY], "preview": True},
    },
    answer_example={
        "pieces": [{"content": _CONTENT, "tokens": 12, "knowledge_id": _ID, "known": False}],
        "entries": [_ENTRY],
        "already": [],
        "promoted_at": _TIME,
    },
)


expose(
    actions.demote,
    "POST",
    "/memory/demote",
    id="demote_memory",
    tag="tiers",
    body=DemoteBody,
    errors=(404,),
    examples={"It was wrong": {"knowledge_ids": [_ID], "reason": "The kiln was colder than we thought."}},
    answer_example={"demoted": [_ID]},
)


@operation(
    "GET",
    "/knowledge",
    id="list_knowledge",
    scope="read",
    tag="tiers",
    query=GroupKnowledgeParameters,
    answer=KnowledgeRows,
    examples={"Verdicts on the kiln": {"layer": "longterm", "q": "kiln"}, "关于釉面": {"q": "釉面", "limit": 10}},
    answer_example={"knowledge": [_ROW], "counts": {"working": 3, "longterm": 12}, "next": None},
)
def list_knowledge(asker: Asker, query: GroupKnowledgeParameters) -> dict[str, Any]:
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
    examples={"All of it": {"layer": "all", "limit": 50}},
    answer_example={"knowledge": [_ROW], "counts": {"working": 3, "longterm": 1}, "next": None},
)
def session_knowledge(asker: Asker, session_id: str, query: KnowledgeParameters) -> dict[str, Any]:
    """List what a session left.

    What was said in one conversation or run, tier by tier, newest first, page by page. Keys with the right `admin` see
    quarantine, too.
    """
    found = _listed(asker, query, session_id)
    if not found["knowledge"] and not query.after and not any(_all_of(asker, session_id).values()):
        raise Refused(404, f"Nothing is known of a session {session_id!r}.")
    return found


@operation(
    "GET", "/knowledge/<uuid:knowledge_id>", id="get_knowledge", scope="read", tag="tiers", answer=KnowledgeDetail, answer_example=_DETAIL
)
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
    examples={"In other words": {"content": "裁决：薄杯子烧一次，厚杯子烧两次。", "reason": "The thick ones were forgotten."}},
    answer_example=_DETAIL,
)


@operation(
    "GET",
    "/quarantine",
    id="list_quarantine",
    scope="admin",
    tag="tiers",
    query=QuarantineParameters,
    answer=KnowledgeRows,
    examples={"Too short to mean anything": {"reason": "too_short"}, "提到釉面的": {"q": "釉面"}},
    answer_example={"knowledge": [_REFUSED], "counts": {"quarantine": 40}, "next": None},
)
def list_quarantine(asker: Asker, query: QuarantineParameters) -> dict[str, Any]:
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


def _listed(asker: Asker, query: KnowledgeParameters, session_id: str | None) -> dict[str, Any]:
    layers = _layers(asker, query.layer)
    wanted = KnowledgeFilter(layer=query.layer, session_id=session_id, q=query.q, limit=query.limit)
    return _page(asker, wanted, layers, query.after)


def _page(asker: Asker, wanted: KnowledgeFilter, layers: list[Layer], after: str) -> dict[str, Any]:
    before = cursors.decode(after, cursors.TIME_AND_ID)
    page = from_database(lambda connection: reads.entries(connection, asker.group_id, wanted, layers=layers, before=before))
    following = None if page.next is None else cursors.encode(*reads.place(page.rows[-1]))
    counts = {layer: count for layer, count in page.counts.items() if layer in layers}
    return {"knowledge": page.rows, "counts": counts, "next": following}


def _all_of(asker: Asker, session_id: str) -> dict[Layer, int]:
    wanted, layers = KnowledgeFilter(session_id=session_id), _layers(asker)
    found = from_database(lambda connection: reads.counts(connection, asker.group_id, wanted))
    return {layer: count for layer, count in found.items() if layer in layers}


def _detail(connection: Connection, group_id: str, knowledge_id: UUID) -> KnowledgeDetail:
    found = knowledge_reads.find(connection, group_id, knowledge_id)
    if found is None:
        raise Refused(404, f"There is no knowledge {knowledge_id}.")
    return KnowledgeDetail(**dict(found), history=knowledge_reads.history(connection, group_id, knowledge_id))
