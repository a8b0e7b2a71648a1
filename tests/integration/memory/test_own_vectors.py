"""Vectors that come with events: one of a wrong size is refused at every way in, and one that is stored stops
no retrieval.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import numpy as np
import pytest

from engine.providers.embedders import embedder
from jiyi import Client
from jiyi.errors import ModelMismatch
from jiyi.protocol.events import Event
from jiyi.protocol.retrieval import Answer, RetrievalRequest
from models.db.connection import unit_of_work
from models.memory import events as stored_events
from models.memory.inbox import StoreResult
from models.memory.ingest import EventBatch, Ingestor
from models.operations import embedding_models
from tasks.retrieval import retrieve as retrieval
from tests.integration.memory.test_inbox import nodes, observed, owed, rows, save
from tests.integration.programs import Program

pytestmark = pytest.mark.usefixtures("database")

#: Texts of memories; the deployment's model makes their vectors.
TEA, BOOK = "Klaus drinks tea", "Klaus reads a book"
WRONG = [1.0, 0.0]


def own(text: str) -> dict[str, Any]:
    """A vector as the deployment's model makes it."""
    return {"vector": embedder().passages([text])[0].tolist(), "embedding_model": embedder().model}


def wrong() -> dict[str, Any]:
    return {"vector": WRONG, "embedding_model": embedder().model}


def retrieve(group: str, text: str, **fields: Any) -> Answer:
    found = retrieval.answer(RetrievalRequest(group_id=group, agent_id="klaus", queries=[text], **fields))
    return Answer.model_validate(found)


def cosines(answer: Answer) -> dict[str, float | None]:
    return {node.description: node.relevance.raw for group in answer.groups for node in group.retrieved_nodes}


def check_refused(reason: str) -> None:
    """What a refusal says: the field, both sizes, the model, and what to do."""
    for part in ("payload.vector", "2 values", f"{embedder().dimensions}", embedder().model, "leave out"):
        assert part in reason


def from_broker(*events: Event) -> StoreResult:
    return Ingestor(redelivers=True).ingest([EventBatch([event]) for event in events])


def letters(group: str) -> list[dict[str, Any]]:
    return rows("SELECT * FROM dead_letters WHERE group_id = :g ORDER BY letter_id", g=group)  # type: ignore[return-value]


def spoil(node_id: UUID) -> None:
    """Make it one as could be stored before the sizes were compared."""
    rows(
        "UPDATE memory_nodes SET embedding = '[1,0]', embedding_model = :model, changed_xid ="
        " pg_current_xact_id() WHERE node_id = :id RETURNING node_id",
        model=embedder().model,
        id=node_id,
    )


def test_the_intake_keeps_a_wrong_one_that_comes_first_as_a_dead_letter_and_stores_the_others(
    group: str,
) -> None:
    bad, good = observed(group, BOOK, **wrong()), observed(group, TEA, **own(TEA))
    for _ in range(2):  # a message may be delivered twice
        done = from_broker(bad, good)
    assert done.fresh == []
    assert [node["description"] for node in nodes(group)] == [TEA]
    (letter,) = letters(group)
    check_refused(letter["reason"])
    assert letter["subject_id"] == bad.event_id
    with unit_of_work() as connection:
        (state,) = stored_events.states(connection, group, [bad.event_id])
    assert (state.final, state.node_id) == (True, None)
    check_refused(state.reason or "")
    answer = retrieve(group, TEA, relevance="dense")
    assert cosines(answer) == pytest.approx({TEA: 1}, abs=1e-5)


def test_rest_answers_422_with_the_field(api: Program, group: str) -> None:
    fine, one = (
        {"type": "memory.observed", "agent_id": "klaus", "payload": {"description": text, **vector}}
        for text, vector in ((TEA, own(TEA)), (BOOK, wrong()))
    )
    for body, field in ((one, "payload.vector"), ({"events": [fine, one]}, "events.1.payload.vector")):
        problem = api.post("/events", body, status=422)
        check_refused(problem["detail"])
        assert [error["field"] for error in problem["errors"]] == [field]
    assert nodes(group) == []


