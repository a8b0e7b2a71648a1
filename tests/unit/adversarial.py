"""Long inputs made to be expensive, and a measure of whether time grows with their length or with its square.

Time is that of the processor in this thread, the least of several runs: other processes do not count.
"""

from __future__ import annotations

import gc
import re
import time
from collections.abc import Callable
from typing import Any

#: Characters of the shorter input; the longer one has four times as many.
SHORT, LONGER = 5_000, 4
#: What four times the length may take, in times of the shorter one: linear is 4, up to 8 where others fill
#: the processor's caches; square is 16.
MOST_RATIO = 9.0
#: Below this the longer input is quick enough whatever the ratio, and too short to be measured. Seconds.
NEGLIGIBLE = 0.08
#: Seconds; a ratio half as large again as allowed that took so long is no noise.
CERTAIN = 0.2
#: Seconds; what takes so long with the shorter input is not tried with the longer one.
HOPELESS = 3.0
#: Runs of each length, before a ratio that is too large is believed.
RUNS = 6

#: What is repeated: marks that patterns look for, letters and digits of several scripts, and what
#: normalisation enlarges.
UNITS = (
    "\\", "\\u", "\\x4", "十", "十点", "二", "号", "ﷺ", " ", "\n", " \n", "\t", "\u3000", "a", "A", "a ", "A ", "Aa ",
    "a-", "a.", "a'", "a@", "-", "_", ".", ". ", "..", "!", "?", '!"', "。", "。”", "；", "，", "、", "1", "1 ", "1.",
    "1-", "1/", "1年", "年", "月", "3月", "周", "上周", "前", "个", "天", "[", "[ ", "]", "【", "(", ")", "{", "}", "<",
    ">", "<think>", '"', "'", "’", "“", "“x", ":", ": ", ": \n", ",", ", ", "/", "|", "*", "猫", "猫a", "猫 ", "我们",
    "é", "́", "\u200d", "😀", "👨\u200d👩", "\x00", "\x01", "�", "ﬃ", "İ", "ß", "가", "か", "ไ", "the ", "and ",
    "I like ", "last ", "in may ", "on the ", "may ", "said ", "is ", "was going to ", "because ", "also ", "还有",
    "因为", "citation needed", "[citation needed ", "待核实", "http://", '{"a":', "0", "e", "E+", "a=", "--", "---\n",
    "jiyi_", "0123-", "Maria ",
)  # fmt: skip
#: What follows the repetition: something else, so that a match that went well until then fails at the end.
END = "#"


def inputs(unit: str, characters: int = SHORT) -> tuple[str, str]:
    """The unit again and again, short and long."""
    short = (unit * (characters // len(unit) + 1))[:characters]
    return short + END, short * LONGER + END


def literals(pattern: re.Pattern[Any]) -> set[str]:
    """Runs of plain characters in a pattern, alone and one after the other: what it looks for is what it
    stumbles over.
    """
    plain = re.sub(r"\\.|\[[^\]]*\]|\(\?[P<!=:a-z]*>?", " ", str(pattern.pattern))
    found = sorted({word[:12] for word in re.findall(r"[^\W_]+", plain)})
    return {*found, *(f"{word} " for word in found), " ".join(found)[:200], ", ".join(found)[:200]} - {""}


def slow(function: Callable[[str], Any], short: str, long: str) -> float | None:
    """How many times as long the longer input takes, if that is more than its length allows; else None."""
    least_short = _seconds(function, short)
    if least_short * LONGER**2 <= NEGLIGIBLE:
        return None
    if least_short > HOPELESS:
        return float("inf")
    least_long = _seconds(function, long)
    for _ in range(RUNS):
        ratio = least_long / least_short
        if (
            least_long <= NEGLIGIBLE
            or ratio <= MOST_RATIO
            or (least_long > CERTAIN and ratio > 1.5 * MOST_RATIO)
        ):
            break
        least_short, least_long = (
            min(least_short, _seconds(function, short)),
            min(least_long, _seconds(function, long)),
        )
    ratio = least_long / least_short
    return ratio if least_long > NEGLIGIBLE and ratio > MOST_RATIO else None


def _seconds(function: Callable[[str], Any], text: str) -> float:
    gc.disable()
    try:
        began = time.thread_time()
        function(text)
        return time.thread_time() - began
    finally:
        gc.enable()
