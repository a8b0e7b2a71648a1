"""``jiyi stores apply`` and ``schema``: a graph's stores are declared in a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from jiyi.cli import output
from jiyi.cli.shell import CommandResult, shows
from jiyi.client.client import Client
from jiyi.errors import InvalidRequest
from jiyi.protocol.stores import AppliedGraph


@shows
def apply(
    client: Client,
    file: Annotated[
        Path,
        typer.Argument(help="A YAML file with `memory` and `nodes`; ${VAR} is taken from the environment."),
    ],
    graph: Annotated[str | None, typer.Option("--graph", help="Its name; the file's unless given.")] = None,
) -> CommandResult:
    """Declare a graph's stores, and which of its nodes use them. Applying it again changes nothing."""
    from jiyi.stores.graph import read_graph

    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequest([f"file: {file} cannot be read: {error}"]) from None
    document = read_graph(text)
    result = client.stores.apply(graph=graph or file.stem, memory=document["memory"], nodes=document["nodes"])
    return CommandResult(result, lambda: _applied(result))


def _applied(result: AppliedGraph) -> Table:
    table = output.table(result.graph, "store", "type", "")
    for store in result.stores:
        output.row(table, store.name, store.type, store.change.replace("_", " "))
    return table


def schema() -> None:
    """Print the JSON Schema of declarations, for editors. Needs no running service."""
    from jiyi.stores.declarations import schema as declarations

    typer.echo(json.dumps(declarations(), ensure_ascii=False, indent=2))