def test_imports_of_lines_and_of_a_simulations_folder_are_told(
    client: Client, jiyi: Callable[..., str], tmp_path: Path
) -> None:
    def refused(*arguments: str) -> str:
        return " ".join(jiyi(*arguments, "--json", code=1).split())

    lines = [
        {"agent_id": "klaus", "description": text, **vector}
        for text, vector in ((BOOK, wrong()), (TEA, own(TEA)))
    ]
    file = tmp_path / "events.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    check_refused(refused("import", "jsonl", str(file)))
    # Fmt: skip.
    saved = {
        "type": "event",
        "node_count": 1,
        "type_count": 1,
        "depth": 0,
        "created": "2023-02-13 00:00:00",
        "expiration": None,
        "last_accessed": "2023-02-13 00:00:00",
        "subject": "Ann",
        "predicate": "drinks",
        "object": "tea",
        "description": TEA,
        "embedding_key": TEA,
        "poignancy": 2,
        "keywords": ["tea"],
        "filling": [],
    }
    folder = {"nodes": {"node_1": saved}, "scratch": {"name": "Ann"}, "embeddings": {TEA: WRONG}}
    for name, content in folder.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    check_refused(refused("import", "stanford", str(tmp_path), "--embedding-model", embedder().model))
    assert [node["description"] for node in nodes(client.group)] == [TEA]


def test_a_model_that_only_callers_use_is_not_bound_to_its_first_vector(group: str) -> None:
    save(observed(group, "two values", vector=[1, 0], embedding_model="theirs"))
    save(observed(group, "three values", vector=[1, 0, 0], embedding_model="theirs"))
    for vector, found in (([1, 0], "two values"), ([1, 0, 0], "three values")):
        answer = retrieve(group, "anything", vectors=[vector], embedding_model="theirs", relevance="dense")
        assert cosines(answer)[found] == pytest.approx(1)
        assert answer.groups[0].debug.without_comparable_vector == 1
    with pytest.raises(ModelMismatch, match=r"2 or 3 values .* one of 4"):
        retrieve(group, "anything", vectors=[[1, 0, 0, 0]], embedding_model="theirs")


def test_an_index_takes_its_width_from_no_stored_vector(group: str) -> None:
    first, second = observed(group, BOOK), observed(group, TEA, **own(TEA))
    save(first)
    spoil(first.event_id)
    for mode in ("recent", "stanford"):
        answer = retrieve(group, "a book", mode=mode)  # only wrong ones leave the words
        assert [node.description for node in answer.groups[0].retrieved_nodes] == [BOOK]
    save(second)
    for mode in ("recent", "stanford"):
        answer = retrieve(group, TEA, mode=mode, relevance="dense")
        assert cosines(answer) == pytest.approx({TEA: 1, BOOK: 0}, abs=1e-5)
        assert answer.groups[0].debug.without_comparable_vector == 1


def test_a_stored_vector_that_is_too_long_spoils_no_other_score(group: str) -> None:
    first, second = observed(group, BOOK), observed(group, TEA, **own(TEA))
    save(first, second)
    huge = np.full(embedder().dimensions or 0, 3e38, dtype=np.float32).tolist()
    rows(
        "UPDATE memory_nodes SET embedding = :v, embedding_model = :m WHERE node_id = :id RETURNING 1 AS"
        " done",
        v=str(huge),
        m=embedder().model,
        id=first.event_id,
    )
    assert cosines(retrieve(group, TEA, relevance="dense")) == pytest.approx({TEA: 1, BOOK: 0}, abs=1e-5)


def test_when_a_models_size_becomes_known_what_does_not_fit_is_embedded_anew(group: str) -> None:
    model = f"new-{uuid4().hex[:8]}"
    misfit = observed(group, BOOK, vector=[1, 0], embedding_model=model)
    fits = observed(group, TEA, vector=[1, 0, 0], embedding_model=model)
    save(misfit, fits)
    with unit_of_work() as connection:
        assert embedding_models.drop_misfits(connection, model, 3) == 1
    found = {node["node_id"]: node["embedding_model"] for node in nodes(group)}
    assert found == {misfit.event_id: None, fits.event_id: model}
    assert ("embed", misfit.event_id) in owed(group)
    assert ("embed", fits.event_id) not in owed(group)
