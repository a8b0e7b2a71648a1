"""An agent that outgrows its index in memory is answered from the database instead."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import product
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

import numpy as np
import psycopg
import pytest
from psycopg import sql
from psycopg.errors import DiskFull

from engine.providers.embedders import embedder
from jiyi.errors import ServiceError
from jiyi.protocol.base import ByIds
from jiyi.protocol.events import Event
from jiyi.protocol.recall import UpdateMemory
from jiyi.protocol.retrieval import Answer, Filters, RetrievalRequest
from jiyi.text.words import tokens
from models.actions import ACTIONS
from models.db.actions import Actor
from models.db.connection import driver, unit_of_work
from models.db.scope import whole_service
from models.memory.work import ENLARGE
from models.operations import embedding_models
from models.queue import pending_work
from models.retrieval import enlargement, large_agents
from tasks.framework.work import run_until_idle
from tasks.retrieval.indexes import enlarge
from tasks.retrieval.retrieve import retrieve
from tests.integration.memory.test_inbox import execute, observed, owed, rows, save
from workers.embedded.stack import Stack
from workers.ephemeral import environment

T0 = datetime(2026, 3, 1, 8, tzinfo=UTC)
BOUND = 100
THINGS = "kiln clay glaze tea harbour ferry 陶瓷 喝茶 龙井 窑火".split()
#: Lengths of vectors that events may have; a half has at most 65,504, and at least 6e-8.
LONG, SHORT = np.float32(9e5), np.float32(2e-6)
NEAREST_ALONE: dict[str, Any] = {"relevance": "dense", "recency_w": 0, "importance_w": 0}


@pytest.fixture(autouse=True)
def _bound(own_valkey: None, nothing_owed: None) -> Iterator[None]:
    with environment(index_max_nodes=str(BOUND)):
        yield


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """``few(5)``: so many candidates of each kind."""

    def limit(count: int, *others: str) -> None:
        for name in ("NEAREST", "WITH_WORDS", "NEWEST", "MOST_IMPORTANT", *others):
            monkeypatch.setattr(large_agents, name, count)

    return limit


def memories(group: str, count: int, seed: int = 1, agent_id: str = "klaus") -> list[Event]:
    random = np.random.default_rng(seed)
    texts = [f"{' '.join(random.choice(THINGS, size=4))} {seed}x{i}" for i in range(count)]
    vectors = embedder().passages(texts)
    return [
        observed(
            group,
            text,
            agent_id,
            occurred_at=T0 + timedelta(minutes=i),
            session_id=f"s{i // 10}",
            poignancy=1 + i % 10,
            node_type="thought" if i % 7 == 0 else "event",
            keywords=[f"k{i % 13}"],
            vector=vector.tolist(),
            embedding_model=embedder().model,
        )
        for i, (text, vector) in enumerate(zip(texts, vectors, strict=True))
    ]


def grown(group: str, count: int = 130) -> list[Event]:
    """An agent that is large, and what it remembers."""
    events = memories(group, count)
    save(*events)
    run_until_idle(ENLARGE, enlarge)
    return events


def ask(group: str, text: str, **options: Any) -> Answer:
    options = {"touch": False, "now": T0 + timedelta(days=1), **options}
    request = RetrievalRequest(group_id=group, agent_id="klaus", queries=[text], **options)
    found = retrieve(request)
    return found if isinstance(found, Answer) else found.answer


def as_small(group: str, text: str, **options: Any) -> Answer:
    """The same question answered by an index of everything."""
    (agent,) = rows("SELECT large_ready_at FROM agents WHERE group_id = :g", g=group)
    ready = "UPDATE agents SET large_ready_at = :ready WHERE group_id = :g"
    execute(ready, ready=None, g=group)
    found = ask(group, text, **options)
    assert found.debug.exact
    execute(ready, ready=agent["large_ready_at"], g=group)
    return found


@pytest.fixture(scope="module")
def large(database: Stack) -> str:
    """The group of an agent that remembers 500 things, and three of a day of their own. To be asked only."""
    group, day = f"large-{uuid4().hex[:8]}", T0 + timedelta(days=2)
    with environment(index_max_nodes=str(BOUND)), whole_service():
        save(
            *(
                observed(group, f"nothing of note {n}", occurred_at=day + timedelta(minutes=n), poignancy=1)
                for n in range(3)
            )
        )
        grown(group, 500)
    return group


# Becoming large


def test_an_agent_that_outgrows_the_bound_owes_it_to_become_large(group: str) -> None:
    events = memories(group, BOUND + 1)
    save(*events[:BOUND])
    assert ENLARGE not in {kind for kind, _ in owed(group)}
    save(events[BOUND])
    assert ENLARGE in {kind for kind, _ in owed(group)}
    assert ask(group, "kiln").debug.exact  # until it is ready


def test_all_nodes_are_marked_whenever_they_came_and_all_terms_counted(group: str) -> None:
    events = memories(group, 150)
    save(*events[:120])
    with unit_of_work() as connection:
        (key,) = connection.exec_driver_sql(
            "SELECT agent_key FROM agents WHERE group_id = %s", (group,)
        ).scalars()
        begun = enlargement.begin(connection, key)
    assert begun is not None and begun.large_from == 120
    save(*events[120:135])  # while it is being done
    run_until_idle(ENLARGE, enlarge)
    save(*events[135:])
    assert {row["large"] for row in rows("SELECT large FROM memory_nodes WHERE group_id = :g", g=group)} == {
        True
    }
    counted = {
        row["term"]: row["texts"]
        for row in rows(
            "SELECT term, sum(texts)::int AS texts FROM term_frequencies WHERE group_id = :g GROUP BY 1",
            g=group,
        )
    }
    said = [tokens(event.payload.description) for event in events]  # type: ignore[union-attr]
    expected = Counter(term for text in said for term in set(text)) | {"": sum(map(len, said))}
    assert counted == expected
    assert ENLARGE not in {kind for kind, _ in owed(group)}


def test_one_agent_at_a_time_becomes_large_and_doing_it_again_changes_nothing(group: str) -> None:
    save(*memories(group, BOUND + 1))
    with pending_work.alone(ENLARGE) as alone:
        assert alone
        assert run_until_idle(ENLARGE, enlarge) == 0  # it is left to whoever does another
    assert rows("SELECT attempts FROM pending_work WHERE kind = 'enlarge' AND group_id = :g", g=group) == [
        {"attempts": 0}
    ]
    assert run_until_idle(ENLARGE, enlarge) == 1
    counted = "SELECT term, counted, texts FROM term_frequencies WHERE group_id = :g ORDER BY 1, 2"
    before = rows(counted, g=group)
    with unit_of_work() as connection:
        connection.exec_driver_sql(
            "INSERT INTO pending_work (kind, subject_id, group_id) SELECT 'enlarge', agent_key, group_id FROM"
            " agents WHERE group_id = %s",
            (group,),
        )
    run_until_idle(ENLARGE, enlarge)
    assert rows(counted, g=group) == before


@pytest.mark.parametrize(("dimensions", "kind"), [(3, "halfvec(3)"), (2_500, "halfvec(2500)"), (4_096, None)])
def test_vectors_of_any_size_are_found(group: str, dimensions: int, kind: str | None) -> None:
    """Of any length, too: halves go to 65,504 only."""
    assert enlargement.indexed_type(dimensions) == kind
    vectors = np.random.default_rng(3).standard_normal((BOUND + 1, dimensions)).astype(np.float32)
    vectors *= LONG / np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors[::2] *= SHORT / LONG
    model = f"random-{dimensions}"
    events = [
        observed(group, f"memory {i}", vector=vector.tolist(), embedding_model=model)
        for i, vector in enumerate(vectors)
    ]
    save(*events)
    run_until_idle(ENLARGE, enlarge)
    found = ask(group, "near", vectors=[vectors[7].tolist()], embedding_model=model, **NEAREST_ALONE, top_k=1)
    assert found.accessed_ids == [events[7].event_id]
    assert not found.debug.exact


def test_the_original_mode_is_exact_however_large_the_agent_and_what_cannot_be_searched_is_told(
    group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = grown(group)
    # Of another size: stops nothing.
    save(observed(group, "odd one", vector=[1.0, 2.0], embedding_model=embedder().model))
    found = ask(group, events[0].payload.description, recency_w=0, importance_w=0)  # type: ignore[union-attr]
    assert (found.accessed_ids[0], found.debug.exact) == (events[0].event_id, False)
    assert ask(group, "kiln", mode="stanford").debug.exact
    monkeypatch.setattr(large_agents, "MAX_SCAN_TUPLES", "007")
    with pytest.raises(ServiceError, match="did not take its settings"):
        ask(group, "kiln")


# Answers


def test_the_same_candidates_give_the_same_answer(large: str, few: Callable[..., None]) -> None:
    """So few that all are candidates: then nothing may differ from an index of everything."""
    few(600)
    questions = ["kiln with glaze", "Where is the ferry? Who drinks 龙井?", "陶瓷窑火", "nothing known"]
    for question, relevance in product(questions, ["hybrid", "dense", "lexical"]):
        expected, found = (answer(large, question, relevance=relevance) for answer in (as_small, ask))
        assert found.accessed_ids == expected.accessed_ids, (question, relevance)
        assert (found.debug.exact, found.debug.total_candidates) == (False, expected.debug.total_candidates)
        for mine, theirs in zip(found.retrieved_nodes, expected.retrieved_nodes, strict=True):
            # Scaling to what the candidates span enlarges rounding.
            assert mine.score == pytest.approx(theirs.score, abs=1e-5)
            assert mine.relevance_parts.model_dump() == pytest.approx(
                theirs.relevance_parts.model_dump(), abs=1e-4
            )


def test_few_candidates_of_many_memories_are_the_right_ones(large: str, few: Callable[..., None]) -> None:
    few(40, "WITH_NEIGHBOURS")
    overlaps = []
    for event in memories(large, 500)[::50]:
        question = event.payload.description  # type: ignore[union-attr]
        expected, found = (answer(large, question, top_k=10) for answer in (as_small, ask))
        assert found.debug.total_candidates < 400
        overlaps.append(len(set(found.accessed_ids) & set(expected.accessed_ids)))
    assert np.mean(overlaps) > 7  # of 10; these texts are as alike as can be
    few(5, "OF_DAYS")  # what happened on a day that the question names is looked for
    options = {"now": T0 + timedelta(days=30), "top_k": 20, "recency_w": 0, "importance_w": 0}
    for question, answer in product(
        ["What was there on 3 March 2026?", "2026年3月3日有什么"], [as_small, ask]
    ):
        found = answer(large, question, **options)
        assert {f"nothing of note {n}" for n in range(3)} <= {
            node.description for node in found.retrieved_nodes
        }
    # BM25 uses the frequencies of the whole agent.
    expected, found = (answer(large, "glaze", relevance="lexical", top_k=3) for answer in (as_small, ask))
    scores = [
        {round(node.relevance_parts.lexical or 0, 9) for node in one.retrieved_nodes}
        for one in (expected, found)
    ]
    assert scores[0] & scores[1]


def test_a_filter_never_returns_fewer_than_there_are(group: str, few: Callable[..., None]) -> None:
    few(1)
    grown(group)
    with unit_of_work() as connection:
        connection.exec_driver_sql(
            "UPDATE memory_nodes SET archived_at = now(), changed_xid = pg_current_xact_id() WHERE group_id ="
            " %s AND node_count %% 3 = 0",
            (group,),
        )
    for filters in (
        {"types": ["thought"]},
        {"session_id": "s3"},
        {"keywords": ["K5"]},
        {"created_before": T0 + timedelta(minutes=6)},
        {"created_after": T0 + timedelta(minutes=120)},
        {"created_after": T0 + timedelta(minutes=120, microseconds=1)},
        {"types": ["event", "thought", "chat"], "include_archived": True},
    ):
        expected, found = (
            answer(group, "tea", filters=Filters(**filters), top_k=130) for answer in (as_small, ask)
        )
        assert set(found.accessed_ids) == set(expected.accessed_ids) and found.accessed_ids, filters


def test_the_search_goes_on_beyond_other_tenants_rows(group: str) -> None:
    """The nearest of all belong to others: an approximate index that stopped there would return nothing."""
    others = [f"{group}-{i}" for i in range(3)]
    for other in others:
        save(*memories(other, BOUND + 1))
    grown(group)
    run_until_idle(ENLARGE, enlarge)
    answer = ask(group, "kiln clay glaze tea 1x7", relevance="dense", recency_w=0, importance_w=0, top_k=30)
    mine: set[UUID] = {
        row["node_id"] for row in rows("SELECT node_id FROM memory_nodes WHERE group_id = :g", g=group)
    }  # type: ignore[misc]
    assert len(answer.accessed_ids) == 30 and set(answer.accessed_ids) <= mine


def test_words_alone_answer_when_there_is_no_vector(group: str) -> None:
    save(
        *[
            observed(group, f"glaze {i}" if i % 50 == 0 else f"tea {i}", historic=True)
            for i in range(BOUND + 1)
        ]
    )
    run_until_idle(ENLARGE, enlarge)
    found = ask(group, "glaze", top_k=3)
    assert {node.description for node in found.retrieved_nodes} == {"glaze 0", "glaze 50", "glaze 100"}
    assert found.debug.relevance == "lexical" and not found.debug.exact


def test_vectors_of_a_move_to_another_model_are_found_before_and_while_they_get_to_their_places(
    group: str, few: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    events = grown(group)
    few(3)
    with unit_of_work() as connection:
        connection.exec_driver_sql(
            "INSERT INTO next_vectors (node_id, group_id, model, embedding) SELECT node_id, group_id, 'next',"
            " ('[' || node_count || ',1]')::vector FROM memory_nodes WHERE group_id = %s",
            (group,),
        )
    question: dict[str, Any] = {
        "vectors": [[1.0, 1.0]],
        "embedding_model": "next",
        **NEAREST_ALONE,
        "top_k": 3,
    }
    expected = [event.event_id for event in events[:3]]
    assert ask(group, "any", **question).accessed_ids == expected
    asked: list[str] = []

    def folded_before_the_second(name: str) -> None:
        original = getattr(large_agents._Search, name)

        def look(*arguments: Any) -> Any:
            asked.append(name)
            if len(asked) == 2:
                with unit_of_work() as connection:
                    embedding_models.fold(connection, "next", len(events))
            return original(*arguments)

        monkeypatch.setattr(large_agents._Search, name, look)

    folded_before_the_second("_by_distance")
    folded_before_the_second("_not_folded_yet")
    assert ask(group, "any", **question).accessed_ids == expected
    assert len(asked) == 2


def test_a_user_of_a_large_agent_is_answered_from_all_that_they_are_told_and_nothing_else(group: str) -> None:
    shared = grown(group)
    vector = shared[0].payload.vector
    save(
        *(
            observed(
                group,
                f"The kiln of {user} is hot",
                user_id=user,
                vector=vector,
                embedding_model=embedder().model,
            )
            for user in [f"user-{number}" for number in range(50)]
        )
    )
    run_until_idle(ENLARGE, enlarge)
    found = ask(group, "kiln", user_id="user-7", top_k=200)
    assert found.debug.exact
    assert found.debug.total_candidates == len(shared) + 1
    assert {node.user_id for node in found.retrieved_nodes} == {None, "user-7"}
    assert {node.user_id for node in ask(group, "kiln", top_k=200).retrieved_nodes} == {None}


def test_words_are_searched_under_all_filters_before_the_best_are_taken(
    group: str, few: Callable[..., None]
) -> None:
    few(3)
    save(observed(group, "the kiln, says a file", origin="document"), observed(group, "the kiln, says Klaus"))
    grown(group)
    # Newer, and told nobody else.
    save(*(observed(group, f"the kiln of {n}", user_id="zoe") for n in range(5)))
    save(*(observed(group, f"the kiln, says a tool {n}", origin="tool") for n in range(5)))
    save(
        *(
            observed(group, f"the kiln, said {n}", kind="session", uri="agent://klaus/session/s")
            for n in range(5)
        )
    )

    def found(**filters: Any) -> set[str]:
        answer = ask(
            group, "says the kiln", relevance="lexical", top_k=3, filters={"types": ["event"], **filters}
        )
        assert not answer.debug.exact
        return {node.description for node in answer.retrieved_nodes}

    assert found(origins=["document"]) == {"the kiln, says a file"}
    assert "the kiln, says Klaus" in found(min_trust=0.8)
    assert all("tool" in text for text in found())


def test_what_a_large_agent_knew_then_is_what_a_small_one_would_have_known(group: str) -> None:
    events = grown(group)
    then = datetime.now(UTC)
    for event, text in zip(events[1:4], ("a new kiln", "new clay", "new tea"), strict=True):
        ACTIONS["memory.update"].perform(Actor(group), UpdateMemory(id=event.event_id, description=text))
    ACTIONS["archive.archive"].perform(Actor(group), ByIds(ids=[event.event_id for event in events[4:8]]))
    options = {"as_of": then, "top_k": 200, "now": T0 + timedelta(days=1)}
    large = ask(group, "kiln clay", **options)
    assert not large.debug.exact
    small = as_small(group, "kiln clay", **options)
    ids = {node.node_id for node in large.retrieved_nodes}
    assert ids == {node.node_id for node in small.retrieved_nodes} == {event.event_id for event in events}
    assert all(node.superseded_at is None for node in large.retrieved_nodes)
    assert {event.event_id for event in events[1:8]}.isdisjoint(
        node.node_id for node in ask(group, "kiln clay", top_k=200).retrieved_nodes
    )


def test_an_index_is_built_by_one_process_where_shared_memory_is_small(
    group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a container: what several processes build in does not fit there."""
    save(
        *(
            observed(group, f"memory {i}", vector=[float(i), 1.0, 0.0], embedding_model="shared")
            for i in range(BOUND + 1)
        )
    )
    statements: list[str] = []

    class Cursor(psycopg.Cursor[Any]):
        def execute(self, query: Any, *args: Any, **kwargs: Any) -> Any:
            told = query.as_string(self) if isinstance(query, sql.Composable) else str(query)
            statements.append(told)
            if (
                told.strip().startswith("CREATE INDEX")
                and "SET max_parallel_maintenance_workers = 0" not in statements
            ):
                raise DiskFull("could not resize shared memory segment")
            return super().execute(query, *args, **kwargs)

    with monkeypatch.context() as patched:
        patched.setattr(
            enlargement,
            "driver",
            lambda connection: SimpleNamespace(cursor=lambda: Cursor(driver(connection))),
        )
        run_until_idle(ENLARGE, enlarge)
    assert sum(statement.strip().startswith("CREATE INDEX") for statement in statements) == 2
    found = ask(group, "near", vectors=[[5.0, 1.0, 0.0]], embedding_model="shared", **NEAREST_ALONE, top_k=1)
    assert len(found.accessed_ids) == 1


@pytest.mark.parametrize(("vectors", "mb"), [(0, 64), (1_000_000, 1_495), (10_000_000, 2_048)])
def test_an_index_is_built_in_as_much_memory_as_it_needs(vectors: int, mb: int) -> None:
    assert enlargement.build_mb(vectors, 384) == mb
