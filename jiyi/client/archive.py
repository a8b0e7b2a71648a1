"""``client.archive``: memories that are found only when they are asked for."""

from __future__ import annotations

from jiyi.client.calls import Id, Namespace, W, checked
from jiyi.client.steps import Steps, verb
from jiyi.protocol.archive import Archived, ArchivedQuery, ArchivedRow, ArchiveRequest, Restored, RestoreRequest
from jiyi.protocol.queries import DEFAULT_PAGE, Rows


class Archive(Namespace[W]):
    """The group's archived memories."""

    @verb
    def list(self, agent_id: str, *, before: int | None = None, limit: int = DEFAULT_PAGE) -> Steps[Rows[ArchivedRow]]:
        """An agent's archived memories, newest first; those with a ``node_count`` below ``before``."""
        query = checked(ArchivedQuery, agent_id=agent_id, before=before, limit=limit)
        return self._ask("archive.list", query, Rows[ArchivedRow])

    @verb
    def archive(self, *node_ids: Id) -> Steps[int]:
        """Archive memories; returns how many were not archived before."""
        done = yield from self._act("archive.archive", checked(ArchiveRequest, node_ids=list(node_ids)), Archived)
        return done.archived

    @verb
    def restore(self, *node_ids: Id, agent_id: str | None = None) -> Steps[Restored]:
        """Bring archived memories back: these, or up to a thousand of an agent."""
        return self._act("archive.restore", checked(RestoreRequest, node_ids=list(node_ids), agent_id=agent_id), Restored)
