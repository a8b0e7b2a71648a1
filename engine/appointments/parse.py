"""A message as a schedule: whether it asks the agent to act, when, and what is to be done. Without a model.

"My phone reminds me at 9" and 医生提醒我每天吃药 state, 不用提醒我了 declines, "remind me why" wants to know
now, and "if I'm not back by 5, call a cab" depends on what nobody here will see. A sentence that begins with
a time that comes again and has no subject asks, too: 每天晚上8点写日报.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache, partial
from typing import Literal, NamedTuple, get_args

from engine.appointments.schedule import Ambiguous, Exact, Parsed, ParsedSchedule, Target, Unclear
from engine.heads.judgements import REQUESTS, Heads, Judged
from engine.times import readings
from engine.times.clocks import Clock, Impossible, of_waking
from engine.times.readings import Element, choose_elements, find_elements, open_range, window, without_end
from engine.times.recurring import Every, Offset, find_exceptions
from jiyi.text.sections import sections, union
from jiyi.text.words import CJK, fillers, nfkc, telling
from jiyi.zones import zone_of

#: Characters of a message that are read.
READ_CHARS = 1_000
#: Characters of a message that is judged as a whole (:func:`judge_request`). Requests are short.
JUDGED_CHARS = 300
#: Characters beside its time of a sentence that only says when.
LOOSE_CHARS = 8
TASK_CHARS = 500

_SENTENCE = re.compile(
    r"[^。!?！？;；\n]+?(?:[。!?！？;；\n]+|(?<![ap]\.m)(?<!\d)\.(?=\s|\Z)|\Z)", re.IGNORECASE
)
_LOOSE = re.compile(rf"(?<=[{CJK}])[ \t]+(?=[{CJK}\d])|(?<=\d)[ \t]+(?=[{CJK}])")
#: 早晚八点: twice a day.
_MORNING_AND_EVENING = re.compile(r"早晚(?:各|都)?((?:\d{1,2}|[一二两三四五六七八九十]{1,2})点半?)")
#: What asks without saying when, to be asked back.
_LATER = re.compile(
    r"(?:过|等)(?:一会儿?|会儿?|几天|段时间|一阵子?|阵子?)|待会儿?|一会儿?(?=提醒|叫)|回头|改天|有空|晚点|稍后"
    r"|迟点|哪天|过些(?:天|日子)|以后|到时候?|不久|每(?:天|周|月|年)|定期|经常|时不时|隔三差五"
    r"|\b(?:later|soon|sometime|some ?time|someday|some day|in a (?:bit|while|few)|every now and then"
    r"|from time to time|regularly|periodically|occasionally|one of these days|when i'm free|eventually)\b",
    re.IGNORECASE,
)


def parse(text: str, now: datetime, tz: str, *, asks: bool = False) -> Parsed:
    """When and what a message asks the agent to do; :class:`Unclear` if it does not, or not clearly.

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
    if not asks or not isinstance(parsed, Unclear) or parsed.is_request:
        return parsed
    request = _of_sentences(sentences, read, local, tz, asks=True)
    return (
        request
        if not isinstance(request, Unclear) or request.is_request
        else Unclear(NO_TIME, is_request=True)
    )


def local_now(now: datetime, tz: str) -> datetime:
    """A moment in the time zone of this name. Raises ValueError for an unknown one."""
    zone = zone_of(tz)
    return now.astimezone(zone) if now.tzinfo else now.replace(tzinfo=zone)


def _of_sentences(
    sentences: list[str], read: Callable[[str], _Sentence], local: datetime, tz: str, *, asks: bool
) -> Parsed:
    for place, sentence in enumerate(sentences):
        first = _parse(read(sentence), local, tz, asks=asks)
        if isinstance(first, Unclear) and not first.is_request:
            continue
        if not isinstance(first, Unclear):
            return first
        # A request in a sentence of its own may have its time in the sentence before or after.
        before = [sentences[place - 1] + sentence] if place else []
        after = [sentence + next_ for next_ in sentences[place + 1 : place + 2] if _is_time(next_, local)]
        in_context = (_parse(read(context), local, tz, asks=asks) for context in before + after)
        return next((parsed for parsed in in_context if not isinstance(parsed, Unclear)), first)
    return Unclear("nothing is asked for at a time")


