"""Three tiers in a running service: event → quarantine → working memory → promotion → found."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from uuid import uuid4

from flask import Flask

from jiyi import Client
from jiyi.protocol.knowledge import IngestState
from jiyi.protocol.tier_questions import ContextAnswer
from jiyi.text.budget import estimate_tokens
from jiyi.tiers.middleware import MemoryMiddleware
from jiyi.tiers.retrieval_node import MemoryRetrievalNode
from tests.integration.fields import check_fields
from tests.integration.tiers.outputs import long_ago
from tests.integration.waiting import PATIENCE_SECONDS, until

FOR = "正方：应当先烧一次，因为新土收缩得慢，釉面不会开裂，而且能按期交货。"
AGAINST = "Against: a second firing is needed, since the first one never reaches the heart of a thick cup."
VERDICT = "裁决：用新土在一千二百度烧一次，按期交货；若仍开裂，下一批改釉，并且记录每一窑的温度。"


def _embedded(client: Client) -> bool:
    tier = next(
        tier for tier in client.query_memory("x y", relevance_threshold=-1).tiers if tier.tier == "longterm"
    )
    return tier.state == "ok" and not tier.message


def test_a_debate_through_the_middleware_and_the_node(client: Client) -> None:
    group, histories = client.group, []
    node = MemoryRetrievalNode(retriever=client, node_id="load-history")
    with MemoryMiddleware(client) as memory:
        for name, kind, text in (
            ("for", "agent", FOR),
            ("against", "agent", AGAINST),
            ("judge", "verdict", VERDICT),
        ):
            state = node.process({"topic": "Shall we fire once?", "group_id": group, "session_id": "s1"})
            histories.append(state["history_context"])
            output = {"content": text, "metadata": {"confidence": 0.9}}
            memory.after_node(name, output, group_id=group, session_id="s1", node_type=kind)
            memory.after_node("tool", "ok", group_id=group, session_id="s1")
            assert memory.flush(PATIENCE_SECONDS)
            until(
                lambda text=text: text in [row.content for row in client.working_memory.show().rows],
                what=f"{name} was not screened",
            )
    assert histories[0] == ""
    assert FOR in histories[1]
    assert AGAINST not in histories[1]
    assert histories[2].index(AGAINST) < histories[2].index(FOR)
    until(
        lambda: client.working_memory.show().rejections == {"too_short": 3},
        what="the tool's words were not refused",
    )
    counts = client.knowledge.list().counts
    assert counts == {"quarantine": 3, "working": 3, "longterm": 0}


def test_an_output_becomes_knowledge_which_a_node_of_another_session_finds_a_year_later(
    client: Client,
) -> None:
    """Knowledge does not disappear after the node's seven days: these are working memory's."""
    done = client.ingest(
        VERDICT, session_id="last year", confidence=0.9, node_id="judge", metadata={"kind": "verdict"}
    )
    assert isinstance(done, IngestState)
    (hot,) = client.query_memory("一千二百度", relevance_threshold=-1).results
    check_fields(hot, source="hot", content=VERDICT, score=1.0, temporary=True, kind="verdict")
    assert hot.metadata["node_id"] == "judge"  # the original loses it
    promoted = client.knowledge.promote(entry_ids=[done.entry_id], kind="verdict")
    assert ([piece.content for piece in promoted.pieces], promoted.entries) == ([VERDICT], [done.entry_id])
    until(lambda: _embedded(client), what="the piece was not embedded")
    (both,) = client.query_memory("一千二百度", relevance_threshold=-1).results
    assert (both.source, both.verified) == ("hot", True)  # in both tiers: shown once, as verified
    assert client.knowledge.promote(entry_ids=[done.entry_id]).already == [done.entry_id]
    with Client(f"other-{uuid4().hex[:8]}") as other:
        assert other.query_memory("一千二百度", relevance_threshold=-1).results == []
    client.quarantine.delete(entry_ids=[done.entry_id])
    long_ago(client.group)
    assert client.working_memory.show().rows == []
    state = MemoryRetrievalNode(retriever=client).process(
        {"topic": VERDICT, "group_id": client.group, "session_id": "today"}
    )
    assert VERDICT in state["history_context"]


def test_a_context_through_the_service_keeps_its_budget_and_says_what_it_cut_at_every_door(
    client: Client, jiyi: Callable[..., str], web_app: Flask, api_key: Callable[..., str]
) -> None:
    client.knowledge.promote(text=VERDICT, kind="verdict")
    client.ingest(AGAINST, session_id="s1")
    until(lambda: _embedded(client), what="the piece was not embedded")
    parts = {
        "system": "You sit on a council.",
        "persona": "你是林岚，只相信量过的东西。",
        "relevance_threshold": -1,
    }
    made = client.knowledge.context(proposal="Shall we fire once?", **parts)
    assert made.text.split("\n\n---\n\n")[::3] == ["You sit on a council.", "Shall we fire once?"]
    assert {item.content for item in made.memories} == {VERDICT, AGAINST}
    assert all(item.content in made.text for item in made.memories)
    assert [part.name for part in made.parts] == ["system", "persona", "memories", "experiences", "proposal"]
    assert (made.status, made.cut, made.budget) == ("ok", [], 2_000)
    assert [
        item.content
        for item in client.knowledge.context(
            proposal="Shall we fire once?", include_verdicts=False, **parts
        ).memories
    ] == [AGAINST]

    enough = made.tokens + len(made.parts)  # each part is rounded up
    for budget in (1, 40, made.tokens - 1, enough):
        short = client.knowledge.context(proposal="Shall we fire once?", budget=budget, **parts)
        assert estimate_tokens(short.text) == short.tokens <= budget
        assert bool(short.cut) == (budget < made.tokens)
    shown = jiyi("knowledge", "context", "Shall we fire once?", "--persona", "You are 林岚.", "--budget", 300)
    assert "You are 林岚." in shown
    told = json.loads(jiyi("knowledge", "context", "Shall we fire once?", "--budget", 5, "--json"))
    assert (told["tokens"] <= 5, told["memories"]) == (True, [])

    body = {
        "proposal": "Shall we fire once?",
        "persona": "你是林岚。",
        "budget": 300,
        "relevance_threshold": -1,
    }
    headers = {"Authorization": f"Bearer {api_key(client.group, 'read')}"}
    answer = web_app.test_client().post("/api/v1/memory/context", json=body, headers=headers)
    assert answer.status_code == 200, answer.text
    options = {name: value for name, value in body.items() if name != "proposal"}
    assert (
        ContextAnswer.model_validate(answer.json).text
        == client.knowledge.context(proposal=str(body["proposal"]), **options).text
    )  # type: ignore[arg-type]
    refused = web_app.test_client().post(
        "/api/v1/memory/context", json={"proposal": " ", "budget": 0}, headers=headers
    )
    assert (refused.status_code, "budget" in refused.text, "proposal" in refused.text) == (422, True, True)
    publisher = {"Authorization": f"Bearer {api_key(client.group, 'publish')}"}
    assert (
        web_app.test_client().post("/api/v1/memory/context", json=body, headers=publisher).status_code == 403
    )


def test_the_command_line_from_an_output_to_knowledge_and_back(jiyi: Callable[..., str]) -> None:
    def ask(*arguments: object) -> Any:
        return json.loads(jiyi(*arguments, "--json"))

    assert "fewer than 50" in ask("ingest", "ok")["message"]
    one = ask("ingest", FOR, "--session-id", "s1", "--agent-id", "Ada", "--confidence", 0.9)
    assert one["accepted"] is True
    assert FOR[:10] in jiyi("working_memory", "show")
    assert (
        ask("knowledge", "list", "--layer", "quarantine", "--rejected", "too_short")["counts"]["quarantine"]
        == 1
    )
    assert FOR[:10] in jiyi("knowledge", "promote", one["entry_id"], "--preview")
    assert ask("knowledge", "list", "--layer", "longterm")["rows"] == []
    (piece,) = ask("knowledge", "promote", one["entry_id"], "--reason", "it held")["pieces"]
    assert FOR[:10] in jiyi("knowledge", "list", "--layer", "longterm")
    answer = ask("recall", "新土", "--relevance-threshold", -1)
    assert [item["content"] for item in answer["results"]] == [FOR]
    assert FOR[:10] in jiyi("recall", "新土", "--relevance-threshold", -1)
    became = ask("knowledge", "edit", piece["knowledge_id"], VERDICT)["knowledge_id"]
    assert jiyi("knowledge", "demote", became, "--reason", "outdated").strip() == became
    assert ask("knowledge", "list", "--layer", "longterm")["rows"] == []
    jiyi("ingest", AGAINST)
    assert ask("digests", "make")["items"][0]["entry_ids"]
    assert "entries" in jiyi("digests", "list")


def test_outputs_are_exported_and_can_be_published_again(client: Client, jiyi: Callable[..., str]) -> None:
    done = client.ingest(FOR, session_id="s1", metadata={"round": 2})
    (line,) = [one for one in jiyi("export", "jsonl").splitlines() if one.startswith("{")]
    exported = json.loads(line)
    assert (exported["type"], exported["payload"]["output"]) == ("node.executed", FOR)
    exported.update(event_id=str(uuid4()), group_id=f"{client.group}-copy")
    with Client(f"{client.group}-copy") as copy:
        (entry_id,) = copy.observe_many([exported])
        assert copy.quarantine.wait_for(entry_id).accepted
        (row,) = copy.knowledge.list().rows
    assert (row.content, row.session_id, row.metadata) == (FOR, "s1", {"round": 2})
    assert row.entry_id != str(done.entry_id)  # type: ignore[union-attr]
