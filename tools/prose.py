"""The documents' English, by proselint: ``python -m tools.prose``. Exits with 1 and what it finds.

Text in code style is not English, and is left out.
"""

from __future__ import annotations

import sys

from proselint.checks import __register__ as every_check
from proselint.config import DEFAULT, Config
from proselint.registry import CheckRegistry
from proselint.tools import LintFile

from tools.words import ROOT, without_code

DOCUMENTS = ("README.md", "SECURITY.md", "docs/*.md")
#: Our style where it differs from proselint's. Quotes are straight, as in code; tables repeat words; "7 am"
#: needs no periods; "resume" is a verb here; spaces stand in the place of code.
OFF = (
    "typography.symbols.curly_quotes",
    "typography.symbols.sentence_spacing",
    "lexical_illusions",
    "dates_times.am_pm",
    "typography.diacritical_marks",
)


def main() -> int:
    CheckRegistry().register_many(every_check)
    style: Config = {
        **DEFAULT,
        "checks": dict.fromkeys(OFF, False)
        | {key: on for key, on in DEFAULT["checks"].items() if key not in OFF},
    }
    found = 0
    for pattern in DOCUMENTS:
        for path in sorted(ROOT.glob(pattern)):
            text = without_code(path.read_text(encoding="utf-8"))
            for result in LintFile(str(path.relative_to(ROOT)), text).lint(style):
                line, column = result.pos
                print(f"{path.relative_to(ROOT)}:{line}:{column}: {result.check_result.message}")
                found += 1
    return int(found > 0)


if __name__ == "__main__":
    sys.exit(main())
