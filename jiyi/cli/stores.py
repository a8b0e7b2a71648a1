"""``jiyi stores``: declare a graph's stores, look at them, try them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from jiyi.cli import output
from jiyi.cli.shell import Cursor, Limit, Shown, shows
from jiyi.client.client import Client
from jiyi.errors import InvalidRequest
from jiyi.protocol.base import DEFAULT_PAGE, Rows
from jiyi.protocol.stores import AppliedGraph, FoundStoreItems, ListedFile, ListedItem, StoreState

app = typer.Typer(help="Stores that graphs of agents declare (docs/workflows.md).", no_args_is_help=True)

Store = Annotated[str, typer.Argument(help="The store's name.")]
Run = Annotated[str, typer.Option("--run", help="Of this run of a graph; the group's store unless given.")]
#: Characters of an item in a table.
ITEM_CHARS = 300


@app.command()
@shows
def apply(
    client: Client,
    file: Annotated[Path, typer.Argument(help="A YAML file with `memory` and `nodes`; ${VAR} is taken from the environment.")],
    graph: Annotated[str | None, typer.Option("--graph", help="Its name; the file's unless given.")] = None,
) -> Shown:
    """Declare a graph's stores, and which of its nodes use them. Applying it again changes nothing."""
    from jiyi.stores.graph import read_graph

    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequest([f"file: {file} cannot be read: {error}"]) from None
    document = read_graph(text)
    done = client.stores.apply(graph=graph or file.stem, memory=document["memory"], nodes=document["nodes"])
    return Shown(done, lambda: _applied(done))


def _applied(done: AppliedGraph) -> Table:
    table = output.table(done.graph, "store", "type", "")
    for store in done.stores:
        output.row(table, store.name, store.type, store.change.replace("_", " "))
    return table


@app.command()
def schema() -> None:
    """Print the JSON Schema of declarations, for editors. Needs no running service."""
    from jiyi.stores.declarations import schema as declarations

    typer.echo(json.dumps(declarations(), ensure_ascii=False, indent=2))


@app.command("list")
@shows
def list_stores(client: Client, limit: Limit = DEFAULT_PAGE, cursor: Cursor = None) -> Shown:
    """List the stores, newest first: what is in them, and how far their indexes are."""
    page = client.stores.list(limit=limit, cursor=cursor)
    return Shown(page, lambda: _listed(client.group, page))


def _listed(group: str, page: Rows[StoreState]) -> None:
    table = output.table(group, "store", "type", "run", "items", "no vector", "files", "state", right=["items", "no vector"])
    for store in page.rows:
        files = ", ".join(f"{count} {state}" for state, count in sorted(store.files.items()))
        output.row(table, store.name, store.type, store.run_id[:16], store.items, store.pending, files, store.state)
    output.listing(table, page.next, "no store is declared: jiyi stores apply FILE")


@app.command()
@shows
def show(client: Client, name: Store, run: Run = "") -> Shown:
    """Show a store: its configuration without secrets, and how far its index is."""
    state = client.stores.show(name=name, run_id=run)
    return Shown(state, lambda: _shown(state))


def _shown(state: StoreState) -> Table:
    table = output.table(state.name, "", " ", grow=[" "])
    for field, value in state.model_dump(mode="json", exclude={"name"}).items():
        output.row(table, field.replace("_", " "), json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else value)
    return table


@app.command()
@shows
def items(client: Client, name: Store, run: Run = "", limit: Limit = DEFAULT_PAGE, cursor: Cursor = None) -> Shown:
    """A store's items, newest first."""
    page = client.stores.items(name=name, run_id=run, limit=limit, cursor=cursor)
    return Shown(page, lambda: _items(name, page))


def _items(name: str, page: Rows[ListedItem]) -> None:
    table = output.table(name, "id", "role", "vector", "item", grow=["item"])
    for item in page.rows:
        role = item.metadata.get("agent_role", item.metadata.get("file_path", ""))
        output.row(table, item.id, role, "yes" if item.embedded else "no", output.cut(item.content_summary, ITEM_CHARS, 1))
    output.listing(table, page.next, f"{name} is empty")


