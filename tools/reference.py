"""The page of all actions and errors: ``python -m tools.reference`` writes it, ``--check`` says whether it is
up to date.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from jiyi.protocol.actions import TABLE
from jiyi.protocol.openapi import document as problems
from tools.commands import words

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference.md"
OPENING = """# Actions and errors

Reference, generated from the code (`python -m tools.reference`). An action has one name everywhere:
`client.memory.list(…)` in Python, `jiyi memory list` in a shell, `POST /api/v1/actions/memory.list` over
[HTTP](api.md). Its fields are in `help(…)`, `--help` and `/api/docs`; scopes are
[rights of keys](tenants.md#keys).
"""


def page() -> str:
    """The text of ``docs/reference.md``."""
    helps = words()
    lines = [OPENING]
    for subject, names in groupby(sorted(TABLE), key=lambda name: name.partition(".")[0]):
        lines += [f"## {subject}", "", "| action | scope | what it does |", "|---|---|---|"]
        for name in names:
            title = helps[name].partition("\n")[0].replace("|", "\\|")
            lines.append(f"| `{name}` | `{TABLE[name].scope}` | {title} |")
        lines.append("")
    lines += ["## Errors over HTTP", "", "| status | title | meaning |", "|---|---|---|"]
    lines += [
        f"| {status} | {title} | {problems.MEANINGS[status]} |" for status, title in problems.TITLES.items()
    ]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str]) -> int:
    """Write the file; with ``--check`` only say whether it is not up to date, and return 1 then."""
    if "--check" not in arguments:
        PAGE.write_text(page(), encoding="utf-8")
    elif not PAGE.exists() or page() != PAGE.read_text(encoding="utf-8"):
        sys.stderr.write(f"{PAGE.name} is not up to date: run python -m tools.reference\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
