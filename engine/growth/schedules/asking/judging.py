"""What a message asks of the agent's appointments: a new one, to cancel, move or list some, or nothing.

The learned judgement decides where it is sure, in whatever words it is asked. Without it a new appointment is heard by the patterns of
:mod:`engine.growth.schedules.requests` alone, as in long messages, and nothing is cancelled or moved.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal, get_args

from engine.growth.schedules.parse import JUDGED_CHARS, has_schedule_intent
from engine.heads.judgements import REQUESTS, Heads

Asked = Literal["new", "cancel", "move", "list"]

#: How often each label has to be right. A new appointment is taken down at once; the others act only if an appointment fits, too.
PRECISION: dict[Asked, float] = {"new": 0.9, "cancel": 0.8, "move": 0.8, "list": 0.8}
#: Probability of "asks for nothing" from which on the patterns are not believed.
SURE_NOT = 0.9


def asked_of(text: str, now: datetime, tz: str, heads: Heads | None) -> Asked | None:
    """What a message said at a moment asks; None for nothing, or if that is not sure.

    Raises:
        ValueError: an unknown time zone.
    """
    by_words = has_schedule_intent(text, now, tz)
    judged = heads.requests([text])[0] if heads is not None and len(text) <= JUDGED_CHARS else None
    if heads is None or judged is None:
        return "new" if by_words else None
    likeliest: Asked = max(get_args(Asked), key=lambda label: judged.probabilities[label])
    if judged.probabilities[likeliest] >= heads.least(REQUESTS, likeliest, PRECISION[likeliest]):
        return likeliest
    return "new" if by_words and likeliest == "new" and judged.probabilities["none"] < SURE_NOT else None
