"""Pydantic AI on Jiyi: a capability that recalls, records, and has tools (``docs/integrations.md``)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic_ai import AgentRunResult, RunContext
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import ModelRequest, UserPromptPart
from pydantic_ai.models import ModelRequestContext
from pydantic_ai.tools import AgentDepsT
from pydantic_ai.toolsets import FunctionToolset

from jiyi.client.client import AsyncClient
from jiyi.integrations.turns import AgentMemory, words_of
from jiyi.protocol.base import Role
from jiyi.protocol.conversations import BUDGET


@dataclass
class JiyiMemory(AbstractCapability[AgentDepsT]):
    """``Agent(model, capabilities=[JiyiMemory(client, "companion", user_id="mia")])``.

    What is recalled for the user's prompt stands before it in the request, and not in the message history.
    The conversation's id is the session. Arguments are those of
    :class:`jiyi.integrations.turns.AgentMemory`, and:

    Args:
        recall: whether something is recalled for each prompt.
        record: whether prompts and answers are recorded.
        tools: whether the model may recall and remember on its own.
    """

    client: AsyncClient
    agent_id: str
    user_id: str | None = None
    max_tokens: int = BUDGET
    recall: bool = True
    record: bool = True
    tools: bool = False

    def __post_init__(self) -> None:
        self._memory = AgentMemory(self.client, self.agent_id, self.user_id, self.max_tokens)
        self._recalled: tuple[str | None, str] = (None, "")

    async def for_run(self, ctx: RunContext[AgentDepsT]) -> JiyiMemory[AgentDepsT]:
        """One of each run's own, which keeps what was recalled for its prompt."""
        return replace(self)

    def get_toolset(self) -> FunctionToolset[AgentDepsT] | None:
        return FunctionToolset(self._memory.tools()) if self.tools else None

    async def before_model_request(
        self, ctx: RunContext[AgentDepsT], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        prompt = words_of(ctx.prompt)
        if not self.recall or not prompt.strip():
            return request_context
        if self._recalled[0] != prompt:
            self._recalled = (prompt, await self._memory.recall(prompt))
        if recalled := self._recalled[1]:
            request_context.messages = _before_the_prompt(request_context.messages, recalled)
        return request_context

    async def after_run(
        self, ctx: RunContext[AgentDepsT], *, result: AgentRunResult[Any]
    ) -> AgentRunResult[Any]:
        if self.record:
            answer = result.output if isinstance(result.output, str) else result.response.text or ""
            turns: list[tuple[Role, str]] = [("user", words_of(ctx.prompt)), ("assistant", answer)]
            await self._memory.record(ctx.conversation_id or str(ctx.run_id), turns)
        return result

    @classmethod
    def get_serialization_name(cls) -> str | None:
        return None  # a client is nothing that a specification could hold


def _before_the_prompt(messages: Sequence[Any], recalled: str) -> list[Any]:
    """The messages with what was recalled before the latest prompt of the user."""
    changed = list(messages)
    for place, message in reversed(list(enumerate(messages))):
        prompts = [at for at, part in enumerate(message.parts) if isinstance(part, UserPromptPart)]
        if isinstance(message, ModelRequest) and prompts:
            parts = list(message.parts)
            parts.insert(prompts[0], UserPromptPart(recalled))
            changed[place] = replace(message, parts=parts)
            break
    return changed
