"""Trust: votes, score, recommendations."""

from __future__ import annotations

from itertools import product
from typing import get_args

import pytest

from jiyi.errors import InvalidEvent
from jiyi.protocol import events as wire
from jiyi.protocol.artifacts import Recommendation, Sentiment, Signal
from models.growth.evolution import Trust

ID = "01978c00-0000-7000-8000-0000000000a1"


def vote(**payload: object) -> wire.Event:
    told = {"artifact": "skill", "artifact_id": ID, "sentiment": "positive", **payload}
    return wire.build({"type": "feedback.given", "group_id": "g", "agent_id": "a", "payload": told})


@pytest.mark.parametrize(
    ("positive", "negative", "score", "recommended"),
    [
        *(
            (0, 0, 0.5, None),
            (1, 0, 2 / 3, None),
            (0, 1, 1 / 3, None),
            (4, 0, 5 / 6, None),
            (0, 4, 1 / 6, None),
        ),
        *((3, 2, 4 / 7, None), (0, 8, 0.1, "archive"), (5, 0, 6 / 7, "promote"), (0, 5, 1 / 7, "archive")),
        *((1, 4, 2 / 7, "optimise"), (2, 3, 3 / 7, None), (4, 1, 5 / 7, None)),
        *((7, 1, 0.8, None), (3, 5, 0.4, None), (1, 7, 0.2, "optimise")),  # exactly on a threshold
    ],
)
def test_the_score_to_which_neutral_votes_do_not_count_recommends_from_five_votes_on(
    positive: int, negative: int, score: float, recommended: Recommendation | None
) -> None:
    trust = Trust(positive=positive, negative=negative, neutral=9)
    assert (trust.total, trust.score) == (positive + negative, pytest.approx(score))
    assert trust.recommendation == recommended


def test_every_signal_on_every_artifact() -> None:
    for artifact, signal, sentiment in product(("skill", "pipeline"), get_args(Signal), get_args(Sentiment)):
        assert vote(signal=signal, artifact=artifact, sentiment=sentiment).type == "feedback.given"
    told = vote()
    assert isinstance(told, wire.FeedbackGiven)
    assert told.payload.signal == "explicit", "unless told otherwise"


@pytest.mark.parametrize(
    "wrong",
    [
        *({"sentiment": "great"}, {"artifact": "memory"}, {"artifact_id": "x"}, {"signal": "guess"}),
        {"comment": "x" * 1_001},
    ],
)
def test_a_wrong_vote_names_its_field(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidEvent, match=f"payload.{next(iter(wrong))}"):
        vote(**wrong)
