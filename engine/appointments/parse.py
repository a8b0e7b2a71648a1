"""A message as a schedule: what is to be done when, if it asks for that.

Rules of a grammar of times in Chinese and English, without a model. Who wants a model's help asks it about what is unclear.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Literal, get_args

from engine.appointments import requests
from engine.appointments.schedule import Ambiguous, Exact, Parsed, ParsedSchedule, Unclear
from engine.heads.judgements import REQUESTS, Heads
from engine.times import readings
from engine.times.clocks import Clock, Impossible, of_waking
from engine.times.elements import Element, choose_elements, find_elements, window, without_end
from engine.times.offsets import Offset
from engine.times.recurring import Every, excepted
from jiyi.protocol.appointments.cron import zone_of
from jiyi.text.words import CJK, nfkc

#: Characters of a message that are read.
READ_CHARS = 1_000
#: Characters of a message that is judged as a whole (:mod:`engine.appointments.parse`). Requests are short.
JUDGED_CHARS = 300
#: Characters beside its time of a sentence that only says when.
LOOSE_CHARS = 8
#: Characters of a task.
TASK_CHARS = 500

_SENTENCE = re.compile(r"[^。!?！？;；\n]+?(?:[。!?！？;；\n]+|(?<![ap]\.m)(?<!\d)\.(?=\s|\Z)|\Z)", re.IGNORECASE)
_LOOSE = re.compile(rf"(?<=[{CJK}])[ \t]+(?=[{CJK}\d])|(?<=\d)[ \t]+(?=[{CJK}])")
#: 早晚八点: twice a day.
_MORNING_AND_EVENING = re.compile(r"早晚(?:各|都)?((?:\d{1,2}|[一二两三四五六七八九十]{1,2})点半?)")
#: What asks without saying when, to be asked back.
_LATER = re.compile(
    r"(?:过|等)(?:一会儿?|会儿?|几天|段时间|一阵子?|阵子?)|待会儿?|一会儿?(?=提醒|叫)|回头|改天|有空|晚点|稍后|迟点|哪天|过些(?:天|日子)|以后|到时候?|不久"
    r"|\b(?:later|soon|sometime|some ?time|someday|some day|in a (?:bit|while|few)|every now and then|from time to time|regularly|periodically|"
    r"occasionally|one of these days|when i'm free|eventually)\b|每(?:天|周|月|年)|定期|经常|时不时|隔三差五",
    re.IGNORECASE,
)


def parse(text: str, now: datetime, tz: str, *, asks: bool = False) -> Parsed:
    """When and what a message asks the agent to do; :class:`Unclear` if it does not, or if that cannot be told.

    Args:
        text: the message.
        now: when it was said.
        tz: name of the time zone.
        asks: it is known to ask for something, in whatever words: then a time is enough.

    Raises:
        ValueError: an unknown time zone.
    """
    local = local_now(now, tz)
    sentences = [match[0] for match in _SENTENCE.finditer(readable(text))]
    found = _of_sentences(sentences, local, tz, asks=False)
    if not asks or not isinstance(found, Unclear) or found.asked:
        return found
    known = _of_sentences(sentences, local, tz, asks=True)
    return known if not isinstance(known, Unclear) or known.asked else Unclear(_NO_TIME, asked=True)


def local_now(now: datetime, tz: str) -> datetime:
    """A moment in the time zone of this name. Raises ValueError for an unknown one."""
    zone = zone_of(tz)
    return now.astimezone(zone) if now.tzinfo else now.replace(tzinfo=zone)


def _of_sentences(sentences: list[str], local: datetime, tz: str, *, asks: bool) -> Parsed:
    for place, sentence in enumerate(sentences):
        first = _parse(sentence, local, tz, asks=asks)
        if isinstance(first, Unclear) and not first.asked:
            continue
        # Who asks in a sentence of its own may have said when just before, or says it after.
        before = [sentences[place - 1] + sentence] if place else []
        after = [sentence + one for one in sentences[place + 1 : place + 2] if _is_time(one, local)]
        found = [first, *(_parse(context, local, tz, asks=asks) for context in (before + after if isinstance(first, Unclear) else []))]
        return next((one for one in found if not isinstance(one, Unclear)), first)
    return Unclear("nothing is asked for at a time")


def has_schedule_intent(text: str, now: datetime, tz: str) -> bool:
    """Whether a message asks the agent to act at a time, even one that cannot be told."""
    found = parse(text, now, tz)
    return not isinstance(found, Unclear) or (found.asked and (found.reason != _NO_TIME or _LATER.search(readable(text)) is not None))


_NO_TIME = "it does not say when"


def readable(text: str) -> str:
    """The message as the grammar reads it: cut, half-width, without idle spaces."""
    unspaced = _LOOSE.sub("", nfkc(text[:READ_CHARS])).replace("’", "'")
    return _MORNING_AND_EVENING.sub(r"早上\1和晚上\1", unspaced)


def _is_time(sentence: str, now: datetime) -> bool:
    """Whether it says hardly more than a time."""
    blanked = requests.blanked(sentence, [(one.start, one.end) for one in find_elements(sentence, now)])
    return requests.TIME in blanked and len(blanked.replace(requests.TIME, "").strip()) <= LOOSE_CHARS


def _parse(sentence: str, now: datetime, tz: str, *, asks: bool) -> Parsed:
    left_out, places = excepted(sentence)
    for start, end in places:
        sentence = sentence[:start] + " " * (end - start) + sentence[end:]
    found = find_elements(sentence, now)
    blanked = requests.blanked(sentence, [(one.start, one.end) for one in found if one.end > one.start])
    asked = requests.find_request(blanked, again=any(isinstance(one, Every) for one in found))
    if asked is None and len(blanked.replace(requests.TIME, "").strip()) <= LOOSE_CHARS:
        timer = next((one for one in found if isinstance(one, Offset) and one.timer), None)
        asked = None if timer is None else requests.Request(timer.start, timer.end, "ask")
    if asked is None and asks and found and not requests.depends(blanked):
        asked = requests.Request(found[0].start, found[0].start, "ask")
    if asked is None:
        return Unclear("nothing is asked for at a time")
    if not found:
        return Unclear(_NO_TIME, asked=asked.how == "ask")
    impossible = next((one for one in found if isinstance(one, Impossible)), None)
    if impossible is not None:
        return Unclear(impossible.reason, asked=True)
    used = choose_elements(sentence, without_end(sentence, found), asked.start, asked.end)
    if requests.is_waking(sentence):
        used = [of_waking(one) if isinstance(one, Clock) else one for one in used]
    meant = readings.read(used, window(sentence, used), left_out, now, zone_of(tz))
    if not meant.readings:
        # "Take a look at what I made this morning": what is over was no request to do something.
        return Unclear(meant.reason, asked=asked.how != "act" or not meant.over)
    mine = requests.blanked(sentence, [(one.start, one.end) for one in used if one.end > one.start])
    task = requests.task_of(mine, sentence)[:TASK_CHARS]
    target = "workflow" if requests.is_workflow(task) else "reminder" if asked.how != "act" else "agent"
    schedules = tuple(
        ParsedSchedule(
            kind=one.kind,
            cron=one.cron,
            at=one.at,
            every_seconds=one.every_seconds,
            tz=tz,
            description=_description(sentence, used),
            confidence=readings.SURE if meant.certain else readings.UNSURE,
            task=task,
            target=target,  # type: ignore[arg-type]
        )
        for one in meant.readings
    )
    return Exact(schedules[0]) if meant.certain else Ambiguous(schedules)


def _description(sentence: str, used: list[Element]) -> str:
    words = [sentence[one.start : one.end].strip() for one in used]
    return ("" if any("\u4e00" <= char <= "\u9fff" for char in "".join(words)) else " ").join(word for word in words if word)


Asked = Literal["new", "cancel", "move", "list"]

#: How often each label has to be right. A new appointment is taken down at once; the others act only if an appointment fits, too.
PRECISION: dict[Asked, float] = {"new": 0.9, "cancel": 0.8, "move": 0.8, "list": 0.8}
#: Probability of "asks for nothing" from which on the patterns are not believed.
SURE_NOT = 0.9


def judge_request(text: str, now: datetime, tz: str, heads: Heads | None) -> Asked | None:
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
