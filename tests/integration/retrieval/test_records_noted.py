"""Recent retrievals over the running service: what is noted, and what is not."""

from __future__ import annotations

import pytest
from flask.testing import FlaskClient

from jiyi import Client
from jiyi.errors import NotFound
from jiyi.polling import poll
from jiyi.protocol.retrieval import RetrievalRequest
from web.admin.retrieval import retrieving

PATIENCE_SECONDS = 60


def test_a_retrieval_and_a_context_are_noted_but_no_look_from_the_admin(client: Client) -> None:
    client.observe("klaus", "Klaus reads a book about bees.", wait=True)
    client.retrieve("klaus", "bees", top_k=3)
    retrieving(
        RetrievalRequest(group_id=client.group, agent_id="klaus", queries=["looked at"], touch=False)
    )()
    client.context("klaus", "books", max_tokens=100)
    noted = poll(
        lambda: client.retrieval.list(agent_id="klaus").rows, lambda found: len(found) == 2, PATIENCE_SECONDS
    )
    assert [(row.queries, row.options) for row in noted[1:]] == [(["bees"], {"top_k": 3})]
    assert (noted[0].queries, noted[0].options["max_tokens"]) == (["books"], 100)
    assert noted[1].results[0][0].description == "Klaus reads a book about bees."


def test_a_past_retrieval_is_asked_again_then_and_now_through_the_client_and_in_the_admin(
    client: Client, signed_in: FlaskClient
) -> None:
    old = client.observe("klaus", "Klaus lives in Porto", wait=True)
    client.retrieve("klaus", "where does Klaus live?", top_k=3)
    [noted] = poll(
        lambda: client.retrieval.list(agent_id="klaus").rows, lambda found: len(found) == 1, PATIENCE_SECONDS
    )
    new = client.update(old, "Klaus lives in Lyon", wait=True)
    again = client.retrieval.again(id=noted.retrieval_id)
    assert (again.then.accessed_ids, again.now.accessed_ids, again.same, again.notes) == (
        [old],
        [new],
        True,
        [],
    )
    with Client(f"{client.group}-other") as stranger, pytest.raises(NotFound):
        stranger.retrieval.again(id=noted.retrieval_id)
    address = f"/traces/{client.group}/{noted.retrieval_id}/again"
    first = signed_in.get(address, query_string={"group": client.group}).text
    assert "Porto" not in first, "what takes long comes after the page"
    assert "whole=1" in first
    html = signed_in.get(address, query_string={"group": client.group, "whole": 1}).text
    assert (
        0
        < html.index("As known then")
        < html.index("Klaus lives in Porto")
        < html.index("As known now")
        < html.index("Klaus lives in Lyon")
    )
    missing = signed_in.get(
        f"/traces/{client.group}/{old}/again", query_string={"group": client.group, "whole": 1}
    )
    assert missing.status_code == 404
    listed = signed_in.get("/memories.json", query_string={"group": client.group, "kind": ["session"]})
    assert listed.json["nodes"] == []


def test_what_was_told_several_times_in_the_same_words_or_nearly_is_one_line_of_a_prompt(
    client: Client,
) -> None:
    for text in (
        "Maria is allergic to nuts.",
        "Maria is allergic to nuts.",
        "Maria likes tea.",
        "Please remember: Maria is allergic to nuts!",
    ):
        client.observe("companion", text, wait=True)
    told = client.context("companion", "What is Maria allergic to?", max_tokens=300)
    assert told.text.count("allergic to") == 1
    counts = {memory.description: memory.seen for memory in told.memories}
    assert counts == {"Please remember: Maria is allergic to nuts!": 3}  # tea is no answer
    assert len(client.retrieve("companion", "What is Maria allergic to?").retrieved_nodes) == 4
    for session, text in (
        ("one", "我对花生过敏。"),
        ("two", "我对花生过敏。"),
        ("three", "顺便说一下，我对花生过敏"),
    ):
        client.add_turn("chat", "user", text, session, wait=True)
    injected = client.conversations.context(agent_id="chat", query="我对什么过敏？")
    assert injected.context.count("花生") == 1
    assert [memory.seen for memory in injected.memories] == [3]


def test_what_differs_in_a_number_a_name_a_day_or_not_and_what_another_says_stays_beside_it(
    client: Client,
) -> None:
    kept = {
        "谁欠我多少钱？": ["小王欠我五百块", "小李欠我五百块", "小王欠我八百块", "小王没欠我五百块"],
        "When is the rent due?": [
            "The rent is due on Monday.",
            "The rent is due on Friday.",
            "The rent is not due on Monday.",
        ],
    }
    for place, (question, near) in enumerate(kept.items()):
        for text in near:
            client.observe(f"ledger {place}", text, wait=True)
        told = client.context(f"ledger {place}", question)
        seen = {memory.description: memory.seen for memory in told.memories}
        assert seen == dict.fromkeys(seen, 1)
        assert len(near) - 1 <= len(seen)  # the least likely to answer may be left out
    for user in ("lin", "mei"):
        client.observe("shared", "I am allergic to nuts.", user_id=user, visibility="agent", wait=True)
    told = client.context("shared", "Who is allergic to nuts?")
    assert [memory.seen for memory in told.memories] == [1, 1]
