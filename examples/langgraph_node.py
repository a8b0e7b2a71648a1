"""The memory node in LangGraph: two nodes of a graph, one before the agent and one after it.

    pip install langgraph
    python -m examples.langgraph_node

Jiyi does not depend on LangGraph. A graph's node is a function from the state to what of it changes, which is
what
:meth:`jiyi.tiers.retrieval_node.MemoryRetrievalNode.process` nearly is.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, TypedDict
from uuid import uuid4

from examples.service import service
from jiyi import Client
from jiyi.tiers.middleware import MemoryMiddleware
from jiyi.tiers.retrieval_node import MemoryRetrievalNode, MemoryRetriever

#: Seconds that an output gets to become working memory before the graph runs again: a few milliseconds would
#: do.
SETTLE_SECONDS = 1.0


class State(TypedDict, total=False):
    topic: str
    group_id: str
    session_id: str
    history_context: str
    answer: str


def load_history(retriever: MemoryRetriever, **properties: Any) -> Callable[[State], State]:
    """A graph's node that adds ``history_context``."""
    node = MemoryRetrievalNode(properties, retriever=retriever, node_id="load_history")

    def load(state: State) -> State:
        from langgraph.config import get_stream_writer

        # Whoever streams the graph with stream_mode="custom" sees the node's events.
        return {"history_context": node.process(state, get_stream_writer())["history_context"]}

    return load


def remember(memory: MemoryMiddleware, name: str) -> Callable[[State], State]:
    """A graph's node that remembers the answer, and changes nothing."""

    def after(state: State) -> State:
        memory.after_node(
            name, state["answer"], group_id=state["group_id"], session_id=state.get("session_id")
        )
        return {}

    return after


def agent(state: State) -> State:
    """In place of an LLM."""
    known = state["history_context"].count("### ")
    return {
        "answer": (
            f"{state['topic']} With {known} earlier statement(s) in mind: it is the clay, which shrinks too"
            " much."
        )
    }


def build(retriever: MemoryRetriever, memory: MemoryMiddleware) -> Any:
    from langgraph.graph import END, START, StateGraph

    graph: Any = StateGraph(State)  # its types of nodes know no Callable
    graph.add_node("load_history", load_history(retriever, language="en"))
    graph.add_node("agent", agent)
    graph.add_node("remember", remember(memory, "agent"))
    for before, after in (
        (START, "load_history"),
        ("load_history", "agent"),
        ("agent", "remember"),
        ("remember", END),
    ):
        graph.add_edge(before, after)
    return graph.compile()


def main() -> None:
    if find_spec("langgraph") is None:
        sys.exit(
            "This example needs LangGraph: pip install langgraph (examples/plain_python.py needs nothing)"
        )
    with service(), Client(f"graph-{uuid4().hex[:8]}") as client, MemoryMiddleware(client) as memory:
        graph = build(client, memory)
        for topic in ("Why does the glaze crack?", "What is wrong with the glaze of the cups?"):
            state: State = {"topic": topic, "group_id": client.group, "session_id": "monday"}
            for mode, chunk in graph.stream(state, stream_mode=["custom", "values"]):
                if mode == "values":
                    state = chunk
                else:
                    print(chunk["event"], chunk["data"])  # noqa: T201
            print(state["answer"])  # noqa: T201
            memory.flush()
            time.sleep(SETTLE_SECONDS)


if __name__ == "__main__":
    main()
