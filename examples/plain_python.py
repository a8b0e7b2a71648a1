"""A workflow in plain Python that remembers: the node before each step, the middleware after it.

    python -m examples.plain_python

A workflow is a list of steps here, each of which takes a state and gives its output. Nothing of it needs to
know where its history comes from.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any
from uuid import uuid4

from examples.service import service
from jiyi import Client
from jiyi.tiers.middleware import MemoryMiddleware
from jiyi.tiers.retrieval_node import MemoryRetrievalNode

State = dict[str, Any]
Step = Callable[[State], str]

#: Seconds; a few milliseconds would do.
SETTLE_SECONDS = 1.0


def pause() -> None:
    """In place of the seconds that an LLM takes: what was said becomes working memory meanwhile."""
    time.sleep(SETTLE_SECONDS)


def run(
    steps: Sequence[tuple[str, Step]],
    state: State,
    history: MemoryRetrievalNode,
    memory: MemoryMiddleware,
    between: Callable[[], object] = pause,
) -> State:
    """Each step knows what the group knows, and what it says becomes known."""
    for name, step in steps:
        state = history.process(state)  # adds history_context; never raises
        output = step(state)
        memory.after_node(
            name, output, group_id=state["group_id"], session_id=state["session_id"]
        )  # never waits
        memory.flush()
        between()
        state = {**state, name: output}
    return state


def research(state: State) -> str:
    return (
        f"On “{state['topic']}”: the glaze cracks because the clay shrinks more than it does, not because of"
        " the kiln."
    )


def review(state: State) -> str:
    known = state["history_context"].count("### ")
    return (
        f"Reviewed against {known} earlier statement(s): nothing contradicts it, so the next batch shall be"
        " of the new clay."
    )


def main() -> None:
    with service(), Client(f"plain-{uuid4().hex[:8]}") as client, MemoryMiddleware(client) as memory:
        history = MemoryRetrievalNode({"language": "en"}, retriever=client, node_id="load-history")
        state = {"topic": "Why does the glaze crack?", "group_id": client.group, "session_id": "monday"}
        done = run([("research", research), ("review", review)], state, history, memory)
        print(done["history_context"] + done["review"])  # noqa: T201


if __name__ == "__main__":
    main()
