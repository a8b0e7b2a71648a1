"""How right the learned judgements are on labelled rows.

    python -m bench.judgements --labelled DIR [--each FOLDER] [--json]

``DIR`` has ``<judgement>_<writer>.jsonl`` as in ``bench/labelled``: ``facts``, ``changes``, ``satisfaction``,
``requests``. The heads are the shipped ones: of a writer whose rows they were trained on the figures say
little, and such writers are named. With ``--each`` every writer's rows are judged by ``FOLDER/<writer>.npz``,
heads that saw none of them (``python -m tools.train --each FOLDER``).

``facts``
    precision, recall of what is lasting; accuracy
``changes``
    ``retire``: precision and recall of marks on older statements that hold no longer; ``allergy_marked``:
    statements of an allergy that were marked though they hold
``satisfaction``
    share that is right, and precision of what is not called neutral, as the service judges: neutral below the
    thresholds
``requests``
    share that is right, as the service judges: by thresholds, and with the patterns where the head is not
    sure
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from engine.appointments.parse import judge_request
from engine.growth import trajectories
from engine.heads import model
from engine.heads.judgements import FACTS, LASTING, RETIRING, Heads, retires
from engine.heads.local import heads, learned
from jiyi.extras import install_command

DECIMALS = 3
NEUTRAL = "neutral"
#: When requests were said; what they ask for does not depend on it.
SAID = datetime(2026, 3, 4, 10, tzinfo=UTC)
_ALLERGY = re.compile(r"allerg|过敏", re.IGNORECASE)


#: A labelled row, and what a head says of it.
Row = dict[str, Any]


def read(folder: Path, judgement: str) -> dict[str, list[Row]]:
    """The rows of each writer."""
    paths = sorted(folder.glob(f"{judgement}_*.jsonl"))
    return {
        writer_of(path): [
            json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()
        ]
        for path in paths
    }


def writer_of(path: Path) -> str:
    return path.stem.partition("_")[2]


def _share(right: int, of: int) -> float:
    return round(right / of, DECIMALS) if of else 0.0


def say_facts(judge: Heads, rows: Sequence[Row]) -> list[bool]:
    """Whether each is worth keeping."""
    least = judge.least(FACTS, LASTING)
    found = judge.facts([(row["before"] or "", row["text"]) for row in rows])
    return [one is not None and one.probabilities[LASTING] >= least for one in found]


def facts(rows: Sequence[Row], kept: Sequence[bool]) -> dict[str, float]:
    right = sum(one and row["lasting"] for one, row in zip(kept, rows, strict=True))
    return {
        "precision": _share(right, sum(kept)),
        "recall": _share(right, sum(row["lasting"] for row in rows)),
        "accuracy": _share(
            sum(one == row["lasting"] for one, row in zip(kept, rows, strict=True)), len(rows)
        ),
    }


def say_changes(judge: Heads, rows: Sequence[Row]) -> list[bool]:
    """Whether each older statement is marked."""
    return retires(judge, [(row["older"], row["newer"]) for row in rows])


def changes(rows: Sequence[Row], marked: Sequence[bool]) -> dict[str, Any]:
    holds = [row["label"] not in RETIRING for row in rows]
    right = sum(one and not still for one, still in zip(marked, holds, strict=True))
    allergies = sum(
        one and still and _ALLERGY.search(row["older"]) is not None
        for one, still, row in zip(marked, holds, rows, strict=True)
    )
    return {
        "retire": {"precision": _share(right, sum(marked)), "recall": _share(right, len(rows) - sum(holds))},
        "allergy_marked": allergies,
    }


def say_satisfaction(judge: Heads, rows: Sequence[Row]) -> list[str | None]:
    return [trajectories.satisfaction(row["messages"], judge) for row in rows]


def satisfaction(rows: Sequence[Row], said: Sequence[str | None]) -> dict[str, float]:
    right = [one == row["expect"] for one, row in zip(said, rows, strict=True)]
    sides = [place for place, one in enumerate(said) if one not in (None, NEUTRAL)]
    return {
        "right": _share(sum(right), len(rows)),
        "precision": _share(sum(right[place] for place in sides), len(sides)),
    }


def say_requests(judge: Heads, rows: Sequence[Row]) -> list[str]:
    return [judge_request(row["text"], SAID, lambda: "UTC", judge)[0] or "none" for row in rows]


def requests(rows: Sequence[Row], said: Sequence[str]) -> dict[str, float]:
    return {"right": _share(sum(one == row["label"] for one, row in zip(said, rows, strict=True)), len(rows))}


#: What says something of each row, and what makes figures of that.
JUDGEMENTS: dict[
    str,
    tuple[
        Callable[[Heads, Sequence[Row]], Sequence[Any]],
        Callable[[Sequence[Row], Sequence[Any]], dict[str, Any]],
    ],
] = {
    "facts": (say_facts, facts),
    "changes": (say_changes, changes),
    "satisfaction": (say_satisfaction, satisfaction),
    "requests": (say_requests, requests),
}


def run(folder: Path, judge_of: Callable[[str], Heads]) -> dict[str, Any]:
    """The figures of each judgement that the folder has rows of, over all rows; each writer has a judge."""
    given = {name: read(folder, name) for name in JUDGEMENTS}
    if not any(given.values()):
        raise SystemExit(f"{folder} has no file like facts_WRITER.jsonl: give a folder of labelled rows")
    judges = {
        writer: judge_of(writer) for writer in sorted({writer for rows in given.values() for writer in rows})
    }
    found = {}
    for name, (say, figures) in JUDGEMENTS.items():
        rows = [row for some in given[name].values() for row in some]
        if rows:
            found[name] = figures(
                rows, [one for writer, some in given[name].items() for one in say(judges[writer], some)]
            )
    return found


def judges_of(folder: Path, shipped: Heads) -> Callable[[str], Heads]:
    """For each writer the heads in the folder that have not seen them."""

    def judge_of(writer: str) -> Heads:
        path = folder / f"{writer}.npz"
        if not path.exists():
            raise SystemExit(f"{path} is not there: run python -m tools.train --each {folder}")
        return shipped.with_weights(model.load(path))

    return judge_of


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--labelled", type=Path, required=True, help="folder of labelled rows")
    parser.add_argument(
        "--each", type=Path, metavar="FOLDER", help="folder of heads that have not seen a writer, WRITER.npz"
    )
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    shipped = heads()
    if shipped is None:
        raise SystemExit(f"the local embedder is not installed: {install_command('local')}")
    result = run(
        arguments.labelled, judges_of(arguments.each, shipped) if arguments.each else lambda _: shipped
    )
    there = {writer_of(path) for path in arguments.labelled.glob("*_*.jsonl")}
    if not arguments.each and (known := sorted(there & set(learned().about["writers"]))):
        print(f"trained on {', '.join(known)}: their figures say little", file=sys.stderr)
    print(json.dumps(result) if arguments.json else json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
