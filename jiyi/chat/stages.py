"""The stages of the loop: memory and the guard against loops. Compaction stands in its own module."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Protocol

from jiyi.chat.chain import Exchange
from jiyi.chat.recording import Recorder
from jiyi.client.outbox import Outbox
from jiyi.protocol.conversations.injection import BUDGET, Format, InjectedContext

#: Shorter inputs say nothing that could be looked for.
LEAST_INPUT_CHARS = 2
#: Latest messages that the guard looks at.
GUARDED = 12


class Injecting(Protocol):
    """Whoever puts memories into prompts; ``client.conversations`` is one."""

    def inject(
        self,
        agent_id: str,
        user_input: str,
        *,
        base_prompt: str,
        session_id: str | None,
        max_tokens: int,
        format: Format,  # noqa: A002 – the field's name
        template: str | None,
        timeout: float | None,
    ) -> InjectedContext: ...


class MemoryStage:
    """Puts what is remembered into the prompt, and records what was said (priority 150)."""

    name, priority = "memory", 150

    def __init__(
        self, injecting: Injecting | None, outbox: Outbox | None, group_id: str, *, form: Format = "markdown", template: str | None = None
    ) -> None:
        self._injecting, self._outbox, self._group_id = injecting, outbox, group_id
        self._form, self._template = form, template
        self._recorder = Recorder()
        #: What was injected last, for who wants to show it.
        self.injected: InjectedContext | None = None

    def missing(self) -> str:
        lacks = [what for what, there in (("retrieval", self._injecting), ("recording", self._outbox)) if there is None]
        return " and ".join(lacks)

    def before(self, exchange: Exchange) -> Exchange:
        self.injected = None
        most = BUDGET if exchange.room is None else exchange.room
        if self._injecting is None or most < 1 or len(exchange.user_input.strip()) < LEAST_INPUT_CHARS:
            return exchange
        found = self._injecting.inject(
            exchange.agent_id,
            exchange.user_input,
            base_prompt=exchange.system_prompt,
            session_id=exchange.session_id,
            max_tokens=most,
            format=self._form,
            template=self._template,
            timeout=max(exchange.left, 0.01),
        )
        self.injected = found
        return exchange.prompted(found.prompt, found.context) if found.context else exchange

    def after(self, exchange: Exchange) -> Exchange:
        if self._outbox is None or exchange.session_id is None:
            return exchange
        for event in self._recorder.events(self._group_id, exchange.agent_id, exchange.session_id, exchange.messages):
            self._outbox.put(event)
        return exchange


class GuardStage:
    """Keeps an assistant that runs in circles from filling memory (priority 500): what it says then is not recorded."""

    name, priority = "loop_guard", 500

    def missing(self) -> str:
        return ""

    def before(self, exchange: Exchange) -> Exchange:
        return exchange

    def after(self, exchange: Exchange) -> Exchange:
        from jiyi.chat.guards import Step, sign_of_runaway  # late: stemmers are loaded with it

        now = datetime.now(UTC)
        said = [message for message in exchange.messages if message.role == "assistant"][-GUARDED:]
        sign = sign_of_runaway([Step(message.text, message.at or now) for message in said])
        # At what rate a whole conversation is passed on says nothing.
        if sign is None or sign == "token_rate":
            return exchange
        return replace(exchange, messages=tuple(one for one in exchange.messages if one is not said[-1]))
