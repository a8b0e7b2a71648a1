"""What groups of agents know and note: nothing that was taken back, nothing called verified that nobody has
verified.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import yaml
from jsonschema import Draft202012Validator

from engine.providers import llms
from jiyi.errors import NotFound
from jiyi.protocol.base import ById
from jiyi.protocol.experiences import TellExperience, UpdateExperience
from jiyi.protocol.knowledge import CheckBody, DemoteBody, EditKnowledge, PromoteBody
from jiyi.protocol.stores import Hit, MemoryItem
from jiyi.protocol.tier_questions import TierItem
from jiyi.stores.declarations import parse_graph, schema
from jiyi.stores.manager import rank, rendered
from jiyi.tiers.retrieval_node import MemoryRetrievalNode, format_history
from models.conversations import experiences
from models.db.actions import Actor
from models.stores.backends import BACKENDS
from models.tiers import actions, questions, working
from tests.integration.memory.test_inbox import save
from tests.integration.programs import Program
from tests.integration.stores.conftest import folder, roots
from tests.integration.stores.folders import MakeFolder
from tests.integration.tiers.outputs import TEXTS, ask, embed, entry, hot, output, run, say, screen
from tests.misbehaving import chat, vendor
from workers.ephemeral import environment

__all__ = ["folder", "roots"]

ELEVEN = "The council found that the third kiln loses eleven percent of its heat through the north wall."
TWELVE = ELEVEN.replace("eleven", "twelve")
QUESTION = "How much heat does the kiln lose?"


def promote(group: str, *entries: UUID, **fields: object) -> UUID:
    done = actions.promote.perform(
        Actor(group, "Lin"), PromoteBody.model_validate({"entry_ids": list(entries), **fields})
    )
    first = done.pieces[0].knowledge_id
    assert first is not None
    return first


def edit(group: str, knowledge_id: UUID, content: str) -> UUID:
    return actions.edit.perform(
        Actor(group, "Lin"), EditKnowledge(id=knowledge_id, content=content)
    ).knowledge_id


def demote(group: str, *knowledge_ids: UUID) -> None:
    actions.demote.perform(Actor(group, "Lin"), DemoteBody(knowledge_ids=list(knowledge_ids), reason="wrong"))


def given(group: str, **options: object) -> list[str]:
    return [item.content for item in ask(group, QUESTION, relevance_threshold=-1, **options).results]


# Knowledge that was edited or demoted


@pytest.mark.usefixtures("database", "nothing_owed")
def test_what_was_corrected_or_taken_back_is_no_longer_given_from_working_memory(group: str) -> None:
    other, entry_id = say(group, TEXTS[0], ELEVEN)
    first = promote(group, entry_id)
    second = edit(group, first, TWELVE)
    embed()
    assert given(group) == [TEXTS[0], TWELVE]
    demote(group, second)
    assert given(group) == [TEXTS[0]]
    working.forget(group)  # nor when working memory is rebuilt
    assert given(group) == [TEXTS[0]]
    assert [found.entry_id for found in hot(group)] == [other]


@pytest.mark.usefixtures("database", "nothing_owed")
def test_what_says_the_same_as_a_demoted_text_leaves_working_memory_too(group: str) -> None:
    say(group, ELEVEN)
    demote(group, promote(group, text=f"  {ELEVEN.upper()} "))
    assert given(group) == []


# Verdicts and verified


@pytest.mark.usefixtures("database", "nothing_owed")
def test_what_was_promoted_as_a_verdict_is_one_in_working_memory_too(group: str) -> None:
    (entry_id,) = say(group, ELEVEN)
    promote(group, entry_id, kind="verdict")
    (item,) = ask(group, QUESTION, relevance_threshold=-1).results
    assert (item.source, item.kind, item.verified) == ("hot", "verdict", True)
    for forget in (lambda _: None, working.forget):
        forget(group)
        assert given(group, include_verdicts=False) == []


@pytest.mark.usefixtures("database", "nothing_owed")
def test_what_was_promoted_before_the_filters_saw_it_is_verified_when_they_have(group: str) -> None:
    event = output(group, ELEVEN)
    save(event)
    promote(group, event.event_id, kind="verdict")
    screen()
    assert [(found.kind, "verified" in found.flags, "unverified" in found.flags) for found in hot(group)] == [
        ("verdict", True, False)
    ]


@pytest.mark.usefixtures("database", "nothing_owed")
def test_neither_the_llm_nor_a_sender_makes_an_output_verified_but_a_check_by_people_does(group: str) -> None:
    with vendor() as server:
        server.otherwise = chat('{"verdict": "consistent", "why": ""}')
        asked = {"agent_defaults": "check_outputs=llm", "llm": "compatible:judge", "llm_trial_days": "0"}
        with environment(**asked, llm_base_url=server.base_url):
            llms.llm.cache_clear()
            (entry_id,) = say(group, ELEVEN, flags=["verified"])
            assert run("consistency", "tiers", "consistency") == 1
    llms.llm.cache_clear()
    (item,) = ask(group, QUESTION).results
    assert (item.verified, item.metadata["flags"]) == (False, ["unscored", "unverified", "consistent"])
    actions.check.perform(Actor(group, "Lin"), CheckBody(entry_ids=[entry_id], verdict="true"))
    screen()
    (item,) = ask(group, QUESTION).results
    assert item.verified
    assert "unverified" not in entry(entry_id)["flags"]


# The history of an edited piece


@pytest.mark.usefixtures("database")
def test_the_history_of_an_edited_piece_begins_with_its_promotion(group: str) -> None:
    new = edit(group, promote(group, text=ELEVEN, reason="heard"), TWELVE)
    told = questions.knowledge_history.perform(Actor(group, "Lin"), ById(id=new))
    assert [(change.action, change.before, change.after) for change in told.rows] == [
        ("promoted", None, ELEVEN),
        ("edited", ELEVEN, TWELVE),
    ]


# Stores


def test_the_schema_takes_what_the_service_takes_a_store_without_vectors() -> None:
    wrong = Draft202012Validator(schema())
    for kind, config, valid in (
        ("simple", {"embedding": "none"}, True),
        ("simple", {"embedding": {"provider": "local", "model": "a"}}, True),
        ("simple", {"embedding": "nothing"}, False),
        ("file", {"file_sources": [{"path": "docs"}], "embedding": "none"}, False),
    ):
        document = {"memory": [{"name": "w", "type": kind, "config": config}], "nodes": []}
        assert wrong.is_valid(document) == valid
        if valid:
            parse_graph(document)


BOARD = [
    f"First: the meeting is opened with a speech about {'the kilns and the cups, ' * 20}and their makers.",
    "Second: ok",
    "Third: the kiln budget is 900 euros",
    "Fourth: the kiln budget is raised to 1200 euros",
    "Fifth: vote",
]


def test_the_lines_of_a_blackboard_reach_the_agent_in_order_of_time() -> None:
    now = datetime(2026, 3, 2, 8, tzinfo=UTC)
    seconds = now.timestamp() - 100
    items = [
        MemoryItem(id=str(number), content_summary=text, timestamp=seconds + number)
        for number, text in enumerate(BOARD)
    ]
    hits = [Hit(item=item, score=None) for item in items]
    ranked = rank({"bb": hits}, "what is the kiln budget", now)
    text, _ = rendered(ranked)
    said = [line[4:].partition(":")[0] for line in text.splitlines() if line[:1].isdigit()]
    assert said == ["First", "Second", "Third", "Fourth", "Fifth"]
    short, taken = rendered(ranked, max_tokens=120)  # there is room for the latest
    assert short.index("Third") < short.index("Fourth") < short.index("Fifth")
    assert [one.hit.item.id for one in taken][:3] == ["4", "3", "2"]


@pytest.mark.usefixtures("database", "nothing_owed")
def test_the_index_of_a_file_store_is_written_when_it_has_changed_though_no_node_writes_to_it(
    folder: MakeFolder, roots: Path
) -> None:
    kept = roots / "docs" / "index.json"  # among the sources, too
    docs = folder(index_path=str(kept))
    docs.write("kiln.md", "The kiln reached 1,240 degrees on Monday.")
    docs.perform(BACKENDS["file"].load)
    docs.scan()
    docs.scan()
    contents = json.loads(kept.read_text(encoding="utf-8"))["contents"]
    assert [one["embedding"] is not None for one in contents] == [True]
    written = kept.stat().st_mtime_ns
    docs.scan()
    assert (kept.stat().st_mtime_ns, list(docs.states())) == (written, ["kiln.md"])
    (roots / "docs" / "kiln.md").unlink()
    docs.scan()
    docs.scan()
    assert json.loads(kept.read_text(encoding="utf-8"))["contents"] == []


# The memory node's Markdown


def test_an_interface_gets_the_history_as_the_markdown_that_was_said() -> None:
    said = TierItem(
        item_id="1", source="cold", content="**Two** reasons:\n- clay\n- heat", score=0.9, verified=True
    )
    assert (
        format_history([said], "en", style="plain")
        == "## History\n\n### Record 1 (relevance: 0.90)\n**Two** reasons:\n- clay\n- heat\n\n"
    )
    assert '"**Two** reasons:\\n- clay\\n- heat"' in format_history([said], "en")
    assert MemoryRetrievalNode({"style": "plain"}).properties.style == "plain"


# The workflow for Dify


def example(name: str) -> dict[str, Any]:
    """The nodes of one of our workflows, by their ids."""
    text = (Path(__file__).parents[2] / "examples" / f"dify_{name}.yml").read_text(encoding="utf-8")
    return {node["id"]: node["data"] for node in yaml.safe_load(text)["workflow"]["graph"]["nodes"]}


def read_by(node: dict[str, Any], answer: str, error: str | None) -> dict[str, Any]:
    """What a node of Python makes of what came over HTTP."""
    names: dict[str, Any] = {}
    exec(node["code"], names)
    found: dict[str, Any] = names["main"](answer, error)
    return found


def test_the_workflow_for_dify_tells_why_it_has_no_answer() -> None:
    """Dify replaces what an HTTP node answered by its default value, and says what happened in
    ``error_message``.
    """
    node = example("retrieval")["read"]
    assert {"variable": "error", "value_selector": ["retrieve", "error_message"]} in node["variables"]
    refused = read_by(node, "{}", "Request failed with status code 401")
    assert (refused["status"], refused["message"]) == ("error", "Request failed with status code 401")
    unknown = '{"retrieved_nodes": [], "status": "unknown_agent", "message": "nobody"}'
    answered = read_by(node, unknown, None)
    assert (answered["status"], answered["message"]) == ("unknown_agent", "nobody")


def test_dify_passes_on_why_it_was_refused(api: Program) -> None:
    """Of a refused request its HTTP node gives the status code alone."""
    for name, node, reader, path in (
        ("retrieval", "retrieve", "read", "/retrieve"),
        ("workflow", "load_history", "history", "/nodes/memory-retrieval"),
    ):
        nodes = example(name)
        header, _, value = nodes[node]["headers"].partition(":")
        assert api.ask("POST", path, 422, json={"top_k": 0}).json["status"] == 422
        refused = api.ask("POST", path, 200, json={"top_k": 0}, headers={header: value}).json
        assert refused["status"] == 422
        assert read_by(nodes[reader], json.dumps(refused), None)["message"] == refused["detail"]
        assert "required, but missing" in refused["detail"]


# Experiences


@pytest.mark.usefixtures("database", "nothing_owed")
def test_an_experience_is_deleted_by_the_id_that_it_had_before_it_was_changed(group: str) -> None:
    me = Actor(group, "Lin")
    jams = {"pain_pattern": "The printer jams", "solution_steps": ["Open it"], "outcome": "success"}
    told = experiences.store_experience.perform(
        me, TellExperience.model_validate({"agent_id": "ada", **jams})
    )
    change = UpdateExperience(id=told.id, solution_steps=["Close it"])
    new = experiences.update_experience.perform(me, change)
    assert new.id != told.id
    with pytest.raises(NotFound, match=f"{new.id} has taken its place"):
        experiences.get_experience.perform(me, ById(id=told.id))
    assert experiences.delete_experience.perform(me, ById(id=told.id)).count == 2
