"""An agent's memories over time, as a drawing: a bar for each hour, day, week or month, divided by type."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from models.memory.agent_reads import Span, TimelineSpan

#: Units from fine to coarse, and the longest time that is drawn in each: some hundred bars at most.
UNITS: tuple[tuple[str, timedelta], ...] = (
    ("hour", timedelta(days=4)),
    ("day", timedelta(days=120)),
    ("week", timedelta(days=800)),
    ("month", timedelta.max),
)
#: Bars at most: of what is older only the memories themselves tell.
MOST_BARS = 150
#: More bars than this are no stops of the tab key: the fields for the days do the same.
MOST_STOPS = 40
#: The drawing's own units.
HEIGHT, BAR, GAP = 90, 10, 3
TYPES = ("event", "thought", "chat")


def unit_for(span: Span | None) -> str:
    length = timedelta(0) if span is None else span.last - span.first
    return next(unit for unit, longest in UNITS if length <= longest)


class Timeline:
    """Bars for every unit from the first memory to the last, empty ones too."""

    def __init__(self, unit: str, spans: Sequence[TimelineSpan]) -> None:
        self.unit = unit
        counted = {row.start: row for row in spans}
        starts = list(_starts(unit, spans[0].start, spans[-1].start)) if spans else []
        self.cut = len(starts) > MOST_BARS
        starts = starts[-MOST_BARS:]
        self.most = max((counted[start].memories for start in starts if start in counted), default=0)
        self.width, self.height = max(len(starts), 1) * (BAR + GAP), HEIGHT
        self.bars = [self._bar(place, start, counted.get(start)) for place, start in enumerate(starts)]
        self.stops = len(self.bars) <= MOST_STOPS

    def __bool__(self) -> bool:
        return bool(self.bars)

    def _bar(self, place: int, start: datetime, row: TimelineSpan | None) -> dict[str, object]:
        segments, y = [], float(HEIGHT)
        for type_ in TYPES if row else ():
            height = getattr(row, type_) / self.most * (HEIGHT - 2) if row else 0.0
            if height:
                y -= height
                segments.append({"type": type_, "y": round(y, 2), "height": round(height, 2)})
        return {
            "x": place * (BAR + GAP),
            "width": BAR,
            "start": start,
            "end": _next(self.unit, start),
            "memories": row.memories if row else 0,
            "segments": segments,
        }


def _starts(unit: str, first: datetime, last: datetime) -> Sequence[datetime]:
    found = [first]
    while found[-1] < last and len(found) < 100_000:
        found.append(_next(unit, found[-1]))
    return found


def _next(unit: str, start: datetime) -> datetime:
    if unit == "month":
        return start.replace(year=start.year + start.month // 12, month=start.month % 12 + 1)
    return start + {"hour": timedelta(hours=1), "day": timedelta(days=1), "week": timedelta(weeks=1)}[unit]
