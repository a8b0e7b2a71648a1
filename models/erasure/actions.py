"""What can be done about erasure: ask for one, see what it would take along, see how far it is."""

from __future__ import annotations

from jiyi.errors import NotFound
from jiyi.protocol.base import BY_ID, ById, Paged, Rows
from jiyi.protocol.erasure import Erasure, ErasureState
from models.db.actions import Context, action, by_worker
from models.db.rows import page
from models.erasure import matching, progress
from models.erasure.progress import ERASE
from models.queue.wakeups import wake_after

#: It looks through all texts of the group, in Python: no work for a process that serves pages.
preview = by_worker("erasure.preview")


@action("erasure.request")
def request_erasure(context: Context, request: Erasure) -> ErasureState:
    """Erase an agent, a person or some memories.

    Everything that is stored of an agent; or every memory that names a person, by all names given, with what
    was concluded from it; or single memories. It goes from every table, index, cache and buffer, for good:
    there is no way back. A job does it: see get_erasure for how far it is and, in the end, for a report that
    proves it. The same asked for again while that is pending is the same erasure.
    """
    return ask(context, request)


def ask(context: Context, request: Erasure) -> ErasureState:
    """The same, of another action."""
    connection, group_id = context.connection, context.group_id
    if request.agent_id is not None and not matching.is_agent(connection, group_id, request.agent_id):
        raise NotFound(
            f"agent_id: no agent {request.agent_id!r} in the group {group_id!r}; see `jiyi agents list`"
        )
    if request.node_ids and not matching.known_nodes(connection, group_id, request.node_ids):
        raise NotFound(f"node_ids: none of these is a memory of the group {group_id!r}")
    what = progress.described(request)
    pending = progress.pending(connection, group_id, request.kind, what)
    if pending is None:
        pending = progress.enqueue(connection, group_id, request.kind, what, context.actor.name)
    wake_after(context.connection, ERASE)  # also for one that waits already
    return pending


@action("erasure.get")
def get_erasure(context: Context, request: ById) -> ErasureState:
    """Get one erasure.

    Its state (`owed`, `running`, `incomplete`, `done`), and the report when it is done.
    """
    erasure = progress.one(context.connection, context.group_id, request.id)
    if erasure is None:
        raise NotFound(f"id: no erasure {request.id} in the group {context.group_id!r}")
    return erasure


@action("erasure.list")
def list_erasures(context: Context, request: Paged) -> Rows[ErasureState]:
    """List erasures.

    Newest first, page by page. Names are not kept, only their hashes.
    """
    rows = progress.page(context.connection, context.group_id, request.place(BY_ID), request.limit + 1)
    return page(rows, request.limit, lambda last: last.erasure_id)
