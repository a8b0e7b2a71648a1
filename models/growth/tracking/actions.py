"""What can be asked about what grew."""

from __future__ import annotations

from jiyi.protocol.growth.tracking import Tallies, TallyQuery
from models.db.actions import Context, action
from models.growth.tracking import tallies
from models.memory.agents.agents import key_of, no_agent


@action("tallies.list")
def list_tallies(context: Context, request: TallyQuery) -> Tallies:
    """Count what an agent grew, and what of it was used.

    Per day and kind of thing: memories, experiences, pain points, proposals, versions of its files.
    """
    if key_of(context.connection, context.group_id, request.agent_id) is None:
        raise no_agent(context.group_id, request.agent_id)
    found = tallies.of_agent(context.connection, (context.group_id, request.agent_id), request.days)
    return Tallies(agent_id=request.agent_id, tallies=found)
