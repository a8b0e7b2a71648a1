"""Pydantic AI on Jiyi: a capability that recalls before an answer, records after it, and has tools
(``docs/integrations.md``).
"""

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
from jiyi.integrations.turns import Memory
from jiyi.protocol.recall import BUDGET


@dataclass
class JiyiMemory(AbstractCapability[AgentDepsT]):
    """``Agent(model, capabilities=[JiyiMemory(client, "companion", user_id="mia")])``. Raises as the client's
    methods do.

    What is recalled for the user's prompt stands before it in the request, and not in the message history.
    The conversation's id is the session.

    Args:
        client: of the event loop of the run; its key needs ``publish`` and ``read``. It stays the caller's to
        close.
        agent_id: whose memory.
        user_id: the person whom the agent talks with.
        max_tokens: of what is recalled for a prompt.
        recall: whether something is recalled for each prompt.
        record: whether prompts and answers are recorded.
        tools: whether the model may recall and remember by itself.
    """

    client: AsyncClient
    agent_id: str
    user_id: str | None = None
    max_tokens: int = BUDGET
    recall: bool = True
    record: bool = True
    tools: bool = False

    def __post_init__(self) -> None:
        self._memory = Memory(self.client, self.agent_id, self.user_id, self.max_tokens)
        self._recalled: tuple[str | None, str] = (None, "")

    async def for_run(self, ctx: RunContext[AgentDepsT]) -> JiyiMemory[AgentDepsT]:
        """One of each run's own, which keeps what was recalled for its prompt."""
        return replace(self)

    def get_toolset(self) -> FunctionToolset[AgentDepsT] | None:
        if not self.tools:
            return None

        async def memory_recall(query: str) -> str:
            """What is remembered that matters for a question, or for what is going on."""
            return await self._memory.recall(query) or "Nothing is remembered about this."

        async def memory_remember(statement: str) -> str:
            """Remember one statement that will matter in later conversations, in the language of this one."""
            await self._memory.remember(statement)
            return "Remembered."

        return FunctionToolset([memory_recall, memory_remember])

    async def before_model_request(
        self, ctx: RunContext[AgentDepsT], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        prompt = _text(ctx.prompt)
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
            await self._memory.record(
                ctx.conversation_id or str(ctx.run_id), [("user", _text(ctx.prompt)), ("assistant", answer)]
            )
        return result

    @classmethod
    def get_serialization_name(cls) -> str | None:
        return None  # a client is nothing that a specification could hold


def _before_the_prompt(messages: Sequence[Any], recalled: str) -> list[Any]:
    """The messages with what was recalled before the latest prompt of the user."""
    changed = list(messages)
    for place in range(len(changed) - 1, -1, -1):
        message = changed[place]
        if isinstance(message, ModelRequest) and any(
            isinstance(part, UserPromptPart) for part in message.parts
        ):
            at = next(number for number, part in enumerate(message.parts) if isinstance(part, UserPromptPart))
            changed[place] = replace(
                message, parts=[*message.parts[:at], UserPromptPart(recalled), *message.parts[at:]]
            )
            break
    return changed


def _text(prompt: str | Sequence[Any] | None) -> str:
    return (
        prompt
        if isinstance(prompt, str)
        else "\n".join(part for part in prompt or [] if isinstance(part, str))
    )
