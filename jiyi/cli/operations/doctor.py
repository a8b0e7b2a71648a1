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
    report = client.service.check_recall(agent, questions=questions, top_k=top_k)
    return Shown(report.model_dump(exclude_unset=True), lambda: recall_view(agent, report))


def recall_view(agent: str, report: RecallReport) -> Table | Text:
    if not report.large:
        return Text(output.plain(f"{agent} has {report.memories:,} memories: every answer is exact"))
    table = output.table(f"{agent}: {report.questions} questions, the best {report.top_k} of {report.memories:,}", "", "")
    table.show_header = False
    if report.recall is not None:
        output.row(table, "found of the exact answer", f"{report.recall:.1%}")
        output.row(table, "in the worst case", f"{report.worst:.1%}")
        output.row(table, "median, this way / exact", f"{report.large_ms:.0f} ms / {report.exact_ms:.0f} ms")
    output.row(table, "answers cut short", report.short)
    return table
