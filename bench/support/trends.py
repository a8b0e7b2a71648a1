"""Whether a series of measurements rises: a line through it, with the error of its slope; and a plot of many,
without a library.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from math import sqrt

Points = Sequence[tuple[float, float]]

HOUR = 3_600.0
#: More than so much of a residual is never taken to be that of the one before: the error would have no bound.
MOST_ALIKE = 0.95
#: Of the plot, in pixels.
WIDTH, ROW, LEFT = 900, 60, 220


@dataclass(frozen=True, slots=True)
class Line:
    """``level`` is the mean; ``slope`` and its standard error are an hour.

    The error is that of measurements which resemble the ones before them: memory goes in steps, and what is
    higher now is still higher a moment later. It is made larger by sqrt((1 + r) / (1 - r)), r being how much
    one residual says of the next.
    """

    level: float
    slope: float
    error: float

    def told(self) -> dict[str, float]:
        """With the slope in standard errors: between -2 and 2 it does not differ from 0."""
        errors = self.slope / self.error if self.error else 0.0
        numbers = {"level": self.level, "slope_an_hour": self.slope, "error": self.error, "errors": errors}
        return {name: round(number, 2) for name, number in numbers.items()}


def fit(points: Points) -> Line:
    """Least squares over (seconds, value); without at least three points nothing is said of the slope."""
    count = len(points)
    level = sum(value for _, value in points) / count if count else 0.0
    if count < 3:
        return Line(level, 0.0, 0.0)
    middle = sum(at for at, _ in points) / count
    spread = sum((at - middle) ** 2 for at, _ in points)
    slope = sum((at - middle) * (value - level) for at, value in points) / spread
    residuals = [value - level - slope * (at - middle) for at, value in points]
    left = sum(residual**2 for residual in residuals)
    alike = sum(one * other for one, other in pairwise(residuals)) / left if left else 0.0
    alike = min(max(alike, 0.0), MOST_ALIKE)
    error = sqrt(left / (count - 2) / spread * (1 + alike) / (1 - alike))
    return Line(level, slope * HOUR, error * HOUR)


def plot(series: Mapping[str, Points]) -> str:
    """An SVG with a row for each series, from 0 to its greatest value."""
    rows = [_row(number, name, points) for number, (name, points) in enumerate(sorted(series.items()))]
    height = ROW * len(rows) + 10
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif"'
        ' font-size="12">'
    )
    return "\n".join([head, *rows, "</svg>", ""])


def _row(number: int, name: str, points: Points) -> str:
    top, bottom = number * ROW + 10, number * ROW + ROW - 5
    last = max((at for at, _ in points), default=1.0) or 1.0
    most = max((value for _, value in points), default=1.0) or 1.0
    places = " ".join(
        f"{LEFT + at / last * (WIDTH - LEFT - 10):.1f},{bottom - value / most * (bottom - top):.1f}"
        for at, value in points
    )
    text = f'<text x="5" y="{(top + bottom) / 2:.0f}">{escape(name)}: {most:,.1f}</text>'
    ground = f'<line x1="{LEFT}" x2="{WIDTH}" y1="{bottom}" y2="{bottom}" stroke="#ccc"/>'
    return f'{text}{ground}<polyline points="{places}" fill="none" stroke="#36c"/>'
