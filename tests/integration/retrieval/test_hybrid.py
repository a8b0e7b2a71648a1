"""tasks.retrieval.retrieve with words and vectors together: what is found, by what, and what when one of the
two is missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from threading import Barrier
from typing import Any
from unittest.mock import Mock
from uuid import UUID, uuid4

import pytest

from engine.providers.embedder_specs import Embedder
from engine.providers.embedders import embedder, forget_questions, query_vectors
from engine.providers.llms import reranker
from engine.retrieval.query import sentences_of
from jiyi.errors import EmbeddingUnavailable
from jiyi.protocol.retrieval import Answer, FocalAnswer, RetrievalRequest, ScoredMemory
from jiyi.protocol.wire.vectors import Float32
from jiyi.settings import get_settings
from models.db.connection import reading_engine
from models.retrieval import index_cache
from tasks.retrieval import answer as answer_
from tasks.retrieval import question as questions
from tasks.retrieval.retrieve import retrieve
from tests import misbehaving as bad
from tests.integration.fields import check_fields
from tests.integration.memory.test_inbox import observed, save
from tests.integration.threads import Threads
from workers.ephemeral import environment

T0 = datetime(2026, 3, 1, 8, tzinfo=UTC)
NOW = T0 + timedelta(hours=10)

pytestmark = pytest.mark.usefixtures("own_valkey")
DIARY = (
    "Klaus is reading a book on gentrification",
    "Maria waters the tomatoes on the balcony",
    "林岚把新到的龙井换到了靠窗的架子上",
    "Tomas 把第三窑的温度降到一千二百二十五度",
    "The invoice INV-2093 was paid on Monday",
    "Isabella plans a party at the cafe",
)


def remember(group: str, description: str, *, hours: float = 0, embedded: bool = True, **fields: Any) -> UUID:
    fields.setdefault("occurred_at", T0 + timedelta(hours=hours))
    if embedded:
        fields.update(vector=embedder().passages([description])[0].tolist(), embedding_model=embedder().model)
    event = observed(group, description, **fields)
    save(event)
    return event.event_id


def diary(group: str, *, embedded: bool = True) -> None:
    for text in DIARY:
        remember(group, text, embedded=embedded)


def ask_all(group: str, *questions: str, **options: Any) -> Answer:
    """By relevance alone, unless ``options`` say otherwise."""
    options = {
        "now": NOW,
        "recency_w": 0,
        "importance_w": 0,
        "touch": False,
        "relevance": "hybrid",
        **options,
    }
    request = RetrievalRequest(group_id=group, agent_id="klaus", queries=list(questions), **options)
    answer = retrieve(request)
    assert isinstance(answer, Answer)  # nothing is touched
    return answer


def ask(group: str, question: str, **options: Any) -> FocalAnswer:
    return ask_all(group, question, **options).groups[0]


def first(group: str, question: str, **options: Any) -> str:
    return ask(group, question, **options).retrieved_nodes[0].description


def by_description(answer: FocalAnswer) -> dict[str, ScoredMemory]:
    return {node.description: node for node in answer.retrieved_nodes}


@pytest.fixture
def no_embedder(monkeypatch: pytest.MonkeyPatch) -> None:
    def away(_embedder: object, _texts: Sequence[str]) -> None:
        raise EmbeddingUnavailable("the model is being downloaded")

    forget_questions()  # what was asked before needs no embedder
    monkeypatch.setattr(questions, "query_vectors", away)


# What is found

QUESTIONS = {
    "What does Klaus read?": DIARY[0],
    "Who waters tomatoes?": DIARY[1],
    "龙井放在哪里？": DIARY[2],
    "第三窑现在多少度": DIARY[3],
    "inv-2093": DIARY[4],
    "ISABELLA'S PARTY": DIARY[5],
}


@pytest.mark.parametrize("relevance", [None, "lexical"])
def test_a_question_in_english_or_chinese_finds_its_memory(group: str, relevance: str | None) -> None:
    diary(group)
    for question, expected in QUESTIONS.items():
        answer = ask(group, question, relevance=relevance)
        assert (answer.retrieved_nodes[0].description, answer.debug.relevance) == (
            expected,
            relevance or "hybrid",
        )


def test_several_questions_get_an_answer_each(group: str) -> None:
    diary(group)
    answer = ask_all(group, *QUESTIONS, top_k=1)
    assert [one.retrieved_nodes[0].description for one in answer.groups] == list(QUESTIONS.values())


def dialogue(group: str, *messages: tuple[str, str], **options: Any) -> FocalAnswer:
    said = [{"role": role, "content": content} for role, content in messages]
    fields: dict[str, Any] = {
        "now": NOW,
        "recency_w": 0,
        "importance_w": 0,
        "touch": False,
        "messages": said,
        **options,
    }
    answer = retrieve(RetrievalRequest(group_id=group, agent_id="klaus", **fields))
    assert isinstance(answer, Answer)
    (found,) = answer.groups
    return found


def test_what_a_dialogue_is_about_is_found_by_its_earlier_messages(group: str) -> None:
    diary(group)
    talk = (
        ("user", "Maria grows tomatoes"),
        ("assistant", "The invoice can wait."),
        ("user", "who waters them?"),
    )
    for relevance in ("dense", "lexical", "hybrid"):
        found = dialogue(group, *talk, relevance=relevance)
        assert (found.status, found.query, found.debug.relevance) == ("ok", "who waters them?", relevance)
        assert found.retrieved_nodes[0].description == DIARY[1]
    (parts, likely) = found.retrieved_nodes[0].relevance_parts, found.retrieved_nodes[0].probability
    assert parts.dense is not None and parts.lexical is not None and likely is not None and 0 < likely < 1
    question = "I went out. What does Klaus read? I forgot it!"
    assert dialogue(group, ("user", question)).retrieved_nodes == ask(group, question).retrieved_nodes


@pytest.mark.usefixtures("no_embedder")
def test_without_the_embedder_a_dialogue_is_found_by_its_words(group: str) -> None:
    diary(group, embedded=False)
    found = dialogue(group, ("user", "Klaus and gentrification"), ("assistant", "Yes?"), ("user", "his book"))
    assert (found.retrieved_nodes[0].description, found.debug.relevance) == (DIARY[0], "lexical")


# A reranker


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[bad.Vendor]:
    """One that likes tomatoes, and then what is short."""
    monkeypatch.delenv("COMPATIBLE_API_KEY", raising=False)
    reranker.cache_clear()
    with bad.vendor() as made:
        made.otherwise = bad.rerank(lambda _query, document: 100.0 * ("tomatoes" in document) - len(document))
        monkeypatch.setattr(answer_, "SECONDS", 30.0)
        # A model of its own each time: breakers are shared, and outlast the test.
        with environment(reranker=f"{uuid4().hex}@{made.base_url}"):
            yield made
    reranker.cache_clear()


def test_a_reranker_orders_the_best_anew_and_is_shown(group: str, server: bad.Vendor) -> None:
    diary(group)
    assert ask(group, "What does Klaus read?", mode="stanford").debug.reranker == ""  # never reranked
    assert not server.requests
    found = ask(group, "What does Klaus read?", top_k=2)
    assert [node.description for node in found.retrieved_nodes] == [
        DIARY[1],
        min(DIARY[:1] + DIARY[2:], key=len),
    ]
    assert [node.reranked for node in found.retrieved_nodes] == [
        100.0 - len(DIARY[1]),
        -float(len(found.retrieved_nodes[1].description)),
    ]
    model = get_settings().reranker.partition("@")[0]
    check_fields(found.debug, reranker=f"compatible:{model}", note="", retrieved_count=2)
    (request,) = server.requests
    assert (request.body["query"], sorted(request.body["documents"])) == (
        "What does Klaus read?",
        sorted(DIARY),
    )
    dialogue(group, ("user", "Maria is here"), ("assistant", "Oh?"), ("user", "what does she do?"))
    assert server.requests[1].body["query"] == "Maria is here\nOh?\nwhat does she do?"


def test_reranked_the_newer_still_comes_before_the_older(group: str, server: bad.Vendor) -> None:
    remember(group, "Mia lives in Leeds, a city in the north of England", subject="Mia")
    remember(
        group, "Mia moved, she now lives in York, a city in the north of England", hours=5, subject="Mia"
    )
    server.otherwise = bad.rerank(lambda _query, document: float("Leeds" in document))
    newer, older = ask(group, "Where does Mia live?").retrieved_nodes
    assert (older.replaced_by, older.reranked, newer.reranked) == (newer.node_id, 1, 0)


@pytest.mark.parametrize("failing", [bad.json_body({"results": []}), bad.slow(20)])
def test_without_an_answer_of_the_reranker_the_order_stays_and_is_told(
    group: str, server: bad.Vendor, failing: bad.Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    diary(group)
    with environment(reranker="off"):
        before = ask_all(group, *QUESTIONS, top_k=3)
    assert not server.requests
    server.otherwise = failing
    monkeypatch.setattr(answer_, "SECONDS", 0.3)
    after = ask_all(group, *QUESTIONS, top_k=3)
    for old, new in zip(before.groups, after.groups, strict=True):
        assert new.retrieved_nodes == old.retrieved_nodes
        assert (new.debug.reranker, "not reranked" in new.debug.note) == ("", True)
    assert len(server.requests) == 1  # whoever waits does not wait once for each text


# What relevance is made of


def test_every_part_of_a_relevance_is_told_and_parts_that_play_none_are_none(group: str) -> None:
    diary(group)
    answer = ask(group, "What does Klaus read?")
    assert (answer.debug.relevance, answer.debug.note) == ("hybrid", "")
    nodes = by_description(answer)
    for node in nodes.values():
        assert None not in node.relevance_parts.model_dump().values()
    best, other = nodes[DIARY[0]].relevance_parts, nodes[DIARY[2]].relevance_parts
    assert -1 <= other.dense < best.dense <= 1
    assert best.lexical > 0 == other.lexical
    for relevance in ("lexical", "dense"):
        for node in ask(group, "What does Klaus read?", relevance=relevance).retrieved_nodes:
            parts = node.relevance_parts.model_dump()
            assert {name for name, value in parts.items() if value is not None} == {relevance}
            assert node.relevance.raw == pytest.approx(parts[relevance])


def test_minimum_similarity_holds_for_words_too(group: str) -> None:
    diary(group)
    for relevance in ("hybrid", "lexical"):
        answer = ask(
            group,
            "Klaus is reading a book on gentrification",
            relevance=relevance,
            filters={"min_similarity": 0.9},
        )
        assert [node.description for node in answer.retrieved_nodes] == [DIARY[0]]


def test_neighbours_in_the_session_raise_a_memory_unless_switched_off_for_one_request(group: str) -> None:
    minute = 1 / 60
    remember(group, "Klaus: shall we order the kiln shelves?", session_id="a", hours=0)
    remember(group, "yes, forty of them", session_id="a", hours=minute)
    remember(group, "yes, forty of them!", session_id="b", hours=minute)  # the same words, said elsewhere
    remember(group, "yes, forty of them.", hours=minute)
    for text in DIARY:
        remember(group, text, session_id=text)
    nodes = by_description(ask(group, "kiln shelves order"))
    near, elsewhere = nodes["yes, forty of them"], nodes["yes, forty of them!"]
    assert near.relevance_parts.neighbours > 0
    assert (
        elsewhere.relevance_parts.neighbours == nodes["yes, forty of them."].relevance_parts.neighbours == 0
    )
    assert near.score > elsewhere.score
    nodes = by_description(ask(group, "kiln shelves order", neighbours=False))
    assert nodes["yes, forty of them"].relevance_parts.neighbours == 0


# Without vectors


def test_without_an_embedder_words_are_what_is_left_and_the_answer_says_so(
    group: str, no_embedder: None
) -> None:
    diary(group)
    for question, expected in QUESTIONS.items():
        answer = ask(group, question)
        best, *others = answer.retrieved_nodes
        assert best.description == expected
        assert best.probability > max(other.probability for other in others)
        assert answer.debug.relevance == "lexical"
        assert "the model is being downloaded" in answer.debug.note
        assert all(node.relevance_parts.dense is None for node in answer.retrieved_nodes)
    answer = ask(group, "What does Klaus read?", relevance="lexical")  # asks for no vector
    assert (answer.retrieved_nodes[0].description, answer.debug.note) == (DIARY[0], "")
    for options in ({"relevance": "dense"}, {"mode": "stanford"}):
        with pytest.raises(EmbeddingUnavailable, match="downloaded"):
            ask(group, "What does Klaus read?", **options)


LONG = "What does Klaus read about gentrification? And where does Maria water her tomatoes?"


def test_all_texts_of_a_request_are_embedded_in_one_call_and_vectors_that_come_along_leave_only_sentences(
    group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = Mock(side_effect=query_vectors)
    monkeypatch.setattr(questions, "query_vectors", calls)
    assert ask(group, "Who waters tomatoes?").status == "unknown_agent"
    assert not calls.called  # for an agent that nobody knows
    diary(group)
    answers = ask_all(group, LONG, "Who waters tomatoes?").groups
    (call,) = calls.call_args_list
    assert sorted(call.args[1]) == sorted([LONG, *sentences_of(LONG), "Who waters tomatoes?"])
    assert {node.description for node in answers[0].retrieved_nodes[:2]} == {DIARY[0], DIARY[1]}
    engine = embedder()
    forget_questions()
    calls.side_effect = EmbeddingUnavailable("gone")  # then the question as a whole has to do
    answer = ask(group, LONG, vectors=[engine.query(LONG).tolist()], embedding_model=engine.model)
    assert list(calls.call_args.args[1]) == sentences_of(LONG)
    assert answer.debug.relevance == "hybrid"
    assert {node.description for node in answer.retrieved_nodes[:2]} == {DIARY[0], DIARY[1]}


def test_no_embedder_is_called_under_a_lock_or_with_a_connection(
    group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eight questions to one agent at once are with the embedder at the same time: none waits for
    another's.
    """
    diary(group)
    together = Barrier(8)

    def slow(engine: Embedder, texts: Sequence[str]) -> dict[str, Float32]:
        together.wait(60)
        assert reading_engine().pool.checkedout() == 0  # type: ignore[attr-defined]
        found = query_vectors(engine, texts)
        together.wait(60)  # and none goes on before all have looked at the pool
        return found

    monkeypatch.setattr(questions, "query_vectors", slow)
    with Threads(8) as pool:
        answers = list(pool.map(lambda place: ask(group, f"Who waters tomatoes at {place}?"), range(8)))
    assert all(answer.retrieved_nodes[0].description == DIARY[1] for answer in answers)


