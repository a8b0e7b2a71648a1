"""What queries ask for: is the intent right, and is nobody's question taken for one about who the user is?

    python -m bench.intents [FILE …] [--labelled FILE] [--json]

``own`` are the labelled queries beside this module, ``labelled`` those of the file given: JSON lines
``{"text", "intent"}``. ``identity`` is, for each file of questions in LoCoMo's, BEAM's or MemDaily's form,
the share that is taken for identity recall: hardly any of them asks who the user is.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.support.ranking import DECIMALS
from engine.conversations.injection import intent_of

OWN = Path(__file__).with_suffix(".jsonl")


def questions(path: Path) -> list[str]:
    """All questions of a file in LoCoMo's (``qa``) or MemDaily's form (``questions``)."""
    everything = json.loads(path.read_text(encoding="utf-8"))
    return [
        str(row["question"]) for one in everything for row in (one.get("qa") or one.get("questions") or [])
    ]


def judged(path: Path) -> dict[str, Any]:
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    by_intent: dict[str, list[bool]] = defaultdict(list)
    for row in rows:
        by_intent[row["intent"]].append(intent_of(row["text"]) == row["intent"])
    return {
        "right": round(sum(map(sum, by_intent.values())) / len(rows), DECIMALS),
        "of": len(rows),
        "by_intent": {intent: round(sum(some) / len(some), DECIMALS) for intent, some in by_intent.items()},
    }


def run(texts: Sequence[Path], labelled: Path | None) -> dict[str, Any]:
    shares = {}
    for path in texts:
        asked = questions(path)
        shares[path.stem] = round(
            sum(intent_of(one) == "identity_recall" for one in asked) / max(1, len(asked)), DECIMALS
        )
    result: dict[str, Any] = {"own": judged(OWN), "identity": shares}
    return result | ({"labelled": judged(labelled)} if labelled else {})


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("texts", type=Path, nargs="*", help="questions that ask for other things")
    parser.add_argument("--labelled", type=Path, help="more labelled queries, JSON lines")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    result = run(arguments.texts, arguments.labelled)
    if arguments.json:
        print(json.dumps(result))
        return
    table = Table(title="Intents")
    table.add_column("set")
    table.add_column("figures")
    for name, figures in result.items():
        table.add_row(name, "  ".join(f"{key} {value}" for key, value in figures.items()))
    Console().print(table)


if __name__ == "__main__":
    main()
