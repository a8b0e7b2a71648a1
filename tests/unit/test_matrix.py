"""tools.matrix: what trains the adapter."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from engine.providers.embedder_specs import load
from tools import matrix, train
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


def test_each_writer_is_left_out_of_what_is_measured_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[set[str]] = []

    def note(some: list[Examples], rounds: int) -> list[tuple[np.ndarray, np.ndarray]]:
        seen.append({one.writer for one in some})
        return [(np.eye(SIZE), np.zeros(SIZE))] * (rounds + 1)

    monkeypatch.setattr(matrix, "trained", note)
    shares = left_out([examples(1, "a"), examples(2, "b"), examples(3, "a"), examples(4, "c")])
    assert seen == [{"b", "c"}, {"a", "c"}, {"a", "b"}]
    assert shares.shape == (matrix.MOST_ROUNDS + 1, 4)


def test_of_a_large_agent_all_evidence_and_some_others_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matrix, "MOST_OTHERS", 3)
    memories = [{"key": str(number), "text": "x", "at": "2026-01-01T00:00:00+00:00"} for number in range(20)]
    file = tmp_path / "a.json"
    questions = [{"text": "?", "evidence": ["4", "7"], "kind": "k"}]
    file.write_text(
        json.dumps([{"agent_id": "a", "memories": memories, "questions": questions}]), encoding="utf-8"
    )
    (agent,) = read(file)
    kept = list(sampled(agent).texts)
    assert len(kept) == 5
    assert {"4", "7"} <= set(kept)
    assert kept == list(sampled(agent).texts)


def test_a_matrix_without_each_writer_can_be_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("one/conv_ada_1", "one/conv_bo_1", "two/conv_ada_1"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / f"{name}.json").write_text("[]", encoding="utf-8")
    files = files_of([tmp_path / "one", tmp_path / "two"])  # each name once
    assert [(file.name, writer_of(file)) for file in files] == [
        ("conv_ada_1.json", "ada"),
        ("conv_bo_1.json", "bo"),
    ]
    monkeypatch.setattr(matrix, "read", lambda _: [matrix.Asked({}, [])])
    monkeypatch.setattr(matrix, "examples_of", lambda writer, *_: examples(len(writer), writer))
    out, each = tmp_path / "all.npz", tmp_path / "each"
    monkeypatch.setattr("sys.argv", ["matrix", str(tmp_path / "one"), "--out", str(out), "--each", str(each)])
    matrix.main()
    assert sorted(path.name for path in each.iterdir()) == ["ada.npz", "bo.npz"]
    assert load(each / "ada.npz").about["without"] == "ada"
    assert load(out).matrix.shape == load(each / "bo.npz").matrix.shape == (SIZE, SIZE)


def test_a_matrix_for_another_embedder_names_its_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = ["Bo moved to Bergen.", "Ada keeps bees.", "Kit sold the boat.", "Lin sings."]
    memories = [
        {"key": str(number), "text": text, "at": "2026-01-01T00:00:00+00:00"}
        for number, text in enumerate(texts)
    ]
    questions = [
        {"text": f"Who? {text}", "evidence": [str(number)], "kind": "k"} for number, text in enumerate(texts)
    ]
    for writer in ("a", "b"):
        agents = [{"agent_id": writer, "memories": memories, "questions": questions}]
        (tmp_path / f"conv_{writer}_1.json").write_text(json.dumps(agents), encoding="utf-8")
    out = tmp_path / "mine.npz"
    monkeypatch.setattr(
        "sys.argv",
        [
            "train",
            "--matrix",
            *map(str, tmp_path.glob("*.json")),
            "--embedder",
            "hashing:16",
            "--out",
            str(out),
        ],
    )
    train.main()
    made = load(out, "hashing-16")
    assert (made.matrix.shape, made.about["embedder"]) == ((16, 16), "hashing-16")
    monkeypatch.setattr("sys.argv", ["train", "--matrix", "--embedder", "hashing:16"])
    with pytest.raises(SystemExit):  # it would write over the packaged one
        train.main()
