"""Is a user content? What the service says of labelled last words.

    python -m bench.satisfaction [--labelled FILE] [--json]

``own`` are the labelled words beside this module, ``labelled`` those of the file given: JSON lines ``{"id",
"messages": [oldest first], "expect": "positive|negative|neutral"}``. ``right`` is the share that is read as
labelled, ``precision`` that of the verdicts which are not neutral. ``rules`` are the same without the local
model. The learned judgement was trained on ``own``: its figures there say little.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path
from typing import Any

from rich.console import Console

from bench.support.ranking import DECIMALS
from engine.growth.trajectories import satisfaction
from engine.heads.judgements import Heads
from engine.heads.local import heads

OWN = Path(__file__).with_suffix(".jsonl")


def judged(path: Path, judge: Heads | None, console: Console) -> dict[str, Any]:
    """The share that is right, in all and by verdict, and precision; each that is wrong goes to the
    console.
    """
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    of, right, verdicts = Counter[str](), Counter[str](), Counter[bool]()
    for row in rows:
        found = satisfaction(row["messages"], judge)
        of[row["expect"]] += 1
        right[row["expect"]] += found == row["expect"]
        if found != "neutral":
            verdicts[found == row["expect"]] += 1
        if found != row["expect"]:
            console.print(
                f"{row['id']}: {row['messages']} is {row['expect']}, was read as {found}",
                highlight=False,
                markup=False,
            )
    return {
        "right": round(right.total() / max(1, of.total()), DECIMALS),
        "precision": round(verdicts[True] / max(1, verdicts.total()), DECIMALS),
        "of": of.total(),
        "by_verdict": {verdict: round(right[verdict] / of[verdict], DECIMALS) for verdict in of},
    }


def run(labelled: Path | None, console: Console) -> dict[str, Any]:
    """The figures by file, with and without the local model."""
    quiet, judge = Console(quiet=True), heads()
    paths = {"own": OWN} | ({"labelled": labelled} if labelled else {})
    return {
        **{name: judged(path, judge, console) for name, path in paths.items()},
        "rules": {name: judged(path, None, quiet) for name, path in paths.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--labelled", type=Path, help="more labelled words, JSON lines")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    result = run(arguments.labelled, Console(stderr=True))
    print(json.dumps(result) if arguments.json else result)


if __name__ == "__main__":
    main()
