"""Whether a series of measurements rises: a line through it, with the error of its slope; and a plot of many, without a library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import sqrt

Points = Sequence[tuple[float, float]]

HOUR = 3_600.0
#: Of the plot, in pixels.
WIDTH, ROW, LEFT = 900, 60, 220


@dataclass(frozen=True, slots=True)
class Line:
    """``level`` is the mean; ``slope`` and its standard error are an hour."""

    level: float
    slope: float
    error: float

    def told(self) -> dict[str, float]:
        return {"level": round(self.level, 2), "slope_an_hour": round(self.slope, 2), "error": round(self.error, 2)}


def fit(points: Points) -> Line:
    """Least squares over (seconds, value); without at least three points nothing is said of the slope."""
    count = len(points)
    level = sum(value for _, value in points) / count if count else 0.0
    if count < 3:
        return Line(level, 0.0, 0.0)
    middle = sum(at for at, _ in points) / count
    spread = sum((at - middle) ** 2 for at, _ in points)
    slope = sum((at - middle) * (value - level) for at, value in points) / spread
    left = sum((value - level - slope * (at - middle)) ** 2 for at, value in points)
    return Line(level, slope * HOUR, sqrt(left / (count - 2) / spread) * HOUR)


def plot(series: Mapping[str, Points]) -> str:
    """An SVG with a row for each series, from 0 to its greatest value."""
    rows = [_row(number, name, points) for number, (name, points) in enumerate(sorted(series.items()))]
    height = ROW * len(rows) + 10
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="12">'
    return "\n".join([head, *rows, "</svg>", ""])


def _row(number: int, name: str, points: Points) -> str:
    top, bottom = number * ROW + 10, number * ROW + ROW - 5
    last = max((at for at, _ in points), default=1.0) or 1.0
    most = max((value for _, value in points), default=1.0) or 1.0
    places = " ".join(f"{LEFT + at / last * (WIDTH - LEFT - 10):.1f},{bottom - value / most * (bottom - top):.1f}" for at, value in points)
    text = f'<text x="5" y="{(top + bottom) / 2:.0f}">{escape(name)}: {most:,.1f}</text>'
    ground = f'<line x1="{LEFT}" x2="{WIDTH}" y1="{bottom}" y2="{bottom}" stroke="#ccc"/>'
    return f'{text}{ground}<polyline points="{places}" fill="none" stroke="#36c"/>'
