"""Two sessions with the Agents SDK, whose model is a stand-in."""

import asyncio
from typing import Any

from agents import Agent, Model, ModelResponse, Runner, Session, SQLiteSession, Usage, set_tracing_disabled
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from jiyi import AsyncClient
from jiyi.integrations.openai_agents import JiyiSession, memory_tools

set_tracing_disabled(True)


class StandIn(Model):
    """Calls the tool that it is told to call, then answers with its result."""

    def __init__(self, tool: str = "", arguments: str = "{}") -> None:
        self.tool, self.arguments, self.seen = tool, arguments, []

    async def get_response(self, *args: Any, **kwargs: Any) -> ModelResponse:
        given = list(args[1] if len(args) > 1 else kwargs["input"])
        self.seen = given
        results = [
            item["output"]
            for item in given
            if isinstance(item, dict) and item.get("type") == "function_call_output"
        ]
        if self.tool and not results:
            call = ResponseFunctionToolCall(
                type="function_call", call_id="c1", name=self.tool, arguments=self.arguments
            )
            return ModelResponse(output=[call], usage=Usage(), response_id=None)
        text = ResponseOutputText(
            type="output_text", text=results[-1] if results else "Noted.", annotations=[]
        )
        message = ResponseOutputMessage(
            id="m", type="message", role="assistant", status="completed", content=[text]
        )
        return ModelResponse(output=[message], usage=Usage(), response_id=None)

    def stream_response(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError


ITEMS = [{"role": "user", "content": f"{number} 你好", "extra": [None, {"n": number}]} for number in range(7)]


async def as_the_sdk_s_own(session: Session) -> list[Any]:
    """What a session answers, step by step."""
    answers: list[Any] = [await session.get_items(), await session.pop_item()]
    await session.add_items(ITEMS[:3])
    await session.add_items([])
    await session.add_items(ITEMS[3:])
    answers += [
        await session.get_items(),
        await session.get_items(2),
        await session.get_items(0),
        await session.get_items(99),
    ]
    answers += [await session.pop_item(), await session.get_items(3)]
    await session.clear_session()
    return [*answers, await session.get_items(), await session.pop_item()]


async def main() -> None:
    async with AsyncClient() as client:
        session = JiyiSession("history", client)
        assert isinstance(session, Session)
        assert await as_the_sdk_s_own(session) == await as_the_sdk_s_own(SQLiteSession("history"))
        await session.add_items([{"role": "user", "content": str(number)} for number in range(1_203)])
        assert [item["content"] for item in await session.get_items()] == [
            str(number) for number in range(1_203)
        ]
        assert len(await session.get_items(700)) == 700
        assert await JiyiSession("history", client, user_id="leo").get_items() == []

        talk = JiyiSession("monday", client, agent_id="agents-companion", user_id="mia")
        await Runner.run(Agent("Companion", model=StandIn()), "I am allergic to peanuts.", session=talk)
        model = StandIn()
        await Runner.run(
            Agent("Companion", model=model),
            "What do you know?",
            session=JiyiSession("monday", client, user_id="mia"),
        )
        assert [item["role"] for item in model.seen] == ["user", "assistant", "user"], model.seen
        turns = [
            row
            async for row in client.list(
                "agents-companion", user_id="mia", kinds=["session"], types=["chat", "event"]
            )
        ]
        assert sorted(row.description for row in turns) == ["I am allergic to peanuts.", "Noted."], turns

        tools = memory_tools(client, "agents-companion", user_id="mia")
        remember = StandIn("memory_remember", '{"statement": "Mia plays the cello"}')
        assert (await Runner.run(Agent("A", model=remember, tools=tools), "…")).final_output == "Remembered."
        for _ in range(100):
            recall = StandIn("memory_recall", '{"query": "What does Mia play?"}')
            told = (await Runner.run(Agent("A", model=recall, tools=tools), "…")).final_output
            if "cello" in told:
                break
            await asyncio.sleep(0.2)
        assert "cello" in told, told


asyncio.run(main())
