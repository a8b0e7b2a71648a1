"""What is stored of a promotion, and digests: what quarantine is about, the same each time."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from engine.providers import questions as ask
from engine.rules.provider import Rules
from engine.tiers.quarantine import QuarantineDigest, QuarantineEntry, digest, knowledge_id, plan
from jiyi.protocol.knowledge import DemoteBody, EditKnowledge, IngestBody, ListKnowledge, PromoteBody
from jiyi.text.splitting import split

NOW = datetime(2026, 3, 2, 9, tzinfo=UTC)
LONG = " ".join(
    f"窑温到了{number}度。托马斯担心釉面会裂，林岚并不同意！The kiln held {number} times."
    for number in range(60)
)


def test_a_long_text_becomes_pieces_that_say_where_they_come_from() -> None:
    entry = UUID(int=7)
    given = {"node_id": "judge", "source": "forged"}
    planned = plan(LONG, group_id="g", promoted_at=NOW, entry_ids=[entry], metadata=given)
    assert len(planned) > 3
    assert planned[1].metadata == {
        "keywords": ["托马斯", "kiln", "held", "times", "窑温"],
        "node_id": "judge",
        "source": "promotion",
        "promoted_at": "2026-03-02T09:00:00+00:00",
        "piece": 2,
        "pieces": len(split(LONG)),
        "entry_ids": [str(entry)],
    }
    assert all(len(piece.content) <= 500 for piece in planned)


def test_promoting_again_meets_the_same_ids_and_another_group_or_agent_others() -> None:
    """In the original a promotion that fails in the middle leaves its first pieces, and stores them again."""
    first = plan(LONG, group_id="g", promoted_at=NOW)
    again = plan(f"\n{LONG} ", group_id="g", promoted_at=NOW + timedelta(days=7))
    mine = {piece.knowledge_id for piece in first}
    assert [piece.knowledge_id for piece in first] == [piece.knowledge_id for piece in again]
    assert len(mine) == len(first)
    for other in ({"group_id": "h"}, {"group_id": "g", "agent_id": "a"}):
        assert not mine & {piece.knowledge_id for piece in plan(LONG, promoted_at=NOW, **other)}
    names = [("a", None), ("a:1", None), ("a", "1"), ("a:", "1"), ("a", ":1"), ("a:1", "-"), ("a", "1:-")]
    distinct = {knowledge_id(*name, b"x") for name in names}
    assert len(distinct) == len(names), "none is taken for another for a colon"


def test_what_is_said_twice_is_stored_once() -> None:
    paragraph = "The verdict stands. " * 20
    (first,) = plan(f"{paragraph}\n\n{paragraph.upper()}", group_id="g", promoted_at=NOW, overlap=0)
    assert (first.content, first.metadata["piece"]) == (paragraph.strip(), 1)
    assert plan(" \n", group_id="g", promoted_at=NOW) == []


@pytest.mark.parametrize(
    ("model", "fields", "wrong"),
    [
        (PromoteBody, {}, "entry_ids"),
        (PromoteBody, {"text": " "}, "text"),
        (PromoteBody, {"text": "a\0"}, "text"),
        (PromoteBody, {"entry_ids": ["x"]}, "entry_ids"),
        (PromoteBody, {"entry_ids": [UUID(int=1)] * 101}, "entry_ids"),
        (PromoteBody, {"text": "x" * 100_001}, "text"),
        (IngestBody, {"content": ""}, "content"),
        (IngestBody, {"content": "x", "confidence": 80}, "confidence"),
        (IngestBody, {"content": "x", "group_id": "g"}, "group_id"),
        (DemoteBody, {"knowledge_ids": []}, "knowledge_ids"),
        (EditKnowledge, {"content": "x" * 20_001}, "content"),
        (ListKnowledge, {"layer": "web"}, "layer"),
        (ListKnowledge, {"limit": 501}, "limit"),
    ],
)
def test_what_is_wrong_is_refused_by_name(model: type[BaseModel], fields: dict[str, Any], wrong: str) -> None:
    with pytest.raises(ValidationError, match=wrong):
        model.model_validate(fields)
    assert PromoteBody.model_validate({"entry_ids": [UUID(int=1)], "text": "in short"}).preview is False


GLAZE = [
    "Raising the kiln to 1,240 degrees will crack the glaze on the cups.",
    "The glaze on the cups cracks because of the clay, not because of the kiln.",
    "A cooler kiln saves the glaze, but then the cups may leak.",
]
FERRY = ["暴风雨时渡口停航，包裹要提前一天发出。", "渡口一停航，包裹就得走公路。"]
LONELY = "Nobody remembered to water the fern in the hall."


def entry(number: int, text: str, *vector: float, **fields: Any) -> QuarantineEntry:
    known = np.array(vector, np.float32) if vector else None
    made = {"session_id": f"s{number % 2}", "vector": known, **fields}
    return QuarantineEntry(f"e{number}", text, NOW + timedelta(hours=number), **made)


def ids(found: QuarantineDigest) -> list[list[str]]:
    return sorted(sorted(item.entry_id for item in cluster.entries) for cluster in found.clusters)


ENTRIES = [entry(number, text) for number, text in enumerate([*GLAZE, *FERRY, LONELY])]


def test_entries_that_share_words_are_one_cluster_in_either_language_and_any_order() -> None:
    found = digest(ENTRIES)
    assert ids(found) == [["e0", "e1", "e2"], ["e3", "e4"], ["e5"]]
    glaze = found.clusters[0]
    assert (len(glaze.entries), glaze.sessions) == (3, 2)
    assert (glaze.first, glaze.last) == (NOW, NOW + timedelta(hours=2))
    assert {"glaze", "kiln"} <= set(glaze.keywords)
    shuffled = [*ENTRIES, *ENTRIES]
    random.Random(7).shuffle(shuffled)
    assert digest(shuffled) == found


def test_vectors_come_before_words_where_all_entries_have_one() -> None:
    directions = [(1, 0, 0.1), (0, 1, 0.1), (1, 0, 0.2), (0, 1, 0.2), (1, 0, 0.1), (0, 1, 0)]
    made = [entry(number, text, *directions[number]) for number, text in enumerate([*GLAZE, *FERRY, LONELY])]
    assert ids(digest(made)) == [["e0", "e2", "e4"], ["e1", "e3", "e5"]]
    for odd in ((), (0, 0, 0), (1, 0)):  # which cannot be compared
        made = [entry(0, GLAZE[0], 1, 0, 0), entry(1, GLAZE[1], 0, 1, 0), entry(2, FERRY[0], *odd)]
        assert ids(digest(made)) == [["e0", "e1"], ["e2"]]


def test_what_most_sessions_say_comes_first() -> None:
    echo = [entry(number, FERRY[0] + str(number), session_id="one") for number in range(5)]
    heard = [entry(10 + number, text, session_id=f"s{number}") for number, text in enumerate(GLAZE)]
    assert [cluster.sessions for cluster in digest([*echo, *heard]).clusters] == [3, 1]


def test_a_digest_is_bounded_and_says_what_it_left_out() -> None:
    words = [f"{chr(97 + number % 26)}{number} alone{number} single{number}" for number in range(30)]
    entries = [entry(number, text) for number, text in enumerate(words)]
    found = digest(entries, max_entries=25, max_clusters=10)
    assert (len(found.clusters), found.left_out) == (10, 15)
    assert found.clusters[0].entries[0].entry_id == "e29"  # the newest


@given(st.lists(st.text(alphabet="ab 土火。", max_size=20), max_size=15), st.booleans())
def test_every_entry_is_in_one_cluster(texts: list[str], with_vectors: bool) -> None:
    vectors = [(float(len(text)), 1.0) if with_vectors else () for text in texts]
    made = [entry(number, text, *vectors[number]) for number, text in enumerate(texts)]
    clustered = [item for cluster in ids(digest(made)) for item in cluster]
    assert sorted(clustered) == sorted(item.entry_id for item in made)


def summary(statements: list[str], language: Any = "en") -> ask.Digested:
    question = ask.Digest(agent_id="council", language=language, statements=statements)
    answer = Rules().ask(question)
    assert question.problems(answer) == []
    return answer


def test_the_rules_quote_the_most_central_sentences_each_once() -> None:
    found = summary([f"{text} Good morning everybody." for text in GLAZE])
    assert found.evidence
    quoted = [text for text in GLAZE if text in found.summary]
    said = [number for number in found.evidence if GLAZE[number] in found.summary]
    assert [GLAZE.index(text) for text in quoted] == said
    assert len(quoted) >= 2
    assert found.topic.lower() in " ".join(GLAZE).lower()
    found = summary(["渡口停航，包裹走公路。"] * 5, "zh")
    assert (found.summary, found.evidence) == ("渡口停航，包裹走公路。", [0])


@given(st.lists(st.text(max_size=200), min_size=1, max_size=6))
def test_any_statements_have_a_summary_whose_evidence_is_among_them(statements: list[str]) -> None:
    summary(statements)
    question = ask.Digest(agent_id="g", statements=["a", "b"])
    answer = ask.Digested(topic="t", summary="s", evidence=[0, 2])
    assert question.problems(answer) == ["evidence: [2] are no numbers of the statements 0 … 1"]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_rules_do_not_pretend_to_know_whether_a_text_is_right(language: Any) -> None:
    text = "He is five and has ten grandchildren."
    answer = Rules().ask(ask.Consistency(agent_id="a", language=language, text=text))
    assert answer.verdict == "unknown"
    assert answer.why
