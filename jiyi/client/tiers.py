"""``client.tiers``: quarantine, working memory and long-term knowledge (``docs/workflows.md``)."""

from __future__ import annotations

from typing import Literal, Unpack
from uuid import UUID

from pydantic import RootModel

from jiyi.client.arguments import ContextArguments
from jiyi.client.calls import Id, Namespace, W, checked
from jiyi.client.steps import Steps, polled, verb
from jiyi.protocol import knowledge as wire
from jiyi.protocol.base import DEFAULT_PAGE, Rows
from jiyi.protocol.tier_questions import ContextAnswer, ContextBody, Kind

#: What a digest may take, in seconds: twenty questions to an LLM.
DIGEST_SECONDS = 120.0


class Outcome(RootModel[wire.IngestState | None]):
    """What the filters said, if they have said it."""


class Tiers(Namespace[W]):
    """The group's three tiers."""

    @verb
    def screened(self, entry_id: Id, timeout: float | None = None) -> Steps[wire.IngestState]:
        """What the filters said of an entry of quarantine that is stored; waits for it.

        Raises:
            NoAnswer: it was not screened in time.
        """
        query = checked(wire.EntryQuery, entry_id=entry_id)
        limit = self._wait(timeout)
        answer = yield from polled(
            lambda: self._ask("quarantine.outcome", query, Outcome),
            lambda outcome: outcome.root is not None,
            limit,
            lambda _: f"{entry_id} is in quarantine, but was not screened within {limit:g} s; it will be",
        )
        assert answer.root is not None  # or there would be no answer
        return answer.root

    @verb
    def promote(
        self,
        *entry_ids: Id,
        text: str | None = None,
        agent_id: str | None = None,
        kind: Kind = "statement",
        note: str = "",
        preview: bool = False,
    ) -> Steps[wire.Promoted]:
        """Make long-term knowledge of entries of quarantine, or of a text, for which the entries stand.

        With ``preview`` it only shows the pieces. Promoting again changes nothing.
        """
        request = checked(wire.PromoteBody, entry_ids=list(entry_ids), text=text, agent_id=agent_id, kind=kind, note=note, preview=preview)
        return self._act("knowledge.promote", request, wire.Promoted)

    @verb
    def demote(self, *knowledge_ids: Id, reason: str = "") -> Steps[list[UUID]]:
        """Take knowledge back; returns what was in force. Its history stays."""
        request = checked(wire.DemoteBody, knowledge_ids=list(knowledge_ids), reason=reason)
        done = yield from self._act("knowledge.demote", request, wire.Demoted)
        return done.demoted

    @verb
    def edit(self, knowledge_id: Id, content: str, *, reason: str = "") -> Steps[UUID]:
        """Put knowledge into other words; returns the id of the version that is in force."""
        request = checked(wire.EditKnowledge, knowledge_id=knowledge_id, content=content, reason=reason)
        done = yield from self._act("knowledge.edit", request, wire.CurrentVersion)
        return done.knowledge_id

    @verb
    def check(self, *entry_ids: Id, verdict: Literal["true", "refuted"], reason: str = "") -> Steps[list[UUID]]:
        """Say what a fact check of entries of quarantine came to; the filters look at them again.

        Returns those of which that was not known yet.
        """
        request = checked(wire.CheckBody, entry_ids=list(entry_ids), verdict=verdict, reason=reason)
        done = yield from self._act("quarantine.check", request, wire.CheckedEntries)
        return done.checked

    @verb
    def delete(self, *entry_ids: Id, reason: str = "") -> Steps[list[UUID]]:
        """Take entries of quarantine out of sight, and out of working memory; returns those that were there."""
        request = checked(wire.DeleteEntries, entry_ids=list(entry_ids), reason=reason)
        done = yield from self._act("quarantine.delete", request, wire.DeletedEntries)
        return done.deleted

    @verb
    def knowledge(
        self,
        *,
        layer: wire.LayerFilter = "all",
        session_id: str | None = None,
        q: str = "",
        reason: str | None = None,
        limit: int = DEFAULT_PAGE,
        offset: int = 0,
    ) -> Steps[wire.KnowledgePage]:
        """A page of what is in the tiers, newest first (:class:`jiyi.protocol.knowledge.KnowledgeFilter`)."""
        query = checked(wire.KnowledgeFilter, layer=layer, session_id=session_id, q=q, reason=reason, limit=limit, offset=offset)
        return self._ask("knowledge.list", query, wire.KnowledgePage)

    @verb
    def history(self, knowledge_id: Id) -> Steps[list[wire.Change]]:
        """Who promoted, demoted or edited a piece of knowledge, oldest first."""
        return self._ask("knowledge.history", checked(wire.HistoryQuery, knowledge_id=knowledge_id), list[wire.Change])

    @verb
    def working(self) -> Steps[wire.WorkingState]:
        """What is in working memory now, newest first, and what the filters have counted."""
        return self._ask("working_memory.show", wire.WorkingMemoryQuery(), wire.WorkingState)

    @verb
    def digest(self, days: float = 7, *, timeout: float = DIGEST_SECONDS) -> Steps[wire.DigestState]:
        """Digest the quarantine of the last days now, for those who promote; the weekly job does the same."""
        return self._act("digests.make", checked(wire.DigestBody, days=days), wire.DigestState, timeout, queue="reflection")

    @verb
    def digests(self, limit: int = 10) -> Steps[list[wire.DigestState]]:
        """The latest digests, newest first."""
        page = yield from self._ask("digests.list", checked(wire.DigestsQuery, limit=limit), Rows[wire.DigestState])
        return page.rows

    @verb
    def context(self, proposal: str, *, timeout: float | None = None, **options: Unpack[ContextArguments]) -> Steps[ContextAnswer]:
        """A whole prompt for an agent: who it is, what the group knows, and what is to be decided, within a budget.

        ``options`` are the other fields of :class:`jiyi.protocol.tier_questions.ContextBody`: ``system``, ``persona``, ``budget``
        (tokens, 2,000 unless given), ``query``, ``agent_id`` … Raises as :meth:`jiyi.Client.query_memory` does.
        """
        return self._ask("context.build", checked(ContextBody, proposal=proposal, **options), ContextAnswer, timeout)