def test_before_anything_is_embedded_memories_are_found_by_their_words(group: str) -> None:
    diary(group, embedded=False)
    for question, expected in QUESTIONS.items():
        answer = ask(group, question)
        assert (answer.retrieved_nodes[0].description, answer.debug.relevance) == (expected, "lexical")
        assert "no memory is embedded yet" in answer.debug.note
        assert answer.debug.without_comparable_vector == len(DIARY)


def test_a_memory_without_a_vector_is_found_by_its_words_among_those_with_one(group: str) -> None:
    diary(group)
    remember(group, "Klaus bought tea", embedded=False)
    remember(group, "窗边的茶叶罐子是空的", embedded=False)
    remember(group, "The invoice about nothing", embedded=False)
    found = [node.description for node in ask(group, "What did Klaus buy?").retrieved_nodes]
    assert found.index("Klaus bought tea") < len(DIARY) // 2
    answer = ask(group, "Who bought the tea?")
    best = answer.retrieved_nodes[0]
    assert (best.description, best.relevance_parts.dense) == ("Klaus bought tea", 0)
    assert answer.debug.without_comparable_vector == 3
    assert first(group, "茶叶罐子是空的吗？") == "窗边的茶叶罐子是空的"
    # Nothing is ahead for having no vector.
    assert first(group, "When was the invoice INV-2093 paid?") == DIARY[4]


