"""Train the heads: ``python -m tools.train [FOLDER …] [--cache FILE] [--each FOLDER] [--only HEAD] [--without
WRITER … --out FILE]``.

Rows are read from the folders given (by default ``../shared/data/labelled``, where it is, and
``bench/labelled``) and from ``bench/*.jsonl``. Writes ``engine/heads/weights.npz``: the same bytes from the
same rows. Figures are of writers that a head was not trained on, each left out in turn; the shipped weights
are of all of them. Needs the ``dev`` and ``local`` extras, and some minutes on two cores, most of them for
the vectors: ``--cache`` keeps these. ``--without`` leaves out a writer's rows altogether, to measure the
service on them with ``JIYI_HEADS_WEIGHTS=FILE``. ``--each`` also writes, for each writer, ``WRITER.npz`` of
heads that saw no row of theirs: ``python -m bench.judgements --each FOLDER`` judges every writer by these.

The head of endings reads what the others say, so it is trained last. ``--only HEAD`` trains one, beside the
shipped others.

``--matrix …`` trains the matrix behind an embedder instead: what follows are the arguments of
:mod:`tools.matrix`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from engine.heads import model
from engine.heads.judgements import ENDINGS, TOGETHER, Embed, Heads, centred
from engine.heads.model import Features, Head, HeadWeights, is_readable
from engine.providers.embedders import LocalEmbedder
from tools import matrix
from tools.training import endings
from tools.training import rows as labelled
from tools.training.fitting import calibration, fit, least_probability, left_out
from tools.training.judgements import TASKS, Task
from tools.training.rows import LABELLED, ROOT, Row

COMMAND = "python -m tools.train"
OUT = ROOT / "engine" / "heads" / "weights.npz"
DECIMALS = 3


def vectors_of(texts: Sequence[str], cache: Path | None) -> dict[str, Features]:
    """By the local embedder, as passages; those in the cache are not computed again."""
    known: dict[str, Features] = {}
    if cache is not None and cache.exists():
        with np.load(cache, allow_pickle=False) as kept:
            known = dict(zip(kept["texts"].tolist(), kept["vectors"], strict=True))
    missing = [text for text in dict.fromkeys(texts) if text not in known]
    if missing:
        embed = LocalEmbedder().layers
        for start in range(0, len(missing), TOGETHER):
            part = missing[start : start + TOGETHER]
            known.update(zip(part, embed(part).astype(np.float16), strict=True))  # as they are kept
        if cache is not None:
            with cache.open("wb") as file:
                np.savez(file, texts=np.array(list(known)), vectors=np.array(list(known.values())))
    return known


def embedder_of(cache: Path | None) -> Embed:
    """The local embedder's layers, ``(n, 2 · WIDTH)`` for ``n`` texts; what is in the cache, or was asked
    before, is not computed again.
    """
    known, embed = vectors_of([], cache), LocalEmbedder().layers

    def layers(texts: Sequence[str]) -> Features:
        missing = [text for text in dict.fromkeys(texts) if text not in known]
        for start in range(0, len(missing), TOGETHER):
            part = missing[start : start + TOGETHER]
            known.update(zip(part, embed(part).astype(np.float16), strict=True))  # as they are kept
        return np.array([known[text] for text in texts], dtype=np.float32)

    return layers


def with_endings(
    weights: HeadWeights, folders: Sequence[Path], without: Collection[str], cache: Path | None
) -> HeadWeights:
    """The weights with a head of endings that was trained beside these others."""
    given = endings.examples(folders, Heads(weights, embedder_of(cache)), without)
    head, figures = endings.train(given, endings.messages_of_conversations(without))
    print(ENDINGS, json.dumps(figures))
    about = {**weights.about, "figures": {**weights.about["figures"], ENDINGS: figures}}
    return replace(weights, heads={**weights.heads, ENDINGS: head}, about=about)


def with_head(name: str, weights: HeadWeights, rows: Sequence[Row], cache: Path | None) -> HeadWeights:
    """The weights with one head trained again."""
    task = next(task for task in TASKS if task.name == name)
    vectors = vectors_of([text for row in rows for text in row.texts if text.strip()], cache)
    read = dict(
        zip(vectors, centred(np.array(list(vectors.values()), dtype=np.float32), weights.centre), strict=True)
    )
    head, figures, _ = trained(task, rows, read)
    print(name, json.dumps(figures, ensure_ascii=False))
    about = {**weights.about, "figures": {**weights.about["figures"], name: figures}}
    return replace(weights, heads={**weights.heads, name: head}, about=about)


def trained(
    task: Task, rows: Sequence[Row], vectors: dict[str, Features]
) -> tuple[Head, dict[str, Any], dict[str, Head]]:
    """The head of all rows, calibrated, with the figures of writers left out, and the heads that did not see
    them.

    These share calibration and thresholds, a few numbers that all writers' rows together decide.
    """
    read = task.read([row.texts for row in rows], vectors)
    unseen = np.array([row.measured for row in rows])
    labels, writers = np.array([row.label for row in rows]), np.array([row.writer for row in rows])
    counts = np.array([row.weight for row in rows], dtype=np.float32)
    asked = sorted(set(writers[unseen].tolist()))
    classes = sorted(set(labels.tolist()))
    given, others = left_out(read, labels, counts, writers, asked, task.shape)
    calibrated = calibration(given[unseen], labels[unseen], classes)
    probabilities, true = calibrated.of(given[unseen]), labels[unseen]
    thresholds: dict[str, dict[float, float]] = {}
    figures: dict[str, Any] = {}
    for name, action in task.actions.items():
        if action.labels:
            column = probabilities[:, [classes.index(label) for label in action.labels]].sum(axis=1)
            right = np.isin(true, action.labels)
        else:
            column, right = probabilities.max(axis=1), np.array(classes)[probabilities.argmax(axis=1)] == true
        thresholds[name] = {
            wanted: round(least_probability(column, right, wanted), DECIMALS) for wanted in action.precisions
        }
        figures[name] = {
            str(wanted): _at(column >= least, right) for wanted, least in thresholds[name].items()
        }
    best = np.array(classes)[probabilities.argmax(axis=1)]
    by_writer = {writer: _share((best == true)[writers[unseen] == writer]) for writer in asked}
    head = calibrated.folded(fit(read, labels, counts, task.shape))
    about = {"rows": len(rows), "right": _share(best == true), "by_writer": by_writer, "acted_on": figures}
    without = {
        writer: replace(calibrated.folded(other), thresholds=thresholds) for writer, other in others.items()
    }
    return replace(head, thresholds=thresholds), about, without


def _at(taken: Any, right: Any) -> dict[str, float]:
    return {"precision": _share(right[taken]), "recall": _share(taken[right])}


def _share(of: Any) -> float:
    return round(float(np.mean(of)), DECIMALS) if len(of) else 0.0


def main() -> None:
    if sys.argv[1:2] == ["--matrix"]:
        matrix.main(sys.argv[2:])
        return
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="*", type=Path, help="folders of <judgement>_<writer>.jsonl")
    parser.add_argument("--cache", type=Path, help="file of vectors that were computed before")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument(
        "--without",
        action="append",
        default=[],
        metavar="WRITER",
        help="whose rows are left out; needs --out",
    )
    parser.add_argument(
        "--only",
        choices=[*(task.name for task in TASKS), ENDINGS],
        help="only this head, beside the shipped others",
    )
    parser.add_argument(
        "--each", type=Path, metavar="FOLDER", help="also write heads without each writer in turn"
    )
    arguments = parser.parse_args()
    if arguments.without and arguments.out == OUT:
        raise SystemExit("--without needs --out FILE: the packaged weights are of all writers")
    wanted = arguments.folders or LABELLED
    folders = [folder for folder in wanted if folder.is_dir()]
    for folder in set(wanted) - set(folders):
        print(f"{folder}: not there, left out")
    if arguments.only == ENDINGS:
        _save(arguments.out, with_endings(model.load(), folders, arguments.without, arguments.cache))
        return
    given = {
        task.name: [
            row for row in labelled.of(folders, task.name, arguments.without) if is_readable(row.texts[1])
        ]
        for task in TASKS
    }
    if arguments.only:
        _save(arguments.out, with_head(arguments.only, model.load(), given[arguments.only], arguments.cache))
        return
    if not all(given.values()):
        raise SystemExit(
            f"no labelled rows for {', '.join(name for name, some in given.items() if not some)}: name a"
            " folder that has them"
        )
    texts = [text for some in given.values() for row in some for text in row.texts if text.strip()]
    vectors = vectors_of(texts, arguments.cache)
    centre = np.array([vectors[text] for text in sorted(set(texts))], dtype=np.float32).mean(axis=0)
    vectors = dict(
        zip(vectors, centred(np.array(list(vectors.values()), dtype=np.float32), centre), strict=True)
    )
    heads, figures, others = {}, {}, {}
    for task in TASKS:
        heads[task.name], figures[task.name], others[task.name] = trained(task, given[task.name], vectors)
        print(task.name, json.dumps(figures[task.name], ensure_ascii=False))
    writers = sorted({row.writer for some in given.values() for row in some if row.measured})
    about = {"command": COMMAND, "writers": writers, "data": labelled.digest(given), "figures": figures}
    weights = with_endings(HeadWeights(heads, centre, about), folders, arguments.without, arguments.cache)
    _save(arguments.out, weights)
    if arguments.each is not None:
        arguments.each.mkdir(parents=True, exist_ok=True)
        for left in writers:
            unseeing = {
                name: others[name].get(left, head) for name, head in heads.items()
            }  # which has no row of theirs either
            rest = [writer for writer in writers if writer != left]
            own = HeadWeights(
                {**unseeing, ENDINGS: weights.heads[ENDINGS]}, centre, {**about, "writers": rest}
            )
            model.save(arguments.each / f"{left}.npz", own)


def _save(out: Path, weights: HeadWeights) -> None:
    model.save(out, weights)
    model.load(out)
    print(f"{out}: {out.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