def has_schedule_intent(text: str, now: datetime, tz: str) -> bool:
    """Whether a message asks the agent to act at a time, even an unclear one."""
    return _asks_for_schedule(text, parse(text, now, tz))


def _asks_for_schedule(text: str, parsed: Parsed) -> bool:
    """Whether a parsed message asks the agent to act at a time, even an unclear one."""
    if not isinstance(parsed, Unclear):
        return True
    return parsed.is_request and (parsed.reason != NO_TIME or _LATER.search(readable(text)) is not None)


#: A reason to ask back: the time is left out.
NO_TIME = "it does not say when"


def readable(text: str) -> str:
    """The message as the grammar reads it: cut, half-width, without idle spaces."""
    unspaced = _LOOSE.sub("", nfkc(text[:READ_CHARS])).replace("’", "'")
    return _MORNING_AND_EVENING.sub(r"早上\1和晚上\1", unspaced)


def _is_time(sentence: str, now: datetime) -> bool:
    """Whether it says hardly more than a time."""
    blanked = blank_out(sentence, [(element.start, element.end) for element in find_elements(sentence, now)])
    return TIME in blanked and len(blanked.replace(TIME, "").strip()) <= LOOSE_CHARS


@dataclass(frozen=True, slots=True)
class _Sentence:
    """``left_out``: weekdays (Sunday 0) that it excepts; ``blanked`` has :data:`TIME` for each time."""

    text: str
    left_out: set[int]
    elements: list[Element]
    blanked: str


def _read(text: str, now: datetime) -> _Sentence:
    left_out, places = find_exceptions(text)
    for start, end in places:
        text = text[:start] + " " * (end - start) + text[end:]
    elements = find_elements(text, now)
    return _Sentence(text, left_out, elements, blank_out(text, _spans(elements)))


def _spans(elements: list[Element]) -> list[tuple[int, int]]:
    return [(element.start, element.end) for element in elements if element.end > element.start]


def _parse(sentence: _Sentence, now: datetime, tz: str, *, asks: bool) -> Parsed:
    text, elements = sentence.text, sentence.elements
    request = _request_of(sentence, asks=asks)
    if request is None:
        return Unclear("nothing is asked for at a time")
    if not elements:
        return Unclear(NO_TIME, is_request=request.how == "ask")
    impossible = next((element for element in elements if isinstance(element, Impossible)), None)
    if impossible is not None:
        return Unclear(impossible.reason, is_request=True)
    used = choose_elements(text, without_end(text, elements), request.start, request.end)
    if (between := open_range(text, used)) is not None:
        return Unclear(between.reason, is_request=True)
    if is_waking(text):
        used = [of_waking(element) if isinstance(element, Clock) else element for element in used]
    meaning = readings.read(used, window(text, used), sentence.left_out, now, zone_of(tz))
    if not meaning.readings:
        # "Take a look at what I made this morning": what is over was no request to do something.
        return Unclear(meaning.reason, is_request=request.how != "act" or not meaning.over)
    task = task_of(blank_out(text, _spans(used)), text)[:TASK_CHARS]
    target: Target = "reminder" if request.how != "act" else "agent"
    target = "workflow" if _WORKFLOW.search(task) else target
    schedules = tuple(
        ParsedSchedule(
            kind=reading.kind,
            cron=reading.cron,
            at=reading.at,
            every_seconds=reading.every_seconds,
            tz=tz,
            description=words_of(text, used),
            confidence=readings.SURE if meaning.certain else readings.UNSURE,
            task=task,
            target=target,
        )
        for reading in meaning.readings
    )
    return Exact(schedules[0]) if meaning.certain else Ambiguous(schedules)


