"""Skills and workflows (``pipeline``): their patterns, what follows when people decide on them, votes; and
what grew, in prompts: approved identity files, the index of enabled skills, and skills that fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, delete, or_, select, text
from uuid6 import uuid7

from engine.conversations.stable import Basis
from engine.growth.questions import file_section, notes_of
from engine.growth.skills import fit, index_line, skill_section
from jiyi.chat.steps import hint
from jiyi.errors import NotFound
from jiyi.protocol.artifacts import GiveFeedback, GivenFeedback, Hint, PatternState, Vote
from jiyi.protocol.base import DEFAULT_PAGE, AgentForUser, OfAgent, Rows
from jiyi.protocol.conversations import InjectedSkill
from jiyi.protocol.identity import File, Tally, TallyQuery
from jiyi.protocol.proposals import SkillProposal
from jiyi.text.prompt import Line, Section
from jiyi.text.words import Language
from models.conversations.session_prompts import Grown, prompt_source
from models.db.actions import Context, action
from models.db.rows import Record, records
from models.growth import evolution, identity, work
from models.growth.proposals import Decision, follows
from models.growth.tables import ProposalRow, TrustRow, VoteRow
from models.memory.agents import AgentName, belonging, known_agent

#: Patterns of an agent among which an artifact's own is looked for, the most used ones.
MAX_PATTERNS = 500


def patterns_of(connection: Connection, group_id: str, agent_id: str, limit: int) -> list[PatternState]:
    """The agent's patterns, the most used first."""
    rows = connection.execute(_PATTERNS, {"group": group_id, "agent": agent_id, "limit": limit})
    return [PatternState.model_validate(dict(row)) for row in rows.mappings()]


def pattern_of(connection: Connection, group_id: str, skill: SkillProposal) -> PatternState | None:
    """The pattern that a skill came of: of its kind, with evidence in common. None if it is gone."""
    for pattern in patterns_of(connection, group_id, skill.agent_id, MAX_PATTERNS):
        if pattern.artifact == skill.kind and set(pattern.evidence) & set(skill.evidence):
            return pattern
    return None


def votes_on(connection: Connection, group_id: str, artifact_id: UUID, limit: int) -> list[Record]:
    """Votes on an artifact, newest first: id, artifact_id, signal, sentiment, comment, given_by, given_at."""
    return records(connection, _VOTES, group=group_id, id=artifact_id, limit=limit)


def trust_of_group(connection: Connection, group_id: str, agent_id: str | None, limit: int) -> list[Record]:
    """How far the group's artifacts are trusted, most votes first; ``total`` leaves neutral ones out."""
    return records(connection, _TRUST, group=group_id, agent=agent_id, limit=limit)


_PATTERNS = text("""
    SELECT p.artifact, encode(p.pattern_hash, 'hex') AS pattern_hash, p.title, p.wordings, p.common_steps,
    p.tools_used,
        p.industry_context, p.total_reuse, p.sessions, p.confidence, p.evidence, p.updated_at
    FROM patterns p WHERE p.group_id = :group AND p.agent_id = :agent
    ORDER BY p.total_reuse DESC, p.pattern_hash LIMIT :limit
""")
_PENDING = text("""
    SELECT proposal_id AS id, kind AS artifact, content ->> 'name' AS name, content ->> 'description' AS
    description FROM proposals
    WHERE group_id = :group AND agent_id = :agent AND kind IN ('skill', 'pipeline') AND status = 'pending'
        AND (user_id IS NULL OR user_id = :user)
    ORDER BY evidence_count DESC, proposal_id LIMIT 1
""")
_VOTES = text("""
    SELECT feedback_id AS id, artifact_id, signal, sentiment, comment, given_by, given_at FROM feedback
    WHERE group_id = :group AND artifact_id = :id ORDER BY given_at DESC, feedback_id DESC LIMIT :limit
""")
_TRUST = text("""
    SELECT t.artifact_id AS id, p.kind AS artifact, t.agent_id, p.content ->> 'name' AS name, t.positive,
    t.negative, t.neutral,
        t.positive + t.negative AS total, t.score AS trust_score, t.recommendation, t.updated_at AS
        last_updated
    FROM trust t JOIN proposals p ON p.proposal_id = t.artifact_id AND p.group_id = t.group_id
    WHERE t.group_id = :group AND (CAST(:agent AS text) IS NULL OR t.agent_id = :agent)
    ORDER BY t.positive + t.negative DESC, t.artifact_id LIMIT :limit
""")


@follows("skill", "pipeline")
def note_decision(decision: Decision) -> None:
    """Write its evolution event; of one that is deleted texts, votes and trust go."""
    skill: SkillProposal = decision.proposal
    if decision.choice.outcome == "deleted":
        decision.became |= dict.fromkeys(("name", "description", "body"), "")
        decision.became |= {field: [] for field in ("triggers", "tools", "issues")}
        for table in (VoteRow, TrustRow):
            decision.connection.execute(
                delete(table).where(table.group_id == decision.name[0], table.artifact_id == skill.id)
            )
    outcome = decision.choice.outcome
    evolution.record_event(decision.connection, decision.name, decision.by, outcome, skill.kind, skill.id)


