"""Cases of the actions on declared stores."""

from __future__ import annotations

from typing import Any

from jiyi.protocol.stores import ApplyGraph, LogOperation, Snapshot, StoreName, UpdateStore
from models.db.actions import Actor
from models.stores import actions
from tests.integration.actions.cases import Case

SAID = "The kiln is fired on Friday."
GRAPH: dict[str, Any] = {
    "graph": "pottery",
    "memory": [{"name": "notes", "type": "simple", "config": {"memory_path": "notes.json", "max_items": 7}}],
    "nodes": [{"id": "potter", "memories": [{"name": "notes", "retrieve_stage": ["gen"]}]}],
}
SAY = {"name": "notes", "role": "potter", "inputs_text": "When?", "output_snapshot": {"text": SAID}}
DONE = {
    "graph": "pottery",
    "node_id": "potter",
    "operation_type": "RETRIEVE",
    "stage": "gen",
    "item_count": 2,
}


def declared(group: str) -> str:
    actions.apply.perform(Actor(group, "test"), ApplyGraph(**GRAPH))
    return "notes"


def written(group: str) -> str:
    name = declared(group)
    update = UpdateStore(name=name, role="potter", inputs_text="When?", output_snapshot=Snapshot(text=SAID))
    actions.update.perform(Actor(group, "test"), update)
    return name


def _of(action: Any) -> Case:
    return Case(action=action, prepare=written, request=lambda made: StoreName(name=made))


CASES = (
    Case(action=actions.apply, prepare=lambda _group: None, request=lambda _made: ApplyGraph(**GRAPH)),
    Case(action=actions.update, prepare=declared, request=lambda _made: UpdateStore.model_validate(SAY)),
    Case(
        action=actions.log,
        prepare=lambda _group: None,
        request=lambda _made: LogOperation.model_validate(DONE),
    ),
    _of(actions.load),
    _of(actions.save),
    _of(actions.reindex),
    _of(actions.delete),
)