def _request_of(sentence: _Sentence, *, asks: bool) -> Cue | None:
    """What asks: words, a timer that says hardly more, or the time where the sentence is known to ask."""
    elements, blanked = sentence.elements, sentence.blanked
    request = find_request(blanked, again=any(isinstance(element, Every) for element in elements))
    if request is None and len(blanked.replace(TIME, "").strip()) <= LOOSE_CHARS:
        timer = next((element for element in elements if isinstance(element, Offset) and element.timer), None)
        request = None if timer is None else Cue(timer.start, timer.end, "ask")
    if request is None and asks and elements and not depends(blanked):
        request = Cue(elements[0].start, elements[0].start, "ask")
    return request


def words_of(sentence: str, used: Sequence[Element]) -> str:
    """The words of these times."""
    words = [sentence[element.start : element.end].strip() for element in used]
    joint = "" if any("\u4e00" <= char <= "\u9fff" for char in "".join(words)) else " "
    return joint.join(filter(None, words))


RequestKind = Literal["new", "cancel", "move", "list"]

#: How often each label has to be right. A new appointment needs a time, too, and what is cancelled or moved
#: an appointment that fits; a list is answered whatever there is, and many questions about what was said
#: sound like one.
PRECISION: dict[RequestKind, float] = {"new": 0.8, "cancel": 0.8, "move": 0.8, "list": 0.9}
#: Probability of "asks for nothing" from which on the patterns are not believed.
SURE_NOT = 0.9


class AppointmentRequest(NamedTuple):
    """What a message asks of the agent's appointments, None for nothing or if that is not sure."""

    kind: RequestKind | None = None
    #: How a new one reads.
    parsed: Parsed | None = None
    #: False: it is one only if there is an appointment that it names.
    sure: bool = True


def judge_request(
    text: str, now: datetime, tz: Callable[[], str], heads: Heads | None, completes: str = ""
) -> AppointmentRequest:
    """What a message asks of the agent's appointments.

    An explicit request for a reminder gets one, or the user is asked when. Else the learned judgement decides
    where it is sure, of the message or of it without courtesies: "could you move it to 9?" asks what "move it
    to 9" asks. An order to let go of something or to move it counts where it fits an appointment. Without the
    judgement, as in long messages, patterns recognise a new appointment, and nothing is listed.

    Args:
        text: the message; it is parsed at most once.
        now: when it was said.
        tz: gives the name of the time zone, where it is needed.
        heads: the learned judgements.
        completes: a request before it that lacked a time: then a message of a time alone says when.

    Raises:
        ValueError: an unknown time zone.
    """
    if completes and (answered := _answered(completes, text, now, tz())) is not None:
        return AppointmentRequest("new", answered)
    if len(text) > JUDGED_CHARS:
        return _by_patterns(text, now, tz()) or AppointmentRequest()
    core = without_courtesies(text)
    if wants_reminder(core):
        return AppointmentRequest("new", parse(core, now, tz(), asks=True))
    request = _judged(text, core, now, tz, heads)
    return _ordered(core) if request is None else request


def _judged(
    text: str, core: str, now: datetime, tz: Callable[[], str], heads: Heads | None
) -> AppointmentRequest | None:
    """By the judgement and the patterns, with and without courtesies; None if nothing is sure."""
    judged, bare = heads.requests([text, core]) if heads is not None else (None, None)
    if heads is None or judged is None or bare is None:
        return _by_patterns(text, now, tz())
    whole, polite = _sure_of(heads, judged), _sure_of(heads, bare)
    kind = whole if polite in (None, "list") else polite
    if kind == "new":
        if _WISHED.search(readable(text)):
            return AppointmentRequest()
        return AppointmentRequest("new", parse(text if kind == whole else core, now, tz(), asks=True))
    if kind is not None:
        return AppointmentRequest(kind, sure=kind == whole)
    likeliest = max(get_args(RequestKind), key=lambda label: judged.probabilities[label])
    is_likely = likeliest == "new" and judged.probabilities["none"] < SURE_NOT
    return _by_patterns(text, now, tz()) if is_likely else None


def _answered(incomplete: str, text: str, now: datetime, tz: str) -> Parsed | None:
    """A request without a time with the time that a message names; None if it names none, or more."""
    local, request, answer = local_now(now, tz), without_courtesies(incomplete), readable(text)
    rest = blank_out(answer, _spans(find_elements(answer, local)))
    is_time = TIME in rest and all(fillers(telling(rest.replace(TIME, " "))))
    if not is_time or not wants_reminder(request) or find_elements(readable(request), local):
        return None
    return parse(f"{request.strip(_EDGES)}, {text}", now, tz, asks=True)


