"""What is in the tiers, and what people do with it: promote, demote, edit.

Quarantine is for whoever may change the group's memory, and for nobody else: agents' keys have not the right to see it.
"""

from __future__ import annotations

from jiyi.protocol.tiers.knowledge import CurrentVersion, DemoteBody, EditBody, PromoteBody
from jiyi.protocol.tiers.quarantine import CheckBody
from jiyi.protocol.tiers.rest import GroupKnowledgeParameters, KnowledgeDetail, KnowledgeParameters, KnowledgeRows, QuarantineParameters
from models.db.bounded_reads import from_database
from models.tiers import actions, knowledge_reads, questions
from web.api.registry import expose
from web.api.running import Asker


def _in_force(asker: Asker, done: CurrentVersion) -> KnowledgeDetail | None:
    return from_database(lambda connection: knowledge_reads.detail(connection, asker.group_id, done.knowledge_id))


expose(actions.promote, "POST", "/memory/promote", id="promote_memory", tag="tiers", body=PromoteBody, errors=(404,))
expose(actions.check, "POST", "/memory/check", id="check_memory", tag="tiers", body=CheckBody)
expose(actions.demote, "POST", "/memory/demote", id="demote_memory", tag="tiers", body=DemoteBody, errors=(404,))
expose(questions.list_visible, "GET", "/knowledge", id="list_knowledge", tag="tiers", query=GroupKnowledgeParameters, answer=KnowledgeRows)
expose(
    questions.list_session,
    "GET",
    "/sessions/<anything:session_id>/knowledge",
    id="session_knowledge",
    tag="tiers",
    query=KnowledgeParameters,
    answer=KnowledgeRows,
    missing="Nothing is known of a session {session_id!r}.",
)
expose(
    questions.get_knowledge,
    "GET",
    "/knowledge/<uuid:knowledge_id>",
    id="get_knowledge",
    tag="tiers",
    missing="There is no knowledge {knowledge_id}.",
)
expose(
    actions.edit,
    "PATCH",
    "/knowledge/<uuid:knowledge_id>",
    id="edit_knowledge",
    tag="tiers",
    body=EditBody,
    answer=KnowledgeDetail,
    present=_in_force,
)
expose(questions.list_quarantine, "GET", "/quarantine", id="list_quarantine", tag="tiers", query=QuarantineParameters, answer=KnowledgeRows)
