"""``jiyi export``: memories to files."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, TextIO

import typer

from jiyi.cli import output
from jiyi.cli.shell import Json, connect
from jiyi.client.client import Client
from jiyi.protocol import limits
from jiyi.protocol.base import JsonObject

app = typer.Typer(no_args_is_help=True, help="Write memories to files.")

#: Rows of one page: with vectors of 1,536 numbers, about four megabytes.
PAGE = 500
STDOUT = Path("-")


@app.command("jsonl")
def jsonl(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(help="Where to; - is stdout.")] = STDOUT,
    agent: Annotated[str | None, typer.Option(help="Only this agent's.")] = None,
    with_vectors: Annotated[bool, typer.Option("--with-vectors", help="With the vectors: no embedding on import.")] = False,
    as_json: Json = False,
) -> None:
    """The group's events, one a line, as `jiyi import jsonl` takes them back."""
    if as_json and file == STDOUT:
        raise typer.BadParameter("--json needs a FILE: the events would come out between it")
    count = 0
    with connect(ctx) as client, writing(file) as out, output.progress(counted=False) as progress:
        task = progress.add_task("exporting", total=None)
        for event in exported(client, agent, with_vectors=with_vectors):
            out.write(json.dumps(event, ensure_ascii=False) + "\n")
            count += 1
            progress.advance(task)
    if as_json:
        output.document({"exported": count, "file": str(file)})
        return
    output.notice(f"{count:,} events exported")


def exported(client: Client, agent: str | None, *, with_vectors: bool) -> Iterator[JsonObject]:
    """Every event in order of arrival, without the fields that say nothing."""
    limit = min(PAGE, limits.MAX_PAGE)
    after: int | None = None
    while True:
        page = client.memory.export(agent, after=after, with_vectors=with_vectors, limit=limit)
        for row in page.rows:
            yield {name: value for name, value in row.items() if value is not None}
        if page.next is None:
            return
        after = page.next


@contextmanager
def writing(file: Path) -> Iterator[TextIO]:
    """A file that appears when it is whole: an export that fails leaves what was there before."""
    if file == STDOUT:
        yield sys.stdout
        return
    target = file.resolve()
    if target.exists() and not target.is_file():  # a pipe or a device cannot be replaced
        with target.open("w", encoding="utf-8") as out:
            yield out
        return
    part = target.with_name(f"{target.name}.part")
    try:
        with part.open("w", encoding="utf-8") as out:
            yield out
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
