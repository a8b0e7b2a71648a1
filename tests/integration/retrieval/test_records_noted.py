"""Retrievals of late over the running service: what is noted, and what is not."""

from __future__ import annotations

from jiyi import Client
from jiyi.polling import poll
from jiyi.protocol.retrieval import RetrievalRequest
from web.admin.retrieval import retrieving

PATIENCE_SECONDS = 60


def test_a_retrieval_and_a_context_are_noted_but_no_look_from_the_admin(client: Client) -> None:
    client.observe("klaus", "Klaus reads a book about bees.", wait=True)
    client.retrieve("klaus", "bees", top_k=3)
    retrieving(RetrievalRequest(group_id=client.group, agent_id="klaus", focal_texts=["looked at"], touch=False))()
    client.context("klaus", "books", max_tokens=100)
    noted = poll(lambda: client.memory.retrievals("klaus").rows, lambda found: len(found) == 2, PATIENCE_SECONDS)
    assert [(row.focal_texts, row.options) for row in noted[1:]] == [(["bees"], {"top_k": 3})]
    assert (noted[0].focal_texts, noted[0].options["max_tokens"]) == (["books"], 100)
    assert noted[1].results[0][0].description == "Klaus reads a book about bees."
