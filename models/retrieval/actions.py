"""What can be asked about retrievals: those of late, with what they returned."""

from __future__ import annotations

from jiyi.protocol.recall import RetrievalRecords, RetrievalsQuery
from models.db.actions import Context, action
from models.memory.agents import key_of, no_agent
from models.retrieval import records


@action("retrieval.list")
def list_retrievals(context: Context, request: RetrievalsQuery) -> RetrievalRecords:
    """List retrievals of late.

    The group's, or an agent's, newest first, page by page: what was asked, by whom, which options, how long it took, and
    what was returned. They are written a moment later; the latest of each agent are kept, for some days.
    """
    rows = records.listed(context.connection, context.group_id, request.agent_id, request.before, request.limit)
    if not rows and request.agent_id is not None and key_of(context.connection, context.group_id, request.agent_id) is None:
        raise no_agent(context.group_id, request.agent_id)
    return RetrievalRecords.model_construct(rows=rows, next=rows[-1].retrieval_id if len(rows) == request.limit else None)
