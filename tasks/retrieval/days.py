"""What happened in the days, months and holidays that a question names, beside what is likely to answer it in
words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime, timedelta
from itertools import zip_longest
from typing import Any, TypeVar

from engine.conversations.attributes import ASKING, QUESTION_MARK, REQUEST
from engine.conversations.marks import local
from engine.times.past import Span, spans_over, with_dates
from jiyi.protocol.retrieval import RetrievalRequest
from tasks.retrieval.retrieve import answer

T = TypeVar("T")
#: People still talk about a day so long after it.
MENTIONED_LATER = timedelta(days=31)
#: A day or a month that was worked out for a relative one: "yesterday (2026-03-01)".
_DATED = re.compile(r"\((\d{4})-(\d{2})(?:-(\d{2}))?")


def memories_of_named_time(question: RetrievalRequest) -> list[dict[str, Any]]:
    """Memories of the time that the question names, the likeliest to answer it first.

    Their ``probability`` is None: they are here for their time. ``question`` has its ``now``, by the
    caller's clock.
    """
    text, now = question.queries[0], question.now
    if now is None or not any(asks.search(text) for asks in (QUESTION_MARK, ASKING, REQUEST)):
        return []
    by_id: dict[object, dict[str, Any]] = {}
    for span in _named(text, now):
        end = min(span[1] + MENTIONED_LATER, question.as_of or now)
        within = question.filters.model_copy(update={"created_after": span[0], "created_before": end})
        request = question.model_copy(update={"queries": [text], "filters": within, "min_probability": 0.0})
        fields = answer(request)
        for node in fields["groups"][0]["retrieved_nodes"] if fields["groups"] else ():
            if is_of(node, span):
                by_id.setdefault(node["node_id"], {**node, "probability": None})
    return list(by_id.values())


def interleave(likely: Sequence[T], then: Sequence[T]) -> list[T]:
    """What is likely to answer and what is of the time, one after the other: each has half of a prompt."""
    return [node for pair in zip_longest(likely, then) for node in pair if node is not None]


def _named(text: str, now: datetime) -> Iterator[Span]:
    """The times that a question names, as far as they are surely not ahead."""
    return (span for span, over in spans_over(text, now).items() if over or span[0] <= now < span[1])


def is_of(node: Mapping[str, Any], span: Span) -> bool:
    """Whether a memory mentions a time, or is from then and mentions no earlier day. Questions and answers do
    not.
    """
    text, said_at = node["description"], local(node["created_at"], node["provenance"], span[0].tzinfo)
    if node["kind"] == "session":
        if node["provenance"].get("role") != "user" or any(
            asks.search(text) for asks in (QUESTION_MARK, ASKING)
        ):
            return False
        text = with_dates(text, said_at)
    first, last = span[0].date(), (span[1] - timedelta(days=1)).date()
    days = [day for day in _days_in(text) if day <= said_at.date()]
    return any(first <= day <= last for day in days) or (not days and span[0] <= said_at < span[1])


def _days_in(text: str) -> Iterator[date]:
    for year, month, day in _DATED.findall(text):
        with suppress(ValueError):  # somebody else's brackets
            yield date(int(year), int(month), int(day or 1))
