"""Trust in what was grown: votes, a score, and what it recommends. Recommendations never act."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from pydantic import BaseModel, ConfigDict

Signal = Literal["explicit", "implicit_usage", "usage_count", "completion_rate"]
Sentiment = Literal["positive", "negative", "neutral"]
Recommendation = Literal["archive", "optimise", "promote"]

#: Votes, neutral ones left out, from which on there is a recommendation.
LEAST_VOTES = 5
#: Scores below which archiving and optimising are recommended, and above which promoting is.
ARCHIVE_BELOW, OPTIMISE_BELOW, PROMOTE_ABOVE = 0.2, 0.4, 0.8


class Trust(BaseModel):
    """What was voted, and what it comes to; ``score`` is 0 … 1, .5 without votes."""

    model_config = ConfigDict(frozen=True)

    positive: int = 0
    negative: int = 0
    neutral: int = 0

    @property
    def total(self) -> int:
        """Votes that count: neutral ones do not."""
        return self.positive + self.negative

    @property
    def score(self) -> float:
        """``(positive + 1) / (total + 2)``."""
        return (self.positive + 1) / (self.total + 2)

    @property
    def recommendation(self) -> Recommendation | None:
        """What to do about it; None while there are too few votes, or nothing is to be done."""
        if self.total < LEAST_VOTES:
            return None
        if self.score < ARCHIVE_BELOW:
            return "archive"
        if self.score < OPTIMISE_BELOW:
            return "optimise"
        return "promote" if self.score > PROMOTE_ABOVE else None


def trust_of(votes: Iterable[Sentiment]) -> Trust:
    """The trust that votes come to, in whatever order."""
    counted = list(votes)
    return Trust(positive=counted.count("positive"), negative=counted.count("negative"), neutral=counted.count("neutral"))
