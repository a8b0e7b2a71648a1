"""Trust: votes, score, recommendations."""

from __future__ import annotations

from typing import get_args

import pytest

from jiyi.errors import InvalidEvent
from jiyi.protocol import events as wire
from jiyi.protocol.growth.artifact_types import KINDS, EvolutionEvent, Recommendation, Sentiment, Signal, Trust

ID = "01978c00-0000-7000-8000-0000000000a1"


def vote(**payload: object) -> wire.Event:
    told = {"artifact": "skill", "artifact_id": ID, "sentiment": "positive", **payload}
    return wire.build({"type": "feedback.given", "group_id": "g", "agent_id": "a", "payload": told})


def test_no_votes_are_half_trust() -> None:
    assert (Trust().score, Trust().total, Trust().recommendation) == (0.5, 0, None)


@pytest.mark.parametrize(("positive", "negative", "score"), [(1, 0, 2 / 3), (0, 1, 1 / 3), (5, 0, 6 / 7), (3, 2, 4 / 7), (0, 8, 0.1)])
def test_the_score(positive: int, negative: int, score: float) -> None:
    assert Trust(positive=positive, negative=negative).score == pytest.approx(score)


def test_neutral_votes_do_not_count() -> None:
    trust = Trust(positive=1, neutral=9)
    assert (trust.total, trust.score) == (1, pytest.approx(2 / 3))


@pytest.mark.parametrize(
    ("positive", "negative", "expected"),
    [(4, 0, None), (0, 4, None), (5, 0, "promote"), (0, 5, "archive"), (1, 4, "optimise"), (2, 3, None), (4, 1, None), (10, 1, "promote")],
)
def test_from_five_votes_on_something_is_recommended(positive: int, negative: int, expected: Recommendation | None) -> None:
    assert Trust(positive=positive, negative=negative).recommendation == expected


def test_exactly_on_a_threshold_nothing_is_recommended() -> None:
    assert Trust(positive=3, negative=0).score == 0.8
    assert Trust(positive=7, negative=1).score == 0.8
    assert Trust(positive=7, negative=1).recommendation is None
    assert Trust(positive=3, negative=5).score == 0.4
    assert Trust(positive=3, negative=5).recommendation is None
    assert Trust(positive=1, negative=7).score == 0.2
    assert Trust(positive=1, negative=7).recommendation == "optimise"


@pytest.mark.parametrize("signal", get_args(Signal))
@pytest.mark.parametrize("artifact", ["skill", "pipeline"])
def test_every_signal_on_every_artifact(signal: str, artifact: str) -> None:
    for sentiment in get_args(Sentiment):
        assert vote(signal=signal, artifact=artifact, sentiment=sentiment).type == "feedback.given"


@pytest.mark.parametrize(
    "wrong", [{"sentiment": "great"}, {"artifact": "memory"}, {"artifact_id": "x"}, {"signal": "guess"}, {"comment": "x" * 1_001}]
)
def test_a_wrong_vote_names_its_field(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidEvent, match=f"payload.{next(iter(wrong))}"):
        vote(**wrong)


def test_a_vote_is_explicit_unless_told_otherwise() -> None:
    event = vote()
    assert isinstance(event, wire.FeedbackGiven)
    assert event.payload.signal == "explicit"


def test_an_evolution_event_holds_ids_and_numbers_only() -> None:
    event = EvolutionEvent.model_validate({"kind": "proposed", "agent_id": "a", "artifact": "skill", "artifact_id": ID, "name": "secret"})
    assert "secret" not in event.model_dump_json()
    assert len(set(KINDS)) == len(KINDS) == 13
