"""Cases of the actions on declared stores."""

from __future__ import annotations

from typing import Any

from sqlalchemy import text

from jiyi.protocol.stores import ApplyGraph, LogOperation, Snapshot, StoreName, UpdateStore
from models.db.actions import Actor
from models.db.connection import unit_of_work
from models.stores import actions
from tests.integration.actions.cases import Case

SAID = "The kiln is fired on Friday."
GRAPH: dict[str, Any] = {
    "graph": "pottery",
    "memory": [{"name": "notes", "type": "simple", "config": {"memory_path": "notes.json", "max_items": 7}}],
    "nodes": [{"id": "potter", "memories": [{"name": "notes", "retrieve_stage": ["gen"]}]}],
}
SAY = {"name": "notes", "role": "potter", "inputs_text": "When?", "output_snapshot": {"text": SAID}}
DONE = {"graph": "pottery", "node_id": "potter", "operation_type": "RETRIEVE", "stage": "gen", "item_count": 2}


def declared(group: str) -> str:
    actions.apply.perform(Actor(group, "test"), ApplyGraph(**GRAPH))
    return "notes"


def written(group: str) -> str:
    name = declared(group)
    update = UpdateStore(name=name, role="potter", inputs_text="When?", output_snapshot=Snapshot(text=SAID))
    actions.update.perform(Actor(group, "test"), update)
    return name


def stored(group: str, _made: Any) -> list[Any]:
    with unit_of_work() as connection:
        return [list(map(tuple, connection.execute(one, {"group": group}))) for one in _STORED]


def _of(action: Any) -> Case:
    return Case(action=action, prepare=written, request=lambda made: StoreName(name=made), effect=stored)


CASES = (
    Case(action=actions.apply, prepare=lambda _group: None, request=lambda _made: ApplyGraph(**GRAPH), effect=stored),
    Case(action=actions.update, prepare=declared, request=lambda _made: UpdateStore.model_validate(SAY), effect=stored),
    Case(action=actions.log, prepare=lambda _group: None, request=lambda _made: LogOperation.model_validate(DONE), effect=stored),
    _of(actions.load),
    _of(actions.save),
    _of(actions.reindex),
    _of(actions.delete),
)

_STORED = (
    text("SELECT name, type, config, state, loaded_at IS NULL FROM stores WHERE group_id = :group"),
    text("SELECT content_summary, metadata, input_snapshot, output_snapshot, embedding IS NULL FROM store_items WHERE group_id = :group"),
    text("SELECT graph, node_id, store_name, retrieve_stage, top_k, read, write FROM store_nodes WHERE group_id = :group"),
    text("SELECT graph, node_id, operation_type, stage, item_count FROM store_operations WHERE group_id = :group"),
    text("SELECT p.kind FROM pending_work p JOIN store_items i ON i.item_id = p.subject_id WHERE p.group_id = :group"),
)