def _sure_of(heads: Heads, judged: Judged) -> RequestKind | None:
    likeliest: RequestKind = max(get_args(RequestKind), key=lambda label: judged.probabilities[label])
    least = heads.least(REQUESTS, likeliest, PRECISION[likeliest])
    return likeliest if judged.probabilities[likeliest] >= least else None


def _by_patterns(text: str, now: datetime, tz: str) -> AppointmentRequest | None:
    parsed = parse(text, now, tz)
    return AppointmentRequest("new", parsed) if _asks_for_schedule(text, parsed) else None


def _ordered(core: str) -> AppointmentRequest:
    """An order to move something, or to let go of it, which an appointment has to fit."""
    order = readable(core).strip(_EDGES)
    if len(order) > ORDER_CHARS or _SENTENCE_END.search(order):
        return AppointmentRequest()
    if _MOVE.match(order):
        return AppointmentRequest("move", sure=False)
    return AppointmentRequest("cancel", sure=False) if _LET_GO.match(order) else AppointmentRequest()


def without_courtesies(text: str) -> str:
    """What a message asks for without what asks for it politely: "could you …?", 能不能帮我…吗."""
    read = readable(text).strip()
    core = _POLITE.sub("", read, count=1)
    return _POLITE_END.sub("", core) if core != read else text


def wants_reminder(core: str) -> bool:
    """Whether a message without courtesies only asks for a reminder: "remind me to buy milk"."""
    order = readable(core).strip(_EDGES)
    if len(order) > ORDER_CHARS or _SENTENCE_END.search(order) or declines(order) or depends(order):
        return False
    match = _REMIND.match(order)
    return (
        match is not None and len(order) > match.end() and not (_NOW.search(order) or _REPORTED.search(order))
    )


#: What stands for a time in the patterns; of as many characters as the time.
TIME = "⏱"
#: Characters of the request in a sentence that only begins with a time.
MOST_BARE = 30

_FILE = "requests.txt"


def _union(*names: str) -> str:
    return "|".join(f"(?:{line})" for name in names for line in sections(__package__, _FILE)[name])


