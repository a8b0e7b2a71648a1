"""The stage that compacts a conversation before it goes to the model (priority 100)."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from threading import Lock

from jiyi.chat.chain import Exchange
from jiyi.chat.compaction import Summarise, check, compact, summary_message
from jiyi.protocol.conversations.compaction import ChatMessage, CompactionLimits

#: Sessions whose summaries are kept.
SESSIONS = 1_000


@dataclass(frozen=True, slots=True)
class _Cached:
    """What the last compaction of a session came to: ``summary`` stands for so many of its messages."""

    summary: str
    summarised: int
    seen: int
    at: float


class CompactionStage:
    """Shortens conversations past the limits; what was said is recorded first, so that nothing is lost. Thread-safe.

    Between two compactions of a session lie ``cooldown_seconds`` and ``min_new_messages``; meanwhile its summary stands for
    the messages that it was made of.

    Args:
        limits: when, and how much stays.
        flush: called before messages are left out: records what was said.
        summarise: makes summaries, if not the rules.
        clock: monotonic seconds.
    """

    name, priority = "compaction", 100

    def __init__(
        self,
        limits: CompactionLimits | None = None,
        *,
        flush: Callable[[Exchange], object] | None = None,
        summarise: Summarise | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limits, self._flush, self._summarise, self._clock = limits or CompactionLimits(), flush, summarise, clock
        self._cached: OrderedDict[tuple[str, str | None], _Cached] = OrderedDict()
        self._lock = Lock()

    def missing(self) -> str:
        return "recording" if self._flush is None else ""

    def after(self, exchange: Exchange) -> Exchange:
        return exchange

    def before(self, exchange: Exchange) -> Exchange:
        key = (exchange.agent_id, exchange.session_id)
        with self._lock:
            known = self._cached.get(key)
        if known is not None and known.summarised > _talk(exchange.chat):  # another conversation under the same name
            known = None
        short = exchange.chat if known is None else _with_summary(exchange.chat, known)
        if check(short, self._limits).urgency == "none" or (known is not None and self._is_fresh(known, len(exchange.chat))):
            return replace(exchange, chat=tuple(short))
        if self._flush is not None:
            self._flush(exchange)
        left = exchange.chat if known is None else _without(exchange.chat, known.summarised)
        done = compact(left, self._limits, "" if known is None else known.summary, force=True, summarise=self._summarise)
        before = 0 if known is None else known.summarised
        with self._lock:
            self._cached[key] = _Cached(done.summary, before + done.summarised, len(exchange.chat), self._clock())
            self._cached.move_to_end(key)
            while len(self._cached) > SESSIONS:
                self._cached.popitem(last=False)
        return replace(exchange, chat=tuple(done.messages))

    def _is_fresh(self, known: _Cached, messages: int) -> bool:
        waited = self._clock() - known.at >= self._limits.cooldown_seconds
        return not (waited and messages - known.seen >= self._limits.min_new_messages)


def _talk(messages: tuple[ChatMessage, ...]) -> int:
    return sum(message.role != "system" for message in messages)


def _without(messages: tuple[ChatMessage, ...], count: int) -> tuple[ChatMessage, ...]:
    """Without the first messages that are no system prompts."""
    left = []
    for message in messages:
        if message.role != "system" and count > 0:
            count -= 1
        else:
            left.append(message)
    return tuple(left)


def _with_summary(messages: tuple[ChatMessage, ...], known: _Cached) -> tuple[ChatMessage, ...]:
    left = _without(messages, known.summarised)
    system = tuple(message for message in left if message.role == "system")
    return (*system, summary_message(known.summary), *(message for message in left if message.role != "system"))
