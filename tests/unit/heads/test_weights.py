"""The packaged weights: read once, refused with one sentence if they cannot be right."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from engine.heads import model
from engine.heads.judgements import JUDGEMENTS, KEEPING
from engine.heads.local import learned
from jiyi.errors import HeadsError
from jiyi.settings import Settings


@pytest.fixture
def packaged(tmp_path: Path) -> Path:
    path = tmp_path / "weights.npz"
    path.write_bytes(model.FILE.read_bytes())
    return path


def test_the_packaged_file_has_every_head_and_says_where_it_comes_from() -> None:
    found = model.load()
    assert set(found.heads) == set(JUDGEMENTS)
    assert {"version", "embedder", "command", "data", "writers", "figures"} <= set(found.about)
    assert set(found.about["figures"]) == set(found.heads)


def test_what_is_saved_is_what_is_read_and_the_same_each_time(tmp_path: Path) -> None:
    found = model.load()
    one, two = tmp_path / "one.npz", tmp_path / "two.npz"
    model.save(one, found)
    model.save(two, model.load(one))
    assert one.read_bytes() == two.read_bytes()


@pytest.mark.parametrize("spoilt", [b"", b"not a file of arrays", b"PK\x03\x04 cut short"])
def test_a_broken_file_is_refused_with_one_sentence(
    packaged: Path, spoilt: bytes, configure: Callable[..., Settings]
) -> None:
    packaged.write_bytes(spoilt)
    for file in (packaged, packaged.with_name("none.npz")):
        with pytest.raises(HeadsError, match=r"cannot be read .* python -m tools\.train$"):
            model.load(file)
        configure(heads_weights=str(file))
        with pytest.raises(HeadsError, match=file.name):
            learned.__wrapped__()


def test_weights_of_before_a_judgement_was_added_are_refused_by_its_name(
    tmp_path: Path, configure: Callable[..., Settings]
) -> None:
    found, older = model.load(), tmp_path / "older.npz"
    fewer = {name: head for name, head in found.heads.items() if name != KEEPING}
    model.save(older, replace(found, heads=fewer))
    configure(heads_weights=str(older))
    with pytest.raises(HeadsError, match=r"older\.npz have none of keeping: run python -m tools\.train"):
        learned.__wrapped__()


def _changed(path: Path, **arrays: object) -> None:
    with np.load(path, allow_pickle=False) as kept:
        values = {name: kept[name] for name in kept.files} | arrays
    np.savez(path, **values)


@pytest.mark.parametrize(("field", "value"), [("embedder", "another-model"), ("version", 0)])
def test_weights_of_another_model_or_version_are_refused(packaged: Path, field: str, value: object) -> None:
    with np.load(packaged, allow_pickle=False) as kept:
        meta = json.loads(kept["meta"].tobytes())
    meta[field] = value
    _changed(packaged, meta=np.frombuffer(json.dumps(meta).encode(), dtype=np.uint8))
    with pytest.raises(HeadsError, match=rf"are of {field} .*tools\.train"):
        model.load(packaged)


@pytest.mark.parametrize(
    "broken",
    [
        {"facts.dense": np.zeros((3, 3))},
        {"facts.bias": np.array([np.nan, 0.0])},
        {"facts.words": np.array([object()])},
        {"centre": np.zeros(7)},
        {"meta": np.frombuffer(b"[]", dtype=np.uint8)},
    ],
)
def test_arrays_that_do_not_fit_are_refused(packaged: Path, broken: dict[str, object]) -> None:
    _changed(packaged, **broken)
    with pytest.raises(HeadsError, match="cannot be read"):
        model.load(packaged)
