"""``jiyi doctor``: checks of the service that take a moment."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from jiyi.cli import output
from jiyi.cli.commands import Shown, shows
from jiyi.client.client import Client
from jiyi.protocol.providers import RecallReport

app = typer.Typer(no_args_is_help=True, help="Checks of the service.")


@app.callback()
def doctor() -> None:
    """Checks of the service."""


@app.command()
@shows
def recall(
    client: Client,
    agent: Annotated[str, typer.Argument(help="Whose memories.")],
    questions: Annotated[int, typer.Option(min=1, max=200, help="How many of its own texts to ask with.")] = 20,
    top_k: Annotated[int, typer.Option("--top-k", "-k", min=1, max=100, help="How many memories of each answer.")] = 10,
) -> Shown:
    """How much of the exact answer the search in a large agent's memories finds."""
    found = client.service.check_recall(agent, questions=questions, top_k=top_k)
    return Shown(found.model_dump(exclude_unset=True), lambda: recall_view(agent, found))


def recall_view(agent: str, found: RecallReport) -> Table | Text:
    if not found.large:
        return Text(output.plain(f"{agent} has {found.memories:,} memories: every answer is exact"))
    made = output.table(f"{agent}: {found.questions} questions, the best {found.top_k} of {found.memories:,}", "", "")
    made.show_header = False
    if found.recall is not None:
        output.row(made, "found of the exact answer", f"{found.recall:.1%}")
        output.row(made, "in the worst case", f"{found.worst:.1%}")
        output.row(made, "median, this way / exact", f"{found.large_ms:.0f} ms / {found.exact_ms:.0f} ms")
    output.row(made, "answers cut short", found.short)
    return made
