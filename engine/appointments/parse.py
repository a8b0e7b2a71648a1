"""A message as a schedule: what is to be done when, if it asks for that.

Rules of a grammar of times in Chinese and English, without a model. Who wants a model's help asks it about what is unclear.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import cache, partial
from typing import Literal, get_args

from engine.appointments import requests
from engine.appointments.schedule import Ambiguous, Exact, Parsed, ParsedSchedule, Target, Unclear
from engine.heads.judgements import REQUESTS, Heads
from engine.times import readings
from engine.times.clocks import Clock, Impossible, of_waking
from engine.times.elements import Element, choose_elements, find_elements, window, without_end
from engine.times.offsets import Offset
from engine.times.recurring import Every, excepted
from jiyi.protocol.appointments import zone_of
from jiyi.text.words import CJK, nfkc

#: Characters of a message that are read.
READ_CHARS = 1_000
#: Characters of a message that is judged as a whole (:func:`judge_request`). Requests are short.
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
    read = cache(partial(_read, now=local))
    sentences = [match[0] for match in _SENTENCE.finditer(readable(text))]
    parsed = _of_sentences(sentences, read, local, tz, asks=False)
    if not asks or not isinstance(parsed, Unclear) or parsed.asked:
        return parsed
    known = _of_sentences(sentences, read, local, tz, asks=True)
    return known if not isinstance(known, Unclear) or known.asked else Unclear(_NO_TIME, asked=True)


def local_now(now: datetime, tz: str) -> datetime:
    """A moment in the time zone of this name. Raises ValueError for an unknown one."""
    zone = zone_of(tz)
    return now.astimezone(zone) if now.tzinfo else now.replace(tzinfo=zone)


def _of_sentences(sentences: list[str], read: Callable[[str], _Sentence], local: datetime, tz: str, *, asks: bool) -> Parsed:
    for place, sentence in enumerate(sentences):
        first = _parse(read(sentence), local, tz, asks=asks)
        if isinstance(first, Unclear) and not first.asked:
            continue
        if not isinstance(first, Unclear):
            return first
        # Who asks in a sentence of its own may have said when just before, or says it after.
        before = [sentences[place - 1] + sentence] if place else []
        after = [sentence + following for following in sentences[place + 1 : place + 2] if _is_time(following, local)]
        in_context = (_parse(read(context), local, tz, asks=asks) for context in before + after)
        return next((parsed for parsed in in_context if not isinstance(parsed, Unclear)), first)
    return Unclear("nothing is asked for at a time")


def has_schedule_intent(text: str, now: datetime, tz: str) -> bool:
    """Whether a message asks the agent to act at a time, even one that cannot be told."""
    return _asks_for_schedule(text, parse(text, now, tz))


def _asks_for_schedule(text: str, parsed: Parsed) -> bool:
    """Whether a message that was parsed asks the agent to act at a time, even one that cannot be told."""
    if not isinstance(parsed, Unclear):
        return True
    return parsed.asked and (parsed.reason != _NO_TIME or _LATER.search(readable(text)) is not None)


_NO_TIME = "it does not say when"


def readable(text: str) -> str:
    """The message as the grammar reads it: cut, half-width, without idle spaces."""
    unspaced = _LOOSE.sub("", nfkc(text[:READ_CHARS])).replace("’", "'")
    return _MORNING_AND_EVENING.sub(r"早上\1和晚上\1", unspaced)


def _is_time(sentence: str, now: datetime) -> bool:
    """Whether it says hardly more than a time."""
    blanked = requests.blanked(sentence, [(element.start, element.end) for element in find_elements(sentence, now)])
    return requests.TIME in blanked and len(blanked.replace(requests.TIME, "").strip()) <= LOOSE_CHARS


@dataclass(frozen=True, slots=True)
class _Sentence:
    """A sentence with its times: ``left_out`` are weekdays (Sunday 0) that it excepts, ``blanked`` has :data:`TIME` for each time."""

    text: str
    left_out: set[int]
    elements: list[Element]
    blanked: str


def _read(text: str, now: datetime) -> _Sentence:
    left_out, places = excepted(text)
    for start, end in places:
        text = text[:start] + " " * (end - start) + text[end:]
    elements = find_elements(text, now)
    return _Sentence(text, left_out, elements, requests.blanked(text, _spans(elements)))


def _spans(elements: list[Element]) -> list[tuple[int, int]]:
    return [(element.start, element.end) for element in elements if element.end > element.start]


def _parse(sentence: _Sentence, now: datetime, tz: str, *, asks: bool) -> Parsed:
    text, elements = sentence.text, sentence.elements
    request = _request_of(sentence, asks=asks)
    if request is None:
        return Unclear("nothing is asked for at a time")
    if not elements:
        return Unclear(_NO_TIME, asked=request.how == "ask")
    impossible = next((element for element in elements if isinstance(element, Impossible)), None)
    if impossible is not None:
        return Unclear(impossible.reason, asked=True)
    used = choose_elements(text, without_end(text, elements), request.start, request.end)
    if requests.is_waking(text):
        used = [of_waking(element) if isinstance(element, Clock) else element for element in used]
    meant = readings.read(used, window(text, used), sentence.left_out, now, zone_of(tz))
    if not meant.readings:
        # "Take a look at what I made this morning": what is over was no request to do something.
        return Unclear(meant.reason, asked=request.how != "act" or not meant.over)
    task = requests.task_of(requests.blanked(text, _spans(used)), text)[:TASK_CHARS]
    target: Target = "workflow" if requests.is_workflow(task) else "reminder" if request.how != "act" else "agent"
    schedules = tuple(
        ParsedSchedule(
            kind=reading.kind,
            cron=reading.cron,
            at=reading.at,
            every_seconds=reading.every_seconds,
            tz=tz,
            description=_description(text, used),
            confidence=readings.SURE if meant.certain else readings.UNSURE,
            task=task,
            target=target,
        )
        for reading in meant.readings
    )
    return Exact(schedules[0]) if meant.certain else Ambiguous(schedules)


def _request_of(sentence: _Sentence, *, asks: bool) -> requests.Request | None:
    """What asks for something in a sentence: its words, a timer that says hardly more, or its time where it is known to ask."""
    elements, blanked = sentence.elements, sentence.blanked
    request = requests.find_request(blanked, again=any(isinstance(element, Every) for element in elements))
    if request is None and len(blanked.replace(requests.TIME, "").strip()) <= LOOSE_CHARS:
        timer = next((element for element in elements if isinstance(element, Offset) and element.timer), None)
        request = None if timer is None else requests.Request(timer.start, timer.end, "ask")
    if request is None and asks and elements and not requests.depends(blanked):
        request = requests.Request(elements[0].start, elements[0].start, "ask")
    return request


def _description(sentence: str, used: list[Element]) -> str:
    words = [sentence[element.start : element.end].strip() for element in used]
    return ("" if any("\u4e00" <= char <= "\u9fff" for char in "".join(words)) else " ").join(word for word in words if word)


Asked = Literal["new", "cancel", "move", "list"]

#: How often each label has to be right. A new appointment is taken down at once; the others act only if an appointment fits, too.
PRECISION: dict[Asked, float] = {"new": 0.9, "cancel": 0.8, "move": 0.8, "list": 0.8}
#: Probability of "asks for nothing" from which on the patterns are not believed.
SURE_NOT = 0.9


def judge_request(text: str, now: datetime, tz: Callable[[], str], heads: Heads | None) -> tuple[Asked | None, Parsed | None]:
    """What a message asks of the agent's appointments, None for nothing or if that is not sure; and how a new one reads.

    The learned judgement decides where it is sure, in whatever words it is asked. Without it a new appointment is recognised by the
    patterns of :mod:`engine.appointments.requests` alone, as in long messages, and nothing is cancelled, moved or listed.

    Args:
        text: the message; it is parsed at most once.
        now: when it was said.
        tz: gives the name of the time zone, where it is needed.
        heads: the learned judgements.

    Raises:
        ValueError: an unknown time zone.
    """
    judged = heads.requests([text])[0] if heads is not None and len(text) <= JUDGED_CHARS else None
    if heads is not None and judged is not None:
        likeliest: Asked = max(get_args(Asked), key=lambda label: judged.probabilities[label])
        if judged.probabilities[likeliest] >= heads.least(REQUESTS, likeliest, PRECISION[likeliest]):
            return likeliest, parse(text, now, tz(), asks=True) if likeliest == "new" else None
        if likeliest != "new" or judged.probabilities["none"] >= SURE_NOT:
            return None, None
    parsed = parse(text, now, tz())
    return ("new", parsed) if _asks_for_schedule(text, parsed) else (None, None)
