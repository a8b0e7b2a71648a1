"""Stages around each answer of a chat program, in the order of their priorities; after it the other way
round.

So what a later stage (100 compaction, 150 memory, 500 loop guard) drops an earlier one never records.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from queue import Empty, SimpleQueue
from threading import BoundedSemaphore, Thread
from typing import Protocol, TypeVar

from jiyi.protocol.conversations import ChatMessage, Message
from jiyi.protocol.recall import InjectedContext
from jiyi.text.budget import cut_to_tokens, estimate_tokens

log = logging.getLogger(__name__)

T = TypeVar("T")

#: Calls that may hang at the same time; more are not begun.
MOST_HANGING = 8


@dataclass(frozen=True, slots=True)
class Exchange:
    """One answer to be made, or made: what the model gets, and what was said."""

    agent_id: str
    system_prompt: str = ""
    user_input: str = ""
    session_id: str | None = None
    #: With whom the agent talks, if it has several users.
    user_id: str | None = None
    #: What was said, for memory.
    messages: tuple[Message, ...] = ()
    #: The messages as the model gets them, with calls of tools and their results.
    chat: tuple[ChatMessage, ...] = ()
    #: What is put before the user's message instead of into the system prompt; None: the prompt is one text.
    recalled: str | None = None
    #: What was recalled for the user's earlier messages, by their numbers.
    earlier: Mapping[int, str] = field(default_factory=dict)
    #: What memory has put into the prompt.
    injected: InjectedContext | None = None
    #: The conversation was compacted just now.
    compacted: bool = False
    #: What a stage has to say to the user of what was asked for; the prompt says it, too.
    reply: str | None = None
    #: Tokens that may still be put into the prompt; None: no bound.
    room: int | None = None
    #: Until when the stages have to be done, as ``time.monotonic`` counts.
    deadline: float = field(default_factory=lambda: time.monotonic() + 1.0)

    @property
    def seconds_left(self) -> float:
        """Seconds left."""
        return max(0.0, self.deadline - time.monotonic())

    def fits(self, text: str) -> bool:
        """Whether a text may be put into the prompt."""
        return self.room is None or estimate_tokens(text) <= self.room

    def with_paragraph(self, text: str) -> Exchange:
        """With a paragraph at the end of the prompt, or before the user's message, cut to the room."""
        fitting = text if self.room is None else cut_to_tokens(text, self.room)
        if not fitting:
            return self
        if self.recalled is None:
            return self.prompted(f"{self.system_prompt}\n\n{fitting}".strip(), fitting)
        return replace(
            self.prompted(self.system_prompt, fitting), recalled=f"{self.recalled}\n\n{fitting}".strip()
        )

    def prompted(self, system_prompt: str, added: str) -> Exchange:
        """With a prompt to which a text was added, which takes room."""
        room = None if self.room is None else max(self.room - estimate_tokens(added), 0)
        return replace(self, system_prompt=system_prompt, room=room)


class Stage(Protocol):
    """One stage. What it raises is logged, and the exchange goes on as it was."""

    @property
    def name(self) -> str: ...

    @property
    def priority(self) -> int: ...

    def missing(self) -> str:
        """What it is not connected to; empty if it is ready."""
        return ""

    def before(self, exchange: Exchange) -> Exchange:
        """The exchange as the model is to see it."""
        return exchange

    def after(self, exchange: Exchange) -> Exchange:
        """The exchange as the stages before this one are to see it."""
        return exchange


class Chain:
    """Stages in the order of their priorities."""

    def __init__(self, stages: Iterable[Stage]) -> None:
        self.stages = sorted(stages, key=lambda stage: stage.priority)
        self._hanging = BoundedSemaphore(MOST_HANGING)

    def readiness(self) -> dict[str, str]:
        """Each stage with what it is not connected to; empty texts for those that are ready."""
        return {stage.name: stage.missing() for stage in self.stages}

    def before(self, exchange: Exchange) -> Exchange:
        """Run the stages in order. Never raises, nor waits past the deadline: a failed stage is left out."""
        for stage in self.stages:
            exchange = self._run(stage.name, stage.before, exchange)
        return exchange

    def after(self, exchange: Exchange) -> Exchange:
        """Run the stages in the other order. Never raises, nor waits past the deadline."""
        for stage in reversed(self.stages):
            exchange = self._run(stage.name, stage.after, exchange)
        return exchange

    def _run(self, name: str, step: Callable[[Exchange], Exchange], exchange: Exchange) -> Exchange:
        if not self._hanging.acquire(blocking=False):
            log.warning("stage %s skipped: %d calls are already hanging", name, MOST_HANGING)
            return exchange
        outcome: SimpleQueue[Exchange | Exception] = SimpleQueue()

        def run() -> None:
            try:
                outcome.put(step(exchange))
            except Exception as error:  # noqa: BLE001 – whatever it is, the chat goes on
                outcome.put(error)
            finally:
                self._hanging.release()

        Thread(target=run, name=f"jiyi-{name}", daemon=True).start()
        try:
            result = outcome.get(timeout=exchange.seconds_left)
        except Empty:
            log.warning("stage %s timed out and was skipped", name)
            return exchange
        if isinstance(result, Exception):
            log.warning("stage %s failed and was skipped: %s", name, result)
            return exchange
        return replace(result, deadline=exchange.deadline)
