"""Two runs of an agent of Microsoft's Agent Framework, whose model is a stand-in."""

import asyncio
from typing import Any

from agent_framework import Agent, BaseChatClient, ChatResponse, Message

from jiyi import AsyncClient
from jiyi.integrations.agent_framework import JiyiContextProvider

NAME = "framework-companion"


class StandIn(BaseChatClient):
    """Answers "Noted." and keeps what it was asked."""

    seen: Any = ()

    def _inner_get_response(self, *, messages: Any, **_: Any) -> Any:
        self.seen = list(messages)

        async def answer() -> ChatResponse:
            return ChatResponse(messages=[Message("assistant", ["Noted."])])

        return answer()


async def main() -> None:
    async with AsyncClient() as client:
        await client.observe(NAME, "Mia is allergic to peanuts", user_id="mia", wait=True)
        model = StandIn()
        agent = Agent(model, context_providers=[JiyiContextProvider(client, NAME, user_id="mia")])
        session = agent.create_session(session_id="monday")
        answer = await agent.run("What must Mia not eat?", session=session)
        assert answer.text == "Noted."
        texts = [message.text for message in model.seen]
        assert any("allergic to peanuts" in text for text in texts), texts
        assert texts[-1] == "What must Mia not eat?"
        turns: list[Any] = [
            row async for row in client.list(NAME, user_id="mia", kinds=["session"], types=["chat", "event"])
        ]
        assert sorted(row.description for row in turns) == ["Noted.", "What must Mia not eat?"], turns
        assert {row.session_id for row in turns} == {"monday"}
        stranger = Agent(model, context_providers=[JiyiContextProvider(client, NAME, user_id="leo")])
        await stranger.run("What must Mia not eat?", session=stranger.create_session())
        assert not any("peanuts" in message.text for message in model.seen)


asyncio.run(main())
