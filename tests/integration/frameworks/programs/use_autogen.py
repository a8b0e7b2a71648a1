"""What AutoGen's agents do with a memory: add, query, update a context, clear."""

import asyncio

from autogen_core.memory import MemoryContent, MemoryMimeType
from autogen_core.model_context import BufferedChatCompletionContext
from autogen_core.models import UserMessage

from jiyi import AsyncClient
from jiyi.integrations.autogen import JiyiMemory


async def main() -> None:
    async with AsyncClient() as client:
        memory = JiyiMemory(client, "autogen-companion", user_id="mia")
        await client.observe(
            "autogen-companion", "The kiln is fired on Fridays", wait=True
        )  # of the agent itself
        await memory.add(
            MemoryContent(
                content="Mia is allergic to peanuts",
                mime_type=MemoryMimeType.TEXT,
                metadata={"source": "form"},
            )
        )
        await memory.add(MemoryContent(content={"likes": "乌龙茶"}, mime_type=MemoryMimeType.JSON))
        try:
            await memory.add(MemoryContent(content=b"\x00", mime_type=MemoryMimeType.BINARY))
        except ValueError as error:
            assert "must be a text or JSON" in str(error)
        else:
            raise AssertionError("bytes were taken")
        for _ in range(150):
            found = await memory.query("What must Mia not eat?")
            if any("peanuts" in str(one.content) for one in found.results):
                break
            await asyncio.sleep(0.2)
        best = found.results[0]
        assert best.content == "Mia is allergic to peanuts", found
        assert best.metadata is not None
        assert {"id", "score", "timestamp"} <= best.metadata.keys()
        assert (await memory.query(" ")).results == []
        context = BufferedChatCompletionContext(buffer_size=10)
        assert (await memory.update_context(context)).memories.results == []
        await context.add_message(UserMessage(content="What must I not eat?", source="user"))
        updated = await memory.update_context(context)
        assert "peanuts" in str(updated.memories.results[0].content)
        assert "peanuts" in str((await context.get_messages())[-1].content)
        assert "peanuts" not in str(
            await JiyiMemory(client, "autogen-companion", user_id="leo").query("peanuts")
        )
        await memory.clear()
        for _ in range(150):
            found = await memory.query("What must Mia not eat?")
            if not any("peanuts" in str(one.content) for one in found.results):
                break
            await asyncio.sleep(0.2)
        assert not any("peanuts" in str(one.content) for one in found.results)
        assert "The kiln is fired on Fridays" in [
            row.description async for row in client.list("autogen-companion")
        ]
        await memory.close()


asyncio.run(main())