def test_without_the_embedder_memories_of_another_model_are_still_found_by_words(group: str) -> None:
    remember(group, "Klaus reads", embedded=False, vector=[1, 0], embedding_model="another")
    remember(group, "Maria sings", embedded=False, vector=[0, 1], embedding_model="another")
    assert (
        first(group, "who sings", relevance="lexical", vectors=[[1, 0]], embedding_model="another")
        == "Maria sings"
    )


# Agents


def test_other_groups_and_agents_memories_are_never_seen_and_change_no_figure(group: str) -> None:
    diary(group)
    alone = ask(group, "What does Klaus read?")
    for other, agent in ((f"{group}-b", "klaus"), (group, "maria")):
        for i in range(20):
            remember(other, f"Klaus reads what Klaus reads {i}", agent_id=agent, session_id="s")
    index_cache.forget_all()
    again = ask(group, "What does Klaus read?")
    assert again == alone
    assert {node.description for node in again.retrieved_nodes} == set(DIARY)


# What comes before what


def test_the_newer_of_two_that_say_the_same_comes_first_and_the_older_is_marked(group: str) -> None:
    diary(group)
    old = remember(group, "Maria lives in a flat in Leith with a view of the harbour")
    new = remember(group, "Maria has moved, she lives in a flat in Hobart now", hours=5)
    remember(group, "The ferry was late", hours=6)
    question = "In which flat with a view of the harbour does Maria live?"  # in the words of the older
    nodes = ask(group, question).retrieved_nodes
    assert [node.node_id for node in nodes[:2]] == [new, old]
    assert [node.replaced_by for node in nodes[:2]] == [None, new]
    few = ask(group, question, top_k=1)
    assert ([node.node_id for node in few.retrieved_nodes], few.accessed_ids, few.debug.retrieved_count) == (
        [new],
        [new],
        1,
    )
    plain = ask(group, question, newer_first=False).retrieved_nodes
    assert plain[0].node_id == old
    assert all(node.replaced_by is None for node in plain)


