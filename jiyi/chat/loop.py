"""The loop of a chat program: one call before its model and one after, and its agent remembers its people.

    with Client() as client, ConversationLoop(client) as loop:
        prompt = loop.before_completion("companion", "You are kind.", user_input, session_id="monday")
        answer = ask_the_model(prompt, user_input)
        loop.after_completion("companion", [{"role": "user", "content": user_input}, {"role": "assistant", "content": answer}], "monday")

Neither call raises, nor waits longer than a second: then, as when nothing is found, the prompt is as it was.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from jiyi.chat.appointments import ScheduleStage
from jiyi.chat.chain import Chain, Exchange, Stage
from jiyi.chat.compacting import CompactionStage
from jiyi.chat.hint import HintStage
from jiyi.chat.recording import messages_of, with_text
from jiyi.chat.stages import GuardStage, MemoryStage
from jiyi.chat.steps import TrajectoryStage
from jiyi.client.outbox import CLOSE_SECONDS, Counts, Outbox
from jiyi.protocol.conversations.compaction import ChatMessage, CompactionLimits
from jiyi.protocol.conversations.injection import BUDGET, Format, InjectedContext
from jiyi.protocol.conversations.types import Message
from jiyi.protocol.growth.steps import StepType

if TYPE_CHECKING:
    from jiyi.client.client import Client

log = logging.getLogger(__name__)

#: Longest that a call waits, in seconds; and of that for the hint, which comes first and matters least.
SECONDS, HINT_SECONDS = 1.0, 0.25


class ConversationLoop:
    """What a chat program calls around each answer. Thread-safe, but for :attr:`injected`.

    Args:
        client: how the service is reached.
        max_tokens: most tokens that are put into a prompt, with the hint and the confirmation of an appointment.
        format: how they are written; ``template`` for the format of that name.
        seconds: longest that a call waits.
        limits: when a conversation that is passed to :meth:`before` is compacted.
        tz: the users' time zone, for appointments they ask for; the agent's unless given.
        stages: more stages beside those of the loop (:class:`jiyi.chat.chain.Stage`).
        on_failure: called with a sentence for each turn that is refused or lost.
    """

    def __init__(
        self,
        client: Client,
        *,
        max_tokens: int = BUDGET,
        format: Format = "markdown",  # noqa: A002 – the setting's name
        template: str | None = None,
        seconds: float = SECONDS,
        limits: CompactionLimits | None = None,
        tz: str | None = None,
        stages: Iterable[Stage] = (),
        on_failure: Callable[[str], object] | None = None,
    ) -> None:
        self._outbox = Outbox(client, "a turn", "turns", on_failure=on_failure)
        self._memory = MemoryStage(client.conversations, self._outbox, client.group, form=format, template=template)
        self._max_tokens, self._seconds, self._on_failure = max_tokens, seconds, on_failure
        self._steps = TrajectoryStage(self._outbox.put, client.group, retrieved=self._retrieved)
        compaction = CompactionStage(limits, flush=self._flush)
        hint = HintStage(lambda agent_id, left: client.growth.hint(agent_id, timeout=min(left, HINT_SECONDS)).text)
        self.chain = Chain([hint, compaction, self._memory, GuardStage(), self._steps, ScheduleStage(client.growth, tz), *stages])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    @property
    def counts(self) -> Counts:
        """What became of the turns."""
        return self._outbox.counts

    @property
    def injected(self) -> InjectedContext | None:
        """What the last call of :meth:`before_completion` put into its prompt."""
        return self._memory.injected

    def readiness(self) -> dict[str, str]:
        """Each stage with what it is not connected to; empty texts for those that are ready."""
        return self.chain.readiness()

    def before_completion(self, agent_id: str, system_prompt: str, user_input: str, *, session_id: str | None = None) -> str:
        """The prompt with what is remembered; as it was if nothing is, or the service does not answer in time."""
        return self.before(agent_id, system_prompt, user_input, session_id=session_id).system_prompt

    def before(
        self,
        agent_id: str,
        system_prompt: str,
        user_input: str,
        *,
        session_id: str | None = None,
        messages: Sequence[Mapping[str, Any] | Message] = (),
    ) -> Exchange:
        """The same for programs that pass their messages, too: ``chat`` of what comes back may be shorter than they are."""
        until = time.monotonic() + self._seconds
        exchange = Exchange(agent_id, system_prompt, user_input, session_id, room=self._max_tokens, deadline=until)
        try:
            said, chat = tuple(messages_of(messages)), tuple(map(_as_chat, messages))
            return self.chain.before(replace(exchange, messages=said, chat=chat))
        except Exception:
            log.exception("the prompt is left as it was")
            return exchange

    def after_completion(self, agent_id: str, messages: Iterable[Mapping[str, Any] | Message], session_id: str) -> None:
        """Record what was said: the new messages, or the whole conversation so far. What is known already is recorded once.

        Each message has a ``role``, a ``content`` (or ``text``), and perhaps a ``name`` and ``at``, when it was said.
        """
        try:
            told = list(messages)
            said, chat, until = tuple(messages_of(told)), tuple(map(_as_chat, told)), time.monotonic() + self._seconds
            self.chain.after(Exchange(agent_id, session_id=session_id, messages=said, chat=chat, deadline=until))
        except Exception as error:
            log.exception("what was said is not remembered")
            self._outbox.fail("refused", 1, f"what was said is not remembered: {error}")

    def step(self, agent_id: str, session_id: str, step_type: StepType, **fields: Any) -> None:
        """Record a step between a request and its answer that the messages do not show, such as a call of a tool.

        ``fields`` are ``tool``, ``input``, ``output``, ``ok``, ``ms``, ``tokens``. Never raises, never waits; texts are masked and cut.
        """
        try:
            self._steps.step(agent_id, session_id, step_type, **fields)
        except Exception as error:
            log.exception("a step is not recorded")
            self._outbox.fail("refused", 1, f"a step is not recorded: {error}")

    def _flush(self, exchange: Exchange) -> None:
        """Record what was said before it is left out, and have the steps so far compressed."""
        self._memory.after(exchange)
        self._steps.compacted(exchange)

    def _retrieved(self) -> str:
        found = self._memory.injected
        return "" if found is None or not found.context else f"{len(found.memories)} memories, {found.tokens} tokens"

    def flush(self, seconds: float = CLOSE_SECONDS) -> bool:
        """Wait until every turn is published; False if they are not, after so many seconds."""
        return self._outbox.flush(seconds)

    def close(self, seconds: float = CLOSE_SECONDS) -> None:
        """Publish the turns that are still waiting, and end."""
        self._outbox.close(seconds)


def _as_chat(message: Mapping[str, Any] | Message) -> ChatMessage:
    """With all its fields; a content of parts as their texts."""
    if isinstance(message, Message):
        return ChatMessage(role=message.role, content=message.text)
    known = with_text(message)
    return ChatMessage.model_validate({**message, **{name: known[name] for name in ("role",) if name in known}, "content": known["text"]})
