"""``client.tiers``: quarantine, working memory and long-term knowledge (``docs/tiers.md``)."""

from __future__ import annotations

from typing import Literal
from uuid import UUID

from jiyi.client.calls import Calls, Id, checked
from jiyi.polling import poll
from jiyi.protocol.queries import DEFAULT_PAGE
from jiyi.protocol.tiers.digests import DigestBody, DigestsQuery, DigestState
from jiyi.protocol.tiers.knowledge import (
    Change,
    CurrentVersion,
    DemoteBody,
    Demoted,
    EditKnowledge,
    HistoryQuery,
    KnowledgeFilter,
    KnowledgePage,
    LayerFilter,
    PromoteBody,
    Promoted,
)
from jiyi.protocol.tiers.quarantine import (
    CheckBody,
    CheckedEntries,
    DeletedEntries,
    DeleteEntries,
    EntryQuery,
    IngestState,
    WorkingMemoryQuery,
    WorkingState,
)
from jiyi.protocol.tiers.query import Kind

#: What a digest may take, in seconds: twenty questions to an LLM.
DIGEST_SECONDS = 120.0


class Tiers:
    """The group's three tiers."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def screened(self, entry_id: Id, timeout: float | None = None) -> IngestState:
        """What the filters said of an entry of quarantine that is stored; waits for it.

        Raises:
            NoAnswer: it was not screened in time.
        """
        query = checked(EntryQuery, entry_id=entry_id)
        limit = self._calls.wait(timeout)
        found = poll(
            lambda: self._calls.ask("quarantine.outcome", query),
            lambda answer: answer is not None,
            limit,
            lambda _: f"{entry_id} is in quarantine, but was not screened within {limit:g} s; it will be",
        )
        return IngestState.model_validate(found)

    def promote(
        self,
        *entry_ids: Id,
        text: str | None = None,
        agent_id: str | None = None,
        kind: Kind = "statement",
        note: str = "",
        preview: bool = False,
    ) -> Promoted:
        """Make long-term knowledge of entries of quarantine, or of a text, for which the entries stand (CN-34).

        With ``preview`` it only shows the pieces. Promoting again changes nothing.
        """
        request = checked(PromoteBody, entry_ids=list(entry_ids), text=text, agent_id=agent_id, kind=kind, note=note, preview=preview)
        return Promoted.model_validate(self._calls.act("knowledge.promote", request))

    def demote(self, *knowledge_ids: Id, reason: str = "") -> list[UUID]:
        """Take knowledge back; returns what was in force. Its history stays."""
        request = checked(DemoteBody, knowledge_ids=list(knowledge_ids), reason=reason)
        return Demoted.model_validate(self._calls.act("knowledge.demote", request)).demoted

    def edit(self, knowledge_id: Id, content: str, *, reason: str = "") -> UUID:
        """Put knowledge into other words; returns the id of the version that is in force."""
        request = checked(EditKnowledge, knowledge_id=knowledge_id, content=content, reason=reason)
        return CurrentVersion.model_validate(self._calls.act("knowledge.edit", request)).knowledge_id

    def check(self, *entry_ids: Id, verdict: Literal["true", "refuted"], reason: str = "") -> list[UUID]:
        """Say what a fact check of entries of quarantine came to; the filters look at them again (CN-60).

        Returns those of which that was not known yet.
        """
        request = checked(CheckBody, entry_ids=list(entry_ids), verdict=verdict, reason=reason)
        return CheckedEntries.model_validate(self._calls.act("quarantine.check", request)).checked

    def delete(self, *entry_ids: Id, reason: str = "") -> list[UUID]:
        """Take entries of quarantine out of sight, and out of working memory; returns those that were there."""
        request = checked(DeleteEntries, entry_ids=list(entry_ids), reason=reason)
        return DeletedEntries.model_validate(self._calls.act("quarantine.delete", request)).deleted

    def knowledge(
        self,
        *,
        layer: LayerFilter = "all",
        session_id: str | None = None,
        q: str = "",
        reason: str | None = None,
        limit: int = DEFAULT_PAGE,
        offset: int = 0,
    ) -> KnowledgePage:
        """A page of what is in the tiers, newest first (:class:`jiyi.protocol.tiers.knowledge.KnowledgeFilter`)."""
        query = checked(KnowledgeFilter, layer=layer, session_id=session_id, q=q, reason=reason, limit=limit, offset=offset)
        return KnowledgePage.model_validate(self._calls.ask("knowledge.list", query))

    def history(self, knowledge_id: Id) -> list[Change]:
        """Who promoted, demoted or edited a piece of knowledge, oldest first."""
        rows = self._calls.ask("knowledge.history", checked(HistoryQuery, knowledge_id=knowledge_id))
        return [Change.model_validate(row) for row in rows]

    def working(self) -> WorkingState:
        """What is in working memory now, newest first, and what the filters have counted."""
        return WorkingState.model_validate(self._calls.ask("working_memory.show", WorkingMemoryQuery()))

    def digest(self, days: float = 7, *, timeout: float = DIGEST_SECONDS) -> DigestState:
        """Digest the quarantine of the last days now, for those who promote; the weekly job does the same."""
        request = checked(DigestBody, days=days)
        return DigestState.model_validate(self._calls.act("digests.make", request, timeout, queue="reflection"))

    def digests(self, limit: int = 10) -> list[DigestState]:
        """The latest digests, newest first."""
        page = self._calls.ask("digests.list", checked(DigestsQuery, limit=limit))
        return [DigestState.model_validate(row) for row in page["rows"]]
