"""The loop of a chat program: one call before its model and one after, and its agent remembers its people.

    with Client() as client, ConversationLoop(client) as loop:
        prompt = loop.before_completion("companion", "You are kind.", user_input, session_id="monday")
        answer = ask_the_model(prompt, user_input)
        loop.after_completion("companion", [{"role": "user", "content": user_input}, {"role": "assistant",
        "content": answer}], "monday")

Neither call raises, nor waits longer than a second: then, as when nothing is found, the prompt is as it was.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self

from jiyi.chat import shapes
from jiyi.chat.chain import Chain, Exchange, Stage
from jiyi.chat.compaction import CompactionStage
from jiyi.chat.pipelines import Tool
from jiyi.chat.recording import Recorder, messages_of, with_text
from jiyi.chat.steps import HintStage, ScheduleStage, SkillStage, TrajectoryStage
from jiyi.chat.workflows import LOOKED_AT, WorkflowTools
from jiyi.client.calls import checked
from jiyi.client.outbox import CLOSE_SECONDS, Outbox, OutboxCounts
from jiyi.errors import JiyiError
from jiyi.protocol.appointments import AskedSchedules, AskSchedules
from jiyi.protocol.base import JsonMapping, JsonObject
from jiyi.protocol.conversations import (
    BUDGET,
    ChatMessage,
    Compacted,
    CompactionLimits,
    CompactMessages,
    ContextRequest,
    Format,
    Message,
)
from jiyi.protocol.proposals import SkillProposal
from jiyi.protocol.recall import InjectedContext
from jiyi.protocol.trajectories import StepType
from jiyi.zones import ZoneOf, zone_of_user

if TYPE_CHECKING:
    from jiyi.client.client import Client

log = logging.getLogger(__name__)

#: Longest that a call waits, in seconds; and of that for the hint, which comes first and matters least.
SECONDS, HINT_SECONDS = 1.0, 0.25
#: Longest that the service may take for a summary, which nobody waits for.
SUMMARY_SECONDS = 60.0


class ConversationLoop:
    """What a chat program calls around each answer. Thread-safe, but for :attr:`injected`.

    Args:
        client: how the service is reached.
        max_tokens: most tokens that are put into a prompt, with the hint and an appointment's confirmation.
        format: how they are written; ``template`` for the format of that name.
        seconds: longest that a call waits.
        limits: when a conversation that is passed to :meth:`before` is compacted.
        tz: the users' time zone, or what gives a user's by its id; the agent's unless given.
        growth: whether skills, identity files, recorded steps and appointments belong to it.
        functions: the program's functions by the names of their tools, for workflows (:meth:`tools`).
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
        tz: str | ZoneOf | None = None,
        growth: bool = True,
        functions: Mapping[str, Tool] | None = None,
        stages: Iterable[Stage] = (),
        on_failure: Callable[[str], object] | None = None,
    ) -> None:
        self._outbox = Outbox(client, "a turn", "turns", on_failure=on_failure)
        put = self._outbox.put
        self._memory = MemoryStage(
            self._inject, put, client.group, form=format, template=template, grown=growth, tz=tz
        )
        self._max_tokens, self._seconds = max_tokens, seconds
        self._steps = TrajectoryStage(put if growth else lambda _event: None, client.group)
        self._workflows = WorkflowTools(self._approved, functions or {}, put, client.group)
        self._client, self._cache = client, shapes.CacheShares()
        compaction = CompactionStage(limits, flush=self._flush, ask=self._compacted)
        own: list[Stage] = [compaction, self._memory, GuardStage()]
        if growth:
            own += [HintStage(self._hint), self._steps, ScheduleStage(self._schedule, tz)]
            own.append(SkillStage(self._steps.step))
        self.chain = Chain([*own, *stages])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def counts(self) -> OutboxCounts:
        """What became of the turns."""
        return self._outbox.counts

    @property
    def injected(self) -> InjectedContext | None:
        """What the last call of :meth:`before_completion` put into its prompt."""
        return self._memory.injected

    def readiness(self) -> dict[str, str]:
        """Each stage with what it is not connected to; empty if ready. Asks the service, for a second."""
        missing = self.chain.readiness()
        try:
            self._client.within(self._seconds).agents.list(limit=1)
        except JiyiError as error:
            missing["memory"] = f"the service: {error}"
        return missing

    def before_completion(
        self,
        agent_id: str,
        system_prompt: str,
        user_input: str,
        *,
        session_id: str | None = None,
        user_id: str | None = None,
    ) -> str:
        """The prompt with what is remembered, or as it was if nothing is found in time.

        ``user_id``: with which of several users the agent talks. The private memories of others stay out.
        """
        return self.before(
            agent_id, system_prompt, user_input, session_id=session_id, user_id=user_id
        ).system_prompt

    def before(
        self,
        agent_id: str,
        system_prompt: str,
        user_input: str,
        *,
        session_id: str | None = None,
        user_id: str | None = None,
        messages: Sequence[Mapping[str, Any] | Message] = (),
        split: bool = False,
    ) -> Exchange:
        """The same for programs that pass their messages, too: ``chat`` of what comes back may be shorter.

        With ``split`` the system prompt stays the same through the session, and what is recalled stands
        before the user's message: :mod:`jiyi.chat.shapes` has both in the forms of chat APIs.
        """
        until, recalled = time.monotonic() + self._seconds, "" if split else None
        initial = Exchange(agent_id, system_prompt, user_input, session_id, user_id, recalled=recalled)
        exchange = replace(initial, room=self._max_tokens, deadline=until)
        try:
            dialogue, chat = tuple(messages_of(messages)), tuple(map(_as_chat, messages))
            ready = self.chain.before(replace(exchange, messages=dialogue, chat=chat))
        except Exception:
            log.exception("the prompt was left unchanged")
            return exchange
        if split and session_id is not None:
            self._cache.note((agent_id, session_id, user_id), shapes.openai(ready))
        return ready

    def cache_share(self, agent_id: str, session_id: str, *, user_id: str | None = None) -> float | None:
        """The share of a session's tokens that a prompt cache can keep, from its second split prompt on."""
        return self._cache.share((agent_id, session_id, user_id))

    def after_completion(
        self,
        agent_id: str,
        messages: Iterable[Mapping[str, Any] | Message],
        session_id: str,
        *,
        user_id: str | None = None,
    ) -> None:
        """Record what was said: the new messages, or the whole conversation; what is known once.

        With a ``user_id`` it is visible to that user alone. Each message has a ``role``, a ``content`` (or
        ``text``), and perhaps a ``name`` and ``at``, when it was said.
        """
        try:
            conversation, until = list(messages), time.monotonic() + self._seconds
            exchange = Exchange(agent_id, session_id=session_id, user_id=user_id, deadline=until)
            chat = tuple(map(_as_chat, conversation))
            self.chain.after(replace(exchange, messages=tuple(messages_of(conversation)), chat=chat))
        except Exception as error:
            log.exception("the turn was not stored")
            self._outbox.fail("refused", 1, f"what was said is not remembered: {error}")

    def step(self, agent_id: str, session_id: str, step_type: StepType, **fields: Any) -> None:
        """Record a step that the messages do not show, such as a call of a tool. Never raises, never waits.

        ``fields`` are ``tool``, ``input``, ``output``, ``ok``, ``ms``, ``tokens``; texts are masked and cut.
        """
        try:
            self._steps.step(agent_id, session_id, step_type, **fields)
        except Exception as error:
            log.exception("a step was not recorded")
            self._outbox.fail("refused", 1, f"a step is not recorded: {error}")

    def tools(self, agent_id: str) -> list[JsonObject]:
        """The agent's enabled workflows as functions for a model, if ``functions`` has all their tools."""
        return self._workflows.schemas(agent_id)

    def call(self, agent_id: str, name: str, arguments: str | JsonMapping) -> JsonObject:
        """Run a workflow that the model calls; its success, or failure, counts into its trust.

        Raises:
            InvalidRequest: no such workflow is enabled, or the arguments are wrong: nothing was run.
        """
        return self._workflows.call(agent_id, name, arguments)

    def _flush(self, exchange: Exchange) -> None:
        """Record what was said before it is left out, and have the steps so far compressed."""
        self._memory.after(exchange)
        self._steps.compacted(exchange)

    def _inject(self, request: ContextRequest, seconds: float) -> InjectedContext:
        return self._client.within(seconds).conversations.context(**dict(request))

    def _approved(self, agent_id: str) -> list[SkillProposal]:
        page = self._client.proposals.list(
            kind="pipeline", agent_id=agent_id, status="approved", limit=LOOKED_AT
        )
        return [row for row in page.rows if isinstance(row, SkillProposal)]

    def _hint(self, agent_id: str, user_id: str | None, seconds: float) -> str:
        asking = self._client.within(min(seconds, HINT_SECONDS))
        return asking.evolution.hint(agent_id=agent_id, user_id=user_id).text

    def _schedule(self, request: AskSchedules, seconds: float) -> AskedSchedules:
        return self._client.within(seconds).appointments.ask(**dict(request))

    def _compacted(self, request: CompactMessages) -> Compacted:
        return self._client.within(SUMMARY_SECONDS).conversations.compact(**dict(request))

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
    fields = with_text(message)
    return ChatMessage.model_validate(
        {**message, **{name: fields[name] for name in ("role",) if name in fields}, "content": fields["text"]}
    )


