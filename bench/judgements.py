"""How right the learned judgements are on labelled rows.

    python -m bench.judgements --labelled DIR [--json]

``DIR`` has ``<judgement>_<writer>.jsonl`` as in ``bench/labelled``: ``facts``, ``changes``, ``satisfaction``, ``requests``. The heads are
the shipped ones: of a writer whose rows they were trained on the figures say little, and such writers are named. Figures of writers
left out in turn are printed by ``python -m tools.train`` and kept in the weights.

``facts``
    precision, recall of what is lasting; accuracy
``changes``
    ``retire``: precision and recall of marks on older statements that hold no longer; ``allergy_marked``: statements of an
    allergy that were marked though they hold
``satisfaction``
    share that is right, and precision of what is not called neutral, as the service judges: neutral below the thresholds
``requests``
    share that is right, as the service judges: by thresholds, and with the patterns where the head is not sure
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from engine.appointments.parse import judge_request
from engine.growth import trajectories
from engine.heads.judgements import FACTS, LASTING, RETIRING, Heads
from engine.heads.local import heads, learned
from engine.heads.retiring import retires

DECIMALS = 3
NEUTRAL = "neutral"
#: When requests were said; what they ask for does not depend on it.
SAID = datetime(2026, 3, 4, 10, tzinfo=UTC)
_ALLERGY = re.compile(r"allerg|过敏", re.IGNORECASE)


def read(folder: Path, judgement: str) -> list[dict[str, Any]]:
    """The rows of all writers."""
    paths = sorted(folder.glob(f"{judgement}_*.jsonl"))
    return [json.loads(line) for path in paths for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def _share(right: int, of: int) -> float:
    return round(right / of, DECIMALS) if of else 0.0


def facts(judge: Heads, rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    least = judge.least(FACTS, LASTING)
    found = judge.facts([(row["before"] or "", row["text"]) for row in rows])
    kept = [one is not None and one.probabilities[LASTING] >= least for one in found]
    right = sum(one and row["lasting"] for one, row in zip(kept, rows, strict=True))
    return {
        "precision": _share(right, sum(kept)),
        "recall": _share(right, sum(row["lasting"] for row in rows)),
        "accuracy": _share(sum(one == row["lasting"] for one, row in zip(kept, rows, strict=True)), len(rows)),
    }


def changes(judge: Heads, rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    marked = retires(judge, [(row["older"], row["newer"]) for row in rows])
    holds = [row["label"] not in RETIRING for row in rows]
    right = sum(one and not still for one, still in zip(marked, holds, strict=True))
    allergies = sum(
        one and still and _ALLERGY.search(row["older"]) is not None for one, still, row in zip(marked, holds, rows, strict=True)
    )
    return {
        "retire": {"precision": _share(right, sum(marked)), "recall": _share(right, len(rows) - sum(holds))},
        "allergy_marked": allergies,
    }


def satisfaction(judge: Heads, rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    said = [trajectories.satisfaction(row["messages"], judge) for row in rows]
    right = [one == row["expect"] for one, row in zip(said, rows, strict=True)]
    sides = [place for place, one in enumerate(said) if one != NEUTRAL]
    return {"right": _share(sum(right), len(rows)), "precision": _share(sum(right[place] for place in sides), len(sides))}


def requests(judge: Heads, rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    said = [judge_request(row["text"], SAID, lambda: "UTC", judge)[0] or "none" for row in rows]
    return {"right": _share(sum(one == row["label"] for one, row in zip(said, rows, strict=True)), len(rows))}


def run(folder: Path) -> dict[str, Any]:
    """The figures of each judgement that the folder has rows of."""
    judge = heads()
    if judge is None:
        raise SystemExit("the local embedder is not installed: pip install 'jiyi[local]'")
    measures = {"facts": facts, "changes": changes, "satisfaction": satisfaction, "requests": requests}
    given = {name: read(folder, name) for name in measures}
    if not any(given.values()):
        raise SystemExit(f"{folder} has no file like facts_WRITER.jsonl: give a folder of labelled rows")
    return {name: measures[name](judge, rows) for name, rows in given.items() if rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--labelled", type=Path, required=True, help="folder of labelled rows")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    result = run(arguments.labelled)
    there = {path.stem.partition("_")[2] for path in arguments.labelled.glob("*_*.jsonl")}
    if known := sorted(there & set(learned().about["writers"])):
        print(f"trained on {', '.join(known)}: their figures say little", file=sys.stderr)
    print(json.dumps(result) if arguments.json else json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
