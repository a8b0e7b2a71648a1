"""Conversations that get too long: older messages become a summary, the latest stay as they are."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from threading import Lock, Thread
from typing import Literal

from jiyi.chat.chain import Exchange, Stage
from jiyi.chat.recent import Recent
from jiyi.protocol.conversations import (
    ChatMessage,
    Compacted,
    CompactionLimits,
    CompactMessages,
    Threshold,
    Urgency,
)
from jiyi.text.budget import cut_to_tokens, estimate_tokens
from jiyi.text.prompt import MAX_BUDGET, Line, PromptStyle, Section, compose
from jiyi.text.prompting import quoted
from jiyi.text.splitting import sentences
from jiyi.text.words import language_of

log = logging.getLogger(__name__)

#: Tool outputs longer than this are cut, and to how many characters.
LONG_OUTPUT_CHARS, CUT_OUTPUT_CHARS = 2_000, 500
#: Tokens of a message beside its text.
MESSAGE_TOKENS = 4
#: Marks what an earlier summary said.
PREVIOUS = "[上轮摘要保留]"
SUMMARY = {"en": "Summary of the conversation so far:", "zh": "此前对话的摘要："}
#: Tokens of one message's share of a summary by rules.
MESSAGE_SHARE = 60

#: Makes a summary of messages, given the previous one, of at most so many tokens.
Summarise = Callable[[Sequence[ChatMessage], str, int], str]
Mode = Literal["none", "rules", "llm"]


def message_tokens(message: ChatMessage) -> int:
    """About how many tokens a message is."""
    calls = "" if message.tool_calls is None else str(message.tool_calls)
    return estimate_tokens(message.content or "") + estimate_tokens(calls) + MESSAGE_TOKENS


def conversation_tokens(messages: Sequence[ChatMessage]) -> int:
    return sum(map(message_tokens, messages))


def check(messages: Sequence[ChatMessage], limits: CompactionLimits) -> Threshold:
    """Whether the conversation is past its soft or its hard limit."""
    tokens = conversation_tokens(messages)
    urgency: Urgency = (
        "hard" if tokens > limits.hard_tokens else "soft" if tokens > limits.soft_tokens else "none"
    )
    return Threshold(tokens=tokens, urgency=urgency)


def compact(
    messages: Sequence[ChatMessage],
    limits: CompactionLimits,
    previous: str = "",
    *,
    force: bool = False,
    summarise: Summarise | None = None,
) -> Compacted:
    """The conversation as short as it has to be; as it was while it is not too long.

    System prompts stay. Long outputs of tools are cut; older messages become a summary, by ``summarise`` or
    by rules; past the hard limit fewer of the latest stay. A tool's call and its result are never parted.
    """
    urgency = check(messages, limits).urgency

    def result(remaining: list[ChatMessage], summary: str, mode: Mode, summarised: int = 0) -> Compacted:
        return Compacted(
            messages=remaining,
            summary=summary,
            tokens_before=conversation_tokens(messages),
            tokens_after=conversation_tokens(remaining),
            mode=mode,
            summarised=summarised,
        )

    if urgency == "none" and not force:
        return result(list(messages), previous, "none")
    system = [message for message in messages if message.role == "system"]
    talk = [_shortened(message) for message in messages if message.role != "system"]
    room = limits.hard_tokens - limits.reserve_tokens
    latest, old = _parted(talk, limits.keep_recent)
    room -= limits.summary_max_tokens
    while urgency == "hard" and len(latest) > 1 and conversation_tokens([*system, *latest]) > room:
        fewer, older = _parted(latest, max(1, len(latest) // 2))
        if not older:
            break
        old, latest = [*old, *older], fewer
    if not old:
        return result([*system, *latest], previous, "none")
    summary = (summarise or by_rules)(old, previous, limits.summary_max_tokens)
    mode: Mode = "rules" if summarise is None else "llm"
    return result([*system, summary_message(summary), *latest], summary, mode, len(old))


def summary_message(summary: str) -> ChatMessage:
    """The system message for what was left out: what people said is quoted in it, line by line."""
    language = language_of(summary)
    section = Section("", [Line(line) for line in summary.splitlines()])
    prompt = compose([section], MAX_BUDGET, PromptStyle(language, first=SUMMARY[language]))
    return ChatMessage(role="system", content=prompt.text or SUMMARY[language])


def by_rules(messages: Sequence[ChatMessage], previous: str, most: int) -> str:
    """The beginning of what each said, within ``most`` tokens, after the previous summary (at most half)."""
    lines = []
    room = most
    if previous:
        beginning = cut_to_tokens(previous.replace(PREVIOUS, "").strip(), most // 2)
        lines.append(f"{PREVIOUS}\n{beginning}")
        room -= estimate_tokens(lines[0])
    message_lines = [line for message in messages if (line := _line(message))]
    share = max(12, min(MESSAGE_SHARE, room // max(1, len(message_lines))))
    newest_first: list[str] = []
    for line in reversed(message_lines):
        short = cut_to_tokens(line, share)
        tokens = estimate_tokens(quoted(short))
        if tokens > room:
            break
        room -= tokens
        newest_first.append(short)
    return "\n".join([*lines, *reversed(newest_first)])


def _line(message: ChatMessage) -> str:
    text = " ".join(sentences(message.content or "")[:2])
    return " ".join(f"{message.role}: {text}".split()) if text.strip() else ""


def _shortened(message: ChatMessage) -> ChatMessage:
    text = message.content or ""
    if message.role != "tool" or len(text) <= LONG_OUTPUT_CHARS:
        return message
    return message.model_copy(update={"content": f"{text[:CUT_OUTPUT_CHARS]}…"})


def _parted(talk: Sequence[ChatMessage], keep: int) -> tuple[list[ChatMessage], list[ChatMessage]]:
    """The latest messages and the older ones; results stay with the call that they answer."""
    start = max(0, len(talk) - keep)
    while 0 < start < len(talk) and (talk[start].role == "tool" or talk[start].tool_call_id is not None):
        start -= 1
    return list(talk[start:]), list(talk[:start])


#: Sessions whose summaries are kept.
SESSIONS = 1_000


@dataclass(frozen=True, slots=True)
class _Cached:
    """What the last compaction of a session came to: ``summary`` stands for so many of its messages."""

    summary: str
    summarised: int
    message_count: int
    at: float


class CompactionStage(Stage):
    """Shortens conversations past the limits; what was said is recorded first. Thread-safe.

    Between two compactions of a session lie ``cooldown_seconds`` and ``min_new_messages``; meanwhile its
    summary stands for the messages that it was made of.

    Args:
        limits: when, and how much stays.
        flush: called before messages are left out: records what was said.
        ask: has the service's LLM make a better summary, in the background.
        clock: monotonic seconds.
    """

    name, priority = "compaction", 100

    def __init__(
        self,
        limits: CompactionLimits | None = None,
        *,
        flush: Callable[[Exchange], object],
        ask: Callable[[CompactMessages], Compacted] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limits, self._flush, self._ask, self._clock = limits or CompactionLimits(), flush, ask, clock
        self._cached: Recent[tuple[str, str | None], _Cached] = Recent(SESSIONS)
        self._lock = Lock()

    def before(self, exchange: Exchange) -> Exchange:
        key = (exchange.agent_id, exchange.session_id)
        with self._lock:
            last = self._cached.get(key)
        if last is not None and last.summarised > _talk(exchange.chat):
            last = None  # another conversation under the same name
        short = exchange.chat if last is None else _with_summary(exchange.chat, last)
        is_fresh = last is not None and self._is_fresh(last, len(exchange.chat))
        if is_fresh or check(short, self._limits).urgency == "none":
            return replace(exchange, chat=tuple(short))
        self._flush(exchange)
        remaining = exchange.chat if last is None else _without(exchange.chat, last.summarised)
        previous = "" if last is None else last.summary
        result = compact(remaining, self._limits, previous, force=True)
        before = 0 if last is None else last.summarised
        cached = _Cached(result.summary, before + result.summarised, len(exchange.chat), self._clock())
        with self._lock:
            self._cached[key] = cached
        if self._ask is not None and result.summarised:
            request = CompactMessages(
                messages=list(remaining), limits=self._limits, previous_summary=previous, force=True
            )
            asking = (self._ask, request, key, cached)
            Thread(target=self._improve, args=asking, name="jiyi-summary", daemon=True).start()
        return replace(exchange, chat=tuple(result.messages), compacted=True)

    def _improve(
        self,
        ask: Callable[[CompactMessages], Compacted],
        request: CompactMessages,
        key: tuple[str, str | None],
        cached: _Cached,
    ) -> None:
        try:
            better = ask(request)
        except Exception as error:  # noqa: BLE001 – the summary by rules stays
            log.info("the summary by rules stays: %s", error)
            return
        with self._lock:
            if better.mode == "llm" and self._cached.get(key) is cached:
                self._cached[key] = replace(cached, summary=better.summary)

    def _is_fresh(self, last: _Cached, messages: int) -> bool:
        waited = self._clock() - last.at >= self._limits.cooldown_seconds
        return not (waited and messages - last.message_count >= self._limits.min_new_messages)


def _talk(messages: tuple[ChatMessage, ...]) -> int:
    return sum(message.role != "system" for message in messages)


def _without(messages: tuple[ChatMessage, ...], count: int) -> tuple[ChatMessage, ...]:
    """Without the first messages that are no system prompts."""
    remaining = []
    for message in messages:
        if message.role != "system" and count > 0:
            count -= 1
        else:
            remaining.append(message)
    return tuple(remaining)


def _with_summary(messages: tuple[ChatMessage, ...], last: _Cached) -> tuple[ChatMessage, ...]:
    remaining = _without(messages, last.summarised)
    system = [message for message in remaining if message.role == "system"]
    talk = [message for message in remaining if message.role != "system"]
    return (*system, summary_message(last.summary), *talk)
