"""Everything in a sentence that tells a time, and which of it belongs to what is asked for."""

from __future__ import annotations

import re
from datetime import datetime
from itertools import pairwise

from engine.times.clocks import Beside, Clock, Impossible, find_clocks, within
from engine.times.days import Day, find_days
from engine.times.offsets import Lead, Offset, find_offsets
from engine.times.recurring import Every, find_recurrences

Element = Clock | Beside | Day | Every | Offset | Lead | Impossible
#: What may stand between two words of one time.
_BETWEEN = re.compile(
    r"[\s,、的]{0,3}(?:在|于|到|至|和|跟|或|都|就|那天|当天|开始|起|之间|期间|at|on|of|the|in|from|by|and|for|to|until|till|between|through|both|starting|beginning|around|about|@|-|–|~|—|&|:)?[\s,的]{0,3}(?:at|on|the|from|in|around|about|between)?[\s,]{0,2}",
    re.IGNORECASE,
)
#: An end of what comes again: what stands behind it is no day of it.
_UNTIL = re.compile(r"(?:直到|截止到?|为止)|\b(?:until|till|through|up to)\b", re.IGNORECASE)
_TO = re.compile(r"\A[\s]{0,2}(?:到|至|-|–|~|—|to|until|till|and|through)[\s]{0,2}\Z", re.IGNORECASE)


def find_elements(sentence: str, now: datetime) -> list[Element]:
    """From left to right; of those that overlap the longest."""
    candidates: list[Element] = [
        *find_recurrences(sentence),
        *find_days(sentence, now.date()),
        *find_offsets(sentence),
        *find_clocks(sentence, now.hour, now.minute),
    ]
    kept: list[Element] = []
    for element in sorted(candidates, key=lambda element: element.start - element.end):
        # 今 and "every" of a time that names only its part are no words of their own: two may begin at one place.
        if not any(element.start < other.end and other.start < element.end for other in kept):
            kept.append(element)
    return _with_parts(sorted(kept, key=lambda element: (element.start, element.end)))


def groups(sentence: str, elements: list[Element]) -> list[list[Element]]:
    """Words beside each other that tell one time."""
    grouped: list[list[Element]] = []
    for element in elements:
        if grouped and _BETWEEN.fullmatch(sentence, grouped[-1][-1].end, element.start):
            grouped[-1].append(element)
        else:
            grouped.append([element])
    return grouped


def choose_elements(sentence: str, elements: list[Element], start: int, end: int) -> list[Element]:
    """The time that is asked for: beside what asks for it if there are several, and what it leaves open from the others."""
    grouped = groups(sentence, elements)
    if len(grouped) <= 1:
        return elements
    best = min(grouped, key=lambda group: _distance(sentence, group, start, end))
    if len(best) == 1 and isinstance(best[0], Lead):
        return elements
    taken = list(best)
    has_day = any(isinstance(element, Day | Every | Offset) for element in best)
    has_clock = any(isinstance(element, Clock | Offset) or (isinstance(element, Every) and element.seconds) for element in best)
    for group in grouped:
        if group is best:
            continue
        its_day = [element for element in group if isinstance(element, Day | Every)]
        if not has_day and its_day and not any(isinstance(element, Lead) for element in group):
            taken += its_day
            has_day = True
        elif not has_clock and not its_day and any(isinstance(element, Clock) for element in group):
            taken += group
            has_clock = True
        elif any(isinstance(element, Every) and element.open for element in best) or (
            any(isinstance(element, Every) for element in group) and not any(isinstance(element, Every | Offset | Day) for element in best)
        ):
            taken += group
    return sorted(taken, key=lambda element: (element.start, element.end))


def window(sentence: str, elements: list[Element]) -> tuple[Clock, Clock] | None:
    """The first and last time of day of "from 9 to 5"."""
    clocks_said = [element for element in elements if isinstance(element, Clock)]
    for first, last in pairwise(clocks_said):
        if _TO.match(sentence[first.end : last.start]):
            return first, last
    return None


def without_end(sentence: str, elements: list[Element]) -> list[Element]:
    """Without the days, or the time of day, on which something that comes again ends."""
    match = _UNTIL.search(sentence)
    if match is None:
        return elements
    steps = window(sentence, elements) is None and any(isinstance(element, Every) for element in elements)
    ends = (Day, Clock) if steps else (Day,)
    return [element for element in elements if not (isinstance(element, ends) and element.start >= match.start())]


def _distance(sentence: str, group: list[Element], start: int, end: int) -> tuple[int, int]:
    """Directly before or after what asks, then in the same clause, the nearest first; those of a task come last."""
    first, last = group[0].start, group[-1].end
    gap = sentence[last:start] if last <= start else sentence[end:first]
    near = max(0, start - last, first - end)
    about = re.search(r"\b(?:about|for|of|before) (?:the|my|our|a)? ?\Z", sentence[:first], re.IGNORECASE)
    return (3 if about else 0) + (2 if re.search(r"[,，;]", gap) else 0) + (0 if near <= 4 else 1), near


def _with_parts(elements: list[Element]) -> list[Element]:
    """Parts of the day that stand beside a time are part of it: "tomorrow evening at 8", 明早8点."""
    stated = [element for element in elements if isinstance(element, Clock) and element.stated is not None]
    parts = [element for element in elements if isinstance(element, Clock) and element.stated is None and element.part is not None]
    if not stated or not parts:
        return _inherited(elements)
    kept: list[Element] = []
    for element in elements:
        if element in parts and (element.part not in ("noon", "midnight") or len(stated) == 1):
            kept.append(Beside(element.start, element.end))
        elif isinstance(element, Clock) and element.stated is not None:
            part = next((part.part for part in reversed(parts) if part.start < element.start), parts[0].part)
            kept.append(within(element, part) if part is not None else element)
        else:
            kept.append(element)
    return kept


def _inherited(elements: list[Element]) -> list[Element]:
    """下午3点和5点: the second is of the same part of the day."""
    kept: list[Element] = []
    part = None
    for element in elements:
        changed: Element = element
        if isinstance(element, Clock) and element.stated is not None:
            if element.part is None and part is not None:
                changed = within(element, part)
            part = changed.part if isinstance(changed, Clock) else None
        kept.append(changed)
    return kept
