"""Votes, trust and recommendations."""

from __future__ import annotations

from uuid import uuid4

import pytest

from jiyi.errors import NotFound
from jiyi.protocol.growth.artifacts import ArtifactId, EvolutionQuery, GiveFeedback, TrustQuery, TrustState, VotesQuery
from models.db.actions import Actor
from models.growth.artifacts import SKILL_ACTIONS, give_feedback, list_events, list_trust, list_votes
from tests.integration.growth.growing import artifacts, experienced, feedback, run, save

pytestmark = pytest.mark.usefixtures("database", "nothing_owed")


@pytest.fixture
def skill(group: str) -> object:
    experienced(group)
    run()
    return artifacts(group)[0].id


def trust(group: str) -> TrustState:
    [found] = list_trust.perform(Actor(group, "test"), TrustQuery()).rows
    return found


def kinds(group: str) -> list[str]:
    return [row.kind for row in list_events.perform(Actor(group, "test"), EvolutionQuery()).rows][::-1]


def test_votes_are_counted_each_once_however_they_come(group: str, skill: object) -> None:
    vote = feedback(group, skill)
    save([vote, feedback(group, skill, "negative"), feedback(group, skill, "neutral")])
    save([vote])
    run()
    asked = GiveFeedback(artifact="skill", artifact_id=skill, sentiment="positive", id=vote.event_id)
    give_feedback.perform(Actor(group, "test"), asked)
    assert (trust(group).trust_score, trust(group).total, trust(group).neutral) == (0.5, 2, 1)
    assert kinds(group).count("feedback_given") == 3


def test_five_votes_recommend_once_and_nothing_acts(group: str, skill: object) -> None:
    save([feedback(group, skill) for _ in range(5)])
    run()
    assert trust(group).recommendation == "promote"
    save([feedback(group, skill)])
    run()
    assert kinds(group).count("recommended") == 1
    assert artifacts(group)[0].status == "pending"


def test_a_vote_on_a_deleted_skill_is_refused_or_noted(group: str, skill: object) -> None:
    SKILL_ACTIONS["delete"].perform(Actor(group, "test"), ArtifactId(id=skill))
    for gone in (skill, uuid4()):
        with pytest.raises(NotFound, match="may have been deleted"):
            give_feedback.perform(Actor(group, "test"), GiveFeedback(artifact="skill", artifact_id=gone, sentiment="positive"))
    save([feedback(group, skill)])
    assert run() == 1
    assert kinds(group)[-1] == "feedback_ignored"
    assert list_votes.perform(Actor(group, "test"), VotesQuery(id=skill)).rows == []
