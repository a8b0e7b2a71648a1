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
    found: list[Element] = [
        *find_recurrences(sentence),
        *find_days(sentence, now.date()),
        *find_offsets(sentence),
        *find_clocks(sentence, now.hour, now.minute),
    ]
    kept: list[Element] = []
    for one in sorted(found, key=lambda one: one.start - one.end):
        # 今 and "every" of a time that names only its part are no words of their own: two may begin at one place.
        if not any(one.start < other.end and other.start < one.end for other in kept):
            kept.append(one)
    return _with_parts(sorted(kept, key=lambda one: (one.start, one.end)))


def groups(sentence: str, found: list[Element]) -> list[list[Element]]:
    """Words beside each other that tell one time."""
    made: list[list[Element]] = []
    for one in found:
        if made and _BETWEEN.fullmatch(sentence, made[-1][-1].end, one.start):
            made[-1].append(one)
        else:
            made.append([one])
    return made


def choose_elements(sentence: str, found: list[Element], start: int, end: int) -> list[Element]:
    """The time that is asked for: beside what asks for it if there are several, and what it leaves open from the others."""
    made = groups(sentence, found)
    if len(made) <= 1:
        return found
    best = min(made, key=lambda group: _distance(sentence, group, start, end))
    if len(best) == 1 and isinstance(best[0], Lead):
        return found
    taken = list(best)
    has_day = any(isinstance(one, Day | Every | Offset) for one in best)
    has_clock = any(isinstance(one, Clock | Offset) or (isinstance(one, Every) and one.seconds) for one in best)
    for group in made:
        if group is best:
            continue
        its_day = [one for one in group if isinstance(one, Day | Every)]
        if not has_day and its_day and not any(isinstance(one, Lead) for one in group):
            taken += its_day
            has_day = True
        elif not has_clock and not its_day and any(isinstance(one, Clock) for one in group):
            taken += group
            has_clock = True
        elif any(isinstance(one, Every) and one.open for one in best) or (
            any(isinstance(one, Every) for one in group) and not any(isinstance(one, Every | Offset | Day) for one in best)
        ):
            taken += group
    return sorted(taken, key=lambda one: (one.start, one.end))


def window(sentence: str, found: list[Element]) -> tuple[Clock, Clock] | None:
    """The first and last time of day of "from 9 to 5"."""
    said = [one for one in found if isinstance(one, Clock)]
    for first, last in pairwise(said):
        if _TO.match(sentence[first.end : last.start]):
            return first, last
    return None


def without_end(sentence: str, found: list[Element]) -> list[Element]:
    """Without the days, or the time of day, on which something that comes again ends."""
    match = _UNTIL.search(sentence)
    if match is None:
        return found
    steps = window(sentence, found) is None and any(isinstance(one, Every) for one in found)
    ends = (Day, Clock) if steps else (Day,)
    return [one for one in found if not (isinstance(one, ends) and one.start >= match.start())]


def _distance(sentence: str, group: list[Element], start: int, end: int) -> tuple[int, int]:
    """Directly before or after what asks, then in the same clause, the nearest first; those of a task come last."""
    first, last = group[0].start, group[-1].end
    gap = sentence[last:start] if last <= start else sentence[end:first]
    near = max(0, start - last, first - end)
    about = re.search(r"\b(?:about|for|of|before) (?:the|my|our|a)? ?\Z", sentence[:first], re.IGNORECASE)
    return (3 if about else 0) + (2 if re.search(r"[,，;]", gap) else 0) + (0 if near <= 4 else 1), near


def _with_parts(found: list[Element]) -> list[Element]:
    """Parts of the day that stand beside a time are part of it: "tomorrow evening at 8", 明早8点."""
    said = [one for one in found if isinstance(one, Clock) and one.said is not None]
    parts = [one for one in found if isinstance(one, Clock) and one.said is None and one.part is not None]
    if not said or not parts:
        return _inherited(found)
    kept: list[Element] = []
    for one in found:
        if one in parts and (one.part not in ("noon", "midnight") or len(said) == 1):
            kept.append(Beside(one.start, one.end))
        elif isinstance(one, Clock) and one.said is not None:
            part = next((part.part for part in reversed(parts) if part.start < one.start), parts[0].part)
            kept.append(within(one, part) if part is not None else one)
        else:
            kept.append(one)
    return kept


def _inherited(found: list[Element]) -> list[Element]:
    """下午3点和5点: the second is of the same part of the day."""
    kept: list[Element] = []
    part = None
    for one in found:
        changed: Element = one
        if isinstance(one, Clock) and one.said is not None:
            if one.part is None and part is not None:
                changed = within(one, part)
            part = changed.part if isinstance(changed, Clock) else None
        kept.append(changed)
    return kept
