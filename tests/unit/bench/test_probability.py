"""bench.probability: what a least probability keeps and drops, and the fit of the weights."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from bench import probability, tune
from bench.probability import Asked, figures, fit, likely, set_of, window, writer_of
from bench.support.quality import Agent, Memory, Question
from engine.retrieval.relevance import MEASURES

SIZE = 384


def agent(count: int, evidence: list[int]) -> Agent:
    memories = [
        Memory(str(place), f"memory {place}", datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=place))
        for place in range(count)
    ]
    return Agent("a", memories, [Question(f"what is {place}?", {str(place)}, "single") for place in evidence])


def test_a_window_has_the_memories_in_a_row_that_answer_most_questions() -> None:
    one = window(agent(100, [3, 61, 62, 79]), 20)
    assert [memory.key for memory in one.memories] == [str(place) for place in range(60, 80)]
    assert [question.text for question in one.questions] == ["what is 61?", "what is 62?", "what is 79?"]
    assert len(window(agent(5, [1]), 20).memories) == 5


def test_figures_are_shares_of_evidence_and_of_all_else() -> None:
    asked = Asked(np.zeros((5, len(MEASURES))), np.array([True, True, False, False, False]))
    found = figures(asked, np.array([0.9, 0.032, 0.9, 0.038, 0.01]))
    assert found["at"]["0.035"] == {"kept": 0.5, "dropped": 0.3333}
    assert found["at"]["0.07"] == {"kept": 0.5, "dropped": 0.6667}
    assert found["auc"] == round((2.5 / 3 + 1 / 3) / 2, 4)
    assert found["evidence"] == 2


def test_a_fit_finds_the_weights_keeps_their_signs_and_leaves_measures_out() -> None:
    random = np.random.default_rng(3)
    values = random.standard_normal((20_000, len(MEASURES)))
    true = np.array(
        [2.0, 1.0, -1.0, 0.5, 0.8, -1.0]
    )  # the fifth: more memories would make an answer likelier
    right = random.random(len(values)) < 1 / (1 + np.exp(-(values @ true[:-1] + true[-1])))
    asked = Asked(values, right)
    found = fit([(asked, 1.0)])
    assert found[:4] == pytest.approx(true[:4], abs=0.2)
    assert found[4] == 0
    assert fit([(asked, 1.0)], MEASURES[1:])[0] == 0
    assert likely(asked, found).mean() == pytest.approx(right.mean(), abs=0.01)
    assert fit([(asked, 1.0)]).tolist() == found.tolist()


def test_a_file_is_judged_by_weights_that_saw_nothing_of_its_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = "conv_fay_1 conv_fay_2 conv_gus_1 madial_zh_dev madial_en_dev"
    paths = [tmp_path / f"{name}.json" for name in names.split()]
    for path in paths:
        path.write_text("[]", encoding="utf-8")
    asked = {path.name: Asked(np.zeros((1, len(MEASURES))), np.array([True])) for path in paths}
    order = iter(asked.values())
    fitted: list[set[str]] = []

    def note(parts: list[tuple[Asked, float]], *_: object) -> np.ndarray:
        fitted.append({name for name, own in asked.items() if any(one is own for one, _ in parts)})
        return np.zeros(len(MEASURES) + 1)

    for name, instead in {"ask": lambda *_: next(order), "Vectors": lambda *_: None, "fit": note}.items():
        monkeypatch.setattr(probability, name, instead)
    sets_of = [(writer_of(path), set_of(path)) for path in paths[1:4]]
    assert sets_of == [("fay", "conv"), ("gus", "conv"), ("madial", "madial")]
    found = probability.run(paths, None, ["fay", "gus", "madial"], None, Console(quiet=True))
    both = {"madial_zh_dev.json", "madial_en_dev.json"}
    assert fitted[0] == fitted[1] == {"conv_gus_1.json"} | both
    assert fitted[3] == fitted[4] == {path.name for path in paths} - both
    assert found["data"]["files"] == sorted(path.name for path in paths)


class ByText:
    """Vectors that follow from the text alone."""

    def passage(self, text: str) -> np.ndarray:
        return np.random.default_rng(sum(text.encode())).standard_normal(SIZE).astype(np.float32)

    query = passage


def test_a_question_that_is_a_dialogue_is_ranked_as_one() -> None:
    messages = [
        {"role": "user", "name": "Bo", "content": "I bought a kayak"},
        {"role": "user", "content": "where shall I take it?"},
    ]
    question = Question("<Bo>: …", {"1"}, "single", messages=messages)
    latest = "where shall I take it?"
    assert tune.asked_by(question) == [latest, f"Bo: I bought a kayak\n{latest}"]
    assert tune.asked_by(Question("who is it?", {"1"}, "single")) == ["who is it?", "who is it"]
    some = agent(20, [1])
    corpus = tune.corpus_of(some, ByText())
    found, words = tune.measured(corpus, question, ByText())
    assert isinstance(words, dict)
    assert {"kayak", "bo"} <= set(words)
    assert len(tune.best_rows(corpus, some, found, 10)) == 10
    asked = probability.ask([some], ByText())
    assert asked.values.shape == (10, len(MEASURES))
    assert asked.right.shape == (10,)
