"""What is about to be promoted: where it comes from, and what it says so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from pydantic import ValidationError
from sqlalchemy import Connection

from jiyi.errors import InvalidRequest, NotFound, problems_of
from jiyi.protocol.knowledge import MAX_IDS, PromoteBody
from models.tiers import digests, knowledge_reads, quarantine_reads
from models.tiers.quarantine_reads import EntryDetail


@dataclass(frozen=True, slots=True)
class Draft:
    """Entries of quarantine, and what is to be known of them; or a text by itself."""

    entries: list[EntryDetail]
    text: str = ""
    kind: str = "statement"
    agent_id: str | None = None
    note: str = ""

    def body(self) -> PromoteBody | None:
        """None if it is empty. An entry whose words were left as they are is promoted itself, with all that is known of it.

        Raises:
            InvalidRequest: it cannot be promoted like this.
        """
        said = self.text.strip()
        if not said and not self.entries:
            return None
        own = len(self.entries) == 1 and self.entries[0].content.strip() == said
        ids = [entry.entry_id for entry in self.entries]
        fields = {"kind": self.kind, "agent_id": self.agent_id, "note": self.note}
        try:
            return PromoteBody.model_validate({"entry_ids": ids, "text": None if own or not said else said, **fields})
        except ValidationError as error:
            raise InvalidRequest(problems_of(error)) from None


def of_entries(connection: Connection, group_id: str, ids: Sequence[UUID]) -> Draft:
    """What one entry says, or several that somebody has to put into words. Raises :class:`NotFound` if one is not there."""
    entries = entries_of(connection, group_id, ids)
    verdicts = bool(entries) and all(entry.kind == "verdict" for entry in entries)
    return Draft(entries, entries[0].content if len(entries) == 1 else "", "verdict" if verdicts else "statement")


def of_digest(connection: Connection, group_id: str, digest_id: UUID, number: int) -> Draft:
    """A cluster of a digest, in the digest's words. Raises :class:`NotFound`."""
    found = digests.listed(connection, group_id, digest_id)
    item = next((one for one in found[0].items if one.number == number), None) if found else None
    if item is None:
        raise NotFound(f"the group {group_id!r} has no such digest")
    drafted = of_entries(connection, group_id, item.entry_ids[:MAX_IDS])
    return Draft(drafted.entries, item.summary or drafted.text, drafted.kind)


def of_knowledge(connection: Connection, group_id: str, knowledge_id: UUID) -> Draft:
    """What was demoted, once more. Raises :class:`NotFound`."""
    found = knowledge_reads.find(connection, group_id, knowledge_id)
    if found is None:
        raise NotFound(f"the group {group_id!r} has no knowledge {knowledge_id}")
    return Draft([], found.content, found.kind, found.agent_id)


def entries_of(connection: Connection, group_id: str, ids: Sequence[UUID]) -> list[EntryDetail]:
    """These entries of quarantine. Raises :class:`NotFound` if one is not there."""
    found = quarantine_reads.some_entries(connection, group_id, ids)
    if len(found) < len(set(ids)):
        raise NotFound(f"entry: the quarantine of the group {group_id!r} does not have all of these")
    return found
