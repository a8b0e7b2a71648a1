"""A memory whose short-term part overflows into Jiyi, and gets back what matters."""

import asyncio

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.memory import Memory

from jiyi import AsyncClient
from jiyi.integrations.llama_index import JiyiMemoryBlock


async def main() -> None:
    async with AsyncClient() as client:
        await client.observe("llama-companion", "Mia is allergic to peanuts", user_id="mia", wait=True)
        block = JiyiMemoryBlock(client=client, agent_id="llama-companion", user_id="mia")
        sizes = {"token_limit": 120, "token_flush_size": 40, "tokenizer_fn": str.split}
        memory = Memory.from_defaults(session_id="monday", memory_blocks=[block], **sizes)
        for number in range(30):
            await memory.aput(
                ChatMessage(role="user", content=f"Message {number} of the user, with some more words in it")
            )
            await memory.aput(
                ChatMessage(
                    role="assistant", content=f"Answer {number} of the agent, with some more words in it"
                )
            )
        await memory.aput(ChatMessage(role="user", content="What must Mia not eat?"))
        prompt = await memory.aget()
        assert "allergic to peanuts" in str(prompt[0].content), prompt[0]
        assert prompt[-1].content == "What must Mia not eat?"
        turns = [
            row
            async for row in client.list(
                "llama-companion", user_id="mia", kinds=["session"], types=["chat", "event"]
            )
        ]
        assert {row.session_id for row in turns} == {"monday"}, turns[:2]
        assert any(row.description == "Message 0 of the user, with some more words in it" for row in turns)
        assert await block.aget([]) == ""
        assert (
            await JiyiMemoryBlock(client=client, agent_id="llama-companion", user_id="leo").aget(prompt[-1:])
            == ""
        )
        long = await block.aget(prompt[-1:])
        assert await block.atruncate(long, 10_000) is None
        assert len(await block.atruncate(long, 5) or "") < len(long)


asyncio.run(main())
