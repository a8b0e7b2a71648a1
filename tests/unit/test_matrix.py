"""tools.matrix: what trains the adapter."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from engine.providers.embedder_specs import load
from tools import matrix
from tools.matrix import Examples, files_of, gradient, left_out, read, recall, sampled, trained, writer_of

SIZE = 8


def examples(seed: int, writer: str = "a") -> Examples:
    """Questions that share some hidden directions with their answers, and others with everything."""
    random = np.random.default_rng(seed)
    hidden = random.standard_normal((12, SIZE)) * ([1.0] * 4 + [0.0] * 4)
    noise = lambda: random.standard_normal((12, SIZE)) * ([0.1] * 4 + [2.0] * 4)
    passages, queries = hidden + noise(), hidden + noise()
    rows = [
        (one / np.linalg.norm(one, axis=1, keepdims=True)).astype(np.float32) for one in (passages, queries)
    ]
    return Examples(writer, rows[0], rows[1], np.eye(12, dtype=np.float32))


def loss(made: np.ndarray, mean: np.ndarray, one: Examples) -> float:
    queries, passages = (rows - mean for rows in (one.queries, one.passages))
    queries, passages = (
        rows @ made.T / np.linalg.norm(rows @ made.T, axis=1, keepdims=True) for rows in (queries, passages)
    )
    scores = queries @ passages.T / matrix.TEMPERATURE
    return float(np.mean(np.log(np.exp(scores).sum(axis=1)) - (one.answers * scores).sum(axis=1)))


def test_the_gradient_is_the_slope_of_the_loss() -> None:
    one, random = examples(1), np.random.default_rng(2)
    made, mean = np.eye(SIZE) + random.standard_normal((SIZE, SIZE)) / 10, random.standard_normal(SIZE) / 10
    found = gradient(made, mean, one)
    for row, column in ((0, 0), (2, 5), (7, 1)):
        step = np.zeros((SIZE, SIZE))
        step[row, column] = 1e-5
        slope = (loss(made + step, mean, one) - loss(made - step, mean, one)) / 2e-5
        assert found[row, column] == pytest.approx(slope, rel=1e-3, abs=1e-3)


def test_training_begins_with_the_identity_repeats_itself_and_helps_unseen_agents() -> None:
    known, unseen = [examples(seed) for seed in range(20)], [examples(seed, "b") for seed in range(100, 110)]
    first, second = trained(known, 12), trained(known, 12)
    assert first[0][0].tolist() == np.eye(SIZE).tolist()
    assert first[-1][0].tobytes() == second[-1][0].tobytes()
    losses = [np.mean([loss(made, mean, one) for one in unseen]) for made, mean in (first[0], first[-1])]
    assert losses[1] < losses[0]
    perfect = Examples("a", known[0].passages, known[0].passages, known[0].answers)
    assert recall(np.eye(SIZE), np.zeros(SIZE), perfect) == 1
    assert 0 < recall(np.eye(SIZE), np.zeros(SIZE), known[0]) <= 1


def test_each_writer_is_left_out_of_what_is_measured_on_it() -> None:
    some = [examples(1, "a"), examples(2, "b"), examples(3, "a"), examples(4, "c")]
    shares = left_out(some)
    for place, one in enumerate(some):
        others = trained([other for other in some if other.writer != one.writer], matrix.MOST_ROUNDS)
        assert shares[:, place].tolist() == [recall(made, mean, one) for made, mean in others]


def written(path: Path, texts: Sequence[str]) -> None:
    """An agent with a question to each of its first memories, up to four."""
    at = "2026-01-01T00:00:00+00:00"
    memories = [{"key": str(number), "text": text, "at": at} for number, text in enumerate(texts)]
    questions = [
        {"text": f"Who? {row['text']}", "evidence": [row["key"]], "kind": "k"} for row in memories[:4]
    ]
    agents = [{"agent_id": path.stem, "memories": memories, "questions": questions}]
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(agents), encoding="utf-8")


def test_of_a_large_agent_all_evidence_and_some_others_are_kept(tmp_path: Path) -> None:
    written(tmp_path / "a.json", [f"memory {number}" for number in range(matrix.MOST_OTHERS + 50)])
    (agent,) = read(tmp_path / "a.json")
    kept = list(sampled(agent).texts)
    assert len(kept) == matrix.MOST_OTHERS + 4
    assert {"0", "1", "2", "3"} <= set(kept)
    assert kept == list(sampled(agent).texts)


def test_a_matrix_for_another_embedder_names_its_model_and_one_without_each_writer_can_be_kept(
    tmp_path: Path,
) -> None:
    texts = ["Bo moved to Bergen.", "Ada keeps bees.", "Kit sold the boat.", "Lin sings."]
    for name in ("one/conv_ada_1", "one/conv_bo_1", "two/conv_ada_1"):
        written(tmp_path / f"{name}.json", texts)
    files = files_of([tmp_path / "one", tmp_path / "two"])  # each name once
    writers = [(file.name, writer_of(file)) for file in files]
    assert writers == [("conv_ada_1.json", "ada"), ("conv_bo_1.json", "bo")]
    out, each = tmp_path / "mine.npz", tmp_path / "each"
    matrix.main([*map(str, files), "--embedder", "hashing:16", "--out", str(out), "--each", str(each)])
    assert sorted(path.name for path in each.iterdir()) == ["ada.npz", "bo.npz"]
    made, without = load(out, "hashing-16"), load(each / "ada.npz", "hashing-16")
    assert (made.matrix.shape, made.about["embedder"]) == ((16, 16), "hashing-16")
    assert (without.matrix.shape, without.about["without"]) == ((16, 16), "ada")
    with pytest.raises(SystemExit):  # it would write over the packaged one
        matrix.main(["--embedder", "hashing:16"])