@app.command()
@shows
def files(
    client: Client,
    name: Store,
    run: Run = "",
    state: Annotated[str | None, typer.Option(help="Only those in this state, like too_large.")] = None,
    limit: Limit = DEFAULT_PAGE,
    cursor: Cursor = None,
) -> Shown:
    """A store's files: how far their indexes are, and what is the matter with them."""
    page = client.stores.files(name=name, run_id=run, state=state, limit=limit, cursor=cursor)
    return Shown(page, lambda: _files(name, page))


def _files(name: str, page: Rows[ListedFile]) -> None:
    table = output.table(name, "file", "state", "bytes", "chunks", "vectors", "", right=["bytes", "chunks", "vectors"], grow=["file", ""])
    for file in page.rows:
        output.row(table, file.path, file.state, file.size, file.chunks_count, file.embedded, file.state_reason)
    output.listing(table, page.next, f"{name} has no files")


@app.command("try")
@shows
def try_store(
    client: Client,
    name: Store,
    query: Annotated[str, typer.Argument(help="What to look for.")],
    run: Run = "",
    top_k: Annotated[int, typer.Option("--top-k", "-k", min=1, help="Most items.")] = 3,
    threshold: Annotated[float, typer.Option(min=-1, max=1, help="Least cosine; -1: no limit.")] = -1,
    search: Annotated[str | None, typer.Option(help="Of a store of files: hybrid, dense or lexical.")] = None,
) -> Shown:
    """Search a store as a node would, and show what the scores are made of."""
    answer = client.stores.retrieve(name=name, query=query, top_k=top_k, similarity_threshold=threshold, search=search, run_id=run)
    return Shown(answer, lambda: _found(name, answer))


def _found(name: str, answer: FoundStoreItems) -> None:
    table = output.table(name, "score", "cosine", "item", right=["score", "cosine"], grow=["item"])
    for hit in answer.hits:
        numbers = ["" if value is None else f"{value:.3f}" for value in (hit.score, hit.cosine)]
        output.row(table, *numbers, output.cut(hit.item.content_summary, ITEM_CHARS, 1))
    output.listing(table, None, "nothing was found")
    for note in answer.notes:
        output.notice(note)
    if answer.skipped:
        output.notice(f"{answer.skipped:,} items have vectors of another model: jiyi stores reindex {name}")


@app.command()
@shows
def load(client: Client, name: Store, run: Run = "") -> Shown:
    """Make a store ready: read its file the first time, and owe the work that brings its index up to date."""
    state = client.stores.load(name=name, run_id=run)
    return Shown(state, lambda: _shown(state))


@app.command()
@shows
def save(client: Client, name: Store, run: Run = "") -> Shown:
    """Write a store to the file of its path, in the original's format."""
    done = client.stores.save(name=name, run_id=run)
    return Shown(done, lambda: output.line(f"{done.items:,} items in {done.path or 'the database; the store has no path'}"))


@app.command()
@shows
def reindex(client: Client, name: Store, run: Run = "") -> Shown:
    """Have a store's index made anew."""
    owed = client.stores.reindex(name=name, run_id=run).count
    return Shown({"owed": owed}, lambda: output.line(f"{owed:,} to be indexed anew"))


@app.command()
@shows
def delete(
    client: Client, name: Store, run: Run = "", yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False
) -> Shown:
    """Delete a store with all that it holds; its file and its sources stay."""
    if not yes:
        typer.confirm(f"Delete the store {name} with {client.stores.show(name=name, run_id=run).items:,} items?", abort=True, err=True)
    gone = client.stores.delete(name=name, run_id=run).count
    return Shown({"items": gone}, lambda: output.line(f"{gone:,} items deleted"))
