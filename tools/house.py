"""The house in figures: ``python -m tools.house [--json] [--root CHECKOUT]``.

Size and import cycles of the service's code (without tests). It reads the source only, so that it measures an
older checkout, too.
"""

from __future__ import annotations

import argparse
import ast
import json
import sys
from collections import Counter
from pathlib import Path
from statistics import median_low
from typing import Any

from rich.console import Console
from rich.table import Table

from tools.source import Function, Module, cycles, imports, modules

LAYERS = ("jiyi", "models", "tasks", "workers", "web")
CHECKOUT = Path(__file__).resolve().parents[1]
LARGEST = 10
UNTYPED = "dict[str, Any]"
#: Mappings whose values nobody uses without a check of their type: what a template shows, what becomes JSON.
OPAQUE = ("dict[str, object]", "Mapping[str, object]")


def figures(root: Path = CHECKOUT) -> dict[str, Any]:
    """What ``--json`` prints."""
    known = modules(root, LAYERS)
    largest = sorted(known.values(), key=lambda module: -module.lines)[:LARGEST]
    return {
        "python_lines": sum(module.lines for module in known.values()),
        "files": len(known),
        "median_module": median_low(module.lines for module in known.values()),
        "largest_modules": {str(module.path.relative_to(root)): module.lines for module in largest},
        "lines_by_layer": {
            layer: sum(one.lines for one in known.values() if one.name.partition(".")[0] == layer)
            for layer in LAYERS
        },
        "modules_by_folder": modules_by_folder(root, known),
        "import_cycles": len(cycles(imports(known))),
        "modules_in_cycles": sum(map(len, cycles(imports(known)))),
        "fmt_skip": sum(module.text.count("# fmt: skip") for module in known.values()),
        "untyped_dict_signatures": sum(signatures_with(module, UNTYPED) for module in known.values()),
        "opaque_dict_signatures": sum(signatures_with(module, *OPAQUE) for module in known.values()),
    }


def modules_by_folder(root: Path, known: dict[str, Module]) -> dict[str, int]:
    """Modules beside each other, the fullest folder first."""
    counts = Counter(
        str(module.path.parent.relative_to(root)) for module in known.values() if not module.is_package
    )
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def signatures_with(module: Module, *types: str) -> int:
    """Functions that take or give one of these types."""
    hints = (ast.unparse(_hints(node)) for node in ast.walk(module.tree) if isinstance(node, Function))
    return sum(any(one in hint for one in types) for hint in hints)


def _hints(function: Function) -> ast.Tuple:
    given = function.args
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    hints = [one.annotation for one in every if one is not None and one.annotation is not None]
    return ast.Tuple([*hints, *([] if function.returns is None else [function.returns])], ast.Load())


def show(found: dict[str, Any], console: Console) -> None:
    table = Table("figure", "value", title="The house")
    for name, value in found.items():
        table.add_row(name, _cell(value))
    console.print(table)


def _cell(value: Any) -> str:
    if isinstance(value, dict):
        return "\n".join(f"{_cell(number):>6} {name}" for name, number in list(value.items())[:LARGEST])
    return "–" if value is None else f"{value:,}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.house", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--root", type=Path, default=CHECKOUT, help="another checkout to measure")
    options = parser.parse_args()
    found = figures(options.root.resolve())
    if options.json:
        json.dump(found, sys.stdout, indent=1)
        print()
    else:
        show(found, Console())


if __name__ == "__main__":
    main()