#: Shorter inputs say nothing that could be looked for.
LEAST_INPUT_CHARS = 2
#: Latest messages that the guard looks at.
GUARDED = 12


#: Puts memories into a prompt, within so many seconds.
Injecting = Callable[[ContextRequest, float], InjectedContext]


class MemoryStage(Stage):
    """Puts what is remembered into the prompt, and records what was said (priority 150)."""

    name, priority = "memory", 150

    def __init__(
        self,
        injecting: Injecting,
        put: Callable[[JsonMapping], object],
        group_id: str,
        *,
        form: Format = "markdown",
        template: str | None = None,
        grown: bool = True,
        tz: str | ZoneOf | None = None,
    ) -> None:
        self._zone_of = zone_of_user(tz)
        self._injecting, self._put, self._group_id, self._grown = injecting, put, group_id, grown
        self._form, self._template = form, template
        self._recorder = Recorder()
        #: What was injected last, for display.
        self.injected: InjectedContext | None = None

    def before(self, exchange: Exchange) -> Exchange:
        self.injected = None
        most = BUDGET if exchange.room is None else exchange.room
        split = exchange.recalled is not None
        if most < 1 or (len(exchange.user_input.strip()) < LEAST_INPUT_CHARS and not split):
            return exchange
        request = checked(
            ContextRequest,
            agent_id=exchange.agent_id,
            query=exchange.user_input,
            base_prompt=exchange.system_prompt,
            session_id=exchange.session_id,
            user_id=exchange.user_id,
            max_tokens=most,
            format=self._form,
            template=self._template,
            grown=self._grown,
            split=split,
            turn=shapes.turn_of(exchange) if split else None,
            renew=exchange.compacted,
            tz=self._zone_of(exchange.user_id),
        )
        self.injected = injected = self._injecting(request, max(exchange.seconds_left, 0.01))
        exchange = replace(exchange, injected=injected)
        if not split:
            return exchange.prompted(injected.prompt, injected.context) if injected.context else exchange
        recalled = "\n\n".join(filter(None, [injected.recalled, exchange.recalled]))
        room = None if exchange.room is None else max(exchange.room - injected.tokens, 0)
        earlier = {block.turn: block.text for block in injected.earlier}
        return replace(exchange, system_prompt=injected.stable, recalled=recalled, earlier=earlier, room=room)

    def after(self, exchange: Exchange) -> Exchange:
        if exchange.session_id is None:
            return exchange
        whose, tz = exchange.user_id, self._zone_of(exchange.user_id)
        events = self._recorder.events(
            self._group_id, exchange.agent_id, exchange.session_id, exchange.messages, whose, tz
        )
        for event in events:
            self._put(event)
        return exchange


class GuardStage(Stage):
    """Keeps what an assistant that runs in circles says from being recorded (priority 500)."""

    name, priority = "loop_guard", 500

    def after(self, exchange: Exchange) -> Exchange:
        from jiyi.chat.guards import SessionOutput, sign_of_runaway  # late: stemmers are loaded with it

        now = datetime.now(UTC)
        answers = [message for message in exchange.messages if message.role == "assistant"][-GUARDED:]
        sign = sign_of_runaway([SessionOutput(message.text, message.at or now) for message in answers])
        # At what rate a whole conversation is passed on says nothing.
        if sign is None or sign == "token_rate":
            return exchange
        return replace(
            exchange, messages=tuple(other for other in exchange.messages if other is not answers[-1])
        )
