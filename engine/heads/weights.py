"""The packaged file of weights: read once, and refused with one sentence if it is broken or of another model."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import numpy as np

from engine.heads.features import Features
from engine.heads.head import Head
from jiyi.errors import HeadsError

#: Goes up when the features change: weights of another version would read them wrongly.
VERSION = 1
#: What the embedder calls itself whose vectors the heads were trained on.
EMBEDDER = "multilingual-e5-small-q4"
#: Values of one layer's vector.
WIDTH = 384
FILE = files(__package__).joinpath("weights.npz")
_META, _CENTRE = "meta", "centre"
#: Arrays of a head, all float.
_ARRAYS = ("dense", "words", "bias", "idf")


@dataclass(frozen=True, slots=True)
class Weights:
    """The heads by name, the mean vector ``(2 * WIDTH,)`` of all texts, and ``about``: version, embedder, command, hash, figures."""

    heads: Mapping[str, Head]
    centre: Features
    about: Mapping[str, Any]


def save(path: Path, weights: Weights) -> None:
    """The same bytes for the same weights."""
    meta = {
        "version": VERSION,
        "embedder": EMBEDDER,
        **weights.about,
        "heads": {
            name: {
                "classes": head.classes,
                "thresholds": {label: list(known.items()) for label, known in head.thresholds.items()},
                "vocabulary": list(head.vocabulary),
            }
            for name, head in weights.heads.items()
        },
    }
    arrays: dict[str, Any] = {
        f"{name}.{part}": getattr(head, part).astype(np.float16) for name, head in weights.heads.items() for part in _ARRAYS
    }
    arrays[_CENTRE] = weights.centre.astype(np.float32)
    arrays[_META] = np.frombuffer(json.dumps(meta, ensure_ascii=False, sort_keys=True).encode(), dtype=np.uint8)
    with path.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)


def load(file: Traversable | Path = FILE) -> Weights:
    """The weights of a file. Raises :class:`HeadsError` with one sentence."""
    try:
        with file.open("rb") as opened, np.load(opened, allow_pickle=False) as arrays:
            meta = json.loads(arrays[_META].tobytes())
            _check(meta, file)
            heads = {name: _head(name, one, arrays) for name, one in meta["heads"].items()}
            centre = _finite(arrays[_CENTRE]).reshape(2 * WIDTH)
    except HeadsError:
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError, EOFError, zipfile.BadZipFile) as error:
        raise HeadsError(
            f"the heads' weights in {file} cannot be read ({type(error).__name__}): install jiyi again, or run python -m tools.train"
        ) from None
    return Weights(heads, centre, {name: value for name, value in meta.items() if name != "heads"})


def _check(meta: Any, file: Traversable | Path) -> None:
    for name, wanted in (("version", VERSION), ("embedder", EMBEDDER)):
        if meta[name] != wanted:
            raise HeadsError(
                f"the heads' weights in {file} are of {name} {meta[name]!r}, and this is {wanted!r}: run python -m tools.train"
            )


def _head(name: str, meta: Any, arrays: Mapping[str, Any]) -> Head:
    dense, words, bias, idf = (_finite(arrays[f"{name}.{part}"]) for part in _ARRAYS)
    classes, vocabulary = tuple(meta["classes"]), {gram: number for number, gram in enumerate(meta["vocabulary"])}
    if dense.shape[1:] != bias.shape or words.shape != (len(vocabulary), len(classes)) or idf.shape != (len(vocabulary),):
        raise ValueError(name)
    return Head(classes, dense, words, bias, vocabulary, idf, {label: dict(known) for label, known in meta["thresholds"].items()})


def _finite(values: Any) -> Features:
    found: Features = values.astype(np.float32)
    if not np.isfinite(found).all():
        raise ValueError("not finite")
    return found
