"""``client.tiers``: quarantine, working memory and long-term knowledge (``docs/workflows.md``)."""

from __future__ import annotations

from typing import Any, Literal, Unpack
from uuid import UUID

from jiyi.client.arguments import ContextArguments
from jiyi.client.calls import Id, Namespace, W
from jiyi.client.steps import Steps, polled, verb
from jiyi.protocol import knowledge as wire
from jiyi.protocol.base import DEFAULT_PAGE, Changed, Rows
from jiyi.protocol.knowledge import WorkingMemory
from jiyi.protocol.tier_questions import ContextAnswer, Kind

#: What a digest may take, in seconds: twenty questions to an LLM.
DIGEST_SECONDS = 120.0


class Tiers(Namespace[W]):
    """The group's three tiers."""

    @verb
    def screened(self, entry_id: Id, timeout: float | None = None) -> Steps[wire.IngestState]:
        """What the filters said of an entry of quarantine that is stored; waits for it.

        Raises:
            NoAnswer: it was not screened in time.
        """
        limit = self._wait(timeout)
        answer: wire.IngestState = yield from polled(
            lambda: self._call("quarantine.outcome", id=entry_id),
            lambda outcome: outcome is not None,
            limit,
            lambda _: f"{entry_id} is in quarantine, but was not screened within {limit:g} s; it will be",
        )
        return answer

    @verb
    def promote(
        self,
        *entry_ids: Id,
        text: str | None = None,
        agent_id: str | None = None,
        kind: Kind = "statement",
        reason: str = "",
        preview: bool = False,
    ) -> Steps[wire.Promoted]:
        """Make long-term knowledge of entries of quarantine, or of a text, for which the entries stand.

        With ``preview`` it only shows the pieces. Promoting again changes nothing.
        """
        return self._call(
            "knowledge.promote", entry_ids=list(entry_ids), text=text, agent_id=agent_id, kind=kind, reason=reason, preview=preview
        )

    @verb
    def demote(self, *knowledge_ids: Id, reason: str = "") -> Steps[list[UUID]]:
        """Take knowledge back; returns what was in force. Its history stays."""
        done: Changed = yield from self._call("knowledge.demote", knowledge_ids=list(knowledge_ids), reason=reason)
        return done.ids

    @verb
    def edit(self, knowledge_id: Id, content: str, *, reason: str = "") -> Steps[UUID]:
        """Put knowledge into other words; returns the id of the version that is in force."""
        done: wire.KnowledgeDetail = yield from self._call("knowledge.edit", id=knowledge_id, content=content, reason=reason)
        return done.knowledge_id

    @verb
    def check(self, *entry_ids: Id, verdict: Literal["true", "refuted"], reason: str = "") -> Steps[list[UUID]]:
        """Say what a fact check of entries of quarantine came to; the filters look at them again.

        Returns those of which that was not known yet.
        """
        done: Changed = yield from self._call("quarantine.check", entry_ids=list(entry_ids), verdict=verdict, reason=reason)
        return done.ids

    @verb
    def delete(self, *entry_ids: Id, reason: str = "") -> Steps[list[UUID]]:
        """Take entries of quarantine out of sight, and out of working memory; returns those that were there."""
        done: Changed = yield from self._call("quarantine.delete", entry_ids=list(entry_ids), reason=reason)
        return done.ids

    @verb
    def knowledge(
        self,
        *,
        layer: wire.LayerFilter = "all",
        session_id: str | None = None,
        words: str = "",
        rejected: str | None = None,
        limit: int = DEFAULT_PAGE,
        cursor: str | None = None,
    ) -> Steps[wire.KnowledgePage]:
        """A page of what is in the tiers, newest first (:class:`jiyi.protocol.knowledge.ListKnowledge`)."""
        filters: dict[str, Any] = {"session_id": session_id, "words": words, "rejected": rejected}
        return self._call("knowledge.list", layer=layer, limit=limit, cursor=cursor, **filters)

    @verb
    def history(self, knowledge_id: Id) -> Steps[list[wire.Change]]:
        """Who promoted, demoted or edited a piece of knowledge, oldest first."""
        page: Rows[wire.Change] = yield from self._call("knowledge.history", id=knowledge_id)
        return page.rows

    @verb
    def working(self) -> Steps[WorkingMemory]:
        """What is in working memory now, newest first, and what the filters have counted."""
        return self._call("working_memory.show")

    @verb
    def digest(self, days: float = 7, *, timeout: float = DIGEST_SECONDS) -> Steps[wire.DigestState]:
        """Digest the quarantine of the last days now, for those who promote; the weekly job does the same."""
        return self._call("digests.make", timeout, days=days)

    @verb
    def digests(self, limit: int = 10) -> Steps[list[wire.DigestState]]:
        """The latest digests, newest first."""
        page: Rows[wire.DigestState] = yield from self._call("digests.list", limit=limit)
        return page.rows

    @verb
    def context(self, proposal: str, *, timeout: float | None = None, **options: Unpack[ContextArguments]) -> Steps[ContextAnswer]:
        """A whole prompt for an agent: who it is, what the group knows, and what is to be decided, within a budget.

        ``options`` are the other fields of :class:`jiyi.protocol.tier_questions.ContextBody`: ``system``, ``persona``, ``budget``
        (tokens, 2,000 unless given), ``query``, ``agent_id`` … Raises as :meth:`jiyi.Client.query_memory` does.
        """
        return self._call("context.build", timeout, proposal=proposal, **options)
