"""engine.times.past: which days a question names, in English and Chinese."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.times.past import MAX_SPANS, named_spans

#: A Wednesday. Its week is 9 to 15 March.
NOW = datetime(2026, 3, 11, 15, 30, tzinfo=UTC)
NEW_YEAR = datetime(2026, 1, 1, 0, 5, tzinfo=UTC)  # a Thursday
LEAP_DAY = datetime(2024, 2, 29, 23, 59, tzinfo=UTC)  # a Thursday
SUNDAY = datetime(2026, 3, 15, 9, tzinfo=UTC)
MONDAY = datetime(2026, 3, 16, 9, tzinfo=UTC)


def spans_of(text: str, now: datetime = NOW) -> list[str]:
    """As '2026-03-02' for a day, and '2026-03-02/2026-03-04' for more, its end excluded."""
    found = []
    for start, end in named_spans(text, now):
        assert start.tzinfo is end.tzinfo is now.tzinfo
        one = end - start == timedelta(days=1)
        found.append(f"{start:%Y-%m-%d}" if one else f"{start:%Y-%m-%d}/{end:%Y-%m-%d}")
    return found


MARCH, WEEK, LAST_WEEK = "2026-03-01/2026-04-01", "2026-03-09/2026-03-16", "2026-03-02/2026-03-09"


#: Days, or a day and the one after the last, and texts that name them.
SPANS = {
    "2026-03-02": (
        """
    2026/3/2 | at 2026-03-02T10:15:00Z | ２０２６－０３－０２ | March 2nd, 2026 | Mar. 2 | the 2nd of March | on Monday, March 2
    | last Monday, 2 March | 2026 年 3 月 2 号 | 2026年3月2日(周一) | ３月２日 | 我在2026-03-02做了什么"""
    ),
    "2026-01-03 2026-03-02": "from January 3 to March 2",
    "2026-03-11 2025-03-12": "on March 11 or on March 12",
    MARCH: "in March | 3月天气怎么样 | 这个月",
    "2025-10-01/2025-10-08": "国庆去哪儿玩了 | 去年国庆节 | 2025年国庆",
    "2024-10-01/2024-10-08": "2024年的国庆",
    "2023-12-25": "for Christmas 2023",
    "2025-04-01/2025-05-01": "at the end of April",
    "2025-05-01/2025-06-01": "in late May",
    "2025-03-01/2025-04-01": "last March | in March last year | 去年三月",
    "2025-01-01/2026-01-01": "in 2025. | 二〇二五年",
    "2024-02-29": "29 February",
    "2026-03-11": "today and TODAY | this morning | on Wednesday | 星期三",
    "2026-03-09": "the day before yesterday | 这周一",
    "2026-03-10": "last   night | 昨晚",
    LAST_WEEK: "last week | a week ago | 上个星期 | 上周一直下雨 | 上周天气 | 上周三次",
    "2026-03-14/2026-03-16": "this weekend",
    "2026-03-07/2026-03-09": "over the weekend | 周末",
    "2026-03-06": "on Friday | 上星期五",
    "2026-03-04": "last Wednesday",
    "2026-03-13": "this Friday",
    "2026-02-01/2026-03-01": "last month | 上个月",
    "2026-03-01": "ten days ago | 十天前",
    "2026-02-23/2026-03-02": "two weeks ago | 上上周 | 2个星期前",
    "2025-12-01/2026-01-01": "three months ago | 十二月",
    "2026-03-10 2026-03-06 2025-01-01/2026-01-01": "yesterday, or was it on Friday? Or in 2025?",
    "2025-03-12": "3月12日",
    "2025-12-25": (
        "十二月二十五日 | What did I do at Christmas? | on Christmas Day | 圣诞节那天 | last Christmas"
    ),
    "2025-12-31": "on New Year's Eve",
    "2025-03-02": "去年的3月2日",
    "2026-03-08": "大前天 | 上礼拜天",
    "2026-03-09 2026-03-10 2026-03-11": "前天昨天今天",
    WEEK: "本周",
    "2026-02-02": "上个月2号",
    "2026-01-01/2027-01-01": "今年",
    "2024-01-01/2025-01-01": "前年",
    "2026-01-01/2026-02-01": "两个月前",
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [(text.strip(" \n"), spans) for spans, texts in SPANS.items() for text in texts.split("|")],
)
def test_the_days_that_a_text_names(text: str, expected: str) -> None:
    assert spans_of(text) == expected.split(" ")


@pytest.mark.parametrize(
    ("text", "now", "expected"),
    [
        ("yesterday", NEW_YEAR, "2025-12-31"),
        ("this week", NEW_YEAR, "2025-12-29/2026-01-05"),
        ("上个月", NEW_YEAR, "2025-12-01/2026-01-01"),
        ("十二月", NEW_YEAR, "2025-12-01/2026-01-01"),
        ("Dec 31", NEW_YEAR, "2025-12-31"),
        ("in January", NEW_YEAR, "2026-01-01/2026-02-01"),
        ("last January", NEW_YEAR, "2025-01-01/2025-02-01"),
        ("13 months ago", NEW_YEAR, "2024-12-01/2025-01-01"),
        ("2月29日", LEAP_DAY, "2024-02-29"),
        ("2月29日", LEAP_DAY - timedelta(days=1), "2020-02-29"),
        ("29 Feb", datetime(1903, 5, 1, tzinfo=UTC), "1896-02-29"),
        ("last year", LEAP_DAY, "2023-01-01/2024-01-01"),
        ("a month ago", LEAP_DAY, "2024-01-01/2024-02-01"),
        ("周末", SUNDAY, "2026-03-14/2026-03-16"),
        ("last weekend", SUNDAY, "2026-03-07/2026-03-09"),
        ("on Sunday", SUNDAY, "2026-03-15"),
        ("this week", SUNDAY, WEEK),
        ("last week", MONDAY, WEEK),
        ("上周日", MONDAY, "2026-03-15"),
    ],
)
def test_boundaries(text: str, now: datetime, expected: str) -> None:
    assert spans_of(text, now) == [expected]


@pytest.mark.parametrize(
    "text",
    """
    | May I ask you something? | It may be on the table | 2 may be enough | what state it is in may not
    matter | I may 2
    | We march on | how to march | the last second | a second opinion | the 2nd of them | version 3.11.2 |
    v2026.3.2
    | at 10:30 | at 2026 | mon | Mon ami | sat in the sun | on sun protection | next Friday | every week | on
    Fridays
    | in 2,025 ways | in 2025.1 | INV-2026-03-02 | 12026-03-02 | 2026-03-021 | 2026-03/02 | 1.5 days ago |
    order 2025
    | 2026-02-31 | 2026-13-01 | 0000-01-01 | 31 February | February 30, 2026 | 2 March 99999 | 2 March 0000 |
    March 99999
    | 2月31日 | 2026年2月31日 | 13月 | 0月 | 123456月 | 3月0日 | 0000年 | 99999年3月2日 | 0年3月 | 9999个月后
    | 9999 years ago | 9999年12月31日 | 9999-12-31 | 9999 weeks hence | 周杰伦 | 周杰伦一共有几张专辑
    | 晚上周杰伦 | 网上周星驰 | 周围 | 这周围
    | 每周五 | 每周末 | 下周五 | 下个星期五 | 一周三次 | 明年3月 | 三个月 | 3个月
    | 五月天 | 二月球 | 以前天天 | 过去年轻 | 2000年前 | 今日头条
    """.replace("\n", " ").split(" | "),
)
def test_not_dates(text: str) -> None:
    assert spans_of(text) == []


def test_spans_are_days_of_the_zone_of_now() -> None:
    east = datetime(2026, 3, 11, 0, 30, tzinfo=timezone(timedelta(hours=8)))
    midnight = east.replace(minute=0)
    assert named_spans("昨天", east) == [(midnight - timedelta(days=1), midnight)]
    berlin = datetime(2026, 3, 29, 12, tzinfo=ZoneInfo("Europe/Berlin"))
    ((start, end),) = named_spans("today", berlin)
    assert end.astimezone(UTC) - start.astimezone(UTC) == timedelta(hours=23)
    for now in (
        datetime.min.replace(tzinfo=UTC),
        datetime.max.replace(tzinfo=UTC),
    ):  # the ends of the calendar
        named_spans(
            "last year, today, 3 months ago, last weekend, in March, 去年, 上周五, 2月29日, 前年三月", now
        )


def test_a_question_without_dates_costs_next_to_nothing() -> None:
    text = (
        "Who told Klaus about the gentrification paper, and what did he make of its main argument at the end?"
    )
    best = min(_seconds(text) for _ in range(200))
    assert best < 50e-6


def _seconds(text: str) -> float:
    start = time.process_time()
    assert named_spans(text, NOW) == []
    return time.process_time() - start


@pytest.mark.parametrize(
    "part", ["1", "在 ", "on monday ", "一", "the day before ", "2 may ", "march ", "上", "2026-"]
)
def test_long_texts_take_time_in_proportion(part: str) -> None:
    start = time.process_time()
    named_spans("last week " + part * 20_000, NOW)
    assert time.process_time() - start < 5


_PIECES = """2026-03-02 2026/ - / , . : 29 31 0 99999 2nd of the on in last this past march may feb friday
weekend week
    month year days ago a ten today yesterday before 年 月 日 号 周 星期 礼拜 天 个
    前 以 上 这 本 今 去 大 末 一 十 两 二 五 〇 ３ ㋂""".split()


@given(
    st.one_of(
        st.text(),
        st.lists(st.sampled_from([*_PIECES, " "])).map("".join),
        st.lists(st.sampled_from(_PIECES)).map(" ".join),
    ),
    st.datetimes(timezones=st.sampled_from([UTC, timezone(timedelta(hours=-11)), ZoneInfo("Asia/Shanghai")])),
)
def test_any_text_gives_proper_spans(text: str, now: datetime) -> None:
    spans = named_spans(text, now)
    assert len(spans) <= MAX_SPANS
    assert len(set(spans)) == len(spans)
    for start, end in spans:
        assert start < end
        assert start.tzinfo is end.tzinfo is now.tzinfo
        assert start.time() == end.time() == datetime.min.time()