@action("feedback.give")
def give_feedback(context: Context, request: GiveFeedback) -> GivenFeedback:
    """Vote on a skill or a workflow.

    Its trust is counted again. A vote of the same id counts once; one on something that was deleted is
    refused.
    """
    vote = Vote.model_validate(request.model_dump(exclude={"id"}))
    owner = evolution.lock_owner(context.connection, context.group_id, vote)
    if owner is None:
        raise NotFound(
            f"artifact_id: no {vote.artifact} {vote.artifact_id} in the group {context.group_id!r}; it may"
            " have been deleted"
        )
    feedback_id = request.id or uuid7()
    trust = evolution.count_vote(
        context.connection, owner, feedback_id, vote, context.actor.name, datetime.now(UTC)
    )
    context.audit(
        str(vote.artifact_id),
        agent_id=owner[1],
        artifact=vote.artifact,
        sentiment=vote.sentiment,
        signal=vote.signal,
    )
    return GivenFeedback(
        id=feedback_id, trust_score=trust.score, total=trust.total, recommendation=trust.recommendation
    )


@action("patterns.list")
def list_patterns(context: Context, request: OfAgent) -> Rows[PatternState]:
    """List an agent's patterns.

    Experiences of the same problem with the steps that half of them share, and chains of tools that worked;
    the most used first, at most 50.
    """
    return Rows(rows=patterns_of(context.connection, context.group_id, request.agent_id, DEFAULT_PAGE))


@action("evolution.hint")
def pending_hint(context: Context, request: AgentForUser) -> Hint:
    """Get the pending candidate.

    A line for the agent's prompt, of at most 150 tokens, on the candidate with the most evidence; empty if
    none is pending.
    """
    whose = {"group": context.group_id, "agent": request.agent_id, "user": request.user_id}
    candidate = context.connection.execute(_PENDING, whose).one_or_none()
    if candidate is None:
        return Hint()
    return Hint(
        text=hint(candidate.artifact, candidate.name, candidate.description),
        id=candidate.id,
        artifact=candidate.artifact,
    )


@action("tallies.list")
def list_tallies(context: Context, request: TallyQuery) -> Rows[Tally]:
    """Count what an agent grew, and what of it was used.

    Per day and kind of thing: memories, experiences, pain points, proposals, versions of its files.
    """
    name = known_agent(context.connection, context.group_id, request.agent_id)
    return Rows(rows=work.tallies_of(context.connection, name, request.days))


_SKILLS = "kind IN ('skill', 'pipeline') AND status <> 'deleted'"
belonging("skills", f"SELECT FROM proposals WHERE group_id = :group AND agent_id = :agent AND {_SKILLS}")


#: Enabled skills of an agent that are looked at, the oldest.
MAX_SKILLS = 100
_HEADINGS: dict[Language, tuple[str, str]] = {
    "en": ("## Notes on the user", "## Skills"),
    "zh": ("## 关于用户的备注", "## 技能"),
}
#: Files that are instructions, in the order in which they open a prompt.
_INSTRUCTIONS: tuple[File, ...] = ("SOUL", "AGENTS")
_P = ProposalRow
_SAYS = (
    _P.content["name"].astext.label("name"),
    _P.content["triggers"].label("triggers"),
    _P.content["body"].astext.label("body"),
)


@prompt_source
def grown(connection: Connection, name: AgentName, user_id: str | None, language: Language) -> Grown:
    """SOUL, AGENTS, notes on the one user, the index of enabled skills; skills that fit, best first."""
    files = identity.current_files(connection, name)
    skills = enabled_skills(connection, name, user_id)
    opening = [
        file_section(file, files[file].content, Basis((f"identity:{file}:{files[file].version}",)))
        for file in _INSTRUCTIONS
    ]
    notes_heading, skills_heading = _HEADINGS[language]
    of_user = notes_of(files["USER"].content) if user_id is None else ""
    notes = [Line(line, item=Basis((f"identity:USER:{line}",))) for line in of_user.splitlines()]
    index = [index_line(row.name, row.triggers, Basis((f"skill:{row.proposal_id}",))) for row in skills]

    def fitting(query: str) -> list[Section]:
        fits = [(fit(row.triggers, query), row) for row in skills]
        return [
            skill_section(row.name, row.body, InjectedSkill(id=row.proposal_id, name=row.name))
            for fitted, row in sorted(fits, key=lambda pair: -pair[0])
            if fitted
        ]

    return Grown([*opening, Section(notes_heading, notes), Section(skills_heading, index)], fitting)


def enabled_skills(connection: Connection, name: AgentName, user_id: str | None) -> Sequence[Any]:
    """Skills visible to a user: the agent's, and those that rest on what this user said in private."""
    conditions = (
        _P.group_id == name[0],
        _P.agent_id == name[1],
        _P.kind == "skill",
        _P.status == "approved",
        _P.enabled,
    )
    visible = _P.user_id.is_(None) if user_id is None else or_(_P.user_id.is_(None), _P.user_id == user_id)
    return connection.execute(
        select(_P.proposal_id, *_SAYS).where(*conditions, visible).order_by(_P.proposal_id).limit(MAX_SKILLS)
    ).all()
