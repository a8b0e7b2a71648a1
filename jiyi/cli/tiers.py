"""``jiyi ingest`` and ``recall``: what nodes of workflows say, and what the group knows."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

import typer

from jiyi.cli import output
from jiyi.cli.shell import CommandResult, shows
from jiyi.cli.subjects import options_of
from jiyi.cli.views import view
from jiyi.client.client import Client
from jiyi.protocol.knowledge import IngestBody, IngestState
from jiyi.protocol.tier_questions import MemoryQuestion


@partial(shows, options=options_of(IngestBody, "content"))
def ingest(
    client: Client,
    text: Annotated[str, typer.Argument(help="What was said.")],
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Return only when the filters have decided.")
    ] = True,
    **options: Any,
) -> CommandResult:
    """Put a text into quarantine, and into working memory if the filters let it in; prints its id."""
    state = client.ingest(text, wait=wait, **options)
    if not isinstance(state, IngestState):
        return CommandResult({"entry_id": state}, lambda: output.line(str(state)))

    def view() -> None:
        output.line(str(state.entry_id))
        output.notice("in working memory" if state.accepted else f"in quarantine only: {state.message}")

    return CommandResult(state, view)


@partial(shows, options=options_of(MemoryQuestion, "query"))
def recall(
    client: Client,
    query: Annotated[str, typer.Argument(help="What the group's memory is to be about.")],
    **options: Any,
) -> CommandResult:
    """Ask working and long-term memory of the group."""
    answer = client.query_memory(query, **options)
    return CommandResult(answer, lambda: view(answer))
