"""engine.memory: what follows from an event alone, what is asked of the LLM, and what of its answers."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from engine.memory import (
    Missing,
    Rest,
    Unappraised,
    appraise,
    counts_for_keywords,
    derive,
    missing,
    resting_on,
    trust_of,
)
from engine.providers.questions import Facts, KeywordList, Poignancy, Poignant, Triple
from jiyi.errors import InvalidEvent
from jiyi.protocol import events as wire
from jiyi.protocol.agents import AgentSettings
from jiyi.settings import Settings
from jiyi.text.words import text_digest

WHEN = datetime(2026, 3, 2, 7, 15, tzinfo=UTC)


def observed(**payload: Any) -> wire.Event:
    content = {"description": "林岚在喝茶"} | payload
    whose = {"group_id": "g", "agent_id": "a", "occurred_at": WHEN}
    return wire.build({"type": "memory.observed", **whose, "payload": content})


def test_the_description_is_the_embedding_key() -> None:
    derived = derive(observed())
    assert derived.embedding_key == "林岚在喝茶"
    assert derived.key_hash == hashlib.sha256("林岚在喝茶".encode()).digest()
    own = derive(observed(embedding_key="喝茶"))
    assert (own.embedding_key, own.key_hash) == ("喝茶", text_digest("喝茶"))
    assert own.content_hash == derived.content_hash
    assert derive(observed(description="Tea")).key_hash != derive(observed(description="tea")).key_hash


def test_case_width_and_spaces_do_not_change_the_content_hash_and_other_words_do() -> None:
    same = (
        "Klaus reads ABC",
        "Klaus reads  ABC",
        " klaus READS abc\n",
        "Ｋｌａｕｓ　reads ａｂｃ",
        "klaus\treads\nABC",
    )
    others = "Klaus reads ABCD", "KlausreadsABC", "reads Klaus ABC"
    one, *distinct = (
        {derive(observed(description=text)).content_hash for text in texts} for texts in (same, others)
    )
    assert (len(one), len(one.union(*distinct))) == (1, 4)


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        *(({"node_type": "thought"}, WHEN + timedelta(days=30)), ({"node_type": "chat"}, None)),
        *(({"node_type": kind, "expires_at": WHEN}, WHEN) for kind in ("thought", "event")),
    ],
)
def test_expiry(payload: dict[str, Any], expected: datetime | None) -> None:
    assert derive(observed(**payload)).expires_at == expected


@pytest.mark.parametrize(
    ("payload", "keywords"),
    [
        ({"keywords": ["Tea", "茶", "Tea", "tea"]}, ["Tea", "茶", "tea"]),
        ({"keywords": [], "subject": "林岚"}, []),  # none on purpose
        ({"subject": "town:shop:counter", "object": "tea"}, ["counter", "tea"]),
        ({"description": "林岚喜欢乌龙茶"}, ["林岚", "喜欢", "乌龙茶"]),
    ],
)
def test_keywords_that_are_not_given_come_from_the_triple_or_else_the_text(
    payload: dict[str, Any], keywords: list[str]
) -> None:
    assert derive(observed(**payload)).keywords == keywords


def test_idle_is_decided_by_the_embedding_key() -> None:
    assert derive(observed(description="the bed (at home)", embedding_key="bed is idle")).is_idle
    assert not derive(observed(description="bed is idle", embedding_key="bed is made")).is_idle
    assert derive(observed(description="bed", predicate="is", object="idle")).is_idle


@pytest.mark.parametrize(
    ("node_type", "evidence", "expected"),
    [
        ("chat", [Rest(4, 0.8)], Rest(0, 0.7)),
        ("thought", [], Rest(1, 0.7)),  # on nothing that is known
        ("thought", [Rest(0, 0.8), Rest(2, 0.3)], Rest(3, 0.3)),  # the deepest and the least trusted count
    ],
)
def test_what_follows_from_evidence(node_type: str, evidence: list[Rest], expected: Rest) -> None:
    assert resting_on(node_type, 0.7, evidence) == expected


def test_what_tools_and_documents_say_is_never_one_memory_with_what_the_user_says() -> None:
    origins = None, "user", "import", "assistant", "document", "tool"
    said = {origin: derive(observed(origin=origin)).content_hash for origin in origins}
    assert said[None] == said["user"] == said["import"]
    assert len(set(said.values())) == 4
    with pytest.raises(InvalidEvent, match="origin"):
        observed(origin="operator")
    assert trust_of(observed(origin="tool", trust=1).payload) == 0.3
    assert trust_of(observed(origin="tool", trust=0.1).payload) == 0.1


def test_which_memories_strengthen_keywords() -> None:
    counted = ("event", "drinks", "tea"), ("thought", None, None)
    others = ("event", "is", "idle"), ("thought", "is", "idle"), ("chat", "drinks", "tea")
    assert [one for one in (*counted, *others) if counts_for_keywords(*one)] == [*counted]


ALL = Missing(poignancy=True, triple=True, keywords=True)


def memory(**fields: Any) -> Unappraised:
    text = fields.pop("text", "Klaus reads")
    unknown = dict.fromkeys(("subject", "predicate", "object", "keywords", "poignancy"))
    texts = {"description": text, "embedding_key": text, "is_idle": False}
    return Unappraised(**{"agent_id": "Klaus", "node_type": "event", **unknown, **texts, **fields})


class LLM:
    model = "m"

    def __init__(self, facts: Facts | None = None) -> None:
        self.facts = facts or Facts(subject="Klaus", predicate="reads", object="town:book")
        self.asked: list[Any] = []

    def ask(self, question: Any) -> Any:
        self.asked.append(question)
        match question:
            case Poignancy():
                return Poignant(poignancy=7)
            case Triple():
                return self.facts
        return KeywordList(keywords=["reading", "reading", "book"])

    @property
    def kinds(self) -> list[str]:
        return [type(question).__name__ for question in self.asked]


@pytest.mark.parametrize(
    ("fields", "own", "expected"),
    [
        ({}, {}, (True, False, False)),
        ({"poignancy": 1}, {}, (False, False, False)),
        ({"keywords": []}, {"derive_keywords": "llm"}, (True, False, False)),  # an empty list means: none
        ({}, {"derive_keywords": "llm", "derive_triple": "llm"}, (True, True, True)),
        ({"subject": "a", "predicate": "b", "object": ""}, {"derive_triple": "llm"}, (True, True, False)),
        ({"subject": "a", "predicate": "b", "object": "c"}, {"derive_triple": "llm"}, (True, False, False)),
        ({}, {"derive_poignancy": "off"}, (False, False, False)),
    ],
)
def test_what_is_missing_is_what_is_lacking_and_wanted(
    fields: dict[str, Any], own: dict[str, Any], expected: tuple[bool, bool, bool]
) -> None:
    found = missing(memory(**fields), AgentSettings(**own), Settings())
    assert (found.poignancy, found.triple, found.keywords) == expected
    assert bool(found) is any(expected)


def test_everything_is_asked_for_the_triple_first_and_what_was_brought_stays() -> None:
    llm = LLM()
    made = appraise(llm, memory(subject="the reader"), ALL)
    assert llm.kinds == ["Triple", "Keywords", "Poignancy"]
    assert (made.subject, made.predicate, made.object) == ("the reader", "reads", "town:book")
    assert (made.keywords, made.poignancy) == (["reading", "book"], 7.0)
    assert set(made.sources) == {"triple", "keywords", "poignancy"}


def test_without_own_keywords_they_follow_from_the_triple() -> None:
    for own, keywords in ((None, ["Klaus", "book"]), (["x"], ["x"])):
        made = appraise(LLM(), memory(keywords=own), replace(ALL, poignancy=False, keywords=False))
        assert made.keywords == keywords


@pytest.mark.parametrize("text", ["the kiln is idle", "茶炉空闲中"])
def test_what_is_idle_is_mundane_without_a_call(text: str) -> None:
    llm = LLM()
    made = appraise(llm, memory(text=text, is_idle=True), replace(ALL, triple=False, keywords=False))
    assert (made.poignancy, llm.asked, made.sources) == (1.0, [], {})
    # A triple decides it as if it had been brought.
    llm = LLM(Facts(subject="kiln", predicate="is", object="idle"))
    made = appraise(llm, memory(), replace(ALL, keywords=False))
    assert (made.is_idle, made.poignancy, llm.kinds) == (True, 1.0, ["Triple"])


@pytest.mark.parametrize(("text", "language"), [("Klaus reads", "en"), ("林岚在读书", "zh")])
def test_the_embedded_text_is_weighed_in_its_language(text: str, language: str) -> None:
    llm = LLM()
    appraise(llm, memory(text=text, node_type="chat"), replace(ALL, triple=False, keywords=False))
    (asked,) = llm.asked
    assert (asked.text, asked.language, asked.kind, asked.agent_id) == (text, language, "chat", "Klaus")
