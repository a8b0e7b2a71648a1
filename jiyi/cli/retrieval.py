"""``jiyi retrieve``: what matters now, and why."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Literal

import typer
from rich.console import Group
from rich.table import Table
from rich.text import Text

from jiyi.cli import output
from jiyi.cli.shell import CommandResult, shows
from jiyi.cli.subjects import options_of
from jiyi.client.calls import checked
from jiyi.client.client import Client
from jiyi.protocol.retrieval import DEFAULT_TOP_K, Answer, Filters, FocalAnswer, Question, ScoredMemory

#: Cells of a bar where there is room, and where there is not.
WIDE_BAR, NARROW_BAR = 20, 14
#: Lines that a long description takes before it is cut.
MAX_LINES = 3


@partial(
    shows,
    options=[
        *options_of(Question, "agent_id", "queries", "top_k", panel="Instead of the agent's own settings"),
        *options_of(Filters, panel="Which memories are candidates"),
    ],
)
def retrieve(
    client: Client,
    agent: Annotated[str, typer.Argument(help="ID of the agent.")],
    focal: Annotated[
        list[str], typer.Argument(help="What they should matter for; one table each.", metavar="FOCAL…")
    ],
    top_k: Annotated[int, typer.Option("--top-k", "-k", min=1, help="How many memories.")] = DEFAULT_TOP_K,
    **options: Any,
) -> CommandResult:
    """The memories that matter most for a text, with what each score is made of."""
    filters = {name: options.pop(name) for name in Filters.model_fields if name in options}
    answer = client.retrieve(agent, focal, top_k=top_k, filters=checked(Filters, **filters), **options)
    unknown = answer.status == "unknown_agent"
    return CommandResult(answer, lambda: _print_answer(answer), typer.Exit(1) if unknown else None)


def _print_answer(answer: Answer) -> None:
    console = output.stdout()
    for position, group in enumerate(answer.groups):
        console.print(*([""] if position else []), focal_table(group, console.width), sep="\n")


def focal_table(group: FocalAnswer, width: int) -> Group:
    """One focal text's memories as a table that fits ``width`` cells."""
    title = Text.assemble("▸ ", (output.plain(group.query), "bold"))
    if not group.retrieved_nodes:
        return Group(title, Text(f"{group.status}: {output.plain(group.message)}", "yellow"))
    table = _rows(group.retrieved_nodes, width, wide=width >= output.WIDE)
    return Group(title, table, output.legend(), footer(group))


def footer(group: FocalAnswer) -> Text:
    debug = group.debug
    values: list[tuple[str, object]] = [
        ("candidates", f"{debug.total_candidates:,}"),
        ("mode", debug.mode),
        ("scores of all", f"{debug.min_score or 0:.2f} … {debug.max_score or 0:.2f}"),
    ]
    if debug.without_comparable_vector:
        values.append(("without a comparable vector", f"{debug.without_comparable_vector:,}"))
    text = output.meter(values)
    if group.message:
        text.append(f"\n{output.plain(group.message)}")
    text.stylize("dim")
    return text


def _rows(nodes: list[ScoredMemory], width: int, *, wide: bool) -> Table:
    """One line a memory, the long ones more; narrow: the numbers below the bar, the date below the type."""
    bar_cells = WIDE_BAR if wide else NARROW_BAR
    numbers = [(name, 4, True) for name in ("rec", "rel", "imp")]
    about = [("type", 7, False), ("created", 10, False)]
    head = [("#", 3, True), ("score", 5, True)]
    columns = (
        [*head, ("", bar_cells, False), *numbers, *about]
        if wide
        else [*head, (" rec  rel  imp", bar_cells, False), about[1]]
    )
    rest = output.room(width, *(cells for _, cells, _ in columns))
    table = output.table("")
    for name, cells, right in columns:
        justify: Literal["right", "left"] = "right" if right else "left"
        table.add_column(name, min_width=cells, max_width=cells, no_wrap=True, justify=justify)
    table.add_column("memory", min_width=rest, max_width=rest, overflow="fold")
    for rank, node in enumerate(nodes, start=1):
        parts = (node.recency.contribution, node.relevance.contribution, node.importance.contribution)
        colours = [colour for _, colour in output.PARTS.values()]
        figures = [Text(f"{part:.2f}", colour) for part, colour in zip(parts, colours, strict=True)]
        bar = output.stacked(*parts, best=nodes[0].score, width=bar_cells)
        created = output.local_date(node.created_at)
        details = (
            [bar, *figures, node.type, created]
            if wide
            else [Text.assemble(bar, "\n", Text(" ").join(figures)), f"{node.type}\n{created}"]
        )
        text = output.cut(node.description, rest, MAX_LINES)
        table.add_row(str(rank), f"{node.score:.2f}", *details, text)
    return table
