"""Declared stores: what is found in them, and how long that takes.

    python -m bench.stores simple FILE [--json] [--limit TRAJECTORIES]
    python -m bench.stores files FILE [--json]
    python -m bench.stores scale [--files N] [--items N] [--json]

``simple``: MemDaily's messages written by ``update()``, each trajectory a store; the figure is recall@5 as in
``bench.memdaily``, beside the order by cosine alone, and how many messages were lost. ``files``: LoCoMo's
sessions as files. ``scale``: a question to a simple store of 1,000 and of many items, beside numpy; with
``--files``, the indexing of so many files.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.support.service import machine
from bench.support.stores import scale, simple

#: Items of the large store.
ITEMS = 100_000


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    of_simple = commands.add_parser("simple")
    of_simple.add_argument("file", type=Path)
    of_simple.add_argument("--limit", type=int, help="only the first trajectories")
    of_files = commands.add_parser("files")
    of_files.add_argument("file", type=Path)
    of_scale = commands.add_parser("scale")
    of_scale.add_argument("--files", type=int, default=0, help="index so many files, too")
    of_scale.add_argument("--items", type=int, default=ITEMS, help="of the large simple store")
    for one in (of_simple, of_files, of_scale):
        one.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    result = _run(arguments, Console(stderr=True))
    if arguments.json:
        print(json.dumps(result))
        return
    table = Table("figure", "value", title=f"stores {arguments.command} · {machine()}")
    _show(table, result)
    Console().print(table)


def _run(arguments: argparse.Namespace, console: Console) -> dict[str, Any]:
    match arguments.command:
        case "simple":
            return simple.run(arguments.file, arguments.limit, console)
        case "files":
            from bench.support.stores.files import run

            return run(arguments.file, console=console)
    result: dict[str, Any] = {"simple": scale.run([1_000, arguments.items], console)}
    if arguments.files:
        from bench.support.stores.files_scale import scale_files

        result["files"] = scale_files(arguments.files, console)
    return result


def _show(table: Table, result: Mapping[str, Any], path: str = "") -> None:
    for name, value in result.items():
        if isinstance(value, Mapping):
            _show(table, value, f"{path}{name} ")
        else:
            table.add_row(f"{path}{name}", str(value))


if __name__ == "__main__":
    main()
