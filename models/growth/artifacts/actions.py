"""Votes, trust, patterns, evolution events and the hint."""

from __future__ import annotations

from datetime import UTC, datetime

from uuid6 import uuid7

from jiyi.chat.hint import hint
from jiyi.errors import NotFound
from jiyi.protocol.events import Vote
from jiyi.protocol.growth.artifacts import (
    EvolutionQuery,
    EvolutionRows,
    GiveFeedback,
    GivenFeedback,
    Hint,
    HintQuery,
    PatternRows,
    PatternsQuery,
    TrustQuery,
    TrustRows,
    VoteRows,
    VotesQuery,
)
from models.db.actions import Context, action
from models.growth.artifacts import evolution, reads, voting


@action("feedback.give")
def give(context: Context, request: GiveFeedback) -> GivenFeedback:
    """Vote on a skill or a workflow.

    Its trust is counted anew. A vote of the same id counts once; one on something that was deleted is refused.
    """
    vote = Vote.model_validate(request.model_dump(exclude={"id"}))
    owner = voting.owner_of(context.connection, context.group_id, vote)
    if owner is None:
        raise NotFound(f"artifact_id: no {vote.artifact} {vote.artifact_id} in the group {context.group_id!r}; it may have been deleted")
    feedback_id = request.id or uuid7()
    made = voting.give(context.connection, owner, feedback_id, vote, context.actor.name, datetime.now(UTC))
    context.audit(str(vote.artifact_id), agent_id=owner[1], artifact=vote.artifact, sentiment=vote.sentiment, signal=vote.signal)
    return GivenFeedback(id=feedback_id, trust_score=made.score, total=made.total, recommendation=made.recommendation)


@action("feedback.list")
def list_votes(context: Context, request: VotesQuery) -> VoteRows:
    """List the votes on a skill or a workflow.

    Newest first, with the signal that each comes from.
    """
    return VoteRows(rows=reads.votes(context.connection, context.group_id, request.id, request.limit))


@action("feedback.trust")
def list_trust(context: Context, request: TrustQuery) -> TrustRows:
    """Tell how far skills and workflows are trusted.

    Score (positive + 1) / (total + 2), votes, and what is recommended from five votes on: archive, optimise or promote. Nothing
    acts on a recommendation.
    """
    return TrustRows(rows=reads.trust(context.connection, context.group_id, request.agent_id, request.limit))


@action("patterns.list")
def list_patterns(context: Context, request: PatternsQuery) -> PatternRows:
    """List an agent's patterns.

    Experiences of the same problem with the steps that half of them share, and chains of tools that worked; the most used first.
    """
    return PatternRows(rows=reads.patterns(context.connection, context.group_id, request.agent_id, request.limit))


@action("evolution.list")
def list_events(context: Context, request: EvolutionQuery) -> EvolutionRows:
    """List what happened to skills and workflows.

    Proposed, refused, accepted, voted on …: newest first, from the audit log, page by page.
    """
    rows = evolution.events(context.connection, context.group_id, **request.model_dump())
    return EvolutionRows(rows=rows, next=rows[-1].id if len(rows) == request.limit else None)


@action("evolution.hint")
def pending_hint(context: Context, request: HintQuery) -> Hint:
    """Tell which candidate waits.

    A line for the agent's prompt, of at most 150 tokens, on the candidate with the most evidence; empty if none waits.
    """
    found = reads.pending(context.connection, (context.group_id, request.agent_id))
    if found is None:
        return Hint()
    return Hint(text=hint(found.artifact, found.name, found.description), id=found.id, artifact=found.artifact)
