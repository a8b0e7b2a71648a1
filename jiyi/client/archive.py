"""``client.archive``: memories that are found only when they are asked for."""

from __future__ import annotations

from jiyi.client.calls import Calls, Id, checked
from jiyi.protocol.archive import Archived, ArchivedQuery, ArchiveRequest, Restored, RestoreRequest
from jiyi.protocol.queries import DEFAULT_PAGE, Page


class Archive:
    """The group's archived memories."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def list(self, agent_id: str, *, before: int | None = None, limit: int = DEFAULT_PAGE) -> Page:
        """An agent's archived memories, newest first; those with a ``node_count`` below ``before``."""
        query = checked(ArchivedQuery, agent_id=agent_id, before=before, limit=limit)
        return Page.model_validate(self._calls.ask("archive.list", query))

    def archive(self, *node_ids: Id) -> int:
        """Archive memories; returns how many were not archived before."""
        done = self._calls.act("archive.archive", checked(ArchiveRequest, node_ids=list(node_ids)))
        return Archived.model_validate(done).archived

    def restore(self, *node_ids: Id, agent_id: str | None = None) -> Restored:
        """Bring archived memories back: these, or up to a thousand of an agent."""
        done = self._calls.act("archive.restore", checked(RestoreRequest, node_ids=list(node_ids), agent_id=agent_id))
        return Restored.model_validate(done)
