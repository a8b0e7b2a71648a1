"""engine.memory.appraisal: what is asked of the LLM, in which order, and what follows."""

from __future__ import annotations

from typing import Any

import pytest

from engine.memory.appraisal import Missing, Unappraised, appraise, missing
from engine.providers.questions import Facts, KeywordList, Poignancy, Poignant, Triple
from jiyi.protocol.agents import AgentSettings
from jiyi.settings import Settings

ALL = Missing(poignancy=True, triple=True, keywords=True)


def memory(**fields: Any) -> Unappraised:
    text = fields.pop("text", "Klaus reads")
    unknown = dict.fromkeys(("subject", "predicate", "object", "keywords", "poignancy"))
    usual = {"agent_id": "Klaus", "node_type": "event", "description": text, "embedding_key": text, "is_idle": False}
    return Unappraised(**{**unknown, **usual, **fields})


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
    assert set(made.asked) == {"triple", "keywords", "poignancy"}


def test_without_own_keywords_they_follow_from_the_triple() -> None:
    made = appraise(LLM(), memory(), Missing(poignancy=False, triple=True, keywords=False))
    assert made.keywords == ["Klaus", "book"]
    assert appraise(LLM(), memory(keywords=["x"]), Missing(poignancy=False, triple=True, keywords=False)).keywords == ["x"]


@pytest.mark.parametrize("text", ["the kiln is idle", "茶炉空闲中"])
def test_what_is_idle_is_mundane_without_a_call(text: str) -> None:
    llm = LLM()
    made = appraise(llm, memory(text=text, is_idle=True), Missing(poignancy=True, triple=False, keywords=False))
    assert (made.poignancy, llm.asked, made.asked) == (1.0, [], {})
    llm = LLM(Facts(subject="kiln", predicate="is", object="idle"))  # a triple decides it as if it had been brought
    made = appraise(llm, memory(), Missing(poignancy=True, triple=True, keywords=False))
    assert (made.is_idle, made.poignancy, llm.kinds) == (True, 1.0, ["Triple"])


@pytest.mark.parametrize(("text", "language"), [("Klaus reads", "en"), ("林岚在读书", "zh")])
def test_the_embedded_text_is_weighed_in_its_language(text: str, language: str) -> None:
    llm = LLM()
    appraise(llm, memory(text=text, node_type="chat"), Missing(poignancy=True, triple=False, keywords=False))
    (question,) = llm.asked
    assert (question.text, question.language, question.kind, question.agent_id) == (text, language, "chat", "Klaus")
