"""engine.times.past: which days a question names, in English and Chinese."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

from hypothesis import given
from hypothesis import strategies as st

from engine.times.past import MAX_SPANS, named_spans
from tests.unit.text.labelled import labelled

#: A Wednesday. Its week is 9 to 15 March.
NOW = datetime(2026, 3, 11, 15, 30, tzinfo=UTC)


def spans_of(text: str, now: datetime = NOW) -> list[str]:
    """As '2026-03-02' for a day, and '2026-03-02/2026-03-04' for more, its end excluded."""
    found = []
    for start, end in named_spans(text, now):
        assert start.tzinfo is end.tzinfo is now.tzinfo
        one = end - start == timedelta(days=1)
        found.append(f"{start:%Y-%m-%d}" if one else f"{start:%Y-%m-%d}/{end:%Y-%m-%d}")
    return found


@labelled
def test_the_days_that_a_text_names_and_no_others(text: str, expected: str) -> None:
    assert spans_of(text) == expected.split()


@labelled
def test_boundaries(text: str, now: datetime, expected: str) -> None:
    assert spans_of(text, now) == [expected]


def test_spans_are_days_of_the_zone_of_now() -> None:
    east = datetime(2026, 3, 11, 0, 30, tzinfo=timezone(timedelta(hours=8)))
    midnight = east.replace(minute=0)
    assert named_spans("昨天", east) == [(midnight - timedelta(days=1), midnight)]
    berlin = datetime(2026, 3, 29, 12, tzinfo=ZoneInfo("Europe/Berlin"))
    ((start, end),) = named_spans("today", berlin)
    assert end.astimezone(UTC) - start.astimezone(UTC) == timedelta(hours=23)
    days = "last year, today, 3 months ago, last weekend, in March, 去年, 上周五, 2月29日, 前年三月"
    for now in (datetime.min, datetime.max):  # the ends of the calendar
        named_spans(days, now.replace(tzinfo=UTC))


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
