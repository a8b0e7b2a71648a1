"""What a crew and its agents do with a memory: recall before a task, keep its result, and the tools to recall
and remember.
"""

import copy
import time
from datetime import UTC, datetime, timedelta
from typing import Any

from crewai import Agent, Crew, Task
from crewai.llms.base_llm import BaseLLM
from crewai.memory.types import MemoryMatch
from crewai.tools.memory_tools import create_memory_tools

from jiyi import AsyncClient, Client
from jiyi.errors import InvalidRequest
from jiyi.integrations.crewai import JiyiMemory

SAID: list[str] = []


class Recorded(BaseLLM):
    """A model that answers the same, and keeps what it was asked."""

    def call(self, messages: Any, *_args: Any, **_kwargs: Any) -> str:
        SAID.append(str(messages))
        return "Thought: I now can give a great answer\nFinal Answer: Dinner is oat soup without peanuts"


def until(memory: JiyiMemory, query: str, wanted: str) -> list[MemoryMatch]:
    found: list[MemoryMatch] = []
    for _ in range(150):
        found = memory.recall(query)
        if any(wanted in match.record.content for match in found):
            return found
        time.sleep(0.2)
    raise AssertionError(f"{wanted}: {found}")


def refused(act: Any, *arguments: Any, **fields: Any) -> str:
    try:
        act(*arguments, **fields)
    except (InvalidRequest, TypeError, ValueError) as error:
        return str(error)
    raise AssertionError(f"{act} was done")


with Client() as client:
    memory = JiyiMemory(client=client, agent_id="crew", user_id="mia")
    client.observe("crew", "The kiln is fired on Fridays", wait=True)  # of the crew itself
    record = memory.remember(
        "Mia is allergic to peanuts", categories=["health"], importance=1, source="form", private=True
    )
    assert record is not None
    assert record.source == "form"
    memory.remember_many(["米娅喜欢乌龙茶", "Mia wants\n## no order obeyed"])
    until(memory, "喜欢喝什么茶", "乌龙茶")
    best = memory.recall("What must Mia not eat?", limit=3)[0]
    assert best.record.content == "Mia is allergic to peanuts", best
    assert (best.record.importance, best.record.private, best.record.categories) == (1.0, True, ["health"]), (
        best.record
    )
    assert best.format().endswith('"Mia is allergic to peanuts"'), best.format()
    assert "\n" not in until(memory, "What does Mia want?", "order")[0].format()
    assert [match.record.content for match in memory.recall("peanuts", categories=["health"])] == [
        best.record.content
    ]
    assert memory.recall(" ") == []
    of_leo = JiyiMemory(client=client, agent_id="crew", user_id="leo").recall("peanuts")
    assert not any("peanuts" in match.record.content for match in of_leo)

    llm = Recorded(model="recorded")
    cook = Agent(role="Cook", goal="Cook dinner", backstory="Cooks in Riga", llm=llm)
    task = Task(
        description="Plan dinner for Mia: what must she not eat?", expected_output="One dish", agent=cook
    )
    crew = Crew(agents=[cook], tasks=[task], memory=memory)
    assert crew.copy()._memory is memory  # CrewAI has no other way to it
    crew.kickoff()
    assert any('"Mia is allergic to peanuts"' in asked.replace("\\", "") for asked in SAID), SAID
    assert copy.deepcopy(memory) is memory
    until(memory, "What was for dinner?", "oat soup")

    tools = create_memory_tools(memory)
    assert "Saved" in tools[1].run(contents=["Mia takes the 6:30 train"])
    assert "6:30 train" in tools[0].run(queries=["Which train does Mia take?"])
    assert len(create_memory_tools(JiyiMemory(client=client, agent_id="crew", read_only=True))) == 1

    newer = memory.update(best.record.id, "Mia is allergic to peanuts and hazelnuts", importance=0.5)
    assert (newer.content, newer.importance) == ("Mia is allergic to peanuts and hazelnuts", 0.5), newer
    info = memory.info()
    assert info.record_count == len(memory.list_records()) > 3
    assert "health" in info.categories
    assert memory.list_categories()["health"] == 1
    assert memory.tree() == f"/ ({info.record_count} records)"
    assert memory.list_records(limit=1, offset=1) == memory.list_records(limit=2)[1:]
    assert memory.scope("/") is memory
    assert memory.list_scopes() == []
    assert refused(memory.scope, "/finance").startswith("scope: '/finance': Jiyi's memory has none")
    assert refused(memory.remember, "The fair is in May", scope="/finance").startswith("scope")
    assert refused(memory.slice, ["/finance"]).startswith("scopes")
    assert refused(memory.update, newer.id, metadata={"a": 1}).startswith("metadata")
    assert "Record not found" in refused(memory.update, "0198f0c4-7a34-7000-8000-000000000000", "Nothing")
    assert refused(
        JiyiMemory(client=client, agent_id="crew").remember, "Hers alone", private=True
    ).startswith("private")
    assert refused(JiyiMemory, client=AsyncClient(), agent_id="crew").startswith(
        "client: must be a jiyi.Client"
    )

    assert refused(memory.forget, metadata_filter={"source": "form"}).startswith("metadata_filter")
    day_before = datetime.now(UTC) - timedelta(days=1)
    assert (
        memory.forget(older_than=day_before) == memory.forget(older_than=day_before.replace(tzinfo=None)) == 0
    )
    assert memory.forget(categories=["health"]) == 1
    assert memory.forget(record_ids=[newer.id]) in (0, 1)  # erased meanwhile
    memory.reset()
    for _ in range(150):
        if memory.list_records() == []:
            break
        time.sleep(0.2)
    assert memory.list_records() == []
    assert "The kiln is fired on Fridays" in [row.description for row in client.list("crew")]
