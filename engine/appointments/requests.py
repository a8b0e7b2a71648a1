"""Whether a sentence asks the agent to act, in which words, and what it asks for.

It asks only where it asks: "my phone reminds me at 9" and 医生提醒我每天吃药 tell, 不用提醒我了 declines, "remind me why" wants to
be told now, and "if I'm not back by 5, call a cab" depends on what nobody here will see. A sentence that begins with a time that
comes again and has no subject asks, too: 每天晚上8点写日报.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from jiyi.text.sections import sections, union

#: What stands for a time in the patterns; of as many characters as the time.
TIME = "⏱"
#: Characters of what is asked for in a sentence that only begins with a time.
MOST_BARE = 30

_FILE = "requests.txt"


def _union(*names: str) -> str:
    return "|".join(f"(?:{line})" for name in names for line in sections("engine.appointments", _FILE)[name])


_BEFORE = rf"(?:\A|[,;:.\-–—]|\b(?:and|then|so|but|please)\b|{TIME})\W{{0,3}}(?:(?:{_union('before_en')})[\s,]{{0,3}}){{0,5}}"
_ASK, _ACT, _DECLINE, _TOLD, _TENSE, _NOW, _DEPENDS = (
    union("engine.appointments", _FILE, name) for name in ("ask", "act", "decline", "told", "tense", "now", "depends")
)
_ASK_EN = re.compile(rf"{_BEFORE}(?P<ask>{_union('ask_en')})", re.IGNORECASE)
_ACT_EN = re.compile(rf"{_BEFORE}(?P<ask>{_union('act_en')})", re.IGNORECASE)
_DECLINE_EN = re.compile(rf"{_BEFORE}(?P<ask>{_union('decline_en')})", re.IGNORECASE)
_WAKING = re.compile(
    r"[叫喊吵唤弄闹]醒|(?:叫|喊|催|闹)[^,。]{0,4}我[^,。]{0,4}起来|起床|\b(?:wake (?:me|us)|wake[- ]?up (?:call|alarm)|get (?:me|us) (?:up|out of bed))\b",
    re.IGNORECASE,
)
_NAP = re.compile(r"午睡|午觉|午休|小睡|打个?盹|\bnap(?:ping)?\b|\bsiesta\b", re.IGNORECASE)
_TIMES = re.compile(rf"{TIME}+")
_BARE = re.compile(rf"\A\W*(?:请|那就|以后|今后|从今往后)?{TIME}[\s,的]{{0,3}}(?P<rest>.*)\Z", re.DOTALL)
_WORKFLOW = re.compile(r"工作流|流程|\bworkflow\b|\bpipeline\b", re.IGNORECASE)
#: What of a request is no part of what is to be done.
_FRAME = re.compile(
    r"(?:请|麻烦|劳烦|拜托)?(?:你|您)?(?:能不能|可不可以|能否|可以|能)?(?:记得|务必|别忘了?|不要忘了?)?(?:帮(?:我|忙)|给我|替我)?(?:到时候?|届时|准时)?"
    r"(?:设|定|订|建|加|创建|添加|安排)?(?:个|一个|置)?(?:(?:提醒|通知|告诉|叫醒?|喊|催)(?:一下|下|一声)?(?:我们|我|大家|咱们?)?(?:一下|一声)?|闹钟|闹铃|的?提醒|倒计时)(?:去|要|说|,|:)?"
    r"|\b(?:(?:please|kindly|can you|could you|would you|will you|i need you to|i want you to|make sure to|don't forget to) ){0,3}"
    r"(?:remind (?:me|us|\w{2,20})|wake (?:me|us)(?: up)?|(?:alert|notify|ping|nudge|tell|text) (?:me|us)|let (?:me|us) know|don't let me forget"
    r"|(?:set|add|create|schedule|make)(?: up)? (?:me )?(?:an?|the)? ?(?:\w{1,12} )?(?:reminder|alarm|timer|notification)|give me a (?:nudge|reminder|heads[- ]up|shout))"
    r"(?: (?:to|that|about|of|for|when)\b(?! ?⏱)|:)?",
    re.IGNORECASE,
)
_EDGES = " \t\n,，.。、;；:：!！?？~-–—'\"“”" + TIME
#: Thanks to whoever is asked; not what is to be said or sent ("say thanks", 跟老师说谢谢).
_THANKS = (
    r"(?<!\bsay )(?<!\bsend )(?<!\bgive )(?<!\bwrite )(?<!\ba )(?<!\bof )(?<!\bmy )(?<!\bour )(?<!\bwith )\b(?:thanks|thank you|cheers)"
    r"|(?<![说道声句个写发示寄])谢谢(?:你|您|啦|了)?|(?<=[\s,])(?:麻烦(?:你|您)?了|拜托了?|辛苦了)"
)
_LOOSE = re.compile(
    r"\A(?:(?:请|麻烦|帮我|的|去|要|我要|我|你|您|能|可以|在|从|开始|以后|设定|定个|来个|创建|新建|设|定|一个|个|一下|然后|就|都|和|at|on|to|for|by|and|in|from|that|please|can you|could you|about|,)(?:\b|(?<=[\u4e00-\u9fff]))[\s,]{0,4}){1,4}|(?:[\s,]{0,4}(?:\b(?:at|on|by|for|and|in|from|to|please|starting)|的|吧|哦|啊|呀|哈|呗|吗|从|在|定个|一个|好吗|好吧|行吗|可以吗|"
    + _THANKS
    + r")){1,6}\Z",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Request:
    """Where it is asked; ``ask``: to be told or woken, ``act``: something is to be done, ``bare``: it begins with its time."""

    start: int
    end: int
    how: Literal["ask", "act", "bare"]


def blanked(sentence: str, spans: list[tuple[int, int]]) -> str:
    """The sentence with each time as :data:`TIME`, everything else at its place."""
    for start, end in spans:
        sentence = sentence[:start] + TIME * (end - start) + sentence[end:]
    return sentence


def find_request(text: str, *, again: bool) -> Request | None:
    """What a blanked sentence asks for, if anything; ``again``: a time in it comes again."""
    flat, places = _flat(text)
    request = _first(flat, _ASK, _ASK_EN, "ask") or _first(flat, _ACT, _ACT_EN, "act")
    declined = _declined(flat)
    if declined and (request is None or declined.start() <= request.start or declined.end() >= request.end):
        return None
    if _TOLD.search(flat) or _DEPENDS.search(flat):
        return None
    if request is None:
        return _bare(flat, places) if again else None
    if request.how == "act" and TIME not in flat:
        return None
    # "Tell me what is on tomorrow" asks now; "tomorrow at 8, tell me what is on" does not.
    if not again and TIME not in flat[: request.start] and _NOW.search(flat):
        return None
    return Request(places[request.start], places[request.end], request.how)


def task_of(text: str, sentence: str) -> str:
    """What is to be done: a sentence without its times and what asks for it; ``text`` is the blanked one."""
    kept = list(sentence)
    flat, places = _flat(text)
    match = _FRAME.search(flat)
    for place in range(len(kept)):
        if text[place] == TIME or (match is not None and places[match.start()] <= place < places[match.end()]):
            kept[place] = "\x00" if text[place] == TIME else "\x01"
    parts = [part.strip(_EDGES) for part in re.split("[\x00\x01]+", "".join(kept))]
    joined = " ".join(part for part in (_LOOSE.sub("", _LOOSE.sub("", part)).strip(_EDGES) for part in parts) if part)
    return joined if joined.isascii() else re.sub(r"(?<=[\u4e00-\u9fff]) (?=[\u4e00-\u9fff])", ",", joined).replace(",", "，")


def is_workflow(task: str) -> bool:
    """Whether what is to be done is a workflow."""
    return _WORKFLOW.search(task) is not None


def declines(text: str) -> bool:
    """Whether a message wants a reminder no longer, or never."""
    return _declined(text) is not None


def _declined(text: str) -> re.Match[str] | None:
    return _DECLINE.search(text) or _DECLINE_EN.search(text)


def depends(text: str) -> bool:
    """Whether a blanked sentence depends on what nobody here will see."""
    return _DEPENDS.search(_flat(text)[0]) is not None


def is_waking(sentence: str) -> bool:
    """Whether somebody wants to be woken at the end of a night."""
    return _WAKING.search(sentence) is not None and _NAP.search(sentence) is None


def _flat(text: str) -> tuple[str, list[int]]:
    """The text with each run of :data:`TIME` as one, and the place of each of its characters in the text."""
    kept: list[str] = []
    places: list[int] = []
    end = 0
    for match in _TIMES.finditer(text):
        kept.append(text[end : match.start()] + TIME)
        places += range(end, match.start() + 1)
        end = match.end()
    kept.append(text[end:])
    return "".join(kept), [*places, *range(end, len(text) + 1)]


def _first(flat: str, zh: re.Pattern[str], en: re.Pattern[str], how: Literal["ask", "act"]) -> Request | None:
    spans = [match.span() for match in [zh.search(flat)] if match] + [match.span("ask") for match in [en.search(flat)] if match]
    return Request(*min(spans), how) if spans else None


def _bare(flat: str, places: list[int]) -> Request | None:
    match = _BARE.match(flat)
    rest = match["rest"].replace(TIME, "").strip(_EDGES) if match else ""
    if match is None or not 0 < len(rest) <= MOST_BARE or _TENSE.search(rest):
        return None
    return Request(places[match.start("rest")], places[match.end("rest")], "bare")
