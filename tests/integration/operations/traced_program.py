"""An agent's program that has loaded OpenTelemetry: it remembers and asks over the broker and over HTTP. Run
by test_traces.py.

Prints the trace of each deed as JSON.
"""

from __future__ import annotations

import json
import sys

from jiyi import Client, tracing
from workers.tracing import install

SECRET_WORDS = "Klaus keeps the violet key under the third flowerpot"


def main(group: str, url: str, key: str) -> None:
    install("program")
    traces = {}
    for name, client in {"broker": Client(group), "http": Client(url=url, key=key)}.items():
        with client:
            traces[name] = deeds(client, f"{name}-agent")
    print(json.dumps(traces))  # noqa: T201


def deeds(client: Client, agent: str) -> dict[str, str]:
    with tracing.span("remember"):
        node_id = client.observe(agent, SECRET_WORDS, poignancy=4)
        remembered = tracing.current() or ""
    client.wait_for([node_id], timeout=120)
    with tracing.span("ask"):
        assert client.retrieve(agent, "where is the violet key?", timeout=60).retrieved_nodes
        asked = tracing.current() or ""
    with tracing.span("many"):
        client.observe_many(
            [
                {"agent_id": agent, "description": f"{SECRET_WORDS} {number}", "poignancy": 4}
                for number in range(3)
            ]
        )
        many = tracing.current() or ""
    return {"remembered": remembered, "asked": asked, "many": many}


if __name__ == "__main__":
    main(*sys.argv[1:])
