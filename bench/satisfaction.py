"""Is a user content? What the rules say of labelled last words (ZC-88, K-35).

    python -m bench.satisfaction [--labelled FILE] [--json]

``own`` are the labelled words beside this module, ``labelled`` those of the file given: JSON lines ``{"id", "messages": [oldest
first], "expect": "positive|negative|neutral"}``. ``right`` is the share that the rules read as labelled.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path
from typing import Any

from rich.console import Console

from bench.support.ranking import DECIMALS
from jiyi.growth.satisfaction.detect import satisfaction

OWN = Path(__file__).with_suffix(".jsonl")


def judged(path: Path, console: Console) -> dict[str, Any]:
    """The share that is right, in all and by verdict; each that is wrong goes to the console."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    of, right = Counter[str](), Counter[str]()
    for row in rows:
        found = satisfaction(row["messages"])
        of[row["expect"]] += 1
        right[row["expect"]] += found == row["expect"]
        if found != row["expect"]:
            console.print(f"{row['id']}: {row['messages']} is {row['expect']}, was read as {found}", highlight=False, markup=False)
    by_verdict = {verdict: round(right[verdict] / of[verdict], DECIMALS) for verdict in of}
    return {"right": round(right.total() / max(1, of.total()), DECIMALS), "of": of.total(), "by_verdict": by_verdict}


def run(labelled: Path | None, console: Console) -> dict[str, Any]:
    return {"own": judged(OWN, console)} | ({"labelled": judged(labelled, console)} if labelled else {})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--labelled", type=Path, help="more labelled words, JSON lines")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    result = run(arguments.labelled, Console(stderr=True))
    print(json.dumps(result) if arguments.json else result)


if __name__ == "__main__":
    main()
