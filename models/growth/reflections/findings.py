"""What a look at itself starts from, and how what it found is stored."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import Connection, bindparam, text
from sqlalchemy.dialects.postgresql import JSONB

from engine.growth.reflections.changes import allowed, news, suggested
from engine.growth.reflections.types import IdentityChange, SelfReflected
from jiyi.protocol import limits
from jiyi.protocol.growth.reflections import Finding, Findings, FoundPattern, SelfSettings
from models.conversations.extractions import StoredTurn, as_turns
from models.growth.identity import proposals, versions
from models.growth.tracking import tallies
from models.memory.agents.agents import AgentName

#: Who makes an agent's own proposals, and approves those that need nobody.
BY_REFLECTION = "reflection"


def turns(connection: Connection, name: AgentName, after: int, limit: int) -> list[StoredTurn]:
    """The latest turns since the last look, in their order."""
    rows = connection.execute(_TURNS, {"group": name[0], "agent": name[1], "after": after, "limit": limit})
    return as_turns(rows)[::-1]


def files_text(connection: Connection, name: AgentName) -> str:
    """The agent's files in one text, for the question."""
    files = versions.everything(connection, name)
    return "\n\n".join(f"{file}:\n{one.content}" for file, one in files.items() if one.content)


def keep(
    connection: Connection, name: AgentName, reflection_id: UUID, found: SelfReflected, seen: Sequence[StoredTurn], settings: SelfSettings
) -> Findings:
    """Store what was found with the reflection, and propose the changes of files. Call it under the agent's lock."""

    def ids(lines: Sequence[int]) -> list[UUID]:
        return [seen[line].node_id for line in dict.fromkeys(lines)]

    made = Findings(
        patterns=[FoundPattern(kind=one.kind, text=one.text, evidence=ids(one.evidence)) for one in found.patterns],
        improvements=[Finding(text=one.text, evidence=ids(one.evidence)) for one in found.improvements],
        proposals=[
            proposal_id
            for change in allowed(found.identity_changes, soul=settings.allow_soul_modification)
            if (proposal_id := _propose(connection, name, reflection_id, change, ids(change.evidence), settings)) is not None
        ],
    )
    connection.execute(_KEEP, {"group": name[0], "id": reflection_id, "findings": made.model_dump(mode="json")})
    tallies.note(connection, name, "pattern", grown=len(made.patterns))
    return made


def _propose(
    connection: Connection, name: AgentName, reflection_id: UUID, change: IdentityChange, evidence: list[UUID], settings: SelfSettings
) -> UUID | None:
    """None for what the file, or a proposal that waits or was rejected, says already."""
    base = versions.current(connection, name, change.file)
    text_wanted = suggested(change, base.content, limits.MAX_IDENTITY_CHARS)
    if text_wanted is None or not news(change, {change.file: proposals.suggestions(connection, name, change.file)}):
        return None
    made = proposals.add(connection, name, base, text_wanted, change.reason, BY_REFLECTION, evidence=evidence, reflection_id=reflection_id)
    if not settings.require_approval:
        proposals.approve(connection, made, name, BY_REFLECTION, "")
    return made.proposal_id


_TURNS = text("""
    SELECT n.node_id, n.node_count, n.session_id, n.provenance ->> 'role', n.subject, n.description, n.created_at FROM memory_nodes n
    WHERE n.group_id = :group AND n.agent_id = :agent AND n.kind = 'session' AND n.provenance ->> 'role' IS NOT NULL
      AND n.node_count > :after ORDER BY n.node_count DESC LIMIT :limit
""")
_KEEP = text("UPDATE reflections SET findings = :findings WHERE group_id = :group AND reflection_id = :id").bindparams(
    bindparam("findings", type_=JSONB)
)