@pytest.mark.parametrize("relevance", ["hybrid", "lexical"])
def test_a_single_chinese_character_is_found_by_words(group: str, relevance: str) -> None:
    remember(group, "我家的猫昨天生病了")
    diary(group)
    for question in ("猫", "我的猫怎么了？"):
        best = ask(group, question, relevance=relevance).retrieved_nodes[0]
        assert best.description == "我家的猫昨天生病了"
        assert best.relevance_parts.lexical


# How likely it is


def test_what_answers_is_likely_and_the_rest_can_be_left_out(group: str) -> None:
    diary(group)
    question = "What does Klaus read?"
    likely = [node.probability for node in ask(group, question).retrieved_nodes]
    assert len(likely) == len(DIARY)
    assert None not in likely
    assert likely[0] == max(likely)
    least = (likely[0] + likely[1]) / 2
    assert [node.description for node in ask(group, question, min_probability=least).retrieved_nodes] == [
        DIARY[0]
    ]
    answer = ask(group, question, min_probability=1.0)  # without memories it is an answer, too
    assert (answer.status, answer.retrieved_nodes, answer.accessed_ids) == ("no_candidates", [], [])
    assert answer.message.startswith("no memory is as likely to answer as asked; left out: ")
    assert answer.debug.total_candidates == len(DIARY)
    for relevance in ("dense", "lexical"):  # these have no probability, and leave nothing out
        nodes = ask(group, question, relevance=relevance, min_probability=1.0).retrieved_nodes
        assert [node.probability for node in nodes] == [None] * len(DIARY)
