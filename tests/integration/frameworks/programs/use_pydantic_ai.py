"""Two conversations with an agent of Pydantic AI, whose model is a function."""

import asyncio
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from jiyi import AsyncClient
from jiyi.integrations.pydantic_ai import JiyiMemory

NAME = "pydantic-companion"
SEEN: list[list[ModelMessage]] = []


def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    SEEN.append(messages)
    if info.function_tools and not any(
        isinstance(part, ToolReturnPart) for message in messages for part in message.parts
    ):
        return ModelResponse(parts=[ToolCallPart("memory_remember", {"statement": "Mia plays the cello"})])
    return ModelResponse(parts=[TextPart("Noted.")])


async def main() -> None:
    async with AsyncClient() as client:
        await client.observe(NAME, "Mia is allergic to peanuts", user_id="mia", wait=True)
        agent: Agent[None, str] = Agent(
            FunctionModel(answer), capabilities=[JiyiMemory(client, NAME, user_id="mia")]
        )
        result = await agent.run("What must Mia not eat?", conversation_id="monday")
        assert result.output == "Noted."
        assert "peanuts" in str(SEEN[-1]), SEEN
        assert "peanuts" not in str(result.all_messages())
        # In a longer conversation it stands before the latest prompt, and the earlier messages are as they
        # were.
        again = await agent.run("Is Mia allergic?", message_history=result.all_messages())
        assert str(SEEN[-1]).count("allergic to peanuts") == 1
        assert "allergic to peanuts" in str(SEEN[-1][-1])
        turns: list[Any] = [
            row async for row in client.list(NAME, user_id="mia", kinds=["session"], types=["chat", "event"])
        ]
        assert sorted(row.description for row in turns) == [
            "Is Mia allergic?",
            "Noted.",
            "Noted.",
            "What must Mia not eat?",
        ], turns
        assert {row.session_id for row in turns} == {"monday"}
        assert len(again.all_messages()) == 4

        stranger: Agent[None, str] = Agent(
            FunctionModel(answer), capabilities=[JiyiMemory(client, NAME, user_id="leo", record=False)]
        )
        await stranger.run("What must Mia not eat?")
        assert "peanuts" not in str(SEEN[-1])
        quiet = JiyiMemory[None](client, NAME, user_id="mia", recall=False, record=False, tools=True)
        assert (
            await Agent(FunctionModel(answer), capabilities=[quiet]).run("Remember it")
        ).output == "Noted."
        assert "peanuts" not in str(SEEN[-1])
        for _ in range(150):
            if "cello" in (await client.context(NAME, "What does Mia play?", user_id="mia")).text:
                return
            await asyncio.sleep(0.2)
        raise AssertionError("what the tool remembered is not recalled")


asyncio.run(main())