_BEFORE = (
    rf"(?:\A|[,;:.\-–—]|\b(?:and|then|so|but|please)\b|{TIME})"
    rf"\W{{0,3}}(?:(?:{_union('before_en', 'polite_en')})[\s,]{{0,3}}){{0,5}}"
)
_ASK, _ACT, _DECLINE, _REPORTED, _TENSE, _NOW, _DEPENDS = (
    union(__package__, _FILE, name)
    for name in ("ask", "act", "decline", "reported", "tense", "now", "depends")
)
_ASK_EN, _ACT_EN, _DECLINE_EN = (
    re.compile(rf"{_BEFORE}(?P<ask>{_union(name)})", re.IGNORECASE)
    for name in ("ask_en", "act_en", "decline_en")
)
_MOVE, _LET_GO, _REMIND, _WISHED = (
    union(__package__, _FILE, name) for name in ("move", "let_go", "remind", "wished")
)
#: Before and behind a polite request.
_POLITE = re.compile(
    rf"\A\W{{0,3}}(?:(?:{_union('before_en')})[\s,]{{0,3}}){{0,3}}"
    rf"(?:(?:{_union('polite_en', 'polite')})[\s,]{{0,3}}){{1,3}}",
    re.IGNORECASE,
)
_POLITE_END = re.compile(
    r"(?:\s?(?:好不好|行不行|可以|好|行)?[吗么呢]|[,，\s]{1,2}(?:please|for me))?[?？\s]{0,3}\Z",
    re.IGNORECASE,
)
#: Characters of an order: it says one thing, in one sentence.
ORDER_CHARS = 120
_SENTENCE_END = re.compile(r"[。!?！？;；\n]|\.\s")
_WAKING = re.compile(
    r"[叫喊吵唤弄闹]醒|(?:叫|喊|催|闹)[^,。]{0,4}我[^,。]{0,4}起来|起床"
    r"|\b(?:wake (?:me|us)|wake[- ]?up (?:call|alarm)|get (?:me|us) (?:up|out of bed))\b",
    re.IGNORECASE,
)
_NAP = re.compile(r"午睡|午觉|午休|小睡|打个?盹|\bnap(?:ping)?\b|\bsiesta\b", re.IGNORECASE)
_TIMES = re.compile(rf"{TIME}+")
_BARE = re.compile(rf"\A\W*(?:请|那就|以后|今后|从今往后)?{TIME}[\s,的]{{0,3}}(?P<rest>.*)\Z", re.DOTALL)
_WORKFLOW = re.compile(r"工作流|流程|\bworkflow\b|\bpipeline\b", re.IGNORECASE)
#: What of a request is no part of what is to be done.
_FRAME = re.compile(
    # 麻烦你能不能记得帮我到时候 … 提醒一下我
    r"(?:请|麻烦|劳烦|拜托)?(?:你|您)?(?:能不能|可不可以|能否|可以|能)?(?:记得|务必|别忘了?|不要忘了?)?"
    r"(?:帮(?:我|忙)|给我|替我)?(?:到时候?|届时|准时)?(?:设|定|订|建|加|创建|添加|安排)?(?:个|一个|置)?"
    r"(?:(?:提醒|通知|告诉|叫醒?|喊|催)(?:一下|下|一声)?(?:我们|我|大家|咱们?)?(?:一下|一声)?"
    r"|闹钟|闹铃|的?提醒|倒计时)(?:去|要|说|,|:)?"
    # "could you remind me to", "set up a reminder for"
    r"|\b(?:(?:please|kindly|can you|could you|would you|will you|i need you to|i want you to|make sure to"
    r"|don't forget to) ){0,3}(?:remind (?:me|us|\w{2,20})|wake (?:me|us)(?: up)?"
    r"|(?:alert|notify|ping|nudge|tell|text) (?:me|us)|let (?:me|us) know|don't let me forget"
    r"|(?:set|add|create|schedule|make)(?: up)? (?:me )?(?:an?|the)? ?(?:\w{1,12} )?"
    r"(?:reminder|alarm|timer|notification)|give me a (?:nudge|reminder|heads[- ]up|shout))"
    r"(?: (?:to|that|about|of|for|when)\b(?! ?⏱)|:)?",
    re.IGNORECASE,
)
_EDGES = " \t\n,，.。、;；:：!！?？~-–—'\"“”" + TIME
#: Thanks to the agent; not what is to be said or sent ("say thanks", 跟老师说谢谢).
_THANKS = (
    r"(?<!\bsay )(?<!\bsend )(?<!\bgive )(?<!\bwrite )(?<!\ba )(?<!\bof )(?<!\bmy )(?<!\bour )"
    r"(?<!\bwith )\b(?:thanks|thank you|cheers)"
    r"|(?<![说道声句个写发示寄])(?:谢谢|多谢|感谢)(?:你|您|啦|了)?|(?<=[\s,])(?:麻烦(?:你|您)?了|拜托了?|辛苦了)"
)
THANKS = re.compile(_THANKS, re.IGNORECASE)
_LOOSELY = re.compile(
    # before it
    r"\A(?:(?:请|麻烦|帮我|的|去|要|我要|我|你|您|能|可以|在|从|开始|以后|设定|定个|来个|创建|新建|设|定|一个|个|一下"
    r"|然后|就|都|和|at|on|to|for|by|and|in|from|that|please|can you|could you|about|,)"
    r"(?:\b|(?<=[\u4e00-\u9fff]))[\s,]{0,4}){1,4}"
    # behind it
    r"|(?:[\s,]{0,4}(?:\b(?:at|on|by|for|and|in|from|to|please|starting)"
    rf"|的|吧|哦|啊|呀|哈|呗|吗|从|在|定个|一个|好吗|好吧|行吗|可以吗|{_THANKS})){{1,6}}\Z",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Cue:
    """Where a sentence asks: to be notified or woken, to ``act``, or ``bare``, by its time alone."""

    start: int
    end: int
    how: Literal["ask", "act", "bare"]


def blank_out(sentence: str, spans: list[tuple[int, int]]) -> str:
    """The sentence with each time as :data:`TIME`, everything else at its place."""
    for start, end in spans:
        sentence = sentence[:start] + TIME * (end - start) + sentence[end:]
    return sentence


def find_request(text: str, *, again: bool) -> Cue | None:
    """What a blanked sentence asks for, if anything; ``again``: a time in it comes again."""
    flat, places = _flat(text)
    request = _first(flat, _ASK, _ASK_EN, "ask") or _first(flat, _ACT, _ACT_EN, "act")
    declined = _declined(flat)
    if declined and (request is None or declined.start() <= request.start or declined.end() >= request.end):
        return None
    if _REPORTED.search(flat) or _DEPENDS.search(flat):
        return None
    if request is None:
        return _bare(flat, places) if again else None
    if request.how == "act" and TIME not in flat:
        return None
    # "Tell me what is on tomorrow" asks now; "tomorrow at 8, tell me what is on" does not.
    if not again and TIME not in flat[: request.start] and _NOW.search(flat):
        return None
    return Cue(places[request.start], places[request.end], request.how)


def task_of(text: str, sentence: str) -> str:
    """What is to be done: a sentence without its times and what asks for it; ``text`` is the blanked one."""
    flat, places = _flat(text)
    match = _FRAME.search(flat)
    frame = range(places[match.start()], places[match.end()]) if match is not None else range(0)
    chars = ["\x00" if text[place] == TIME or place in frame else char for place, char in enumerate(sentence)]
    parts = [part.strip(_EDGES) for part in re.split("\x00+", "".join(chars))]
    clauses = [_LOOSELY.sub("", _LOOSELY.sub("", part)).strip(_EDGES) for part in parts]
    joined = " ".join(filter(None, clauses))
    if joined.isascii():
        return joined
    return re.sub(r"(?<=[\u4e00-\u9fff]) (?=[\u4e00-\u9fff])", ",", joined).replace(",", "，")


def asks_to_act(text: str) -> bool:
    """Whether a clause asks for something to be done or notified, at whatever time."""
    return any(pattern.search(text) for pattern in (_ASK, _ASK_EN, _ACT, _ACT_EN))


def declines(text: str) -> bool:
    """Whether a message wants a reminder no longer, or never."""
    return _declined(text) is not None


def _declined(text: str) -> re.Match[str] | None:
    return _DECLINE.search(text) or _DECLINE_EN.search(text)


def depends(text: str) -> bool:
    """Whether a blanked sentence is a condition that nobody here will see."""
    return _DEPENDS.search(_flat(text)[0]) is not None


def is_waking(sentence: str) -> bool:
    """Whether somebody wants to be woken at the end of a night."""
    return _WAKING.search(sentence) is not None and _NAP.search(sentence) is None


def _flat(text: str) -> tuple[str, list[int]]:
    """The text with each run of :data:`TIME` as one, and the place of each of its characters in the text."""
    pieces: list[str] = []
    places: list[int] = []
    end = 0
    for match in _TIMES.finditer(text):
        pieces.append(text[end : match.start()] + TIME)
        places += range(end, match.start() + 1)
        end = match.end()
    pieces.append(text[end:])
    return "".join(pieces), [*places, *range(end, len(text) + 1)]


def _first(flat: str, zh: re.Pattern[str], en: re.Pattern[str], how: Literal["ask", "act"]) -> Cue | None:
    spans = [match.span(group) for match, group in ((zh.search(flat), 0), (en.search(flat), "ask")) if match]
    return Cue(*min(spans), how) if spans else None


def _bare(flat: str, places: list[int]) -> Cue | None:
    match = _BARE.match(flat)
    rest = match["rest"].replace(TIME, "").strip(_EDGES) if match else ""
    if match is None or not 0 < len(rest) <= MOST_BARE or _TENSE.search(rest):
        return None
    return Cue(places[match.start("rest")], places[match.end("rest")], "bare")
